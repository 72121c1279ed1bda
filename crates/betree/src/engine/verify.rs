//! Every rule of the format, checked on what the last checkpoint left.

use std::collections::BTreeMap;

use super::version::Trees;
use super::{Engine, locked};
use crate::bytes::block::Block;
use crate::bytes::filter::KeyHash;
use crate::bytes::message::Message;
use crate::bytes::pages::Pages;
use crate::bytes::pointer::{BlockPointer, Codec};
use crate::bytes::range::KeyRange;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::extents::Extent;
use crate::io::BlockIo;
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Child, Edge, Node};
use crate::nodes::run::{Part, Run, Tally};
use crate::space::Space;
use crate::superblock::Superblock;

/// A damaged store has many findings that are the same one.
const FINDINGS_MAX: usize = 100;

/// What is wrong.
#[derive(Default)]
pub(crate) struct Findings {
    pub list: Vec<String>,
}

impl Findings {
    pub(super) fn add(&mut self, what: String) {
        if self.list.len() < FINDINGS_MAX {
            self.list.push(what);
        }
    }

    /// Damage is a finding; anything else is an error.
    pub(super) fn damage<T>(&mut self, whose: &str, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ Error::Corrupt { .. }) => {
                self.add(format!("{whose}: {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

struct Walk<'a> {
    io: &'a BlockIo,
    findings: Findings,
    /// Blocks by start, each once however many trees share it.
    used: BTreeMap<u64, BlockPointer>,
}

impl Walk<'_> {
    /// Notes a block; whether it is seen for the first time.
    fn visit(&mut self, pointer: &BlockPointer, whose: &str) -> bool {
        match self.used.insert(pointer.start, *pointer) {
            None => true,
            Some(before) => {
                if before != *pointer {
                    self.findings.add(format!("{whose}: two blocks at storage block {}", pointer.start));
                }
                false
            }
        }
    }

    /// Checks a run; `leaf` runs have only values.
    fn run(&mut self, run: &Run, bounds: &KeyRange, leaf: bool, whose: &str) -> Result<()> {
        for range in run.tombstones.iter().filter(|range| !bounds.covers(range)) {
            self.findings.add(format!("{whose}: a range {range:?} outside of {bounds:?}"));
        }
        for (index, entry) in run.blocks.iter().enumerate() {
            let Part::Stored(pointer) = &entry.part else { continue };
            if !self.visit(pointer, whose) {
                continue;
            }
            let read = self.io.read_raw(pointer).and_then(|raw| {
                Block::parse(raw).map_err(|error| Error::Corrupt {
                    what: error.to_string(),
                    offset_bytes: pointer.offset_bytes(),
                    stored_bytes: u64::from(pointer.stored_bytes),
                })
            });
            let Some(block) = self.findings.damage(whose, read)? else { continue };
            let pages = match pointer.codec {
                Codec::Plain => Pages::of(&block).sealed(block.raw()),
                _ => Pages::default(),
            };
            if pages != *entry.pages {
                self.findings.add(format!("{whose}: a block has other pages than its header says"));
            }
            let next = run.blocks.get(index + 1).map(|next| &next.first_key);
            let mut tally = Tally::default();
            for at in 0..block.len() {
                let key = block.key(at);
                if !bounds.contains(key) || next.is_some_and(|next| **next <= *key) {
                    self.findings.add(format!("{whose}: key {key:?} outside of its node or block"));
                }
                if !entry.filter.admits(KeyHash::of(key)) {
                    self.findings.add(format!("{whose}: a block's filter does not admit its key {key:?}"));
                }
                let message = block.message(at);
                tally.add(&message);
                if let Some(place) = message.place()
                    && self.visit(&place, whose)
                {
                    let read = self.io.read_raw(&place);
                    self.findings.damage(&format!("{whose}, the value of {key:?}"), read)?;
                }
                if leaf && !matches!(message, Message::Insert(_) | Message::Place(_)) {
                    self.findings.add(format!("{whose}: a leaf has a message for key {key:?}"));
                }
            }
            if tally != entry.tally {
                self.findings.add(format!("{whose}: a block has {tally:?} and counts as {:?}", entry.tally));
            }
            if *block.key(0) != *entry.first_key {
                self.findings.add(format!(
                    "{whose}: a block begins with {:?}, not {:?}",
                    block.key(0),
                    entry.first_key
                ));
            }
        }
        Ok(())
    }

    /// Checks a tree; returns the newest message in it.
    fn tree(&mut self, pointer: &BlockPointer, bounds: &KeyRange, height: Option<u8>, whose: &str) -> Result<u64> {
        let first = self.visit(pointer, whose);
        let read = self.io.read_raw(pointer).and_then(|raw| {
            Node::decode(&raw).map_err(|error| Error::Corrupt {
                what: error.to_string(),
                offset_bytes: pointer.offset_bytes(),
                stored_bytes: u64::from(pointer.stored_bytes),
            })
        });
        let Some(node) = self.findings.damage(whose, read)? else { return Ok(0) };
        if height.is_some_and(|height| height != node.height()) {
            self.findings.add(format!("{whose}: a node of height {} where {height:?} belongs", node.height()));
            return Ok(0);
        }
        let internal = match &node {
            Node::Leaf(leaf) => {
                if first {
                    self.run(leaf, bounds, true, whose)?;
                }
                return Ok(leaf.last_msn);
            }
            Node::Internal(internal) => internal,
        };
        for pivot in internal.pivots.iter().filter(|pivot| !bounds.contains(pivot) || ***pivot == *bounds.start) {
            self.findings.add(format!("{whose}: pivot {pivot:?} outside of {bounds:?}"));
        }
        let mut newest = 0;
        for (index, child) in internal.children.iter().enumerate() {
            let range = internal.range_of(index, bounds);
            let Edge::Stored(below) = &child.edge else { continue };
            let mut last_msn = self.tree(below, &range, Some(node.height() - 1), whose)?;
            for run in child.runs.iter().rev() {
                if run.first_msn <= last_msn {
                    self.findings.add(format!(
                        "{whose}: messages {} to {} wait above message {last_msn}",
                        run.first_msn, run.last_msn
                    ));
                }
                last_msn = last_msn.max(run.last_msn);
                self.run(run, &range, false, whose)?;
            }
            newest = newest.max(last_msn);
        }
        Ok(newest)
    }
}

/// Bytes that a checkpoint would write for a tree, at most: fresh blocks and the headers of fresh nodes.
fn fresh_bytes(edge: &Edge) -> u64 {
    let Edge::Fresh(node) = edge else { return 0 };
    let run = |run: &Run| run.blocks.iter().map(|block| block.part.fresh_bytes()).sum::<u64>();
    let below: u64 = match &**node {
        Node::Leaf(leaf) => run(leaf),
        Node::Internal(internal) => {
            let runs = |child: &Child| child.runs.iter().map(|one| run(one)).sum::<u64>();
            internal.children.iter().map(|child| runs(child) + fresh_bytes(&child.edge)).sum()
        }
    };
    node.header_bytes() + below
}

/// Checks a checkpoint: everything that its superblock leads to.
pub(super) fn check(io: &BlockIo, superblock: &Superblock, catalog: &Catalog, space: &Space) -> Result<Findings> {
    let findings = check_head(io, superblock)?;
    check_trees(io, findings, superblock, catalog, space)
}

/// Checks the superblock and the catalog's block, which nobody keeps for a reader.
fn check_head(io: &BlockIo, superblock: &Superblock) -> Result<Findings> {
    let mut findings = Findings::default();
    let (read, damaged) = Superblock::read(io)?;
    if damaged > 0 {
        findings.add(format!("superblock: {damaged} of its 2 copies are damaged"));
    }
    if read != *superblock {
        findings.add("superblock: another one than this program wrote".to_owned());
    }
    let read = io.read_raw(&superblock.catalog);
    findings.damage("catalog", read)?;
    Ok(findings)
}

/// Checks all trees and snapshots of a checkpoint, and that every block belongs to somebody.
fn check_trees(
    io: &BlockIo,
    findings: Findings,
    superblock: &Superblock,
    catalog: &Catalog,
    space: &Space,
) -> Result<Findings> {
    let mut walk = Walk { io, findings, used: BTreeMap::new() };
    let all = KeyRange::all();
    for tree in catalog.trees.values() {
        if let Some(root) = &tree.root {
            let newest = walk.tree(root, &all, None, &format!("tree {:?}", tree.name))?;
            if newest > superblock.last_msn {
                walk.findings.add(format!("tree {:?}: message {newest} is newer than the checkpoint", tree.name));
            }
        }
    }
    for (name, snapshot) in &catalog.snapshots {
        for tree in snapshot.trees.values() {
            if let Some(root) = &tree.root {
                walk.tree(root, &all, None, &format!("snapshot {name:?}, tree {:?}", tree.name))?;
            }
        }
    }
    walk.visit(&superblock.catalog, "catalog");

    // Every block of the storage is used by the checkpoint, free, about to be free, or held by a snapshot.
    let mut places: Vec<(Extent, &str)> = walk.used.values().map(|pointer| (Extent::of(pointer), "used")).collect();
    places.extend(space.free_extents().map(|extent| (extent, "free")));
    let seen = |extent: &Extent| walk.used.contains_key(&extent.start);
    places.extend(space.waiting_extents().filter(|one| !seen(one)).map(|extent| (extent, "waiting")));
    // What a batch brought and a later one took away before a checkpoint had it is lent as well.
    let mut lent = space.lent().clone();
    for extent in space.waiting_extents().chain(space.held().iter().map(|held| held.extent)) {
        lent.take(extent);
    }
    places.extend(lent.iter().map(|extent| (extent, "lent")));
    places.extend(catalog.families.without_key().filter(|one| !seen(one)).map(|extent| (extent, "given up")));
    let held = space.held().iter().map(|held| held.extent);
    places.extend(held.filter(|one| !seen(one)).map(|extent| (extent, "held")));
    places.sort();
    let data = superblock.data();
    let mut end = data.start;
    for (extent, what) in places {
        if extent.start < end {
            walk.findings.add(format!("storage block {} is {what} and something else", extent.start));
        } else if extent.start > end {
            walk.findings.add(format!("storage blocks {end} to {} belong to nobody", extent.start - 1));
        }
        end = end.max(extent.end());
    }
    if end != data.end() {
        walk.findings.add(format!("storage blocks {end} to {} belong to nobody", data.end() - 1));
    }
    Ok(walk.findings)
}

impl Engine {
    /// Checks everything that the last checkpoint refers to, and what is counted for the next one. All else goes on meanwhile.
    pub fn verify(&self) -> Result<Findings> {
        let state = self.hold_trees();
        let mut findings = check_head(&self.io, &state.superblock)?;
        // No tree is made meanwhile.
        let commit = locked(&self.commit);
        let fresh: u64 = self.view().version.trees.values().map(|tree| fresh_bytes(&tree.root)).sum();
        let counted = self.fresh_bytes();
        drop(commit);
        if fresh != counted {
            findings.add(format!("memory: {counted} bytes are counted for the next checkpoint, and there are {fresh}"));
        }
        let (superblock, catalog, space) = (state.superblock.clone(), state.catalog.clone(), state.space.clone());
        let kept = self.versions.detached_as_of(state.checkpointed_in, Trees::default());
        drop(state);
        let kept = (!mutated(Mutant::VerifyKeepsNothing)).then_some(kept);
        let findings = check_trees(&self.io, findings, &superblock, &catalog, &space);
        drop(kept);
        findings
    }
}

#[cfg(test)]
impl Engine {
    /// Start and stored bytes of every block that the last checkpoint refers to.
    pub(crate) fn reachable_blocks(&self) -> Vec<(u64, u64)> {
        let state = self.hold_trees();
        let mut walk = Walk { io: &self.io, findings: Findings::default(), used: BTreeMap::new() };
        for root in state.catalog.trees.values().filter_map(|tree| tree.root) {
            let _ = walk.tree(&root, &KeyRange::all(), None, "");
        }
        walk.visit(&state.superblock.catalog, "");
        walk.used.values().map(|pointer| (pointer.start, u64::from(pointer.stored_bytes))).collect()
    }

    /// Blocks given up of which no key is known.
    pub(crate) fn without_key_blocks(&self) -> u64 {
        self.hold_trees().catalog.families.without_key().map(|extent| extent.blocks).sum()
    }

    /// Starts of the blocks of one tree.
    pub(crate) fn blocks_of(&self, name: &str) -> Vec<u64> {
        let state = self.hold_trees();
        let mut walk = Walk { io: &self.io, findings: Findings::default(), used: BTreeMap::new() };
        for root in state.catalog.trees.values().filter(|tree| tree.name == name).filter_map(|tree| tree.root) {
            let _ = walk.tree(&root, &KeyRange::all(), None, "");
        }
        walk.used.keys().copied().collect()
    }
}
