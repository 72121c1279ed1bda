//! Everything, within a budget: windows ahead of readers; regions of what is read at random for long; mappings from map time on.

use super::mapping::mapped;
use super::{Event, FileState, Host, Policy};
use crate::plan::Plan;

/// Loads what pays within the memory that may be used, and gives up what it loaded for new.
pub(super) struct Budget;

impl Policy for Budget {
    fn observe(&self, file: &mut FileState, event: &Event, file_bytes: u64, host: &Host) -> Option<Plan> {
        match event {
            Event::Opened => None,
            Event::Mapped(mapping) => mapped(mapping, file_bytes, host),
            Event::Read(access) => {
                let plan = super::window(file, access, file_bytes, true, host);
                if plan.is_some() || !file.streams.is_random() {
                    return plan;
                }
                file.bulk.pays(access, file_bytes, host)
            }
        }
    }

    fn lifts_limits(&self) -> bool {
        true
    }

    fn evicts(&self) -> bool {
        true
    }
}
