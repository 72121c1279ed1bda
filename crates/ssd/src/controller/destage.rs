//! From the buffer to flash: rows of units, round-robin over channels and dies.

use trace::RequestId;
use units::Nanos;

use crate::event::Event;
use crate::flash::{Op, OpKind, Owner};
use crate::ftl::journal::Waiter;
use crate::ftl::order::Plan;
use crate::slab::NONE;

use super::Ssd;
use super::buffer::SlotState;
use super::rows::{Row, RowUnit};

/// The shortest time between two looks at the buffer's age.
const TIMER_MIN: Nanos = Nanos(1_000);

impl Ssd {
    /// Programs as many rows as there is data and die time for.
    pub(super) fn destage(&mut self, now: Nanos) {
        loop {
            let waiting = self.buffer.waiting();
            if waiting == 0 {
                // Dead slots at the end of the queue are given back here.
                let none = self.buffer.dequeue();
                debug_assert!(none.is_none());
                return;
            }
            let Some(die) = self.dies.next_ready() else {
                if self.dies.host_rows == 0 {
                    // No die has room: see whether one has something to collect by now.
                    (0..self.layout.dies).for_each(|die| self.collect(now, die));
                }
                return;
            };
            let row_units = self.dies.host_row_units(&self.layout, &self.ftl.blocks, die);
            if waiting < row_units && !self.buffer.is_urgent() && !self.is_aged(now) && !self.is_pressed() {
                return;
            }
            self.program_host_row(now, die, row_units);
        }
    }

    fn is_aged(&self, now: Nanos) -> bool {
        self.buffer.oldest().is_some_and(|since| now.since(since) >= self.config.buffer.destage_after)
    }

    /// Whether a command waits for slots that no row in flight will free.
    fn is_pressed(&self) -> bool {
        self.host.awaits_slots() && self.dies.host_rows == 0
    }

    /// Schedules a look at the buffer's age, if anything can age.
    pub(super) fn arm_destage(&mut self, now: Nanos) {
        if self.buffer.age_timer.is_armed() || (self.buffer.waiting() == 0 && self.ftl.journal.is_clean()) {
            return;
        }
        let after = self.config.buffer.destage_after.max(TIMER_MIN);
        let due = self.buffer.oldest().map_or(now + after, |since| (since + after).max(now + TIMER_MIN));
        self.buffer.age_timer.arm(due, Event::Destage, &mut self.events);
    }

    pub(super) fn destage_timer(&mut self, now: Nanos) {
        self.buffer.age_timer.fired();
        self.destage(now);
        self.grant_waiting(now);
        if self.buffer.waiting() > 0 {
            if self.is_aged(now) {
                // No die has room; the next look comes a full interval later.
                let due = now + self.config.buffer.destage_after.max(TIMER_MIN);
                self.buffer.age_timer.arm(due, Event::Destage, &mut self.events);
            } else {
                self.arm_destage(now);
            }
        } else if self.host.is_idle() && self.dies.host_rows == 0 && !self.buffer.has_unsettled() {
            // Idle: nothing is left to do but to make it durable.
            self.journal_if_dirty(now);
        } else {
            self.arm_destage(now);
        }
    }

    /// Sends a filled row to its die.
    pub(super) fn program_row(&mut self, now: Nanos, id: u32, owner: Owner, request: RequestId) {
        let Row { die, block, first, count } = self.dies.rows.slab[id];
        debug_assert!(count > 0);
        let pages = count.div_ceil(self.layout.units_per_page);
        let bytes = pages * self.layout.units_per_page * self.layout.unit_bytes;
        self.counters.flash_written_bytes += u64::from(bytes);
        let address = first / self.layout.units_per_superpage;
        let array = self.flash.timing.program(address % self.layout.superpages_per_block, self.layout.is_slc(block));
        let op = Op { kind: OpKind::Program, owner, tag: id, die, address, array, bytes, request, suspended: 0 };
        self.flash.submit(now, op, &mut self.events);
    }

    fn program_host_row(&mut self, now: Nanos, die: u32, row_units: u32) {
        let Some(row) = self.dies.take_row(&self.layout, &mut self.ftl, die, false) else {
            debug_assert!(false, "die {die} was ready but has no free block");
            return;
        };
        self.dies.take_turn(die);
        let id = self.dies.rows.insert(row);
        let mut request = RequestId(0);
        for index in 0..row_units {
            let Some(slot) = self.buffer.dequeue() else { break };
            if index == 0 {
                request = self.buffer.slots[slot].request;
            }
            self.dies.rows.push(id, RowUnit::Slot(slot));
        }
        self.dies[die].host_rows += 1;
        self.dies.host_rows += 1;
        self.dies.refresh(&self.ftl.blocks, die);
        if self.layout.is_slc(row.block) {
            self.fold.arm(now, &mut self.events);
        }
        self.program_row(now, id, Owner::HostProgram, request);
        self.collect(now, die);
    }

    /// A row of host data is programmed.
    pub(super) fn host_row_done(&mut self, now: Nanos, id: u32) {
        let Row { die, block, first, count } = self.dies.rows.slab[id];
        // Ahead of the first change, so that the cache misses of all of them overlap.
        for index in 0..count {
            if let RowUnit::Slot(slot) = self.dies.rows.unit(id, index) {
                self.ftl.prefetch_version(self.buffer.slots[slot].unit, slot);
            }
        }
        for index in 0..count {
            if let RowUnit::Slot(slot) = self.dies.rows.unit(id, index) {
                self.programmed(now, slot, first + index);
            }
        }
        self.map_ready(now);
        self.dies.rows.remove(id);
        self.ftl.blocks.programming[block as usize] -= 1;
        self.dies[die].host_rows -= 1;
        self.dies.host_rows -= 1;
        self.dies.refresh(&self.ftl.blocks, die);
        self.wake_flushes(now);
        self.journal_if_full(now);
        self.grant_waiting(now);
        self.destage(now);
        self.collect(now, die);
    }

    /// A version is on flash at `ppn`: maps it, if the order lets it.
    pub(super) fn programmed(&mut self, now: Nanos, id: u32, ppn: u32) {
        self.counters.destaged_units += 1;
        self.ftl.count_host_unit();
        let slot = &mut self.buffer.slots[id];
        self.ftl.flash.iter_mut().for_each(|flash| flash.program(slot.unit, id, ppn));
        if slot.stale {
            self.ftl.dropped(id);
        } else if self.ftl.programmed(slot.unit, id, ppn) == Plan::Delay {
            slot.state = SlotState::Delayed;
            self.counters.delayed_units += 1;
            #[cfg(test)]
            if self.mutant == Some(super::Mutant::DelayedTakenForMapped) {
                self.settle_fua(now, id);
            }
            return;
        }
        self.install(now, id, ppn);
    }

    /// Maps the delayed versions whose turn has come.
    pub(super) fn map_ready(&mut self, now: Nanos) {
        while let Some((id, ppn)) = self.ftl.next_ready() {
            self.install(now, id, ppn);
        }
        self.admit_mapped(now);
    }

    /// A version on flash at `ppn` may be mapped: maps it, unless a newer one is there already.
    fn install(&mut self, now: Nanos, id: u32, ppn: u32) {
        let slot = &self.buffer.slots[id];
        let stale = slot.stale;
        #[cfg(test)]
        let stale = stale && self.mutant != Some(super::Mutant::OlderOverwritesNewer);
        if !stale {
            let mut older = slot.older;
            self.ftl.install(slot.unit, id, ppn);
            while older != NONE {
                self.buffer.slots[older].stale = true;
                older = self.buffer.slots[older].older;
            }
        }
        self.buffer.unlink(id);
        self.settle(now, id);
        self.buffer.release(id);
    }

    /// A version is on flash, or nobody needs it: tells whoever waits.
    pub(super) fn settle(&mut self, now: Nanos, id: u32) {
        self.buffer.settle(id);
        self.buffer.slots[id].settled = true;
        while let Some(part) = self.buffer.pop_part(id) {
            self.ftl.journal.note_settled(part);
        }
        self.settle_fua(now, id);
    }

    /// Tells the FUA write that waits for a version, if one does.
    fn settle_fua(&mut self, now: Nanos, id: u32) {
        let fua = std::mem::replace(&mut self.buffer.slots[id].fua, NONE);
        if fua != NONE {
            let cmd = &mut self.host[fua];
            cmd.left -= 1;
            if cmd.left == 0 {
                self.journal_wait(now, Waiter::Command(fua));
            }
        }
    }
}
