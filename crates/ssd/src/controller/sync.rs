//! Flush: everything accepted before it is on flash, and the map says so.

use trace::{Step, Track};
use units::Nanos;

use crate::event::Event;
use crate::ftl::journal::Waiter;

use super::{Opcode, Ssd};

impl Ssd {
    /// Whether a power cut now could take anything accepted.
    pub(super) fn has_volatile(&self) -> bool {
        self.buffer.has_unsettled() || !self.ftl.journal.is_clean()
    }

    /// A processed flush (or a FUA read that needs one).
    pub(super) fn flush(&mut self, now: Nanos, id: u32) {
        #[cfg(test)]
        if self.mutant == Some(super::Mutant::FlushDoesNotWait) {
            return self.complete(now, id);
        }
        let overhead = self.config.controller.flush_overhead;
        if self.power_loss_protected() || !self.has_volatile() {
            self.complete(now, id);
        } else if overhead > Nanos::ZERO {
            self.firmware_work(now, overhead, id);
        } else {
            self.flush_begin(now, id);
        }
    }

    /// Does the firmware work before a flush or FUA write.
    pub(super) fn firmware_work(&mut self, now: Nanos, took: Nanos, id: u32) {
        self.host.record(now, now + took, Track::Controller, Step::Firmware, self.host[id].request, 0);
        self.events.push(now + took, Event::Firmware, id);
    }

    /// The firmware work before a flush or FUA write is done.
    pub(super) fn prepared(&mut self, now: Nanos, id: u32) {
        let cmd = &mut self.host[id];
        if matches!(cmd.opcode, Opcode::Write | Opcode::WriteZeroes) {
            cmd.prepared = true;
            self.write(now, id);
        } else {
            self.flush_begin(now, id);
        }
    }

    fn flush_begin(&mut self, now: Nanos, id: u32) {
        match self.buffer.end_interval() {
            None => self.journal_wait(now, Waiter::Command(id)),
            Some(interval) => {
                self.host.wait_for_interval(id, interval);
                self.destage(now);
            }
        }
    }

    /// Lets the flushes go on whose interval is over.
    pub(super) fn wake_flushes(&mut self, now: Nanos) {
        while let Some(id) = self.host.next_flush(|interval| self.buffer.interval_is_over(interval)) {
            self.journal_wait(now, Waiter::Command(id));
        }
    }
}
