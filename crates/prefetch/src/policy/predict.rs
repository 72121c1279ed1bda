//! Windows ahead of the readers that a file has; without the kernel's limits, mappings as well.

use super::mapping::mapped;
use super::{Event, FileState, Host, Policy};
use crate::plan::Plan;

/// Loads what the readers of a file will read next.
pub(super) struct Predict {
    /// Windows may be larger than the kernel's, and mappings are loaded.
    pub(super) lifted: bool,
}

impl Policy for Predict {
    fn observe(&self, file: &mut FileState, event: &Event, file_bytes: u64, host: &Host) -> Option<Plan> {
        match event {
            Event::Read(access) => {
                let plan = super::window(file, access, file_bytes, self.lifted, host);
                if plan.is_none() && file.streams.is_random() {
                    file.bulk.count(access, file_bytes, host);
                }
                plan
            }
            Event::Mapped(mapping) if self.lifted => mapped(mapping, file_bytes, host),
            Event::Opened | Event::Mapped(_) => None,
        }
    }

    fn lifts_limits(&self) -> bool {
        self.lifted
    }
}
