//! What a job did, measured: the stable result of a run.
//!
//! Every figure is in bytes, I/Os or nanoseconds of the run's clock, counted
//! after the job's `ramp_time`. Bandwidths and IOPS are derived, never stored.

mod direction;
mod samples;
mod series;

use std::borrow::Cow;

use nvme::Status;
use stats::Histogram;
use units::Nanos;

pub use direction::{Direction, DirectionReport, Operation, PerDirection};
pub use samples::Samples;
pub use series::{Interval, Series};

/// What one job (one of `numjobs` threads), or a `group_reporting` group of them, did.
#[derive(Clone, Debug)]
pub struct JobReport {
    /// The job's section name.
    pub name: String,
    /// Position among all threads of the run, in file order; a group has its first thread's.
    pub index: u32,
    /// fio's groupid: rises at each `stonewall` and `new_group`.
    pub group: u32,
    /// Threads summed into this report: 1, or more with `group_reporting`.
    pub threads: u32,
    /// What the job was, for the header of a report.
    pub setup: Setup,
    /// When the job's first I/O was allowed: after stonewall and start delay.
    pub started_at: Nanos,
    /// When measuring began: `started_at` plus the ramp time.
    pub measured_from: Nanos,
    /// When the last I/O (or closing sync) completed.
    pub finished_at: Nanos,
    /// Reads, writes and trims.
    pub directions: PerDirection<DirectionReport>,
    /// Zones finished because of `finish`: how many, the bytes padded, how long
    /// each took. The bytes are also among the written, as the fork's are.
    pub finish: DirectionReport,
    /// Zones reset before they were written again, and by `initial_zone_reset`;
    /// their bytes are those of the zones. What `rw=trim` resets stands under
    /// trims.
    pub reset: DirectionReport,
    /// Trims that reset a zone: with zonemode=zbd, those of a zone with data.
    pub reset_by_trim: u64,
    /// Latency of `fsync`, `fdatasync` and closing syncs.
    pub sync: Histogram,
    /// How many I/Os were in flight, were submitted and were reaped at once.
    pub depths: Depths,
    /// CPU time the job used.
    pub cpu: CpuUse,
    /// What verification found; `None` where nothing was verified.
    pub verify: Option<VerifyReport>,
    /// The first errors, at most [`JobReport::KEPT_ERRORS`].
    pub errors: Vec<IoError>,
    /// All errors, kept or not.
    pub error_count: u64,
    /// Set when the job served fewer requests than it was asked for.
    pub shortfall: Option<Shortfall>,
}

/// A job's settings as a report's header shows them.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Options of the `[global]` sections above the job, as given.
    pub global: Vec<(String, String)>,
    /// Options of the job's own section, as given.
    pub options: Vec<(String, String)>,
    /// `rw`, as fio names it.
    pub pattern: String,
    /// Smallest and largest block size of each direction in bytes.
    pub block_bytes: PerDirection<(u64, u64)>,
    /// The I/O engine named.
    pub engine: String,
    /// Whether the engine submits and completes in one call, and so has no slat.
    pub synchronous: bool,
    /// `iodepth` in effect.
    pub depth: u32,
    /// Text of `description`.
    pub description: Option<String>,
    /// Whether the threads of this job's group are reported as one.
    pub group_reporting: bool,
    /// Which latencies get a percentile table: submission, completion, total.
    pub percentiles_of: [bool; 3],
    /// Percentiles asked for, ascending, in percent.
    pub percentiles: Vec<f64>,
    /// Whether directions are reported apart, summed, or both.
    pub unified: crate::fio::Unified,
}

/// Distributions of queue depth in powers of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// I/Os in flight at each issue: 1, 2-3, 4-7, 8-15, 16-31, 32-63, 64 and more.
    pub in_flight: [u64; 7],
    /// I/Os per submission: 0, 1-4, 5-8, 9-16, 17-32, 33-64, more.
    pub per_submit: [u64; 7],
    /// I/Os per reaping, in the same steps.
    pub per_complete: [u64; 7],
}

/// CPU time of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// Time in the program itself.
    pub user: Nanos,
    /// Time in system calls, and completions charged to the job.
    pub system: Nanos,
    /// Times the job gave up its CPU.
    pub context_switches: u64,
}

/// What verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Blocks read back and checked.
    pub checked: u64,
    /// Blocks that were not what was written.
    pub mismatches: u64,
    /// The first mismatches, at most [`JobReport::KEPT_ERRORS`].
    pub first: Vec<Mismatch>,
}

/// A block that was not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// First byte of the block on the device.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// An I/O that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoError {
    /// What was asked.
    pub operation: Operation,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// How it ended.
    pub status: Status,
    /// When.
    pub at: Nanos,
}

/// A job that served fewer requests than asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Bytes the job was asked for; `None` where only time bounds it.
    pub asked_bytes: Option<u64>,
    /// Bytes served.
    pub served_bytes: u64,
    /// Why.
    pub reason: ShortfallReason,
}

/// Why a job served fewer requests than asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShortfallReason {
    /// An I/O failed.
    Error(IoError),
    /// Verification found wrong contents and `verify_fatal` was set.
    Verify(Mismatch),
    /// The run ended while the job waited for I/O that never completed.
    Stalled {
        /// I/Os in flight at the end.
        in_flight: u64,
    },
    /// The run ended before the job was allowed to start.
    NeverStarted,
    /// No zone of the job's region could be read, written or reset from the start.
    NoZone {
        /// What the job wanted to do first.
        direction: Direction,
    },
}

impl std::fmt::Display for Shortfall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.asked_bytes {
            Some(asked) => write!(f, "served {} of {asked} bytes: ", self.served_bytes)?,
            None => write!(f, "stopped before its time, after {} bytes: ", self.served_bytes)?,
        }
        match &self.reason {
            ShortfallReason::Error(error) => error.fmt(f),
            ShortfallReason::Verify(mismatch) => mismatch.fmt(f),
            ShortfallReason::Stalled { in_flight } => {
                write!(f, "the run ended with {in_flight} I/Os in flight that the device never completed")
            }
            ShortfallReason::NeverStarted => f.write_str("the run ended before the job could start"),
            ShortfallReason::NoZone { direction: Direction::Write } => f.write_str(
                "no zone of its region can be written: other jobs have all that may be open (raise max_open_zones, or \
                     run fewer jobs), or they are full, read only or offline",
            ),
            ShortfallReason::NoZone { .. } => f.write_str(
                "no zone of its region holds data; write them first, or start with full ones: \
                 --set 'stack.device_set.initial.full_zones=[COUNT]'",
            ),
        }
    }
}

impl std::fmt::Display for IoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = self.operation.name();
        let Status { code_type, code } = self.status;
        write!(
            f,
            "{what} of {} bytes at offset {} failed at {} with NVMe status type {code_type:#x} code {code:#04x}",
            self.bytes, self.offset, self.at
        )
    }
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "verify failed for {} bytes at offset {}: {}", self.bytes, self.offset, self.reason)
    }
}

impl JobReport {
    /// Errors and mismatches kept in full; more are counted.
    pub const KEPT_ERRORS: usize = 16;

    /// Zones the job reset, by trims or before it wrote them again.
    pub fn zone_resets(&self) -> u64 {
        self.reset.ios + self.reset_by_trim
    }

    /// I/Os of all directions.
    pub fn ios(&self) -> u64 {
        self.directions.iter().map(|(_, direction)| direction.ios).sum()
    }

    /// Bytes of all directions.
    pub fn bytes(&self) -> u64 {
        self.directions.iter().map(|(_, direction)| direction.bytes).sum()
    }

    /// Measured time, from the end of the ramp to the last completion.
    pub fn runtime(&self) -> Nanos {
        self.finished_at.since(self.measured_from)
    }

    /// Whether the job did all that it was asked, without an error or a mismatch.
    pub fn is_clean(&self) -> bool {
        self.shortfall.is_none()
            && self.error_count == 0
            && self.verify.as_ref().is_none_or(|verify| verify.mismatches == 0)
    }

    /// Adds another thread of the same group.
    pub fn merge(&mut self, other: &Self) {
        self.threads += other.threads;
        self.started_at = self.started_at.min(other.started_at);
        self.measured_from = self.measured_from.min(other.measured_from);
        self.finished_at = self.finished_at.max(other.finished_at);
        for (mine, (_, theirs)) in self.directions.iter_mut().zip(other.directions.iter()) {
            mine.merge(theirs);
        }
        self.finish.merge(&other.finish);
        self.reset.merge(&other.reset);
        self.reset_by_trim += other.reset_by_trim;
        self.sync.merge(&other.sync);
        self.depths.merge(&other.depths);
        self.cpu.user += other.cpu.user;
        self.cpu.system += other.cpu.system;
        self.cpu.context_switches += other.cpu.context_switches;
        if let Some(theirs) = &other.verify {
            self.verify.get_or_insert_default().merge(theirs);
        }
        let room = Self::KEPT_ERRORS.saturating_sub(self.errors.len());
        self.errors.extend(other.errors.iter().take(room));
        self.error_count += other.error_count;
        self.shortfall = match (self.shortfall.take(), &other.shortfall) {
            (Some(mine), Some(theirs)) => Some(Shortfall {
                asked_bytes: mine.asked_bytes.zip(theirs.asked_bytes).map(|(mine, theirs)| mine + theirs),
                served_bytes: mine.served_bytes + theirs.served_bytes,
                ..mine
            }),
            (mine, theirs) => mine.or_else(|| theirs.clone()),
        };
    }
}

/// Reports as fio prints them: threads of a group whose jobs ask for
/// `group_reporting` are summed into the first of them.
pub fn grouped(reports: &[JobReport]) -> Vec<Cow<'_, JobReport>> {
    let mut grouped: Vec<Cow<'_, JobReport>> = Vec::new();
    for report in reports {
        let same = grouped
            .last_mut()
            .filter(|last| last.setup.group_reporting && report.setup.group_reporting && last.group == report.group);
        match same {
            Some(last) => last.to_mut().merge(report),
            None => grouped.push(Cow::Borrowed(report)),
        }
    }
    grouped
}

impl Depths {
    /// Counts an issue with `in_flight` I/Os outstanding, itself included.
    #[inline]
    pub(crate) fn issued(&mut self, in_flight: u32) {
        self.in_flight[in_flight.max(1).ilog2().min(6) as usize] += 1;
    }

    /// Counts a submission of `count` I/Os.
    pub(crate) fn submitted(&mut self, count: u32) {
        self.per_submit[batch_bucket(count)] += 1;
    }

    /// Counts a reaping of `count` I/Os.
    pub(crate) fn completed(&mut self, count: u32) {
        self.per_complete[batch_bucket(count)] += 1;
    }

    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.in_flight, &other.in_flight),
            (&mut self.per_submit, &other.per_submit),
            (&mut self.per_complete, &other.per_complete),
        ] {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
    }
}

fn batch_bucket(count: u32) -> usize {
    match count {
        0 => 0,
        1..=4 => 1,
        _ => ((count - 1).ilog2() as usize).min(6),
    }
}

impl VerifyReport {
    pub(crate) fn note(&mut self, mismatch: Mismatch) {
        self.mismatches += 1;
        if self.first.len() < JobReport::KEPT_ERRORS {
            self.first.push(mismatch);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.checked += other.checked;
        self.mismatches += other.mismatches;
        let room = JobReport::KEPT_ERRORS.saturating_sub(self.first.len());
        self.first.extend(other.first.iter().take(room).cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_fios() {
        let batches: Vec<usize> = [0, 1, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 4096].map(batch_bucket).into();
        assert_eq!(batches, [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]);
        let mut depths = Depths::default();
        for depth in [1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 1000] {
            depths.issued(depth);
        }
        assert_eq!(depths.in_flight, [1, 2, 2, 2, 2, 2, 2]);
    }
}
