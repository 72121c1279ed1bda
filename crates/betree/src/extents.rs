//! A set of storage blocks, as extents.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::pointer::BlockPointer;

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

/// Extents that neither overlap nor touch, found by place and by length.
#[derive(Clone, Default, Debug)]
pub(crate) struct Extents {
    by_start: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    blocks: u64,
}

impl Extents {
    /// Blocks of all extents.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// How many extents.
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> {
        self.by_start.iter().map(|(start, blocks)| Extent { start: *start, blocks: *blocks })
    }

    /// Those that share a block with `extent`.
    pub fn overlapping(&self, extent: Extent) -> impl Iterator<Item = Extent> {
        let first = self.by_start.range(..=extent.start).next_back().map_or(extent.start, |(start, _)| *start);
        let near =
            self.by_start.range(first..extent.end()).map(|(start, blocks)| Extent { start: *start, blocks: *blocks });
        near.filter(move |one| one.end() > extent.start)
    }

    fn add(&mut self, extent: Extent) {
        self.by_start.insert(extent.start, extent.blocks);
        self.by_length.insert((extent.blocks, extent.start));
    }

    fn drop(&mut self, extent: Extent) {
        self.by_start.remove(&extent.start);
        self.by_length.remove(&(extent.blocks, extent.start));
    }

    /// Takes `blocks` side by side: the beginning of the shortest extent that has them.
    pub fn allocate(&mut self, blocks: u64) -> Option<u64> {
        assert!(blocks > 0, "an extent has blocks");
        let (length, start) = *self.by_length.range((blocks, 0)..).next()?;
        self.drop(Extent { start, blocks: length });
        if length > blocks {
            self.add(Extent { start: start + blocks, blocks: length - blocks });
        }
        self.blocks -= blocks;
        Some(start)
    }

    /// Takes the longest extent, or `blocks` of it.
    pub fn allocate_longest(&mut self, blocks: u64) -> Option<Extent> {
        let longest = self.by_length.last()?.0.min(blocks);
        let start = if longest > 0 { self.allocate(longest) } else { None };
        start.map(|start| Extent { start, blocks: longest })
    }

    /// Takes these very blocks; whether all of them were there.
    pub fn take(&mut self, extent: Extent) -> bool {
        let around = self.by_start.range(..=extent.start).next_back();
        let Some(around) = around.map(|(start, blocks)| Extent { start: *start, blocks: *blocks }) else {
            return false;
        };
        if extent.blocks == 0 || extent.end() > around.end() {
            return false;
        }
        self.drop(around);
        if around.start < extent.start {
            self.add(Extent { start: around.start, blocks: extent.start - around.start });
        }
        if extent.end() < around.end() {
            self.add(Extent { start: extent.end(), blocks: around.end() - extent.end() });
        }
        self.blocks -= extent.blocks;
        true
    }

    /// Puts an extent in, none of which may be there.
    pub fn release(&mut self, extent: Extent) {
        assert!(extent.blocks > 0, "an extent has blocks");
        let mut merged = extent;
        if let Some((start, blocks)) = self.by_start.range(..extent.start).next_back().map(|(s, b)| (*s, *b)) {
            assert!(start + blocks <= extent.start, "freed twice: {extent:?}");
            if start + blocks == extent.start {
                self.drop(Extent { start, blocks });
                merged = Extent { start, blocks: blocks + merged.blocks };
            }
        }
        if let Some((start, blocks)) = self.by_start.range(extent.start..).next().map(|(s, b)| (*s, *b)) {
            assert!(extent.end() <= start, "freed twice: {extent:?}");
            if start == extent.end() {
                self.drop(Extent { start, blocks });
                merged.blocks += blocks;
            }
        }
        self.add(merged);
        self.blocks += extent.blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Allocate(u64),
        Longest(u64),
        Take(u64, u64),
        Release(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            2 => (1u64..9).prop_map(Step::Allocate),
            1 => (1u64..30).prop_map(Step::Longest),
            1 => (5u64..115, 0u64..9).prop_map(|(start, blocks)| Step::Take(start, blocks)),
            3 => any::<prop::sample::Index>().prop_map(Step::Release),
        ]
    }

    proptest! {
        /// Against one flag a block.
        #[test]
        fn extents_are_a_set_of_blocks(steps in prop::collection::vec(step(), 0..80)) {
            let mut extents = Extents::default();
            extents.release(Extent { start: 10, blocks: 100 });
            let mut free = [false; 120];
            free[10..110].fill(true);
            let mut taken: Vec<Extent> = Vec::new();
            for step in steps {
                let longest = extents.iter().map(|extent| extent.blocks).max().unwrap_or(0);
                let got = match step {
                    Step::Allocate(blocks) => {
                        let start = extents.allocate(blocks);
                        prop_assert_eq!(start.is_some(), longest >= blocks);
                        start.map(|start| Extent { start, blocks })
                    }
                    Step::Longest(blocks) => {
                        let got = extents.allocate_longest(blocks);
                        prop_assert_eq!(got.map_or(0, |extent| extent.blocks), longest.min(blocks));
                        got
                    }
                    Step::Take(start, blocks) => {
                        let extent = Extent { start, blocks };
                        let there = blocks > 0 && (start..start + blocks).all(|at| free.get(at as usize) == Some(&true));
                        prop_assert_eq!(extents.take(extent), there);
                        there.then_some(extent)
                    }
                    Step::Release(which) => {
                        if !taken.is_empty() {
                            let extent = taken.swap_remove(which.index(taken.len()));
                            free[extent.start as usize..extent.end() as usize].fill(true);
                            extents.release(extent);
                        }
                        None
                    }
                };
                if let Some(extent) = got {
                    let place = &mut free[extent.start as usize..extent.end() as usize];
                    prop_assert!(place.iter().all(|free| *free));
                    place.fill(false);
                    taken.push(extent);
                }
                let found: Vec<u64> = extents.iter().flat_map(|extent| extent.start..extent.end()).collect();
                let expected: Vec<u64> = (0..120).filter(|at| free[*at as usize]).collect();
                prop_assert_eq!(extents.blocks(), expected.len() as u64);
                prop_assert_eq!(found, expected);
                let ends: Vec<Extent> = extents.iter().collect();
                prop_assert!(ends.windows(2).all(|pair| pair[0].end() < pair[1].start), "they do not touch");
            }
        }
    }
}
