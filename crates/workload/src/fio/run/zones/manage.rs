//! Resetting and finishing zones.
//!
//! All of it blocks the thread: fio resets and finishes by ioctl, whatever the
//! engine, and once its own I/Os are done.

use block::{Bio, BioFlags, BioOp, Sector, ZoneOp};
use units::Nanos;

use super::place::ZonePlan;
use crate::fio::Direction;
use crate::fio::generate::Io;
use crate::fio::report::{IoError, Operation};
use crate::fio::run::thread::Thread;

/// What the passthrough variant of `softfinish` asks usleep(3) for after each chunk.
const SOFT_FINISH_PAUSE: Nanos = Nanos::from_micros(50);

/// By how much Linux lets a thread oversleep unless told otherwise, so that
/// timers fall together (prctl(2), `PR_SET_TIMERSLACK`): the timer is set to the
/// end of that range (kernel/time/hrtimer.c, `hrtimer_nanosleep`).
const TIMER_SLACK: Nanos = Nanos::from_micros(50);

impl Thread {
    /// Resets a zone that is locked and about to be written again; whether it went well.
    pub(super) async fn reset_before_write(&mut self, plan: &ZonePlan, zone: u32) -> bool {
        let span = plan.zones.span(zone);
        if plan.zones.write_pointer(zone) == span.start {
            return true;
        }
        let began_at = self.now();
        if plan.zones.are_real() && !self.manage(Operation::Reset, ZoneOp::Reset, zone).await {
            return false;
        }
        plan.zones.table.borrow_mut().set_write_pointer(zone, span.start);
        if let Some(ledger) = &mut self.ledger {
            ledger.forget(&Io { direction: Direction::Trim, offset: span.start, bytes: span.end - span.start });
        }
        let now = self.now();
        self.measured.borrow_mut().zone_reset(span.end - span.start, began_at, now);
        true
    }

    /// Empties the zones of the region, before a pass under `verify` (so that no
    /// reset loses what is to be verified) and for `initial_zone_reset`.
    pub(in crate::fio::run) async fn reset_region(&mut self) {
        let Some(plan) = self.plan.zones.clone() else { return };
        for zone in plan.range.clone() {
            self.lock_zone(zone).await;
            plan.zones.table.borrow_mut().release(zone);
            let went_well = self.reset_before_write(&plan, zone).await;
            self.unlock_zone(zone);
            if !went_well {
                return;
            }
        }
    }

    /// Whether a trim of a zone is a command: of an empty one it is not.
    pub(in crate::fio::run) fn trim_is_a_command(&self, zone: u32) -> bool {
        let Some(plan) = &self.plan.zones else { return true };
        plan.zones.are_real() && plan.zones.write_pointer(zone) > plan.zones.span(zone).start
    }

    /// What an I/O that has ended, well or not, means for its zone, which it unlocks.
    pub(in crate::fio::run) fn leave_zone(&mut self, io: &Io, zone: u32, success: bool) {
        let Some(plan) = self.plan.zones.clone() else { return };
        let mut table = plan.zones.table.borrow_mut();
        match io.direction {
            Direction::Read => {}
            Direction::Trim if success => {
                let start = plan.zones.span(zone).start;
                let held_data = table.zone(zone).written() > 0;
                table.set_write_pointer(zone, start);
                table.release(zone);
                self.measured.borrow_mut().trim_reset(held_data, self.host.sim.now());
            }
            Direction::Trim => {}
            Direction::Write => {
                table.writes_in_flight -= 1;
                if success && io.offset + io.bytes >= table.zone(zone).capacity_end {
                    table.release(zone);
                }
                let left = table.zone(zone).room();
                let finish = self.options().zones.finish_bytes.is_some_and(|least| left >= least);
                if success && finish && !self.to_finish.contains(&zone) {
                    // Its lock is kept until then.
                    self.to_finish.push(zone);
                    drop(table);
                    plan.zones.changed.notify_all();
                    return;
                }
            }
        }
        drop(table);
        self.unlock_zone(zone);
        if io.direction == Direction::Write {
            plan.zones.changed.notify_all();
        }
    }

    /// Finishes the zones whose writes say so, once nothing is in flight.
    pub(in crate::fio::run) async fn finish_zones(&mut self) {
        while !self.to_finish.is_empty() {
            self.quiesce().await;
            let Some(plan) = self.plan.zones.clone() else { return };
            for zone in std::mem::take(&mut self.to_finish) {
                if !self.has_failed() {
                    self.finish_zone(&plan, zone).await;
                }
                self.unlock_zone(zone);
                plan.zones.changed.notify_all();
            }
        }
    }

    async fn finish_zone(&mut self, plan: &ZonePlan, zone: u32) {
        let (pointer, end) = {
            let mut table = plan.zones.table.borrow_mut();
            table.zone(zone).reset_due = false;
            (table.zone(zone).write_pointer, table.zone(zone).capacity_end)
        };
        let began_at = self.now();
        let went_well = if self.options().zones.soft_finish {
            self.fill_with_zeroes(plan, pointer, end).await
        } else {
            self.manage(Operation::Finish, ZoneOp::Finish, zone).await
        };
        if !went_well {
            return;
        }
        {
            // The fork gives the zone's place away before it finishes it, which the
            // device may refuse to the next: it is active until then.
            let mut table = plan.zones.table.borrow_mut();
            table.set_write_pointer(zone, end);
            table.release(zone);
        }
        let padded = end - pointer;
        self.pace.issued(Direction::Write, padded);
        self.count.bytes += padded;
        let now = self.now();
        self.measured.borrow_mut().zone_finished(padded, began_at, now);
    }

    /// The host's own finish: one write after the other, up to `end`.
    async fn fill_with_zeroes(&mut self, plan: &ZonePlan, from: u64, end: u64) -> bool {
        let chunk = u64::from(self.options().zones.soft_finish_chunk_sectors) * Sector::BYTES;
        let passthrough = self.options().engine.kind.is_passthrough();
        let keeps = self.filler.is_some();
        let mut offset = from;
        while offset < end {
            let bytes = chunk.min(end - offset);
            let data = keeps.then(|| vec![0; bytes as usize].into_boxed_slice());
            let (request, decided_at) = (self.request(), self.now());
            let flags = BioFlags::SYNC | self.engine_flags();
            let sector = Sector(offset / Sector::BYTES);
            let bio =
                Bio { nsid: plan.zones.nsid(), op: BioOp::Write, sector, bytes, flags, data, order: None, request };
            let result = self.call(bio).await;
            if !self.managed(Operation::Finish, offset, bytes, result.status) {
                return false;
            }
            self.record_span(Operation::Write, request, decided_at, offset, bytes);
            if passthrough {
                self.host.sim.sleep(SOFT_FINISH_PAUSE + TIMER_SLACK).await;
            }
            offset += bytes;
        }
        true
    }

    /// One management command for a zone.
    async fn manage(&mut self, operation: Operation, op: ZoneOp, zone: u32) -> bool {
        let Some(plan) = self.plan.zones.clone() else { return false };
        let span = plan.zones.span(zone);
        let (request, decided_at) = (self.request(), self.now());
        let flags = BioFlags::SYNC | self.engine_flags();
        let sector = Sector(span.start / Sector::BYTES);
        let bio = Bio {
            nsid: plan.zones.nsid(),
            op: BioOp::Zone(op),
            sector,
            bytes: 0,
            flags,
            data: None,
            order: None,
            request,
        };
        let result = self.call(bio).await;
        self.record_span(operation, request, decided_at, span.start, span.end - span.start);
        self.managed(operation, span.start, span.end - span.start, result.status)
    }

    /// Notes a failure; whether there was none.
    fn managed(&mut self, operation: Operation, offset: u64, bytes: u64, status: nvme::Status) -> bool {
        if !status.is_success() {
            let at = self.now();
            self.measured.borrow_mut().failed(IoError { operation, offset, bytes, status, at });
        }
        status.is_success()
    }
}
