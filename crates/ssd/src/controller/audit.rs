//! Checks that every table agrees with every other (tests only).

use crate::ftl::blocks::BlockState;
use crate::slab::NONE;

use super::Ssd;

impl Ssd {
    /// Panics with the first disagreement found. Takes time in proportion to
    /// the device's size.
    pub(crate) fn check_invariants(&self) {
        let layout = &self.layout;
        self.ftl.check_invariants(layout);
        for die in 0..layout.dies {
            let mut free: Vec<_> = self.ftl.blocks.free_list(die).collect();
            free.sort_unstable();
            let marked: Vec<_> = self
                .ftl
                .blocks
                .of_die(die)
                .filter(|block| self.ftl.blocks.state[*block as usize] == BlockState::Free)
                .collect();
            assert_eq!(free, marked, "free blocks of die {die}");
            let streams = &self.dies[die];
            let open = [streams.host.block, streams.gc.block];
            for block in self.ftl.blocks.of_die(die) {
                let is_open = self.ftl.blocks.state[block as usize] == BlockState::Open;
                assert_eq!(is_open, open.contains(&block), "block {block} is open");
            }
            let doomed = self
                .ftl
                .blocks
                .of_die(die)
                .filter(|block| {
                    matches!(self.ftl.blocks.state[*block as usize], BlockState::Doomed | BlockState::Erasing)
                })
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
        if self.host.is_idle() {
            assert_eq!(live + self.buffer.free, layout.buffer_slots, "a slot was lost");
            assert_eq!(self.reads.len(), 0, "someone waits for a read");
        }
    }
}
