//! As soon as it is programmed: among the writes that no flush separates, any may survive a power cut.

use super::{MappingOrder, Plan};

/// Maps every version at once.
pub(crate) struct Immediate;

impl MappingOrder for Immediate {
    fn accepted(&mut self, _version: u32) {}

    fn may_coalesce(&self, _version: u32) -> bool {
        true
    }

    fn programmed(&mut self, _version: u32) -> Plan {
        Plan::Map
    }

    fn dropped(&mut self, _version: u32) {}

    fn next_ready(&mut self) -> Option<u32> {
        None
    }

    fn clear(&mut self) {}
}
