//! Trees that share blocks: who may still refer to one that another has no use for any more.
//!
//! A clone begins with the root that its parent has in a checkpoint, and from then on each changes by itself. A block that
//! was there by that checkpoint is both's; it is free when the last of those who share it has given it up. Who they are follows
//! from the block's birth and from who was cloned when, so sharing costs nothing before something is given up.
//!
//! The clone of a range shares blocks of that range alone: which these are, any key in them tells. What lies across an end of
//! the range the clone has copied, and given up if its key is in the range.
//!
//! A range that was moved is a clone whose parent has none of that any more, without having given it up block by block.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::pointer::Freed;
use crate::bytes::range::{Key, KeyRange};
use crate::bytes::tree_id::TreeId;
use crate::bytes::wire::{Malformed, Reader, put_bytes, put_varint};
use crate::extents::Extent;
use crate::mutant::{Mutant, mutated};

/// Where a clone comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Origin {
    parent: TreeId,
    /// It shares what was born by this checkpoint.
    generation: u64,
    /// Of these keys; of all, if none are said.
    range: Option<KeyRange>,
    /// What it shares its parent has not any more.
    is_moved: bool,
}

impl Origin {
    /// Whether it shares a block with this key in it; one of which no key is known may be any.
    fn shares(&self, birth: u64, key: Option<&[u8]>) -> bool {
        let range = self.range.as_ref().filter(|_| !mutated(Mutant::CloneSharesBeyondRange));
        birth <= self.generation && range.zip(key).is_none_or(|(range, key)| range.contains(key))
    }
}

/// A block that some of those who shared it have given up.
#[derive(Clone, PartialEq, Eq, Debug)]
struct GivenUp {
    blocks: u64,
    birth: u64,
    /// A key in it, if there is one.
    key: Option<Key>,
    /// The tree that had it first.
    first: TreeId,
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

    /// The tree that had a block of a tree first.
    fn first(&self, tree: TreeId, birth: u64, key: Option<&[u8]>) -> TreeId {
        let mut first = tree;
        while let Some(origin) = self.origins.get(&first).filter(|origin| origin.shares(birth, key)) {
            first = origin.parent;
        }
        first
    }

    /// The trees that refer, or referred, to a block that one had first; one of which no key is known they may.
    fn sharers(&self, first: TreeId, birth: u64, key: Option<&[u8]>) -> BTreeSet<TreeId> {
        let mut sharers = BTreeSet::from([first]);
        // The moves that took it from somebody. One of which no key is known its tree may have still.
        let took = |origin: &&Origin| origin.is_moved && key.is_some() && origin.shares(birth, key);
        let moves: Vec<&Origin> = self.origins.values().filter(took).collect();
        // A clone has a higher number than its parent.
        for (clone, origin) in &self.origins {
            let took_before = |one: &&Origin| one.parent == origin.parent && one.generation < origin.generation;
            let moved_before = || moves.iter().any(took_before) && !mutated(Mutant::CloneSharesWhatWasMoved);
            if sharers.contains(&origin.parent) && origin.shares(birth, key) && !moved_before() {
                sharers.insert(*clone);
            }
        }
        let has_moved =
            |one: &TreeId| moves.iter().any(|origin| origin.parent == *one) && !mutated(Mutant::MovedCountsAsKept);
        sharers.retain(|one| !self.gone.contains(one) && !has_moved(one));
        sharers
    }

    /// A tree has no use for a block any more; whether nobody has.
    pub fn give_up(&mut self, tree: TreeId, freed: &Freed) -> bool {
        let alone = self.origins.is_empty() && self.given_up.is_empty();
        if alone || mutated(Mutant::SharedBlocksFreed) {
            return true;
        }
        let (extent, birth) = (Extent::of(&freed.pointer), freed.pointer.birth);
        let first = self.first(tree, birth, freed.key.as_deref());
        let sharers = self.sharers(first, birth, freed.key.as_deref());
        let entry = GivenUp { blocks: extent.blocks, birth, key: freed.key.clone(), first, by: BTreeSet::new() };
        let given_up = self.given_up.entry(extent.start).or_insert(entry);
        given_up.by.insert(tree);
        let by_all = sharers.is_subset(&given_up.by);
        if by_all {
            self.given_up.remove(&extent.start);
        }
        by_all
    }

    /// A clone of what a tree, or a range of it, was at the checkpoint of a generation.
    pub fn cloned(&mut self, parent: TreeId, clone: TreeId, generation: u64, range: Option<KeyRange>) {
        self.add(clone, Origin { parent, generation, range, is_moved: false });
    }

    /// The same, where the parent has nothing of the range any more.
    pub fn moved(&mut self, parent: TreeId, clone: TreeId, generation: u64, range: KeyRange) {
        self.add(clone, Origin { parent, generation, range: Some(range), is_moved: true });
    }

    fn add(&mut self, clone: TreeId, origin: Origin) {
        // It has nothing that its parent had given up.
        for given_up in self.given_up.values_mut().filter(|given_up| given_up.by.contains(&origin.parent)) {
            if origin.shares(given_up.birth, given_up.key.as_deref()) {
                given_up.by.insert(clone);
            }
        }
        self.origins.insert(clone, origin);
    }

    /// A tree is gone, and gave all its blocks up before. Gives the blocks, with their births, that nobody has any more.
    pub fn removed(&mut self, tree: TreeId) -> Vec<(Extent, u64)> {
        self.gone.insert(tree);
        let mut free = Vec::new();
        for (start, mut given_up) in std::mem::take(&mut self.given_up) {
            let sharers = self.sharers(given_up.first, given_up.birth, given_up.key.as_deref());
            if sharers.is_subset(&given_up.by) && !mutated(Mutant::LastSharerForgotten) {
                free.push((Extent { start, blocks: given_up.blocks }, given_up.birth));
            } else {
                // Of those who share it none may be left that gave it up: then it is as any of theirs, if they have it.
                given_up.by.retain(|one| !self.gone.contains(one));
                if !given_up.by.is_empty() || given_up.key.is_none() {
                    self.given_up.insert(start, given_up);
                }
            }
        }
        // Who has no clones is of no interest, and then perhaps its parent, or what was moved from that.
        let mut before = 0;
        while before != self.gone.len() {
            before = self.gone.len();
            for one in self.gone.iter().rev().copied().collect::<Vec<_>>() {
                if !self.is_of_interest(one) {
                    self.origins.remove(&one);
                    self.gone.remove(&one);
                }
            }
        }
        free
    }

    /// Whether who shares what with others hangs on a tree that is gone.
    fn is_of_interest(&self, gone: TreeId) -> bool {
        let has_clones = |tree: TreeId| self.origins.values().any(|origin| origin.parent == tree);
        let matters = |tree: TreeId| !self.gone.contains(&tree) || has_clones(tree);
        let Some(origin) = self.origins.get(&gone).filter(|origin| origin.is_moved && !has_clones(gone)) else {
            return has_clones(gone);
        };
        // What was moved from its parent others may have, who share it with that.
        let parent = origin.parent;
        let has_kin = !self.gone.contains(&parent) && self.origins.contains_key(&parent);
        has_kin || self.origins.iter().any(|(one, origin)| origin.parent == parent && *one != gone && matters(*one))
    }

    /// Given up by a tree, with no key in them: headers of nodes with nothing in them. The clone of a range is counted as having them, and
    /// where it has not they are free when it is removed.
    pub fn without_key(&self) -> impl Iterator<Item = Extent> {
        let without = self.given_up.iter().filter(|(_, given_up)| given_up.key.is_none());
        without.map(|(start, given_up)| Extent { start: *start, blocks: given_up.blocks })
    }

    pub fn encode(&self, to: &mut Vec<u8>) {
        put_varint(to, self.origins.len() as u64);
        for (clone, origin) in &self.origins {
            for number in [u64::from(clone.0), u64::from(origin.parent.0), origin.generation] {
                put_varint(to, number);
            }
            match &origin.range {
                None => to.push(0),
                Some(range) => {
                    to.push(1 + u8::from(range.end.is_some()) + 2 * u8::from(origin.is_moved));
                    [Some(&range.start), range.end.as_ref()].into_iter().flatten().for_each(|key| put_bytes(to, key));
                }
            }
        }
        encode_set(&self.gone, to);
        put_varint(to, self.given_up.len() as u64);
        for (start, given_up) in &self.given_up {
            for number in [*start, given_up.blocks, given_up.birth, u64::from(given_up.first.0)] {
                put_varint(to, number);
            }
            to.push(u8::from(given_up.key.is_some()));
            given_up.key.iter().for_each(|key| put_bytes(to, key));
            encode_set(&given_up.by, to);
        }
    }

    /// Only extents inside `bounds` are believed.
    pub fn decode(from: &mut Reader<'_>, bounds: Extent) -> Result<Self, Malformed> {
        let mut families = Self::default();
        for _ in 0..from.count(4)? {
            let (clone, parent, generation) = (tree_id(from)?, tree_id(from)?, from.varint()?);
            let kind = from.u8()?;
            let range = match kind {
                0 => None,
                1 | 3 => Some(KeyRange::new(from.bytes()?.into(), None)),
                2 | 4 => Some(KeyRange::new(from.bytes()?.into(), Some(from.bytes()?.into()))),
                _ => return Err(Malformed("a clone has no range")),
            };
            if clone <= parent {
                return Err(Malformed("a clone is older than its parent"));
            }
            families.origins.insert(clone, Origin { parent, generation, range, is_moved: kind > 2 });
        }
        families.gone = decode_set(from)?;
        for _ in 0..from.count(6)? {
            let (start, blocks, birth, first) = (from.varint()?, from.varint()?, from.varint()?, tree_id(from)?);
            let inside = start >= bounds.start && start.checked_add(blocks).is_some_and(|end| end <= bounds.end());
            if blocks == 0 || !inside {
                return Err(Malformed("a shared block is not in the storage"));
            }
            let key = if from.u8()? == 0 { None } else { Some(from.bytes()?.into()) };
            families.given_up.insert(start, GivenUp { blocks, birth, key, first, by: decode_set(from)? });
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

/// A block of a test: of `blocks` from `start` on, with a key in it.
#[cfg(test)]
fn block(start: u64, blocks: u32, birth: u64, key: &[u8]) -> Freed {
    let bytes = blocks * storage::BLOCK_BYTES as u32;
    let codec = crate::bytes::pointer::Codec::Plain;
    let pointer =
        crate::bytes::pointer::BlockPointer { start, stored_bytes: bytes, raw_bytes: bytes, codec, birth, checksum: 0 };
    Freed::new(pointer, Some(key))
}

/// What a clone may have by its birth and never had is free when the clone is removed.
#[cfg(test)]
pub(crate) fn never_had() -> Result<(), String> {
    let (tree, clone) = (TreeId(0), TreeId(1));
    let mut families = Families::default();
    families.cloned(tree, clone, 5, None);
    if families.give_up(tree, &block(7, 2, 5, b"k")) || !families.give_up(tree, &block(9, 1, 6, b"k")) {
        return Err("what was born by the checkpoint of a clone is shared, and nothing else".to_owned());
    }
    let free = families.removed(clone);
    if free == [(Extent { start: 7, blocks: 2 }, 5)] && families == Families::default() {
        Ok(())
    } else {
        Err(format!("{free:?} is free"))
    }
}

/// What is outside of the range that was cloned is its tree's alone.
#[cfg(test)]
pub(crate) fn of_a_range() -> Result<(), String> {
    let (tree, clone) = (TreeId(0), TreeId(1));
    let mut families = Families::default();
    families.cloned(tree, clone, 5, Some(KeyRange::new(b"b"[..].into(), Some(b"d"[..].into()))));
    let outside = [&b"a"[..], b"d", b"e"].map(|key| families.give_up(tree, &block(3, 1, 5, key)));
    let inside = [&b"b"[..], b"c"].map(|key| families.give_up(tree, &block(7 + u64::from(key[0]), 1, 5, key)));
    if (outside, inside) == ([true; 3], [false; 2]) { Ok(()) } else { Err(format!("{outside:?} and {inside:?}")) }
}

/// What was moved is the other's alone, and of those who had it before: who is cloned later has nothing of it.
#[cfg(test)]
pub(crate) fn of_moves() -> Result<(), String> {
    let (tree, before, other, after) = (TreeId(0), TreeId(1), TreeId(2), TreeId(3));
    let mut families = Families::default();
    families.cloned(tree, before, 3, None);
    families.moved(tree, other, 4, KeyRange::new(b"b"[..].into(), Some(b"d"[..].into())));
    families.cloned(tree, after, 5, None);
    let (shared, own) = (block(7, 1, 3, b"c"), block(8, 1, 4, b"c"));
    let free = [(before, &shared), (other, &shared), (other, &own)].map(|(one, block)| families.give_up(one, block));
    // Who is gone may be what says that its parent has nothing of it.
    families.removed(other);
    let kept = families.origins.contains_key(&other);
    families.removed(before);
    families.removed(after);
    match (free, kept, families == Families::default()) {
        ([false, true, true], true, true) => Ok(()),
        wrong => Err(format!("{wrong:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tree of the model: the blocks that it refers to, with their births and keys.
    type Tree = BTreeMap<u64, (u64, u8)>;

    /// One key in nine is in a block of which it is not said.
    fn told(at: u64, birth: u64, key: u8) -> Freed {
        let told = block(at, 1, birth, &[key]);
        if at.is_multiple_of(9) { Freed { key: None, ..told } } else { told }
    }

    proptest! {
        /// Against counting: a block is free when the last tree that refers to it gives it up, and not before.
        #[test]
        fn a_block_is_free_when_nobody_refers_to_it(steps in prop::collection::vec((0u8..10, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..80)) {
            let mut families = Families::default();
            let mut trees: BTreeMap<TreeId, Tree> = BTreeMap::from([(TreeId(0), Tree::new())]);
            let (mut next_tree, mut next_block, mut generation) = (1, 100, 1);
            let referred = |trees: &BTreeMap<TreeId, Tree>, block: u64| trees.values().any(|tree| tree.contains_key(&block));
            for (kind, which, other) in steps {
                let Some(tree) = (!trees.is_empty()).then(|| *trees.keys().nth(which.index(trees.len())).unwrap()) else { break };
                let own = trees.get_mut(&tree).unwrap();
                match kind {
                    0..3 => drop(own.insert(next_block, (generation, other.index(8) as u8))),
                    3..6 if !own.is_empty() => {
                        let (at, (birth, key)) = own.iter().nth(other.index(own.len())).map(|(a, b)| (*a, *b)).unwrap();
                        own.remove(&at);
                        let told = told(at, birth, key);
                        let free = families.give_up(tree, &told);
                        prop_assert!(!free || !referred(&trees, at), "block {} of tree {:?}", at, tree);
                        prop_assert!(free || told.key.is_none() || referred(&trees, at), "block {} of tree {:?}", at, tree);
                    }
                    6..9 => {
                        let (start, end) = (other.index(8) as u8, (other.index(8) + 1 + other.index(5)) as u8);
                        let range = (kind > 6).then(|| KeyRange::new([start].into(), (end < 9).then(|| [end].into())));
                        let has = |key: u8| range.as_ref().is_none_or(|range| range.contains(&[key]));
                        let copy = own.iter().filter(|(_, (_, key))| has(*key)).map(|(at, what)| (*at, *what)).collect();
                        match range.clone().filter(|_| kind == 8) {
                            Some(range) => {
                                own.retain(|_, (_, key)| !range.contains(&[*key]));
                                families.moved(tree, TreeId(next_tree), generation, range);
                            }
                            None => families.cloned(tree, TreeId(next_tree), generation, range),
                        }
                        trees.insert(TreeId(next_tree), copy);
                        next_tree += 1;
                        generation += 1;
                    }
                    9 => {
                        let own = trees.remove(&tree).unwrap();
                        for (at, (birth, key)) in own {
                            let told = told(at, birth, key);
                            let free = families.give_up(tree, &told);
                            prop_assert!(!free || !referred(&trees, at));
                            prop_assert!(free || told.key.is_none() || referred(&trees, at));
                        }
                        for (extent, _) in families.removed(tree) {
                            // Each was given up by all that had it; only who might have one without a key is known now.
                            prop_assert!(extent.start.is_multiple_of(9) && !referred(&trees, extent.start));
                        }
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
                for (at, (birth, key)) in own {
                    families.give_up(tree, &told(at, birth, key));
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

    #[test]
    fn what_is_outside_of_a_range_is_not_shared() {
        of_a_range().unwrap();
    }
}
