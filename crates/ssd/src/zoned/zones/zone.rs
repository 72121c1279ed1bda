//! One zone.

use nvme::{ZoneAttributes, ZoneState};

use super::table;

/// No zone, as a link.
pub(super) const NONE: u32 = u32::MAX;

/// What a device knows about a zone.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    /// Its state.
    pub(crate) state: ZoneState,
    /// Zone attributes as reported (ZA).
    pub(crate) attributes: ZoneAttributes,
    /// Whether Finish Zone made it full, rather than writes.
    pub(crate) finished: bool,
    /// The write pointer as blocks from the zone's start. In a full zone it is
    /// the capacity; the specification calls it invalid there.
    pub(crate) write_pointer_blocks: u64,
    /// One past the last block that the host wrote: the write pointer before a
    /// finish moved it. With a ZRWA it may be ahead of the write pointer.
    pub(crate) written_blocks: u64,
    /// Resets that changed it, since the device was made.
    pub(crate) reset_count: u32,
    /// Neighbours in the list of implicitly opened zones, oldest first.
    pub(super) previous: u32,
    pub(super) next: u32,
}

impl Zone {
    pub(super) const EMPTY: Self = Self {
        state: ZoneState::Empty,
        attributes: ZoneAttributes::empty(),
        finished: false,
        write_pointer_blocks: 0,
        written_blocks: 0,
        reset_count: 0,
        previous: NONE,
        next: NONE,
    };

    /// Whether it has a Zone Random Write Area (ZRWAV).
    pub(crate) fn has_zrwa(&self) -> bool {
        self.attributes.contains(ZoneAttributes::ZRWA_VALID)
    }

    /// The write pointer where the specification calls it valid.
    pub(crate) fn valid_write_pointer(&self) -> Option<u64> {
        table::has_write_pointer(self.state).then_some(self.write_pointer_blocks)
    }
}
