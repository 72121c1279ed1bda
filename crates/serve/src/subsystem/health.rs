//! What SMART and the Error Information log report (Base 5.16.1.2 and 5.16.1.3).

use std::collections::VecDeque;

use nvme::{
    CompletionStatus, CriticalWarning, ErrorLogEntry, HealthFacts, HealthLog, QueueId, Status, StatusCodeType,
    SubmissionEntry,
};
use units::Nanos;
use zerocopy::{FromZeros, IntoBytes};

use super::facts::ERROR_LOG_ENTRIES;

const MINUTE_NS: u64 = 60_000_000_000;
const HOUR_NS: u64 = 60 * MINUTE_NS;

/// Counters of the whole subsystem.
#[derive(Default)]
pub(super) struct Health {
    pub(super) warning: CriticalWarning,
    read_bytes: u64,
    written_bytes: u64,
    read_commands: u64,
    write_commands: u64,
    media_errors: u64,
    busy_ns: u64,
    busy_since: Option<Nanos>,
    outstanding: u64,
    power_cycles: u64,
    unsafe_shutdowns: u64,
}

impl Health {
    /// A device that was switched on once.
    pub(super) fn new() -> Self {
        Self { power_cycles: 1, ..Self::default() }
    }

    pub(super) fn began(&mut self, now: Nanos) {
        self.outstanding += 1;
        self.busy_since.get_or_insert(now);
    }

    pub(super) fn ended(&mut self, now: Nanos) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if self.outstanding == 0
            && let Some(since) = self.busy_since.take()
        {
            self.busy_ns = self.busy_ns.saturating_add(now.since(since).0);
        }
    }

    pub(super) fn read(&mut self, bytes: u64) {
        self.read_commands += 1;
        self.read_bytes = self.read_bytes.saturating_add(bytes);
    }

    pub(super) fn wrote(&mut self, bytes: u64) {
        self.write_commands += 1;
        self.written_bytes = self.written_bytes.saturating_add(bytes);
    }

    pub(super) fn failed(&mut self, status: Status) {
        // A miscompare is the host's news, not the media's.
        let media = status.code_type == StatusCodeType::MediaAndDataIntegrity as u8;
        self.media_errors += u64::from(media && status != Status::COMPARE_FAILURE);
    }

    /// The power went, after a shutdown or not.
    pub(super) fn power_lost(&mut self, shut_down: bool) {
        self.unsafe_shutdowns += u64::from(!shut_down);
    }

    pub(super) fn power_restored(&mut self) {
        self.power_cycles += 1;
    }

    /// The log page, of a controller that had `errors` errors.
    pub(super) fn log(&self, now: Nanos, temperature_kelvin: u16, errors: u64) -> HealthLog {
        let running = self.busy_since.map_or(0, |since| now.since(since).0);
        HealthLog::of(&HealthFacts {
            warning: self.warning,
            temperature_kelvin,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            read_commands: self.read_commands,
            write_commands: self.write_commands,
            busy_minutes: self.busy_ns.saturating_add(running) / MINUTE_NS,
            power_cycles: self.power_cycles,
            power_on_hours: now.0 / HOUR_NS,
            unsafe_shutdowns: self.unsafe_shutdowns,
            media_errors: self.media_errors,
            error_log_entries: errors,
        })
    }
}

/// The Error Information log of one controller: the newest entries.
#[derive(Default)]
pub(super) struct ErrorLog {
    entries: VecDeque<ErrorLogEntry>,
    count: u64,
}

impl ErrorLog {
    pub(super) fn add(&mut self, queue: QueueId, entry: &SubmissionEntry, status: CompletionStatus) {
        self.count += 1;
        // Only I/O commands say which block they mean.
        let lba = if queue.0 == 0 { 0 } else { entry.slba() };
        self.entries.truncate(ERROR_LOG_ENTRIES - 1);
        self.entries.push_front(ErrorLogEntry::new(self.count, queue, entry, status, lba));
    }

    /// Entries that there ever were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The log page, newest entry first, unused ones zero.
    pub(super) fn log(&self) -> Vec<u8> {
        let unused = ErrorLogEntry::new_zeroed();
        let entries = self.entries.iter().chain(std::iter::repeat(&unused)).take(ERROR_LOG_ENTRIES);
        entries.flat_map(|entry| entry.as_bytes()).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_errors_are_kept() {
        let mut errors = ErrorLog::default();
        for _ in 0..100 {
            errors.add(QueueId(1), &SubmissionEntry::default(), Status::LBA_OUT_OF_RANGE.into());
        }
        let log = errors.log();
        assert_eq!((errors.count(), log.len()), (100, 64 * 64));
        assert_eq!((log[0], log[63 * 64]), (100, 37));
    }

    #[test]
    fn busy_time_is_that_with_commands_outstanding() {
        let mut health = Health::new();
        health.began(Nanos(0));
        health.began(Nanos(MINUTE_NS));
        health.ended(Nanos(2 * MINUTE_NS));
        health.ended(Nanos(3 * MINUTE_NS));
        health.began(Nanos(10 * MINUTE_NS));
        let log = health.log(Nanos(11 * MINUTE_NS), 300, 0);
        assert_eq!((log.ctrl_busy_time[0], log.power_cycles[0], log.power_on_hours[0]), (4, 1, 0));
    }

    #[test]
    fn media_errors_are_the_medias() {
        let mut health = Health::new();
        for status in [Status::UNRECOVERED_READ, Status::COMPARE_FAILURE, Status::LBA_OUT_OF_RANGE] {
            health.failed(status);
        }
        assert_eq!(health.log(Nanos(0), 300, 0).media_errors[0], 1);
    }
}
