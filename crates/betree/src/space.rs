//! Which blocks of the storage are free.
//!
//! A freed block is not free at once: the last checkpoint, a reader or a snapshot may still need it. It waits until the
//! checkpoint after its release is durable and no older view of the tree is alive; a block that a snapshot refers to is
//! held until that snapshot is removed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::pointer::BlockPointer;
use crate::wire::{Malformed, Reader, put_varint};

/// Some blocks side by side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Extent {
    pub start: u64,
    pub blocks: u64,
}

impl Extent {
    pub fn end(self) -> u64 {
        self.start + self.blocks
    }

    pub fn of(pointer: &BlockPointer) -> Self {
        Self { start: pointer.start, blocks: pointer.blocks() }
    }
}

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
    free: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    free_blocks: u64,
    /// With the version of the tree that is the first without it.
    waiting: VecDeque<(u64, Extent)>,
    waiting_blocks: u64,
    held: Vec<Held>,
}

impl Space {
    /// All of `extent` is free.
    pub fn new(extent: Extent) -> Self {
        let mut space = Self::default();
        space.release(extent);
        space
    }

    pub fn free_blocks(&self) -> u64 {
        self.free_blocks
    }

    pub fn waiting_blocks(&self) -> u64 {
        self.waiting_blocks
    }

    pub fn held(&self) -> &[Held] {
        &self.held
    }

    pub fn free_extents(&self) -> impl Iterator<Item = Extent> {
        self.free.iter().map(|(start, blocks)| Extent { start: *start, blocks: *blocks })
    }

    /// Extents that wait to be free.
    pub fn waiting_extents(&self) -> impl Iterator<Item = Extent> {
        self.waiting.iter().map(|(_, extent)| *extent)
    }

    fn add(&mut self, extent: Extent) {
        self.free.insert(extent.start, extent.blocks);
        self.by_length.insert((extent.blocks, extent.start));
    }

    fn take(&mut self, extent: Extent) {
        self.free.remove(&extent.start);
        self.by_length.remove(&(extent.blocks, extent.start));
    }

    /// `blocks` side by side: the start of the shortest extent that has them.
    pub fn allocate(&mut self, blocks: u64) -> Option<u64> {
        assert!(blocks > 0, "an extent has blocks");
        let (length, start) = *self.by_length.range((blocks, 0)..).next()?;
        self.take(Extent { start, blocks: length });
        if length > blocks {
            self.add(Extent { start: start + blocks, blocks: length - blocks });
        }
        self.free_blocks -= blocks;
        Some(start)
    }

    /// Makes an extent free, now.
    pub fn release(&mut self, extent: Extent) {
        assert!(extent.blocks > 0, "an extent has blocks");
        let mut merged = extent;
        if let Some((start, blocks)) = self.free.range(..extent.start).next_back().map(|(s, b)| (*s, *b)) {
            assert!(start + blocks <= extent.start, "freed twice: {extent:?}");
            if start + blocks == extent.start {
                self.take(Extent { start, blocks });
                merged = Extent { start, blocks: blocks + merged.blocks };
            }
        }
        if let Some((start, blocks)) = self.free.range(extent.start..).next().map(|(s, b)| (*s, *b)) {
            assert!(extent.end() <= start, "freed twice: {extent:?}");
            if start == extent.end() {
                self.take(Extent { start, blocks });
                merged.blocks += blocks;
            }
        }
        self.add(merged);
        self.free_blocks += extent.blocks;
    }

    /// The tree has no use for a block from `version` on; `newest_snapshot` is the generation of the newest snapshot.
    pub fn retire(&mut self, pointer: &BlockPointer, version: u64, generation: u64, newest_snapshot: Option<u64>) {
        let extent = Extent::of(pointer);
        if newest_snapshot.is_some_and(|snapshot| pointer.birth <= snapshot) {
            self.held.push(Held { extent, birth: pointer.birth, death: generation });
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

    /// For the catalog of the checkpoint that is being made: what waits now is free once that checkpoint is read back.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let mut free = self.clone();
        for extent in self.waiting_extents() {
            free.release(extent);
        }
        put_varint(to, free.free.len() as u64);
        let mut end = 0;
        for (start, blocks) in &free.free {
            put_varint(to, start - end);
            put_varint(to, *blocks);
            end = start + blocks;
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
            space.add(Extent { start, blocks });
            space.free_blocks += blocks;
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

    proptest! {
        /// Against one flag a block.
        #[test]
        fn free_space_is_a_set_of_blocks(steps in prop::collection::vec((any::<bool>(), 1u64..9, any::<prop::sample::Index>()), 0..80)) {
            let bounds = Extent { start: 10, blocks: 100 };
            let mut space = Space::new(bounds);
            let mut taken: Vec<Extent> = Vec::new();
            for (allocate, blocks, which) in steps {
                if allocate {
                    match space.allocate(blocks) {
                        Some(start) => {
                            let extent = Extent { start, blocks };
                            prop_assert!(start >= 10 && extent.end() <= 110);
                            prop_assert!(taken.iter().all(|other| other.end() <= start || extent.end() <= other.start));
                            taken.push(extent);
                        }
                        None => prop_assert!(space.free_extents().all(|extent| extent.blocks < blocks)),
                    }
                } else if !taken.is_empty() {
                    space.release(taken.swap_remove(which.index(taken.len())));
                }
                prop_assert_eq!(space.free_blocks(), 100 - taken.iter().map(|extent| extent.blocks).sum::<u64>());
                prop_assert_eq!(space.free_blocks(), space.free_extents().map(|extent| extent.blocks).sum::<u64>());
            }
            let mut bytes = Vec::new();
            space.encode(&mut bytes);
            let back = Space::decode(&mut Reader::new(&bytes), bounds).unwrap();
            prop_assert!(back.free_extents().eq(space.free_extents()));
        }

        #[test]
        fn any_bytes_are_space_or_an_error(bytes: Vec<u8>) {
            let _ = Space::decode(&mut Reader::new(&bytes), Extent { start: 10, blocks: 100 });
        }
    }

    #[test]
    fn a_snapshot_holds_what_it_refers_to() {
        let pointer = |start, birth| BlockPointer {
            start,
            stored_bytes: 4096,
            raw_bytes: 4096,
            codec: crate::pointer::Codec::Plain,
            birth,
            checksum: 0,
        };
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
