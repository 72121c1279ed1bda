//! What a power cycle makes of zones (ZNS 2.1.1.3).
//!
//! The states are set again by an NVM Subsystem Reset and when all controllers
//! have shut down. A Controller Level Reset alone is not in that list: it leaves
//! every zone as it is, opened ones opened.

use nvme::{ZoneAttributes, ZoneState};

use super::Zones;

impl Zones {
    /// The power went and came back: opened zones are closed, and an active zone
    /// with neither blocks written nor an extension is empty. Full, read only
    /// and offline zones stay so. A zone whose ZRWA holds blocks keeps them and
    /// the area, and is closed.
    pub(crate) fn power_loss(&mut self) {
        for index in 0..self.zones.len() as u32 {
            if super::table::is_active(self.zones[index as usize].state) {
                self.settle(index);
            }
        }
        self.changed.clear();
        self.debug_check();
        debug_assert_eq!(self.resources.open, 0);
    }

    /// Moves the write pointer back to `blocks` from the zone's start, after
    /// [`Zones::power_loss`]: the blocks from there on were lost with a volatile
    /// buffer. A zone that was full is closed then, and stays full, its lost
    /// blocks deallocated, where no active resource is left for it
    /// (2.1.1.3 c b).
    pub(crate) fn set_write_pointer(&mut self, index: u32, blocks: u64) {
        let zone = &mut self.zones[index as usize];
        debug_assert!(blocks <= zone.written_blocks);
        zone.written_blocks = blocks;
        match zone.state {
            ZoneState::Closed => {
                zone.write_pointer_blocks = zone.write_pointer_blocks.min(blocks);
                self.settle(index);
            }
            ZoneState::Full if !zone.finished && blocks < self.capacity_blocks => {
                let active = blocks > 0 || zone.attributes.contains(ZoneAttributes::EXTENSION_VALID);
                if !active || self.resources.active < self.resources.max_active {
                    zone.write_pointer_blocks = blocks;
                    self.settle(index);
                }
            }
            _ => {}
        }
        self.debug_check();
    }

    /// Closed or empty, by what the zone holds.
    fn settle(&mut self, index: u32) {
        let zone = &self.zones[index as usize];
        if zone.written_blocks > 0 || zone.attributes.contains(ZoneAttributes::EXTENSION_VALID) {
            self.set_state(index, ZoneState::Closed);
        } else {
            self.release_zrwa(index);
            self.zones[index as usize].attributes = ZoneAttributes::empty();
            self.set_state(index, ZoneState::Empty);
        }
    }
}
