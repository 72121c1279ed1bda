//! Background reset.
//!
//! The command completes at once. When no host command has come for
//! `management.idle_after`, the flash is erased row by row; each erase gives way to
//! host I/O. A writer that needs the flash before pays for the rows that are left.
//! Modelled on the deferred erases usual in translation layers; ConfZNS++ names it
//! as a design and does not implement it.

use super::{ResetPlan, ResetPolicy, ResetZone};

pub(super) struct Background;

impl ResetPolicy for Background {
    fn plan(&self, _: &ResetZone) -> ResetPlan {
        ResetPlan::WhenIdle
    }
}
