//! Trees that share blocks: who may still refer to one that another has no use for any more.
//!
//! A clone begins with the root that its parent has in a checkpoint, and from then on each changes by itself. A block that
//! was there by that checkpoint is both's; it is free when the last of those who share it has given it up. Who they are follows
//! from the block's birth and from who was cloned when, so sharing costs nothing before something is given up.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::tree_id::TreeId;
use crate::bytes::wire::{Malformed, Reader, put_varint};
use crate::extents::Extent;
use crate::mutant::{Mutant, mutated};

/// Where a clone comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Origin {
    parent: TreeId,
    /// Of the checkpoint that made it: it shares what was born by then.
    generation: u64,
}

/// A block that some of those who shared it have given up.
#[derive(Clone, PartialEq, Eq, Debug)]
struct GivenUp {
    blocks: u64,
    birth: u64,
    by: BTreeSet<TreeId>,
}

/// Who shares what.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Families {
    origins: BTreeMap<TreeId, Origin>,
    /// Trees that were removed and have clones.
    gone: BTreeSet<TreeId>,
    /// By first block.
    given_up: BTreeMap<u64, GivenUp>,
}

impl Families {
    /// The highest number of a tree that is named.
    pub fn highest(&self) -> Option<TreeId> {
        self.origins.keys().chain(&self.gone).copied().max()
    }

    /// The trees that refer, or referred, to a block of a tree.
    fn sharers(&self, tree: TreeId, birth: u64) -> BTreeSet<TreeId> {
        let mut first = tree;
        while let Some(origin) = self.origins.get(&first).filter(|origin| birth <= origin.generation) {
            first = origin.parent;
        }
        let mut sharers = BTreeSet::from([first]);
        // A clone has a higher number than its parent.
        for (clone, origin) in &self.origins {
            if birth <= origin.generation && sharers.contains(&origin.parent) {
                sharers.insert(*clone);
            }
        }
        sharers.retain(|one| !self.gone.contains(one));
        sharers
    }

    /// A tree has no use for a block any more; whether nobody has.
    pub fn give_up(&mut self, tree: TreeId, extent: Extent, birth: u64) -> bool {
        let alone = self.origins.is_empty() && self.given_up.is_empty();
        if alone || mutated(Mutant::SharedBlocksFreed) {
            return true;
        }
        let sharers = self.sharers(tree, birth);
        let entry = GivenUp { blocks: extent.blocks, birth, by: BTreeSet::new() };
        let given_up = self.given_up.entry(extent.start).or_insert(entry);
        given_up.by.insert(tree);
        let by_all = sharers.is_subset(&given_up.by);
        if by_all {
            self.given_up.remove(&extent.start);
        }
        by_all
    }

    /// A clone was made by the checkpoint of a generation.
    pub fn cloned(&mut self, parent: TreeId, clone: TreeId, generation: u64) {
        self.origins.insert(clone, Origin { parent, generation });
        // It has nothing that its parent had given up.
        for given_up in self.given_up.values_mut().filter(|given_up| given_up.by.contains(&parent)) {
            given_up.by.insert(clone);
        }
    }

    /// A tree is gone, and gave all its blocks up before. Gives the blocks, with their births, that nobody has any more.
    pub fn removed(&mut self, tree: TreeId) -> Vec<(Extent, u64)> {
        self.gone.insert(tree);
        let mut free = Vec::new();
        for (start, mut given_up) in std::mem::take(&mut self.given_up) {
            let sharers = given_up.by.first().map(|one| self.sharers(*one, given_up.birth)).unwrap_or_default();
            if sharers.is_subset(&given_up.by) && !mutated(Mutant::LastSharerForgotten) {
                free.push((Extent { start, blocks: given_up.blocks }, given_up.birth));
            } else {
                // Of those who share it none may be left that gave it up: then it is as any of theirs.
                given_up.by.retain(|one| !self.gone.contains(one));
                if !given_up.by.is_empty() {
                    self.given_up.insert(start, given_up);
                }
            }
        }
        // Who has no clones is of no interest, and then perhaps its parent; clones have higher numbers.
        for one in self.gone.iter().rev().copied().collect::<Vec<_>>() {
            if !self.origins.values().any(|origin| origin.parent == one) {
                self.origins.remove(&one);
                self.gone.remove(&one);
            }
        }
        free
    }

    pub fn encode(&self, to: &mut Vec<u8>) {
        put_varint(to, self.origins.len() as u64);
        for (clone, origin) in &self.origins {
            for number in [u64::from(clone.0), u64::from(origin.parent.0), origin.generation] {
                put_varint(to, number);
            }
        }
        encode_set(&self.gone, to);
        put_varint(to, self.given_up.len() as u64);
        for (start, given_up) in &self.given_up {
            for number in [*start, given_up.blocks, given_up.birth] {
                put_varint(to, number);
            }
            encode_set(&given_up.by, to);
        }
    }

    /// Only extents inside `bounds` are believed.
    pub fn decode(from: &mut Reader<'_>, bounds: Extent) -> Result<Self, Malformed> {
        let mut families = Self::default();
        for _ in 0..from.count(3)? {
            let (clone, parent, generation) = (tree_id(from)?, tree_id(from)?, from.varint()?);
            if clone <= parent {
                return Err(Malformed("a clone is older than its parent"));
            }
            families.origins.insert(clone, Origin { parent, generation });
        }
        families.gone = decode_set(from)?;
        for _ in 0..from.count(4)? {
            let (start, blocks, birth) = (from.varint()?, from.varint()?, from.varint()?);
            let inside = start >= bounds.start && start.checked_add(blocks).is_some_and(|end| end <= bounds.end());
            if blocks == 0 || !inside {
                return Err(Malformed("a shared block is not in the storage"));
            }
            families.given_up.insert(start, GivenUp { blocks, birth, by: decode_set(from)? });
        }
        Ok(families)
    }
}

fn encode_set(set: &BTreeSet<TreeId>, to: &mut Vec<u8>) {
    put_varint(to, set.len() as u64);
    set.iter().for_each(|tree| put_varint(to, u64::from(tree.0)));
}

fn decode_set(from: &mut Reader<'_>) -> Result<BTreeSet<TreeId>, Malformed> {
    (0..from.count(1)?).map(|_| tree_id(from)).collect()
}

fn tree_id(from: &mut Reader<'_>) -> Result<TreeId, Malformed> {
    u32::try_from(from.varint()?).map(TreeId).map_err(|_| Malformed("a tree has no number"))
}

/// What a clone may have by its birth and never had is free when the clone is removed.
#[cfg(test)]
pub(crate) fn never_had() -> Result<(), String> {
    let (tree, clone, extent) = (TreeId(0), TreeId(1), Extent { start: 7, blocks: 2 });
    let mut families = Families::default();
    families.cloned(tree, clone, 5);
    if families.give_up(tree, extent, 5) || !families.give_up(tree, Extent { start: 9, blocks: 1 }, 6) {
        return Err("what was born by the checkpoint of a clone is shared, and nothing else".to_owned());
    }
    let free = families.removed(clone);
    if free == [(extent, 5)] && families == Families::default() { Ok(()) } else { Err(format!("{free:?} is free")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tree of the model: the blocks that it refers to, with their births.
    type Tree = BTreeMap<u64, u64>;

    proptest! {
        /// Against counting: a block is free when the last tree that refers to it gives it up, and not before.
        #[test]
        fn a_block_is_free_when_nobody_refers_to_it(steps in prop::collection::vec((0u8..8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..80)) {
            let mut families = Families::default();
            let mut trees: BTreeMap<TreeId, Tree> = BTreeMap::from([(TreeId(0), Tree::new())]);
            let (mut next_tree, mut next_block, mut generation) = (1, 100, 1);
            let referred = |trees: &BTreeMap<TreeId, Tree>, block: u64| trees.values().any(|tree| tree.contains_key(&block));
            for (kind, which, other) in steps {
                let Some(tree) = (!trees.is_empty()).then(|| *trees.keys().nth(which.index(trees.len())).unwrap()) else { break };
                let own = trees.get_mut(&tree).unwrap();
                match kind {
                    0..3 => drop(own.insert(next_block, generation)),
                    3..6 if !own.is_empty() => {
                        let (block, birth) = own.iter().nth(other.index(own.len())).map(|(a, b)| (*a, *b)).unwrap();
                        own.remove(&block);
                        let free = families.give_up(tree, Extent { start: block, blocks: 1 }, birth);
                        prop_assert_eq!(free, !referred(&trees, block), "block {} of tree {:?}", block, tree);
                    }
                    6 => {
                        let copy = own.clone();
                        families.cloned(tree, TreeId(next_tree), generation);
                        trees.insert(TreeId(next_tree), copy);
                        next_tree += 1;
                        generation += 1;
                    }
                    7 => {
                        let own = trees.remove(&tree).unwrap();
                        for (block, birth) in own {
                            let free = families.give_up(tree, Extent { start: block, blocks: 1 }, birth);
                            prop_assert_eq!(free, !referred(&trees, block));
                        }
                        prop_assert!(families.removed(tree).is_empty(), "each was given up by all that had it");
                    }
                    _ => {}
                }
                next_block += 1;
                let mut bytes = Vec::new();
                families.encode(&mut bytes);
                let back = Families::decode(&mut Reader::new(&bytes), Extent { start: 0, blocks: 1 << 20 }).unwrap();
                prop_assert_eq!(&back, &families);
            }
            for (tree, own) in std::mem::take(&mut trees) {
                for (block, birth) in own {
                    families.give_up(tree, Extent { start: block, blocks: 1 }, birth);
                }
                families.removed(tree);
            }
            prop_assert_eq!(families, Families::default());
        }

        #[test]
        fn any_bytes_are_families_or_an_error(bytes: Vec<u8>) {
            let _ = Families::decode(&mut Reader::new(&bytes), Extent { start: 0, blocks: 100 });
        }
    }

    #[test]
    fn what_a_clone_never_had_is_free_without_it() {
        never_had().unwrap();
    }
}
