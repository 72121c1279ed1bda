//! Counters.

use units::Nanos;

use super::Ssd;
use crate::config::OrderKind;

/// What the device has done so far.
#[derive(Default)]
pub(super) struct Counters {
    pub commands: u64,
    pub host_read_bytes: u64,
    pub host_written_bytes: u64,
    pub deallocated_bytes: u64,
    pub flash_read_bytes: u64,
    pub flash_written_bytes: u64,
    pub gc_moved_bytes: u64,
    pub journal_written_bytes: u64,
    pub erases: u64,
    pub victims: u64,
    /// Valid units of all victims when they were chosen.
    pub victim_units: u64,
    pub buffer_read_hits: u64,
    /// Units read that nothing was ever written to, or not since they were
    /// deallocated: no flash is read for them.
    pub unwritten_read_units: u64,
    pub buffer_write_hits: u64,
    pub read_modify_writes: u64,
    /// Failures of the memory or file behind the device.
    pub media_errors: u64,
    /// Units of host data programmed.
    pub destaged_units: u64,
    pub buffer_wait: Nanos,
    /// Units programmed before their turn to be mapped.
    pub delayed_units: u64,
    /// The most memory that the tables of ordered writes took.
    pub order_bytes_max: u64,
}

impl Ssd {
    pub(super) fn report(&self) -> Vec<(String, u64)> {
        let counters = &self.counters;
        let unit_bytes = u64::from(self.layout.unit_bytes);
        let plain = [
            ("commands", counters.commands),
            ("host_read_bytes", counters.host_read_bytes),
            ("host_written_bytes", counters.host_written_bytes),
            ("deallocated_bytes", counters.deallocated_bytes),
            ("flash_read_bytes", counters.flash_read_bytes),
            ("flash_written_bytes", counters.flash_written_bytes),
            ("destaged_bytes", counters.destaged_units * unit_bytes),
            ("gc_moved_bytes", counters.gc_moved_bytes),
            ("gc_victims", counters.victims),
            ("gc_victim_valid_bytes", counters.victim_units * unit_bytes),
            ("journal_written_bytes", counters.journal_written_bytes),
            ("erases", counters.erases),
            ("buffer_read_hits", counters.buffer_read_hits),
            ("unwritten_read_bytes", counters.unwritten_read_units * unit_bytes),
            ("buffer_write_hits", counters.buffer_write_hits),
            ("read_modify_writes", counters.read_modify_writes),
            ("media_errors", counters.media_errors),
            ("buffer_wait_ns", counters.buffer_wait.0),
            ("link_busy_ns", self.host.link_busy().0),
        ];
        let ordered = [
            ("order_delayed_bytes", counters.delayed_units * unit_bytes),
            ("order_waits", self.admission.waits),
            ("order_late_bytes", self.admission.late_blocks * u64::from(self.layout.lba_bytes)),
            ("order_table_bytes_max", counters.order_bytes_max),
        ];
        let ordered = ordered.into_iter().filter(|_| self.config.order == OrderKind::Streams);
        let (dies, channels) = self.flash.busy();
        plain
            .into_iter()
            .chain(ordered)
            .map(|(name, value)| (name.to_owned(), value))
            .chain(channels.enumerate().map(|(index, busy)| (format!("channel{index}_busy_ns"), busy.0)))
            .chain(dies.enumerate().map(|(index, busy)| (format!("die{index}_busy_ns"), busy.0)))
            .collect()
    }

    /// Program/erase cycles of the least and the most worn block.
    pub fn wear(&self) -> (u32, u32) {
        let cycles = &self.ftl.blocks.pe_cycles;
        (cycles.iter().copied().min().unwrap_or(0), cycles.iter().copied().max().unwrap_or(0))
    }

    /// Address space of the map's two tables in bytes; resident only as touched.
    pub fn map_bytes(&self) -> u64 {
        self.ftl.table_bytes()
    }
}
