//! Counters.

use units::Nanos;

use super::Zoned;

/// What the device has done so far.
#[derive(Default)]
pub(super) struct Counters {
    pub commands: u64,
    pub host_read_bytes: u64,
    pub host_written_bytes: u64,
    pub flash_read_bytes: u64,
    /// Bytes read above a write pointer.
    pub unwritten_read_bytes: u64,
    /// Host data, padding and saved units.
    pub flash_programmed_bytes: u64,
    pub padded_bytes: u64,
    /// Bytes of units that Flush and FUA saved.
    pub saved_bytes: u64,
    pub zone_appends: u64,
    /// Explicit and implicit.
    pub zone_opens: u64,
    pub zone_finishes: u64,
    pub zone_resets: u64,
    /// Flash blocks.
    pub erases: u64,
    /// Zones that a writer had to erase.
    pub paid_erases: u64,
    /// Writes that waited for the buffer.
    pub stalls: u64,
    /// Failures of the memory or file behind the device.
    pub media_errors: u64,
    pub buffer_wait: Nanos,
}

impl Zoned {
    pub(super) fn report(&self) -> Vec<(String, u64)> {
        let counters = &self.counters;
        let plain = [
            ("commands", counters.commands),
            ("host_read_bytes", counters.host_read_bytes),
            ("host_written_bytes", counters.host_written_bytes),
            ("flash_read_bytes", counters.flash_read_bytes),
            ("unwritten_read_bytes", counters.unwritten_read_bytes),
            ("flash_programmed_bytes", counters.flash_programmed_bytes),
            ("padded_bytes", counters.padded_bytes),
            ("saved_bytes", counters.saved_bytes),
            ("zone_appends", counters.zone_appends),
            ("zone_opens", counters.zone_opens),
            ("zone_finishes", counters.zone_finishes),
            ("zone_resets", counters.zone_resets),
            ("erases", counters.erases),
            ("paid_erases", counters.paid_erases),
            ("suspends", self.flash.suspends()),
            ("stalls", counters.stalls),
            ("media_errors", counters.media_errors),
            ("buffer_wait_ns", counters.buffer_wait.0),
            ("link_busy_ns", self.link.busy().0),
        ];
        let rows = || self.physical.iter().map(|physical| u64::from(physical.erased_rows));
        let wear = [("least_erased_rows", rows().min().unwrap_or(0)), ("most_erased_rows", rows().max().unwrap_or(0))];
        let (channels, dies) = self.flash.busy();
        plain
            .into_iter()
            .chain(wear)
            .map(|(name, value)| (name.to_owned(), value))
            .chain(channels.enumerate().map(|(index, busy)| (format!("channel{index}_busy_ns"), busy.0)))
            .chain(dies.enumerate().map(|(index, busy)| (format!("die{index}_busy_ns"), busy.0)))
            .collect()
    }
}
