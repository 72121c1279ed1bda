//! Whole files, as soon as they are opened.

use super::{Event, FileState, Host, Policy, whole};
use crate::plan::Plan;

/// Loads a file when it is opened, if there is memory for it.
pub(super) struct FetchAll;

impl Policy for FetchAll {
    fn observe(&self, _file: &mut FileState, event: &Event, file_bytes: u64, host: &Host) -> Option<Plan> {
        (*event == Event::Opened).then(|| whole(file_bytes, host)).flatten()
    }

    fn lifts_limits(&self) -> bool {
        true
    }
}
