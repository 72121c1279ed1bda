//! How things stand in the zoned device.

use super::Zoned;
use crate::live::{LiveState, WriteCacheState, ZoneSummary};

impl Zoned {
    pub(super) fn live(&self) -> LiveState {
        let write_cache = self.config.buffer.as_ref().map(|config| WriteCacheState {
            dirty_bytes: self.buffer.size_bytes() - self.buffer.room(),
            capacity_bytes: self.buffer.size_bytes(),
            power_loss_protected: config.power_loss_protected,
        });
        let limits = self.identity.zoned.as_ref();
        let (max_open, max_active) = limits.map_or((None, None), |limits| (limits.max_open, limits.max_active));
        let zones = self.namespaces.iter().zip(&self.config.namespaces).zip(1..).map(|((zones, count), nsid)| {
            ZoneSummary::of(nsid, (0..*count).map(|index| zones.zone(index).state), max_open, max_active)
        });
        LiveState {
            outstanding_commands: u64::from(self.commands.len()),
            write_cache,
            garbage_collection: None,
            zones: zones.collect(),
        }
    }
}
