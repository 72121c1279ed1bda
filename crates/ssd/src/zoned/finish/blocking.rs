//! Blocking finish.
//!
//! Padding programs from the write pointer to the capacity are queued in one go,
//! and host I/O on the zone's arrays waits for all of them: close to 12 s for a
//! whole zone of the emulator. Modelled on ConfZNS++ with a chunk that is larger than
//! what is left.

use super::{FinishPlan, FinishPolicy};

pub(super) struct Blocking;

impl FinishPolicy for Blocking {
    fn plan(&self) -> FinishPlan {
        FinishPlan::Pad { step_bytes: u64::MAX }
    }
}
