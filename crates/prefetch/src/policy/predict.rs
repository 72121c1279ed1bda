//! Windows ahead of the readers that a file has.

use super::{Event, FileState, Host, Policy};
use crate::plan::Plan;

/// Loads what the readers of a file will read next.
pub(super) struct Predict {
    /// Windows may be larger than the kernel's.
    pub(super) lifted: bool,
}

impl Policy for Predict {
    fn observe(&self, file: &mut FileState, event: &Event, file_bytes: u64, host: &Host) -> Option<Plan> {
        match event {
            Event::Read(access) => file.streams.observe(*access, &host.limits(file_bytes, self.lifted)),
            Event::Opened | Event::Mapped(_) => None,
        }
    }

    fn lifts_limits(&self) -> bool {
        self.lifted
    }
}
