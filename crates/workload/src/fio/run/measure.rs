//! What a thread counts as it runs.

use stats::Histogram;
use units::Nanos;

use crate::fio::report::{
    CpuUse, Depths, DirectionReport, IoError, JobReport, Mismatch, ShortfallReason, VerifyReport,
};
use crate::fio::{Direction, PerDirection};

/// How far a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// It waits for earlier jobs or its start delay.
    #[default]
    Waiting,
    /// It does I/O.
    Running,
    /// It is done, or has failed.
    Finished,
}

/// First interval of a series, unless `log_avg_msec` names another.
const FIRST_INTERVAL: Nanos = Nanos::from_millis(1);

/// A thread's counters.
pub(super) struct Measured {
    pub state: State,
    pub started_at: Nanos,
    pub measured_from: Nanos,
    pub finished_at: Nanos,
    pub directions: PerDirection<DirectionReport>,
    pub finish: DirectionReport,
    pub reset: DirectionReport,
    pub reset_by_trim: u64,
    pub sync: Histogram,
    pub depths: Depths,
    pub cpu: CpuUse,
    pub verify: Option<VerifyReport>,
    pub errors: Vec<IoError>,
    pub error_count: u64,
    /// Bytes completed, the ramp's and the verify phase's included.
    pub moved_bytes: u64,
    /// I/Os completed, the ramp's and the verify phase's included.
    pub moved_ios: u64,
    /// When the current phase began to be measured, and what the directions'
    /// runtimes were then: the write phase, then the verify phase.
    phase_from: Nanos,
    earlier: PerDirection<Nanos>,
    pub in_flight: u32,
    pub failure: Option<ShortfallReason>,
}

impl Measured {
    pub fn new(log_interval: Option<Nanos>) -> Self {
        let interval = log_interval.unwrap_or(FIRST_INTERVAL);
        Self {
            state: State::Waiting,
            started_at: Nanos::ZERO,
            measured_from: Nanos::ZERO,
            finished_at: Nanos::ZERO,
            directions: PerDirection::from_fn(|_| DirectionReport::new(interval)),
            finish: DirectionReport::new(interval),
            reset: DirectionReport::new(interval),
            reset_by_trim: 0,
            sync: Histogram::new(),
            depths: Depths::default(),
            cpu: CpuUse::default(),
            verify: None,
            errors: Vec::new(),
            error_count: 0,
            moved_bytes: 0,
            moved_ios: 0,
            phase_from: Nanos::ZERO,
            earlier: PerDirection::default(),
            in_flight: 0,
            failure: None,
        }
    }

    /// Begins a phase: a direction's runtime is the sum of those of its phases.
    pub fn begin_phase(&mut self, from: Nanos) {
        self.phase_from = from;
        self.earlier = PerDirection::from_fn(|direction| self.directions[direction].runtime);
    }

    /// Counts a successful I/O that was reaped at `now`.
    #[inline]
    pub fn completed(&mut self, direction: Direction, bytes: u64, times: Times) {
        self.moved_bytes += bytes;
        self.moved_ios += 1;
        self.finished_at = times.reaped_at;
        if times.reaped_at < self.measured_from {
            return;
        }
        let report = &mut self.directions[direction];
        report.bytes += bytes;
        report.ios += 1;
        report.runtime = self.earlier[direction] + times.reaped_at.since(self.phase_from);
        let lat = times.reaped_at.since(times.decided_at);
        if times.synchronous {
            report.clat.record(lat);
        } else {
            report.slat.record(times.issued_at.since(times.decided_at));
            report.clat.record(times.reaped_at.since(times.issued_at));
        }
        report.lat.record(lat);
        report.series.record(times.reaped_at, bytes, lat);
    }

    pub fn synced(&mut self, decided_at: Nanos, now: Nanos) {
        self.finished_at = now;
        if now >= self.measured_from {
            self.sync.record(now.since(decided_at));
        }
    }

    /// Counts a zone reset before it is written again.
    pub fn zone_reset(&mut self, bytes: u64, began_at: Nanos, now: Nanos) {
        if now >= self.measured_from {
            managed(&mut self.reset, bytes, began_at, now, self.phase_from);
        }
    }

    /// Counts a trim that was one of a zone, with data in it or without.
    pub fn trim_reset(&mut self, held_data: bool, now: Nanos) {
        self.reset_by_trim += u64::from(held_data && now >= self.measured_from);
    }

    /// Counts a zone finished; the bytes padded are also bytes written.
    pub fn zone_finished(&mut self, padded: u64, began_at: Nanos, now: Nanos) {
        self.moved_bytes += padded;
        self.finished_at = now;
        if now < self.measured_from {
            return;
        }
        managed(&mut self.finish, padded, began_at, now, self.phase_from);
        let writes = &mut self.directions.write;
        writes.bytes += padded;
        writes.runtime = self.earlier.write + now.since(self.phase_from);
        writes.series.record_bytes(now, padded);
    }

    pub fn failed(&mut self, error: IoError) {
        self.finished_at = error.at;
        self.error_count += 1;
        if self.errors.len() < JobReport::KEPT_ERRORS {
            self.errors.push(error);
        }
        self.failure.get_or_insert(ShortfallReason::Error(error));
    }

    pub fn verified(&mut self, outcome: Result<(), Mismatch>, fatal: bool) {
        let verify = self.verify.get_or_insert_default();
        verify.checked += 1;
        if let Err(mismatch) = outcome {
            if fatal {
                self.failure.get_or_insert_with(|| ShortfallReason::Verify(mismatch.clone()));
            }
            verify.note(mismatch);
        }
    }
}

/// Counts a zone management operation.
fn managed(report: &mut DirectionReport, bytes: u64, began_at: Nanos, now: Nanos, phase_from: Nanos) {
    let lat = now.since(began_at);
    report.bytes += bytes;
    report.ios += 1;
    report.runtime = now.since(phase_from);
    report.clat.record(lat);
    report.lat.record(lat);
    report.series.record(now, bytes, lat);
}

/// The moments of an I/O.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub decided_at: Nanos,
    pub issued_at: Nanos,
    pub reaped_at: Nanos,
    /// One call submitted and completed it: there is no slat.
    pub synchronous: bool,
}
