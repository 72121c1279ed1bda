//! What a replay did, measured.

use stats::{Histogram, Occupancy};
use units::Nanos;

use crate::fio::JobReport;

/// A replay's result.
#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// Latencies, throughput, errors and shortfall, in the same form as a fio
    /// job's: the replay is one job whose I/Os enter at the block layer.
    pub job: JobReport,
    /// How long after it was due each I/O was issued, of an open loop; zero for
    /// all unless its bound on I/Os in flight was met. Latencies do not include it.
    pub lateness: Histogram,
    /// I/Os in flight over time. Little's law ties it to the latencies.
    pub in_flight: Occupancy,
    /// How far an open loop's device was behind its trace; of a closed loop nothing.
    pub backlog: Option<Backlog>,
    /// I/Os counted.
    pub counts: ReplayCounts,
    /// From the first timestamp of the trace to its latest.
    pub traced: Nanos,
}

/// What of an open loop's trace was still to do as time went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// From when the first I/O was due to when the last one was.
    pub due_over: Nanos,
    /// From when the last I/O was due to the last completion.
    pub drained_in: Nanos,
    /// In flight when the last I/O was issued, that one among them.
    pub at_last: u64,
    /// When an I/O last found none in flight, since the first was due.
    pub idle_at: Nanos,
}

/// I/Os of a replay, flushes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayCounts {
    /// Read from the trace and issued, or due when the replay stalled.
    pub asked: u64,
    /// Completed without an error.
    pub served: u64,
    /// With a timestamp before that of an earlier line.
    pub out_of_order: u64,
    /// Rounded to logical blocks or wrapped onto the device.
    pub adjusted: u64,
    /// Trims left out, since rounding left no whole block.
    pub empty_trims: u64,
}

impl ReplayReport {
    /// How far Little's law is from holding over the replay: a fraction, 0 when
    /// mean I/Os in flight = throughput x mean latency exactly.
    pub fn littles_law_error(&self) -> f64 {
        let directions = self.job.directions.iter().map(|(_, direction)| direction.lat.sum_ns());
        self.in_flight.littles_law_error(directions.sum::<u128>() + self.job.sync.sum_ns())
    }
}
