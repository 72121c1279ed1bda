//! What a thread notes of I/Os that ended.

use block::BioResult;
use trace::{RequestId, Span, Track};
use units::Nanos;

use super::contents;
use super::flights::{Flight, Kind};
use super::measure::Times;
use super::thread::Thread;
use super::transport::Path;
use crate::fio::Direction;
use crate::fio::parse::Verify;
use crate::fio::report::{IoError, Operation};

impl Thread {
    /// Notes how an I/O ended.
    pub(super) fn account(&mut self, flight: Flight, result: BioResult, synchronous: bool) {
        let now = self.now();
        let success = result.status.is_success();
        let (operation, offset, bytes) = match flight.kind {
            Kind::Io(io, _) | Kind::Verify(io, _) => (io.direction.into(), io.offset, io.bytes),
            Kind::Sync => (Operation::Sync, 0, 0),
        };
        let shown = if operation == Operation::Trim && flight.zone.is_some() { Operation::Reset } else { operation };
        self.record_span(shown, flight.request, flight.decided_at, offset, bytes);
        if success {
            self.account_success(flight, result, synchronous);
        } else {
            let error = IoError { operation, offset, bytes, status: result.status, at: now };
            self.measured.borrow_mut().failed(error);
        }
        if let (Kind::Io(io, _), Some(zone)) = (flight.kind, flight.zone) {
            self.leave_zone(&io, zone, success);
        }
    }

    fn account_success(&mut self, flight: Flight, result: BioResult, synchronous: bool) {
        let now = self.now();
        let appended = self.appends_to(flight.zone).is_some();
        let mut measured = self.measured.borrow_mut();
        let io = match flight.kind {
            Kind::Io(io, _) | Kind::Verify(io, _) => io,
            Kind::Sync => {
                measured.synced(flight.decided_at, now);
                return;
            }
        };
        // A trim or write of a synchronous call has no submission latency, neither
        // has a trim with an asynchronous engine, nor anything under sqthread_poll
        // (fio engines/io_uring.c sets disable_slat).
        let synchronous = synchronous || matches!(self.path, Path::SubmissionThread { .. });
        let times = Times { decided_at: flight.decided_at, issued_at: flight.issued_at, reaped_at: now, synchronous };
        measured.completed(io.direction, io.bytes, times);
        let options = &self.job.options;
        let judge = |stamp| {
            let data = result.data.as_deref();
            contents::check(options.verify, &options.verify_pattern, &io, stamp, data)
        };
        match (flight.kind, io.direction) {
            (Kind::Verify(_, stamp), _) => measured.verified(judge(Some(stamp)), options.verify_fatal),
            // Reads of a mixed phase race with its writes and are not judged.
            (_, Direction::Read) if options.verify != Verify::None && !options.pattern.writes => {
                measured.verified(judge(None), options.verify_fatal);
            }
            (Kind::Io(_, Some(sequence)), Direction::Write) => {
                if let Some(ledger) = &mut self.ledger {
                    if appended {
                        ledger.complete_append(&io, result.sector.0 * block::Sector::BYTES, sequence);
                    } else {
                        ledger.complete(&io, sequence);
                    }
                }
            }
            _ => {}
        }
    }

    /// Records an operation from its decision to now.
    pub(super) fn record_span(&self, operation: Operation, request: RequestId, start: Nanos, offset: u64, bytes: u64) {
        if !self.host.recorder.is_on() {
            return;
        }
        let track = Track::Job(u16::try_from(self.index).unwrap_or(u16::MAX));
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.host.recorder.record(Span {
            start,
            end: self.now(),
            track,
            step: operation.step(),
            request,
            offset,
            bytes,
        });
    }
}
