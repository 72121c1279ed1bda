//! Checkpoints: everything that is in memory goes to free places, then the superblock says where.
//!
//! The order is the proof: (1) blocks and catalog, (2) flush, (3) superblock, (4) flush, (5) what the old checkpoint
//! needed may be written over. A cut before (4) leaves the old checkpoint whole, with the log from its head on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use storage::{BLOCK_BYTES, Buffer};

use super::{Engine, TreeState, TreeVersion, locked};
use crate::catalog::{SnapshotRecord, TreeId, TreeRecord};
use crate::checkpoint::Writer;
use crate::error::{Error, Result};
use crate::io::Purpose;
use crate::log::frame_blocks;
use crate::mutant::{Mutant, mutated};
use crate::node::Edge;
use crate::pointer::{BlockPointer, Codec, checksum};
use crate::superblock::{LogHead, Superblock};
use crate::tree::Change;

/// A change of the saved snapshots that a checkpoint makes.
pub(super) enum SnapshotChange<'a> {
    None,
    Save(&'a str),
    Remove(&'a str),
}

/// How far a change of a tree went before the free space was used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// All the way.
    Done,
    /// A checkpoint first, then on.
    More,
    /// There is no room for a single step.
    Stuck,
}

impl Engine {
    /// Makes everything committed so far durable in the trees, and the log empty.
    pub fn checkpoint(&self) -> Result<()> {
        let mut state = locked(&self.trees);
        self.checkpoint_with(&mut state, &SnapshotChange::None)
    }

    /// Saves a snapshot of all trees under a name.
    pub fn save_snapshot(&self, name: &str) -> Result<()> {
        let mut state = locked(&self.trees);
        if state.catalog.snapshots.contains_key(name) {
            return Err(Error::NameTaken { what: "snapshot", name: name.to_owned() });
        }
        self.checkpoint_with(&mut state, &SnapshotChange::Save(name))
    }

    /// Removes a saved snapshot.
    pub fn remove_snapshot(&self, name: &str) -> Result<()> {
        let mut state = locked(&self.trees);
        if !state.catalog.snapshots.contains_key(name) {
            return Err(Error::NoSuchName { what: "snapshot", name: name.to_owned() });
        }
        self.checkpoint_with(&mut state, &SnapshotChange::Remove(name))
    }

    /// Seals every memtable that has something; returns the last message in them and where the log goes on.
    pub(super) fn seal(&self) -> Result<(u64, LogHead)> {
        let mut log = locked(&self.log);
        let mut commit = locked(&self.commit);
        self.check()?;
        // The sealed messages end where a frame ends.
        if !commit.buffer.is_empty() {
            let payload = std::mem::take(&mut commit.buffer);
            self.log_used_blocks.fetch_add(frame_blocks(payload.len()), Ordering::AcqRel);
            let appended = log.log.append(&self.io, &payload);
            self.guard(appended)?;
            log.written_msn = commit.buffered_msn;
        }
        if self.view().version.trees.values().any(|tree| tree.active.msns().is_some()) {
            self.versions.publish(|trees| {
                for tree in trees.values_mut().filter(|tree| tree.active.msns().is_some()) {
                    let full = std::mem::take(&mut tree.active);
                    tree.sealed.insert(0, full);
                }
            });
        }
        Ok((commit.next_msn - 1, log.log.tail))
    }

    /// Changes one tree and publishes the result. `done` are memtables that are in it then.
    pub(super) fn change_tree(
        &self,
        state: &mut TreeState,
        tree: TreeId,
        done: usize,
        work: impl FnOnce(&mut Change<'_>, &TreeVersion) -> Result<Edge>,
    ) -> Result<Progress> {
        let view = self.view();
        let Some(version) = view.version.trees.get(&tree) else { return Ok(Progress::Done) };
        let shape = self.options.shape();
        // What a checkpoint may write now, less what it will write anyway.
        let free = state.space.free_blocks() * BLOCK_BYTES as u64;
        let budget = free as i64 - self.fresh_bytes() as i64 - shape.overhead_bytes() as i64;
        let mut change = Change::new(&self.io, &self.options.operators, shape, budget);
        let root = work(&mut change, version)?;
        drop(view);
        let number = self.versions.publish(|trees| {
            if let Some(tree) = trees.get_mut(&tree) {
                tree.root = root;
                tree.sealed.truncate(tree.sealed.len() - done);
            }
        });
        let newest = state.catalog.newest_snapshot();
        let newest = newest.filter(|_| !mutated(Mutant::SnapshotNotHeld));
        for pointer in &change.freed {
            state.space.retire(pointer, number, state.generation, newest);
        }
        if mutated(Mutant::SpaceReusedEarly) {
            state.space.settle(usize::MAX, u64::MAX);
        }
        self.fresh_bytes.fetch_add(change.fresh_bytes, Ordering::AcqRel);
        Ok(match (change.stopped, change.moved) {
            (false, _) => Progress::Done,
            (true, true) => Progress::More,
            (true, false) => Progress::Stuck,
        })
    }

    /// Moves sealed memtables into the trees.
    pub(super) fn drain(&self, state: &mut TreeState) -> Result<()> {
        let trees: Vec<TreeId> = self.view().version.trees.keys().copied().collect();
        for tree in trees {
            loop {
                let view = self.view();
                let oldest = view.version.trees.get(&tree).and_then(|tree| tree.sealed.last()).map(Arc::clone);
                drop(view);
                let Some(table) = oldest else { break };
                self.change_tree(state, tree, 1, |change, version| change.drain(&version.root, &table))?;
            }
        }
        Ok(())
    }

    /// One checkpoint. When the storage is full the old one stays and nothing is lost.
    pub(super) fn checkpoint_with(&self, state: &mut TreeState, snapshot: &SnapshotChange<'_>) -> Result<()> {
        self.check()?;
        let (last_msn, log) = self.seal()?;
        self.drain(state)?;
        let result = self.write_checkpoint(state, last_msn, log, snapshot);
        self.free_blocks.store(state.space.free_blocks(), Ordering::Release);
        self.guard(result)
    }

    fn write_checkpoint(
        &self,
        state: &mut TreeState,
        last_msn: u64,
        log: LogHead,
        snapshot: &SnapshotChange<'_>,
    ) -> Result<()> {
        let view = self.view();
        let number = view.version.number;
        let generation = state.generation;
        let (old_space, old_catalog) = (state.space.clone(), state.catalog.clone());
        let written = self.write_trees(state, &view.version.trees, snapshot, number);
        let catalog = match written {
            Ok(catalog) => catalog,
            Err(error) => {
                // Everything is as before, but for the generation: no place has two contents under one name. The next
                // one goes to the same slot.
                state.space = old_space;
                state.catalog = old_catalog;
                state.generation += 2;
                return Err(error);
            }
        };
        drop(view);
        if !mutated(Mutant::NoFlushBeforeSuperblock) {
            self.io.flush()?;
        }
        let from = if mutated(Mutant::ReplayTwice) { state.superblock.log } else { log };
        let superblock = Superblock { generation, log: from, last_msn, catalog, ..state.superblock.clone() };
        superblock.write(&self.io)?;
        if !mutated(Mutant::NoFlushAfterSuperblock) {
            self.io.flush()?;
        }
        let waiting = state.space.waiting();
        state.superblock = superblock;
        state.generation = generation + 1;
        self.checkpoints.fetch_add(1, Ordering::AcqRel);
        {
            let mut state = locked(&self.log);
            state.log.head = log;
            state.synced_msn = state.synced_msn.max(last_msn);
            self.log_used_blocks.store(state.log.used_blocks(), Ordering::Release);
        }
        let roots: Vec<(TreeId, Option<_>)> = state.catalog.trees.iter().map(|(id, tree)| (*id, tree.root)).collect();
        self.versions.publish(|trees| {
            for (id, root) in roots {
                if let (Some(tree), Some(root)) = (trees.get_mut(&id), root) {
                    tree.root = Edge::Stored(root);
                }
            }
        });
        self.fresh_bytes.store(0, Ordering::Release);
        let oldest = if mutated(Mutant::ReadersIgnored) { u64::MAX } else { self.versions.oldest() };
        state.space.settle(waiting, oldest);
        Ok(())
    }

    /// Writes the trees and the catalog; returns where the catalog is.
    fn write_trees(
        &self,
        state: &mut TreeState,
        trees: &BTreeMap<TreeId, TreeVersion>,
        snapshot: &SnapshotChange<'_>,
        number: u64,
    ) -> Result<BlockPointer> {
        let generation = state.generation;
        let names: BTreeMap<TreeId, String> =
            locked(&self.commit).names.iter().map(|(name, id)| (*id, name.clone())).collect();
        let mut writer = Writer::new(&self.io, &mut state.space, generation, self.options.compression);
        let mut records = BTreeMap::new();
        for (id, tree) in trees {
            let root = Some(writer.edge(&tree.root)?);
            records.insert(*id, TreeRecord { name: names.get(id).cloned().unwrap_or_default(), root });
        }
        writer.finish()?;
        state.catalog.trees = records;
        match snapshot {
            SnapshotChange::None => {}
            SnapshotChange::Save(name) => {
                let record = SnapshotRecord { generation, trees: state.catalog.trees.clone() };
                state.catalog.snapshots.insert((*name).to_owned(), record);
            }
            SnapshotChange::Remove(name) => {
                state.catalog.snapshots.remove(*name);
                let left: Vec<u64> = state.catalog.snapshots.values().map(|snapshot| snapshot.generation).collect();
                state.space.unhold(number, &left);
            }
        }
        // The old catalog is unreachable from here on; no reader and no snapshot refers to a catalog.
        let old = state.superblock.catalog;
        state.space.retire(&old, number, generation, None);
        // The catalog lists the free space without its own place, whose size the list bounds: taking a place can add
        // one extent to the list at most.
        let bound = state.catalog.encode(&state.space).len() + 64;
        let blocks = (bound as u64).div_ceil(BLOCK_BYTES as u64);
        let start = state.space.allocate(blocks).ok_or(Error::Full)?;
        let raw = state.catalog.encode_padded(&state.space, blocks);
        let pointer = BlockPointer {
            start,
            stored_bytes: raw.len() as u32,
            raw_bytes: raw.len() as u32,
            codec: Codec::Plain,
            birth: generation,
            checksum: checksum(&raw),
        };
        self.io.write(Purpose::Catalog, [(start, Buffer::padded(&raw))])?;
        Ok(pointer)
    }
}
