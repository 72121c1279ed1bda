//! How things stand in the flash SSD.

use super::Ssd;
use crate::live::{GarbageCollectionState, LiveState, WriteCacheState};
use crate::slab::NONE;

impl Ssd {
    pub(super) fn live(&self) -> LiveState {
        let unit_bytes = u64::from(self.layout.unit_bytes);
        let write_cache = WriteCacheState {
            dirty_bytes: u64::from(self.buffer.unsettled()) * unit_bytes,
            capacity_bytes: u64::from(self.layout.buffer_slots) * unit_bytes,
            power_loss_protected: self.power_loss_protected(),
        };
        let dies = 0..self.layout.dies;
        let free = |die| u64::from(self.ftl.blocks.free(die) + self.ftl.blocks.free_slc(die));
        let collects = |die: &u32| {
            let streams = &self.dies[*die];
            streams.victim != NONE || streams.gc_rows > 0 || streams.erasing > 0
        };
        let garbage_collection = GarbageCollectionState {
            free_blocks: dies.clone().map(free).sum(),
            total_blocks: u64::from(self.layout.blocks()),
            collecting_dies: dies.filter(collects).count() as u32,
            total_dies: self.layout.dies,
            moved_bytes: self.counters.gc_moved_bytes,
        };
        LiveState {
            outstanding_commands: u64::from(self.host.outstanding()),
            write_cache: Some(write_cache),
            garbage_collection: Some(garbage_collection),
            zones: Vec::new(),
        }
    }
}
