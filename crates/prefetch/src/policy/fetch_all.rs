//! Whole files, as soon as they are opened, and mappings.

use super::mapping::mapped;
use super::{Event, FileState, Host, Policy, whole};
use crate::plan::Plan;

/// Loads a file when it is opened or mapped, if there is memory for it.
pub(super) struct FetchAll;

impl Policy for FetchAll {
    fn observe(&self, _file: &mut FileState, event: &Event, file_bytes: u64, host: &Host) -> Option<Plan> {
        match event {
            Event::Opened => whole(file_bytes, host),
            Event::Mapped(mapping) => mapped(mapping, file_bytes, host),
            Event::Read(_) => None,
        }
    }

    fn lifts_limits(&self) -> bool {
        true
    }
}
