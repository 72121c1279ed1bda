//! Metadata-only finish.
//!
//! The map notes that the zone is full and where its data ends; nothing is padded,
//! and a later partial reset erases only what was written. What a write buffer holds
//! of the zone is programmed first, in a unit of its own. Host I/O hardly notices.
//! Modelled on drives that program word lines left open at their leisure; ConfZNS++
//! has it for empty zones alone.

use super::{FinishPlan, FinishPolicy};

pub(super) struct Metadata;

impl FinishPolicy for Metadata {
    fn plan(&self) -> FinishPlan {
        FinishPlan::Note
    }
}
