//! What a queue counts.

use units::Nanos;

use crate::bio::{BioOp, ZoneOp};

/// Counters of a block device since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bios given to the device.
    pub bios: u64,
    /// Bios appended to a request.
    pub merges_back: u64,
    /// Bios put before a request.
    pub merges_front: u64,
    /// Discards that became one more range of another.
    pub merges_discard: u64,
    /// Requests joined to another that waited.
    pub merges_request: u64,
    /// Cuts of bios that exceeded a limit: a bio in three parts counts two.
    pub splits: u64,
    /// Requests put back because a tag or the submission queue was full.
    pub requeues: u64,
    /// Bios that waited for a tag before they became a request.
    pub tag_waits: u64,
    /// Writes that waited for an earlier one to the same zone (zone write plugging).
    pub zone_plug_waits: u64,
    /// Times a scheduler was asked for a request: its share of the host's work.
    pub scheduler_calls: u64,
    /// Epochs for which ZINC held management requests back, summed over them.
    pub management_holds: u64,
    /// Commands sent, by opcode.
    pub dispatched: Dispatched,
    /// Requests that exist: queued or at the device.
    pub requests: u32,
    /// Commands at the device.
    pub in_flight: u32,
    /// Sum over requests of the time from creation to end; divided by a span it
    /// is the mean number of requests, iostat's `aqu-sz`.
    pub time_in_queue: Nanos,
    /// Sum over commands of the time at the device.
    pub time_at_device: Nanos,
    /// One entry for each hardware queue.
    pub hardware_queues: Vec<HardwareQueueStatistics>,
}

impl Statistics {
    /// Time-weighted mean number of requests over the first `span` of the run.
    pub fn mean_queue_depth(&self, span: Nanos) -> f64 {
        ratio(self.time_in_queue, span)
    }

    /// Time-weighted mean number of commands at the device over the first `span` of the run.
    pub fn mean_device_depth(&self, span: Nanos) -> f64 {
        ratio(self.time_at_device, span)
    }
}

fn ratio(time: Nanos, span: Nanos) -> f64 {
    if span == Nanos::ZERO { 0.0 } else { time.0 as f64 / span.0 as f64 }
}

/// Commands sent to the device, by opcode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispatched {
    /// Read commands.
    pub read: u64,
    /// Write commands.
    pub write: u64,
    /// Dataset Management commands.
    pub deallocate: u64,
    /// Write Zeroes commands.
    pub write_zeroes: u64,
    /// Flush commands.
    pub flush: u64,
    /// Zone Append commands.
    pub zone_append: u64,
    /// Zone Management Send commands that open.
    pub zone_open: u64,
    /// Zone Management Send commands that close.
    pub zone_close: u64,
    /// Zone Management Send commands that finish.
    pub zone_finish: u64,
    /// Zone Management Send commands that reset a zone, or all.
    pub zone_reset: u64,
    /// Zone Management Receive commands.
    pub zone_report: u64,
}

impl Dispatched {
    /// The counter of an op; `None` stands for a flush.
    pub(crate) fn of(&mut self, op: Option<BioOp>) -> &mut u64 {
        match op {
            None => &mut self.flush,
            Some(BioOp::Read) => &mut self.read,
            Some(BioOp::Write) => &mut self.write,
            Some(BioOp::Discard) => &mut self.deallocate,
            Some(BioOp::WriteZeroes) => &mut self.write_zeroes,
            Some(BioOp::ZoneAppend) => &mut self.zone_append,
            Some(BioOp::Zone(ZoneOp::Open)) => &mut self.zone_open,
            Some(BioOp::Zone(ZoneOp::Close)) => &mut self.zone_close,
            Some(BioOp::Zone(ZoneOp::Finish)) => &mut self.zone_finish,
            Some(BioOp::Zone(ZoneOp::Reset | ZoneOp::ResetAll)) => &mut self.zone_reset,
            Some(BioOp::ZoneReport) => &mut self.zone_report,
        }
    }
}

/// Counters of one hardware queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardwareQueueStatistics {
    /// Commands sent.
    pub dispatched: u64,
    /// Commands at the device.
    pub in_flight: u32,
    /// Requests put back.
    pub requeues: u64,
    /// Bios that waited for a tag.
    pub tag_waits: u64,
}
