//! The kernel's own readahead, whatever the program advises.

use super::{Advice, Event, FileState, Host, Policy};
use crate::plan::Plan;

/// Loads nothing, and drops the program's advice.
pub(super) struct OsOnly;

impl Policy for OsOnly {
    fn observe(&self, _file: &mut FileState, _event: &Event, _file_bytes: u64, _host: &Host) -> Option<Plan> {
        None
    }

    fn advice(&self) -> Advice {
        Advice::Dropped
    }
}
