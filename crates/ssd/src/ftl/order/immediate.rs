//! As soon as it is programmed: among the writes that no flush separates, any may survive a power cut.

use crash::order::Places;

use super::{MappingOrder, Plan};

/// Maps every version at once.
pub(crate) struct Immediate;

impl MappingOrder for Immediate {
    #[inline]
    fn accepted(&mut self, _version: u32, _places: &Places, _below: u32) {}

    #[inline]
    fn may_coalesce(&self, _version: u32, _places: &Places) -> bool {
        true
    }

    #[inline]
    fn programmed(&mut self, _version: u32) -> Plan {
        Plan::Map
    }

    #[inline]
    fn dropped(&mut self, _version: u32) {}

    #[inline]
    fn next_ready(&mut self) -> Option<u32> {
        None
    }

    fn opened(&mut self, _stream: u64) {}

    fn completed(&mut self, _stream: u64, _epoch: u64) {}

    fn closed(&mut self, _stream: u64) {}

    fn first_epoch(&self, _stream: u64) -> Option<u64> {
        None
    }

    fn memory_bytes(&self) -> u64 {
        0
    }

    fn clear(&mut self) {}
}
