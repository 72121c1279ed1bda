//! Power cuts: what is lost, and the state after the next power-on.

use nvme::LbaRange;
use units::Nanos;

use crate::ftl::blocks::BlockState;
use crate::slab::NONE;
use crate::{PowerCut, VolatileWrite};

use super::Ssd;
use super::buffer::{SlotState, WriteBuffer};
use super::collect::{FREE_TO_OVERLAP, Search};
use super::rows::{Row, RowUnit};
use super::timer::Timer;

impl Ssd {
    pub(super) fn lose_power(&mut self, now: Nanos) -> PowerCut {
        self.events.clear();
        self.flash.reset();
        self.host.reset(now);
        self.admission.reset();
        self.reads.clear();
        self.save_rows(now);
        if self.power_loss_protected() {
            self.save_buffer(now);
        } else {
            #[cfg(test)]
            if self.mutant == Some(super::Mutant::RecoveryTrustsMemory) {
                self.keep_delayed();
            }
            self.drop_buffer();
            self.ftl.take_back();
            #[cfg(test)]
            let trusts_memory = self.mutant == Some(super::Mutant::RecoveryTrustsMemory);
            #[cfg(not(test))]
            let trusts_memory = false;
            if !trusts_memory {
                self.recover();
            }
        }
        let undecided = self.store.cut();
        self.dies.forget_rows(&self.layout);
        for die in 0..self.layout.dies {
            self.settle_blocks(die);
        }
        self.ftl.journal.reset();
        self.buffer.age_timer = Timer::default();
        self.fold.reset();
        for die in 0..self.layout.dies {
            // The collector's reserve comes first, lest another cut finds none.
            while self.ftl.blocks.free(die) < FREE_TO_OVERLAP && self.collect_at_rest(die) {}
            self.dies.refresh(&self.ftl.blocks, die);
        }
        self.arm_destage(now);
        PowerCut { undecided }
    }

    /// Rows in flight: those of moved data are finished, as a die finishes a
    /// program that has begun; so are, with capacitors, those of host data.
    fn save_rows(&mut self, now: Nanos) {
        for id in 0..self.dies.rows.slab.places() {
            let Row { first, count, .. } = self.dies.rows.slab[id];
            for index in 0..count {
                match self.dies.rows.unit(id, index) {
                    RowUnit::Slot(slot) if self.power_loss_protected() => self.programmed(now, slot, first + index),
                    RowUnit::Slot(_) => {}
                    RowUnit::Moved { unit, from } => {
                        self.ftl.moved(unit, from, first + index);
                    }
                    RowUnit::Empty => {}
                }
            }
        }
    }

    /// Capacitors: the buffer is saved and restored. Commands that held
    /// reserved slots are gone.
    fn save_buffer(&mut self, now: Nanos) {
        for id in 0..self.buffer.slots.places() {
            let slot = &self.buffer.slots[id];
            if slot.unit != NONE && slot.state == SlotState::Reading {
                self.complete_slot(now, id);
            }
        }
        self.buffer.free = self.layout.buffer_slots - self.buffer.slots.len();
    }

    /// A defect: what memory knows to be programmed counts, whatever the journal says.
    #[cfg(test)]
    fn keep_delayed(&mut self) {
        for id in 0..self.buffer.slots.places() {
            if self.buffer.slots[id].unit != NONE && self.buffer.slots[id].state == SlotState::Delayed {
                while let Some(part) = self.buffer.pop_part(id) {
                    self.store.commit_blocks(part.sequence, part.nsid, part.range).unwrap();
                }
            }
        }
    }

    /// The buffer is empty: units are where flash has them.
    fn drop_buffer(&mut self) {
        for id in 0..self.buffer.slots.places() {
            let slot = &self.buffer.slots[id];
            if slot.unit != NONE {
                self.ftl.uncover(slot.unit, id);
            }
        }
        self.ftl.drop_versions();
        self.buffer = WriteBuffer::new(self.layout.buffer_slots);
    }

    /// No operation is in progress any more; a block that was being erased is
    /// erased at power-on.
    fn settle_blocks(&mut self, die: u32) {
        let blocks = self.ftl.blocks.of_die(die);
        for block in blocks {
            let at = block as usize;
            self.ftl.blocks.programming[at] = 0;
            self.ftl.blocks.moving[at] = 0;
            match self.ftl.blocks.state[at] {
                BlockState::Victim | BlockState::Doomed => self.ftl.blocks.state[at] = BlockState::Closed,
                BlockState::Erasing => {
                    self.ftl.erased(block, self.layout.is_slc(block));
                    self.counters.erases += 1;
                }
                BlockState::Free | BlockState::Open | BlockState::Closed => {}
            }
        }
        self.dies.forget_work(&self.layout, die);
    }

    pub(super) fn make_survive(&mut self, write: &VolatileWrite) {
        let range = LbaRange { start: write.start, count: write.blocks };
        let (first, units) = if range.count > 0 { self.units_of(write.nsid, range) } else { (0, 0) };
        (first..first + units).for_each(|unit| self.learn_unit(unit));
        if self.store.survive(write).is_err() {
            self.counters.media_errors += 1;
        }
        for index in 0..units {
            let unit = first + index;
            let zeroes = write.data.is_none() && self.store.keeps_contents();
            if zeroes && self.part_of(write.nsid, range, index).1 {
                self.ftl.remove(unit);
            } else if !zeroes || self.ftl.is_mapped(unit) {
                // What else the unit holds goes with it.
                let ppn = self.recovery_unit();
                self.program_recovered(unit, ppn);
                self.ftl.put(unit, ppn);
            }
        }
    }

    /// A physical unit for a surviving write.
    fn recovery_unit(&mut self) -> u32 {
        if let Some(ppn) = self.dies.next_recovered() {
            return ppn;
        }
        let die = self.recovery_die();
        self.dies.take_turn(die);
        let width = self.dies.host_row_units(&self.layout, &self.ftl.blocks, die);
        let Some(row) = self.dies.take_row(&self.layout, &mut self.ftl, die, false) else {
            unreachable!("a die that has room has a row");
        };
        self.ftl.blocks.programming[row.block as usize] -= 1;
        self.dies.refresh(&self.ftl.blocks, die);
        self.dies.begin_recovery(row, width)
    }

    /// A die with room, made by collecting if need be.
    fn recovery_die(&mut self) -> u32 {
        loop {
            if let Some(die) = self.dies.next_ready() {
                return die;
            }
            let gained = (0..self.layout.dies).filter(|die| self.collect_at_rest(*die)).count();
            // Spare blocks beyond the reserve (checked with the configuration)
            // hold nothing valid, so some die always gains.
            assert!(gained > 0, "no die has anything to collect");
        }
    }

    /// Collects one block of a die while nothing else goes on; whether it did.
    fn collect_at_rest(&mut self, die: u32) -> bool {
        if self.choose_victim(Nanos::ZERO, die) != Search::Found {
            return false;
        }
        let victim = std::mem::replace(&mut self.dies[die].victim, NONE);
        let first = victim * self.layout.units_per_block();
        let mut row: Option<Row> = None;
        for ppn in first..first + self.layout.units_per_block() {
            let Some(unit) = self.ftl.valid_unit(ppn, self.ftl.blocks.is_initial(ppn)) else { continue };
            let mut into = match row {
                Some(row) if row.count < self.dies.rows.width as u32 => row,
                _ => {
                    let Some(row) = self.dies.take_row(&self.layout, &mut self.ftl, die, true) else {
                        unreachable!("a victim is chosen only if there is room to move it")
                    };
                    self.ftl.blocks.programming[row.block as usize] -= 1;
                    row
                }
            };
            self.ftl.moved(unit, ppn, into.first + into.count);
            into.count += 1;
            row = Some(into);
            self.counters.gc_moved_bytes += u64::from(self.layout.unit_bytes);
        }
        self.ftl.flash.iter_mut().for_each(|flash| flash.journal_at_rest());
        self.ftl.erased(victim, self.layout.is_slc(victim));
        self.counters.erases += 1;
        self.dies[die].began.clear();
        self.ftl.journal.entries = 0;
        self.dies.refresh(&self.ftl.blocks, die);
        true
    }
}
