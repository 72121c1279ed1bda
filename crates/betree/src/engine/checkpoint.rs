//! Checkpoints: everything that is in memory goes to free places, then the superblock says where.
//!
//! The order is the proof: (1) blocks and catalog, (2) flush, (3) superblock, (4) flush, (5) what the old checkpoint
//! needed may be written over. A cut before (4) leaves the old checkpoint whole, with the log from its head on. Batches
//! go on meanwhile, into memtables and behind the log's place that the checkpoint is about.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use storage::{BLOCK_BYTES, Buffer};

use super::work::{Outcome, Work};
use super::{Engine, TreeState, TreeVersion, locked};
use crate::bytes::pointer::{BlockPointer, Codec, Freed, checksum};
use crate::bytes::range::KeyRange;
use crate::bytes::tree_id::TreeId;
use crate::catalog::{Catalog, SnapshotRecord, TreeRecord};
use crate::checkpoint::Writer;
use crate::error::{Error, Result};
use crate::io::Purpose;
use crate::log::frame_blocks;
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::Edge;
use crate::space::Space;
use crate::step::Steps;
use crate::superblock::{LogHead, Superblock};

/// A change of the catalog that a checkpoint makes.
pub(super) enum CatalogChange {
    None,
    Save(String),
    Remove(String),
    RemoveTree { tree: TreeId, freed: Vec<Freed> },
    RenameTree { tree: TreeId, name: String },
    CloneTree { tree: TreeId, clone: TreeId, name: String },
    CloneRange(Box<RangeClone>),
}

/// A clone of a range, which is not on the storage yet.
pub(super) struct RangeClone {
    pub tree: TreeId,
    pub clone: TreeId,
    pub name: String,
    pub range: KeyRange,
    /// Of the checkpoint that has the tree as it is cloned.
    pub generation: u64,
    pub cut: Cut,
    /// What the tree has from then on, where the range is moved.
    pub left: Option<Cut>,
}

/// A part of a tree, not on the storage yet as far as it was copied.
pub(super) struct Cut {
    pub root: Edge,
    /// What was copied, of the tree.
    pub copied: Vec<Freed>,
}

/// Where the sealed memtables end: the last message in them, and where the log goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seal {
    pub last_msn: u64,
    pub log: LogHead,
}

/// A checkpoint that lacks its superblock.
pub(super) struct Written {
    superblock: Superblock,
    log: LogHead,
    space: Space,
    catalog: Catalog,
    /// A tree that has a range no more, and by which generation.
    moved_from: Option<(TreeId, u64)>,
}

impl Engine {
    /// Makes everything committed so far durable in the trees, and the log empty.
    pub fn checkpoint(&self) -> Result<()> {
        let mut state = self.hold_trees();
        self.checkpoint_with(&mut state, CatalogChange::None)
    }

    /// Saves a snapshot of all trees under a name: of what is committed when it is called, and of what comes until it is sealed.
    /// Others commit meanwhile.
    pub fn save_snapshot(&self, name: &str) -> Result<()> {
        let is_free = |state: &TreeState| match state.catalog.snapshots.contains_key(name) {
            true => Err(Error::NameTaken { what: "snapshot", name: name.to_owned() }),
            false => Ok(()),
        };
        self.checkpoint_in_steps(is_free, || CatalogChange::Save(name.to_owned()))
    }

    /// Removes a saved snapshot. Others commit meanwhile.
    pub fn remove_snapshot(&self, name: &str) -> Result<()> {
        let is_there = |state: &TreeState| match state.catalog.snapshots.contains_key(name) {
            true => Ok(()),
            false => Err(Error::NoSuchName { what: "snapshot", name: name.to_owned() }),
        };
        self.checkpoint_in_steps(is_there, || CatalogChange::Remove(name.to_owned()))
    }

    /// Seals every memtable that has something.
    pub(super) fn seal(&self, state: &mut TreeState) -> Result<Seal> {
        let mut log = locked(&self.log);
        let mut commit = locked(&self.commit);
        self.check()?;
        // The sealed messages end where a frame ends.
        if !commit.buffer.is_empty() {
            let payload = std::mem::take(&mut commit.buffer);
            self.log_used_blocks.fetch_add(frame_blocks(payload.len()), Ordering::AcqRel);
            self.settle_values()?;
            let appended = log.log.append(&self.io, &payload);
            self.guard(appended)?;
            log.written_msn = commit.buffered_msn;
        }
        self.log_unsealed_blocks.store(0, Ordering::Release);
        locked(&self.pool).sealed();
        let bytes = self.active_bytes.swap(0, Ordering::AcqRel);
        self.active_ranges.store(0, Ordering::Release);
        if bytes > 0 {
            self.sealed_bytes.fetch_add(bytes, Ordering::AcqRel);
            self.versions.publish(|trees| {
                let full = trees.iter().filter(|(_, tree)| tree.active.msns().is_some()).map(|(id, _)| *id);
                let full: Vec<TreeId> = full.collect();
                for id in &full {
                    if let Some(tree) = trees.get_mut(id) {
                        let table = std::mem::take(&mut tree.active);
                        tree.sealed.insert(0, table);
                    }
                }
                state.to_drain.extend(full);
            });
        }
        let seal = Seal { last_msn: commit.next_msn - 1, log: log.log.tail };
        state.sealed_at = Some(seal);
        Ok(seal)
    }

    /// Where memtables sealed at this moment would end.
    pub(super) fn seal_now(&self) -> Seal {
        let (log, commit) = (locked(&self.log), locked(&self.commit));
        Seal { last_msn: commit.next_msn - 1, log: log.log.tail }
    }

    /// One checkpoint, from beginning to end. When the storage is full the old one stays and nothing is lost.
    pub(super) fn checkpoint_with(&self, state: &mut TreeState, change: CatalogChange) -> Result<()> {
        self.check()?;
        self.drain(state)?;
        let seal = self.seal(state)?;
        self.drain(state)?;
        self.take_back(state);
        let work = self.checkpoint_work(state, seal, change);
        self.run(state, work).map(drop)
    }

    /// Writes what is fresh. No tree may change before it is done.
    pub(super) fn checkpoint_work(&self, state: &mut TreeState, seal: Seal, change: CatalogChange) -> Work {
        // What is lent now is born by this checkpoint, and what is put there later is not in the clone.
        if !matches!(change, CatalogChange::CloneTree { .. }) {
            self.lend(state);
        }
        let view = self.view();
        let number = view.version.number;
        let names: BTreeMap<TreeId, String> =
            locked(&self.commit).names.iter().map(|(name, id)| (*id, name.clone())).collect();
        let trees: Vec<(TreeId, String, Edge)> = view
            .version
            .trees
            .iter()
            .map(|(id, tree)| (*id, names.get(id).cloned().unwrap_or_default(), tree.root.clone()))
            .collect();
        drop(view);
        let (generation, old) = (state.generation, state.superblock.clone());
        let (mut space, mut catalog) = (state.space.clone(), state.catalog.clone());
        let places = locked(&self.pool).up_to(seal.last_msn);
        if !mutated(Mutant::PlacesNotKept) {
            places.into_iter().for_each(|place| space.keep(place));
        }
        let (io, compression) = (Arc::clone(&self.io), self.options.compression);
        let steps = Steps::new(|quota| async move {
            let mut writer = Writer::new(&io, &quota, &mut space, generation, compression);
            let mut records = BTreeMap::new();
            let removed = match &change {
                CatalogChange::RemoveTree { tree, .. } => Some(*tree),
                _ => None,
            };
            let moved = match &change {
                CatalogChange::CloneRange(part) => part.left.as_ref().map(|left| (part, &left.root)),
                _ => None,
            };
            let moved_from = moved.map(|(part, _)| (part.tree, part.generation));
            for (id, name, root) in trees.into_iter().filter(|(id, ..)| Some(*id) != removed) {
                let root = moved.filter(|(part, _)| part.tree == id).map_or(&root, |(_, left)| left);
                let root = Some(writer.edge(root).await?);
                let name = match &change {
                    CatalogChange::RenameTree { tree, name } if *tree == id => name.clone(),
                    _ => name,
                };
                records.insert(id, TreeRecord { name, root });
            }
            if let CatalogChange::CloneRange(part) = &change {
                let root = Some(writer.edge(&part.cut.root).await?);
                records.insert(part.clone, TreeRecord { name: part.name.clone(), root });
            }
            writer.finish()?;
            if let CatalogChange::CloneTree { tree, clone, name } = &change
                && let Some(TreeRecord { root, .. }) = records.get(tree)
            {
                records.insert(*clone, TreeRecord { name: name.clone(), root: *root });
            }
            catalog.trees = records;
            change_catalog(change, &mut catalog, &mut space, generation, number);
            quota.pause().await;
            // The old catalog is unreachable from here on; no reader and no snapshot refers to a catalog.
            space.retire(&old.catalog, number, generation, None);
            // The catalog lists the free space without its own place, whose size the list bounds: taking a place can
            // add one extent to the list at most.
            let bound = catalog.encode(&space).len() + 64;
            let blocks = (bound as u64).div_ceil(BLOCK_BYTES as u64);
            let start = space.allocate(blocks).ok_or(Error::Full)?;
            let raw = catalog.encode_padded(&space, blocks);
            let pointer = BlockPointer {
                start,
                stored_bytes: raw.len() as u32,
                raw_bytes: raw.len() as u32,
                codec: Codec::Plain,
                birth: generation,
                checksum: checksum(&raw),
            };
            io.write([(Purpose::Catalog, start, Buffer::padded(&raw))])?;
            quota.pause().await;
            if !mutated(Mutant::NoFlushBeforeSuperblock) {
                io.flush()?;
            }
            quota.pause().await;
            let from = if mutated(Mutant::ReplayTwice) { old.log } else { seal.log };
            let superblock = Superblock { generation, log: from, last_msn: seal.last_msn, catalog: pointer, ..old };
            superblock.write(&io)?;
            if !mutated(Mutant::NoFlushAfterSuperblock) {
                io.flush()?;
            }
            Ok(Outcome::Written(Box::new(Written { superblock, log: seal.log, space, catalog, moved_from })))
        });
        Work::checkpoint(steps)
    }

    /// From here on the new checkpoint is the one.
    pub(super) fn complete_checkpoint(&self, state: &mut TreeState, written: Written) -> Result<()> {
        let last_msn = written.superblock.last_msn;
        state.generation = written.superblock.generation + 1;
        (state.superblock, state.catalog, state.space) = (written.superblock, written.catalog, written.space);
        let moved_from = written.moved_from;
        (state.sealed_at, state.checkpoint_due) = (None, false);
        state.unwritten.clear();
        let waiting = state.space.waiting();
        locked(&self.pool).checkpointed(last_msn, state.generation);
        self.checkpoints.fetch_add(1, Ordering::AcqRel);
        {
            let mut log = locked(&self.log);
            log.log.head = written.log;
            log.synced_msn = log.synced_msn.max(last_msn);
            self.log_used_blocks.store(log.log.used_blocks(), Ordering::Release);
        }
        let roots: Vec<(TreeId, Option<_>)> = state.catalog.trees.iter().map(|(id, tree)| (*id, tree.root)).collect();
        {
            // Trees that were made meanwhile are not in this checkpoint; none is made right now.
            let _commit = locked(&self.commit);
            let mut left = 0;
            state.checkpointed_in = self.versions.publish(|trees| {
                for (id, root) in roots {
                    match (trees.get_mut(&id), root) {
                        (Some(tree), Some(root)) => {
                            state.gone.push(std::mem::replace(&mut tree.root, Edge::Stored(root)));
                            if let Some((_, generation)) = moved_from.filter(|(tree, _)| *tree == id) {
                                tree.moved_at = generation;
                            }
                        }
                        (Some(_), None) => {}
                        // A clone, seen from the moment on in which its range is gone from where it was.
                        (None, root) => trees.insert_mut(id, TreeVersion::stored(root)),
                    }
                }
                left = trees.values().filter(|tree| matches!(tree.root, Edge::Fresh(_))).count();
            });
            self.fresh.set(left as i64 * TreeVersion::EMPTY_BYTES);
        }
        let oldest = if mutated(Mutant::ReadersIgnored) { u64::MAX } else { self.versions.oldest() };
        state.space.settle(waiting, oldest);
        Ok(())
    }
}

/// A tree has no use for blocks any more from the version behind this one on.
fn give_up(tree: TreeId, freed: &[Freed], catalog: &mut Catalog, space: &mut Space, generation: u64, version: u64) {
    let newest = catalog.newest_snapshot();
    for one in freed.iter().filter(|one| catalog.families.give_up(tree, one)) {
        space.retire(&one.pointer, version + 1, generation, newest);
    }
}

/// `catalog` has the trees of this checkpoint already.
fn change_catalog(change: CatalogChange, catalog: &mut Catalog, space: &mut Space, generation: u64, version: u64) {
    match change {
        CatalogChange::None | CatalogChange::RenameTree { .. } => {}
        CatalogChange::Save(name) => {
            let record = SnapshotRecord { generation, trees: catalog.trees.clone() };
            catalog.snapshots.insert(name, record);
        }
        CatalogChange::RemoveTree { tree, freed } => {
            give_up(tree, &freed, catalog, space, generation, version);
            let newest = catalog.newest_snapshot();
            for (extent, birth) in catalog.families.removed(tree) {
                space.retire_extent(extent, birth, version + 1, generation, newest);
            }
        }
        CatalogChange::CloneTree { tree, clone, .. } => catalog.families.cloned(tree, clone, generation, None),
        CatalogChange::CloneRange(part) => {
            let RangeClone { tree, clone, range, generation: cloned, mut cut, left, .. } = *part;
            // Of what is outside of the range it never had anything, and of what is inside the tree has nothing where it is moved.
            let is_inside = |one: &Freed| one.key.as_ref().map(|key| range.contains(key));
            cut.copied.retain(|one| is_inside(one).is_none_or(|inside| inside));
            let given_up = left.map(|mut left| {
                left.copied.retain(|one| is_inside(one).is_none_or(|inside| !inside));
                left.copied
            });
            match &given_up {
                Some(_) => catalog.families.moved(tree, clone, cloned, range),
                None => catalog.families.cloned(tree, clone, cloned, Some(range)),
            }
            if !mutated(Mutant::CopiedBlocksKept) {
                give_up(clone, &cut.copied, catalog, space, generation, version);
            }
            give_up(tree, &given_up.unwrap_or_default(), catalog, space, generation, version);
        }
        CatalogChange::Remove(name) => {
            catalog.snapshots.remove(&name);
            let left: Vec<u64> = catalog.snapshots.values().map(|snapshot| snapshot.generation).collect();
            // Views of it that are open have this version's number, and see it: the next one is the first that does not.
            let first_without = if mutated(Mutant::OpenSnapshotForgotten) { version } else { version + 1 };
            space.unhold(first_without, &left);
        }
    }
}
