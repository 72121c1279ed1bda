//! Which blocks of the storage are free.
//!
//! A freed block is not free at once: the last checkpoint, a reader or a snapshot may still need it. It waits until the
//! checkpoint after its release is durable and no older view of the tree is alive; a block that a snapshot refers to is
//! held until that snapshot is removed.
//!
//! Some blocks are *lent* to the write path, which puts large values there ([`crate::values`]). For a checkpoint they are
//! free, until it has the tree that refers to them.

use std::collections::VecDeque;

use crate::bytes::pointer::BlockPointer;
use crate::bytes::wire::{Malformed, Reader, put_varint};
use crate::extents::{Extent, Extents};
use crate::mutant::{Mutant, mutated};
use crate::refusal::is_refused;

/// An extent that a snapshot may refer to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub extent: Extent,
    /// Generation that wrote it.
    pub birth: u64,
    /// Generation that has no use for it any more.
    pub death: u64,
}

/// The free blocks, and those that will be.
#[derive(Clone, Default, Debug)]
pub(crate) struct Space {
    free: Extents,
    /// Of the free ones, those that the device does not know to be free.
    undiscarded: Extents,
    /// With the version of the tree that is the first without it.
    waiting: VecDeque<(u64, Extent)>,
    waiting_blocks: u64,
    lent: Extents,
    held: Vec<Held>,
}

impl Space {
    /// All of `extent` is free.
    pub fn new(extent: Extent) -> Self {
        let mut space = Self::default();
        space.free.release(extent);
        space
    }

    pub fn free_blocks(&self) -> u64 {
        self.free.blocks()
    }

    /// How many extents are free, wait or are held.
    pub fn extents(&self) -> usize {
        self.free.len() + self.waiting.len() + self.held.len()
    }

    pub fn waiting_blocks(&self) -> u64 {
        self.waiting_blocks
    }

    pub fn held(&self) -> &[Held] {
        &self.held
    }

    pub fn free_extents(&self) -> impl Iterator<Item = Extent> {
        self.free.iter()
    }

    /// Extents that wait to be free.
    pub fn waiting_extents(&self) -> impl Iterator<Item = Extent> {
        self.waiting.iter().map(|(_, extent)| *extent)
    }

    /// What is lent.
    pub fn lent(&self) -> &Extents {
        &self.lent
    }

    /// `blocks` side by side: the start of the shortest extent that has them.
    pub fn allocate(&mut self, blocks: u64) -> Option<u64> {
        if is_refused() {
            return None;
        }
        let start = self.free.allocate(blocks)?;
        self.used_again(Extent { start, blocks });
        Some(start)
    }

    /// What is used again is not discarded.
    fn used_again(&mut self, extent: Extent) {
        if mutated(Mutant::DiscardsUsedAgain) || self.undiscarded.blocks() == 0 {
            return;
        }
        let overlap = |one: Extent| {
            let (start, end) = (one.start.max(extent.start), one.end().min(extent.end()));
            (start < end).then(|| Extent { start, blocks: end - start })
        };
        let overlaps: Vec<Extent> = self.undiscarded.overlapping(extent).filter_map(overlap).collect();
        for one in overlaps {
            self.undiscarded.take(one);
        }
    }

    /// Makes an extent free, now.
    pub fn release(&mut self, extent: Extent) {
        self.free.release(extent);
        self.undiscarded.release(extent);
    }

    /// Bytes' worth of blocks that are free and were not discarded.
    pub fn undiscarded_blocks(&self) -> u64 {
        self.undiscarded.blocks()
    }

    /// Takes the extents that are to be discarded. Until that is done, none of them may be allocated.
    pub fn take_undiscarded(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.undiscarded).iter().collect()
    }

    /// Free extents from a block on, `blocks` in all at most.
    pub fn free_from(&self, block: u64, blocks: u64) -> Vec<Extent> {
        let mut left = blocks;
        let mut found = Vec::new();
        for extent in self.free.iter().filter(|extent| extent.end() > block) {
            let start = extent.start.max(block);
            let blocks = (extent.end() - start).min(left);
            if blocks == 0 {
                break;
            }
            found.push(Extent { start, blocks });
            left -= blocks;
        }
        found
    }

    /// The storage was told that an extent is free.
    pub fn discarded(&mut self, extent: Extent) {
        self.used_again(extent);
    }

    /// Lends up to `blocks` of the free ones, the longest first.
    pub fn lend(&mut self, blocks: u64) -> Vec<Extent> {
        let mut lent = Vec::new();
        if is_refused() {
            return lent;
        }
        let mut left = blocks;
        while let Some(extent) = self.free.allocate_longest(left) {
            left -= extent.blocks;
            self.used_again(extent);
            self.lent.release(extent);
            lent.push(extent);
        }
        lent
    }

    /// Lends what a log says was lent; whether it was free.
    pub fn lend_again(&mut self, extent: Extent) -> bool {
        let free = self.free.take(extent);
        if free {
            self.used_again(extent);
            self.lent.release(extent);
        }
        free
    }

    /// Takes back what was lent and not used.
    pub fn give_back(&mut self, extent: Extent) {
        if self.lent.take(extent) {
            self.release(extent);
        }
    }

    /// What was lent is in the trees now.
    pub fn keep(&mut self, extent: Extent) {
        self.lent.take(extent);
    }

    /// The tree has no use for a block from `version` on; `newest_snapshot` is the generation of the newest snapshot.
    pub fn retire(&mut self, pointer: &BlockPointer, version: u64, generation: u64, newest_snapshot: Option<u64>) {
        self.retire_extent(Extent::of(pointer), pointer.birth, version, generation, newest_snapshot);
    }

    /// The same of a block of which only the place and the birth are known.
    pub fn retire_extent(
        &mut self,
        extent: Extent,
        birth: u64,
        version: u64,
        generation: u64,
        newest_snapshot: Option<u64>,
    ) {
        if newest_snapshot.is_some_and(|snapshot| birth <= snapshot) {
            self.held.push(Held { extent, birth, death: generation });
        } else {
            self.waiting.push_back((version, extent));
            self.waiting_blocks += extent.blocks;
        }
    }

    /// A snapshot is gone: what only it held waits like anything else. `snapshots` are the generations that are left.
    pub fn unhold(&mut self, version: u64, snapshots: &[u64]) {
        let held = std::mem::take(&mut self.held);
        for one in held {
            if snapshots.iter().any(|snapshot| one.birth <= *snapshot && *snapshot < one.death) {
                self.held.push(one);
            } else {
                self.waiting.push_back((version, one.extent));
                self.waiting_blocks += one.extent.blocks;
            }
        }
    }

    /// The first `count` that wait are unreachable from the last checkpoint: those are free that no view older than
    /// `oldest_view` can see. Returns how many were made free.
    pub fn settle(&mut self, count: usize, oldest_view: u64) -> usize {
        let mut settled = 0;
        while settled < count
            && let Some((version, extent)) = self.waiting.front().copied()
            && version <= oldest_view
        {
            self.waiting.pop_front();
            self.waiting_blocks -= extent.blocks;
            self.release(extent);
            settled += 1;
        }
        settled
    }

    /// How many extents wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// For the catalog of the checkpoint that is being made: what waits now is free once that checkpoint is read back,
    /// and so is what is lent.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let mut free = self.free.clone();
        for extent in self.waiting_extents().chain(self.lent.iter()) {
            free.release(extent);
        }
        put_varint(to, free.len() as u64);
        let mut end = 0;
        for extent in free.iter() {
            put_varint(to, extent.start - end);
            put_varint(to, extent.blocks);
            end = extent.end();
        }
        put_varint(to, self.held.len() as u64);
        for one in &self.held {
            for value in [one.extent.start, one.extent.blocks, one.birth, one.death] {
                put_varint(to, value);
            }
        }
    }

    /// Only extents inside `bounds` are believed.
    pub fn decode(from: &mut Reader<'_>, bounds: Extent) -> Result<Self, Malformed> {
        let wrong = Malformed("the free space is not in the storage");
        let mut space = Self::default();
        let mut end = 0u64;
        for number in 0..from.count(2)? {
            let (gap, blocks) = (from.varint()?, from.varint()?);
            let start = end.checked_add(gap).filter(|start| *start >= bounds.start).ok_or(wrong)?;
            let stop = start.checked_add(blocks).filter(|stop| *stop <= bounds.end()).ok_or(wrong)?;
            if blocks == 0 || (number > 0 && gap == 0) {
                return Err(Malformed("free extents touch"));
            }
            space.free.release(Extent { start, blocks });
            end = stop;
        }
        for _ in 0..from.count(4)? {
            let (start, blocks) = (from.varint()?, from.varint()?);
            let (birth, death) = (from.varint()?, from.varint()?);
            let inside = start >= bounds.start && start.checked_add(blocks).is_some_and(|end| end <= bounds.end());
            if blocks == 0 || !inside {
                return Err(wrong);
            }
            space.held.push(Held { extent: Extent { start, blocks }, birth, death });
        }
        Ok(space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pointer(start: u64, birth: u64) -> BlockPointer {
        let codec = crate::bytes::pointer::Codec::Plain;
        BlockPointer { start, stored_bytes: 4096, raw_bytes: 4096, codec, birth, checksum: 0 }
    }

    proptest! {
        /// What a checkpoint calls free is what is free, waits or is lent; what is used again is not discarded.
        #[test]
        fn space_comes_back(steps in prop::collection::vec((0u8..4, 1u64..9, any::<prop::sample::Index>()), 0..60)) {
            let bounds = Extent { start: 10, blocks: 100 };
            let mut space = Space::new(bounds);
            let mut taken: Vec<Extent> = Vec::new();
            for (kind, blocks, which) in steps {
                match kind {
                    0 => taken.extend(space.allocate(blocks).map(|start| Extent { start, blocks })),
                    1 => drop(space.lend(blocks)),
                    2 if !taken.is_empty() => space.release(taken.swap_remove(which.index(taken.len()))),
                    3 => {
                        let lent = space.lent().iter().next();
                        lent.into_iter().for_each(|extent| space.give_back(extent));
                    }
                    _ => {}
                }
                let used: u64 = taken.iter().map(|extent| extent.blocks).sum();
                prop_assert_eq!(space.free_blocks() + space.lent().blocks() + used, 100);
                let free: Vec<u64> = space.free_extents().flat_map(|extent| extent.start..extent.end()).collect();
                let undiscarded = space.clone().take_undiscarded();
                prop_assert!(undiscarded.iter().all(|one| (one.start..one.end()).all(|block| free.contains(&block))));
            }
            let mut bytes = Vec::new();
            space.encode(&mut bytes);
            let back = Space::decode(&mut Reader::new(&bytes), bounds).unwrap();
            prop_assert_eq!(back.free_blocks(), space.free_blocks() + space.lent().blocks());
            prop_assert!(taken.iter().all(|extent| !back.clone().lend_again(*extent)));
            prop_assert!(space.lent().iter().all(|extent| back.clone().lend_again(extent)));
        }

        #[test]
        fn any_bytes_are_space_or_an_error(bytes: Vec<u8>) {
            let _ = Space::decode(&mut Reader::new(&bytes), Extent { start: 10, blocks: 100 });
        }
    }

    #[test]
    fn a_snapshot_holds_what_it_refers_to() {
        let mut space = Space::default();
        space.retire(&pointer(1, 3), 7, 5, Some(4));
        space.retire(&pointer(2, 5), 7, 5, Some(4));
        assert_eq!((space.held().len(), space.waiting()), (1, 1));
        assert_eq!(space.settle(1, 6), 0, "an older view sees it");
        assert_eq!(space.settle(1, 7), 1);
        space.unhold(9, &[2]);
        assert_eq!(space.settle(9, 9), 1);
        assert_eq!(space.free_blocks(), 2);
    }
}
