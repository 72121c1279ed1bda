//! Checks that every table agrees with every other (tests only).

use crate::ftl::blocks::BlockState;
use crate::slab::NONE;

use super::Ssd;

impl Ssd {
    /// Panics with the first disagreement found. Takes time in proportion to
    /// the device's size.
    pub(crate) fn check_invariants(&self) {
        let layout = &self.layout;
        let mut valid = vec![0_u32; layout.blocks() as usize];
        let mut held = vec![false; layout.blocks() as usize * layout.units_per_block() as usize];
        for unit in 0..layout.logical_units() {
            let (base, ppn) = self.flash_entry(unit, self.map.entry(unit));
            assert_eq!(ppn, self.map.locate(unit, base), "the place of unit {unit}");
            if ppn == NONE {
                continue;
            }
            let block = ppn / layout.units_per_block();
            let initial = self.blocks.is_initial(ppn);
            assert_eq!(self.map.owner(ppn, initial), unit, "the reverse map of {ppn} in block {block}");
            assert_eq!(self.map.entry_for(ppn, initial), base, "unit {unit} in block {block}");
            assert_ne!(self.blocks.state[block as usize], BlockState::Free, "unit {unit} is in a free block");
            valid[block as usize] += 1;
            held[ppn as usize] = true;
        }
        assert_eq!(valid, self.blocks.valid, "valid counts");
        for (ppn, held) in (0..).zip(held) {
            let block = ppn / layout.units_per_block();
            let initially = self.blocks.veiled[block as usize] && self.map.owner(ppn, true) != NONE;
            assert_eq!(self.map.is_valid(ppn) ^ initially, held, "validity of {ppn} in block {block}");
        }

        for die in 0..layout.dies {
            let mut free: Vec<_> = self.blocks.free_list(die).collect();
            free.sort_unstable();
            let marked: Vec<_> = self
                .blocks
                .of_die(die)
                .filter(|block| self.blocks.state[*block as usize] == BlockState::Free)
                .collect();
            assert_eq!(free, marked, "free blocks of die {die}");
            let streams = &self.dies[die as usize];
            let open = [streams.host.block, streams.gc.block];
            for block in self.blocks.of_die(die) {
                let is_open = self.blocks.state[block as usize] == BlockState::Open;
                assert_eq!(is_open, open.contains(&block), "block {block} is open");
            }
            let doomed = self
                .blocks
                .of_die(die)
                .filter(|block| matches!(self.blocks.state[*block as usize], BlockState::Doomed | BlockState::Erasing))
                .count();
            assert_eq!(streams.doomed as usize, doomed, "doomed blocks of die {die}");
        }

        let mut live = 0;
        for id in 0..self.buffer.slots.places() {
            let slot = &self.buffer.slots[id];
            if slot.unit == NONE {
                continue;
            }
            live += 1;
            if slot.newer != NONE {
                let newer = &self.buffer.slots[slot.newer];
                assert_eq!((newer.older, newer.unit), (id, slot.unit), "versions of unit {}", slot.unit);
            }
        }
        assert_eq!(live, self.buffer.slots.len(), "slots in use");
        assert!(live + self.buffer.free <= layout.buffer_slots, "slots there are");
        if self.commands.len() == 0 {
            assert_eq!(live + self.buffer.free, layout.buffer_slots, "a slot was lost");
            assert_eq!(self.reads.len(), 0, "someone waits for a read");
        }
    }
}
