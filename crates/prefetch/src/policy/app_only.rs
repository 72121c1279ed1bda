//! The program and the kernel, as they are.

use super::{Event, FileState, Host, Policy};
use crate::plan::Plan;

/// Loads nothing.
pub(super) struct AppOnly;

impl Policy for AppOnly {
    fn observe(&self, _file: &mut FileState, _event: &Event, _file_bytes: u64, _host: &Host) -> Option<Plan> {
        None
    }
}
