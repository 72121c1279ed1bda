//! Garbage collection: executes the policy's plan on each die.
//!
//! A victim's valid units are read superpage by superpage, programmed into the
//! die's collector stream, and the block is erased once all of them are mapped
//! elsewhere and the map journal says so. Units that do not fill a row wait for
//! those of the next victim, if there is one.

use trace::RequestId;
use units::Nanos;

use crate::flash::{Op, OpKind, Owner};
use crate::ftl::blocks::BlockState;
use crate::ftl::journal::Waiter;
use crate::slab::NONE;

use super::Ssd;
use super::dies::COLLECTOR_READS;
use super::rows::{Row, RowUnit};

/// Rows of moved data in flight per die.
const COLLECTOR_ROWS: u8 = 2;

/// Free blocks with which a victim is begun while another is not erased yet:
/// one to fill, and one more so that after a power cut in the midst of it
/// collection can go on.
pub(super) const FREE_TO_OVERLAP: u32 = 2;

/// What became of the search for a victim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// There is one.
    Found,
    /// There may be one when a block is erased that is about to be.
    Later,
    /// None is wanted, or none is worth it.
    None,
}

impl Ssd {
    /// Takes every step that the collector of a die can take now.
    pub(super) fn collect(&mut self, now: Nanos, die: u32) {
        let row_units = self.dies.rows.width;
        loop {
            let streams = &self.dies[die];
            if streams.pending.len() >= row_units {
                if !self.program_moved_row(now, die) {
                    return;
                }
                continue;
            }
            if streams.victim == NONE {
                match self.choose_victim(now, die) {
                    Search::Found => {}
                    Search::Later => return,
                    Search::None => {
                        // No company will come for what is left.
                        if !self.dies[die].pending.is_empty() {
                            self.program_moved_row(now, die);
                        }
                        return;
                    }
                }
            }
            let streams = &self.dies[die];
            if streams.reads == COLLECTOR_READS {
                return;
            }
            if !self.read_victim(now, die) {
                if self.dies[die].reads > 0 {
                    return;
                }
                self.finish_victim(now, die);
            }
        }
    }

    /// Asks the policy for a victim, if the die is short of free blocks.
    pub(super) fn choose_victim(&mut self, now: Nanos, die: u32) -> Search {
        let free = self.ftl.blocks.free(die);
        let streams = &mut self.dies[die];
        let coming = free + streams.doomed;
        if coming < self.config.gc.start_below {
            streams.collecting = true;
        } else if coming >= self.config.gc.stop_at {
            streams.collecting = false;
        }
        let (collecting, folding) = (streams.collecting, self.fold.is_active());
        if !(collecting || folding) {
            return Search::None;
        }
        if free == 0 || (free < FREE_TO_OVERLAP && streams.doomed > 0) {
            return if streams.erasing > 0 { Search::Later } else { Search::None };
        }
        // What there is room for besides the units already on their way.
        let capacity = self.layout.units_per_block();
        let open = streams.gc;
        let open_units = match open.block {
            NONE => 0,
            _ => (self.layout.superpages_per_block - open.superpage) * self.layout.units_per_superpage,
        };
        let room = (open_units + capacity).saturating_sub(streams.pending.len() as u32);
        let blocks = self.ftl.blocks.of_die(die);
        let slc = blocks.start + self.layout.normal_blocks_per_die;
        let (candidates, movable) =
            if collecting { (blocks.start..slc, room.min(capacity - 1)) } else { (slc..blocks.end, room) };
        let Some(block) = self.ftl.choose_victim(candidates, movable) else { return Search::None };
        let streams = &mut self.dies[die];
        (streams.victim, streams.superpage) = (block, 0);
        self.counters.victims += 1;
        self.counters.victim_units += u64::from(self.ftl.blocks.valid[block as usize]);
        self.dies.note_victim(now, die, block);
        Search::Found
    }

    /// Reads the victim's next superpage that holds anything; whether there was one.
    fn read_victim(&mut self, now: Nanos, die: u32) -> bool {
        let streams = &self.dies[die];
        let victim = streams.victim;
        // Units already picked up count as valid until they are mapped elsewhere.
        if self.ftl.blocks.valid[victim as usize] == 0 {
            return false;
        }
        let slc = self.layout.is_slc(victim);
        let end = if slc { self.layout.slc_superpages_per_block } else { self.layout.superpages_per_block };
        let per_superpage = self.layout.units_per_superpage;
        for superpage in streams.superpage..end {
            let address = victim * self.layout.superpages_per_block + superpage;
            let first = address * per_superpage;
            let valid = (first..first + per_superpage).filter(|ppn| self.ftl.is_valid(*ppn)).count();
            if valid == 0 {
                continue;
            }
            let bytes = valid as u32 * self.layout.unit_bytes;
            self.counters.flash_read_bytes += u64::from(bytes);
            let op = Op {
                kind: OpKind::Read,
                owner: Owner::GcRead,
                tag: NONE,
                die,
                address,
                array: self.flash.timing.read(superpage, slc),
                bytes,
                request: RequestId(0),
                suspended: 0,
            };
            let streams = &mut self.dies[die];
            streams.reading[streams.reads] = superpage;
            streams.reads += 1;
            streams.superpage = superpage + 1;
            self.flash.submit(now, op, &mut self.events);
            return true;
        }
        self.dies[die].superpage = end;
        false
    }

    /// The collector's oldest read of a die is in the controller.
    pub(super) fn collector_read(&mut self, now: Nanos, die: u32) {
        let streams = &mut self.dies[die];
        let (victim, superpage) = (streams.victim, streams.reading[0]);
        streams.reading.rotate_left(1);
        streams.reads -= 1;
        let first = (victim * self.layout.superpages_per_block + superpage) * self.layout.units_per_superpage;
        let initial = self.ftl.blocks.is_initial(first);
        for ppn in first..first + self.layout.units_per_superpage {
            if let Some(unit) = self.ftl.valid_unit(ppn, initial) {
                self.dies[die].pending.push((unit, ppn));
                self.ftl.blocks.moving[victim as usize] += 1;
            }
        }
        self.collect(now, die);
    }

    /// Every unit of the victim is read: it goes once they are mapped elsewhere.
    fn finish_victim(&mut self, now: Nanos, die: u32) {
        let streams = &mut self.dies[die];
        let victim = std::mem::replace(&mut streams.victim, NONE);
        streams.doomed += 1;
        self.ftl.blocks.state[victim as usize] = BlockState::Doomed;
        if self.ftl.blocks.moving[victim as usize] == 0 {
            self.moved_out(now, victim);
        }
    }

    /// Programs what is pending, up to a row; whether it could.
    fn program_moved_row(&mut self, now: Nanos, die: u32) -> bool {
        if self.dies[die].gc_rows >= COLLECTOR_ROWS {
            return false;
        }
        let Some(row) = self.dies.take_row(&self.layout, &mut self.ftl, die, true) else { return false };
        let id = self.dies.rows.insert(row);
        let (streams, rows) = self.dies.with_rows(die);
        let count = streams.pending.len().min(rows.width);
        for (unit, from) in streams.pending.drain(..count) {
            rows.push(id, RowUnit::Moved { unit, from });
        }
        streams.gc_rows += 1;
        self.counters.gc_moved_bytes += count as u64 * u64::from(self.layout.unit_bytes);
        self.dies.refresh(&self.ftl.blocks, die);
        self.program_row(now, id, Owner::GcProgram, RequestId(0));
        true
    }

    /// A row of moved data is programmed.
    pub(super) fn collector_row_done(&mut self, now: Nanos, id: u32) {
        let Row { die, block, first, count } = self.dies.rows.slab[id];
        for index in 0..count {
            if let RowUnit::Moved { unit, .. } = self.dies.rows.unit(id, index) {
                self.ftl.prefetch(unit);
            }
        }
        let units_per_block = self.layout.units_per_block();
        for index in 0..count {
            let RowUnit::Moved { unit, from } = self.dies.rows.unit(id, index) else { continue };
            let victim = from / units_per_block;
            self.ftl.moved(unit, from, first + index);
            let moving = &mut self.ftl.blocks.moving[victim as usize];
            *moving -= 1;
            if *moving == 0 && self.ftl.blocks.state[victim as usize] == BlockState::Doomed {
                self.moved_out(now, victim);
            }
        }
        self.dies.rows.remove(id);
        self.ftl.blocks.programming[block as usize] -= 1;
        self.dies[die].gc_rows -= 1;
        self.journal_if_full(now);
        self.collect(now, die);
    }

    /// The block holds nothing that the map needs; the map must say so on
    /// flash before the block is erased.
    fn moved_out(&mut self, now: Nanos, block: u32) {
        debug_assert_eq!(self.ftl.blocks.valid[block as usize], 0, "block {block} still holds valid units");
        self.dies[self.ftl.blocks.die(block)].erasing += 1;
        let journaled = self.power_loss_protected();
        #[cfg(test)]
        let journaled = journaled || self.mutant == Some(super::Mutant::EraseBeforeJournal);
        if journaled {
            self.erase(now, block);
        } else {
            self.journal_wait(now, Waiter::Erase(block));
        }
    }

    pub(super) fn erase(&mut self, now: Nanos, block: u32) {
        let op = Op {
            kind: OpKind::Erase,
            owner: Owner::Erase,
            tag: block,
            die: self.ftl.blocks.die(block),
            address: block,
            array: self.flash.timing.erase(self.layout.is_slc(block)),
            bytes: 0,
            request: RequestId(0),
            suspended: 0,
        };
        self.ftl.blocks.state[block as usize] = BlockState::Erasing;
        self.flash.submit(now, op, &mut self.events);
    }

    /// A block is erased.
    pub(super) fn erased(&mut self, now: Nanos, block: u32) {
        let die = self.ftl.blocks.die(block);
        self.ftl.erased(block, self.layout.is_slc(block));
        self.counters.erases += 1;
        let streams = &mut self.dies[die];
        streams.doomed -= 1;
        streams.erasing -= 1;
        self.dies.note_erased(now, die, block);
        self.dies.refresh(&self.ftl.blocks, die);
        self.collect(now, die);
        self.destage(now);
    }
}
