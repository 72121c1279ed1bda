//! Removing and renaming trees: with a checkpoint, so that a power cut leaves the one or the other.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use super::checkpoint::{CatalogChange, Cut, RangeClone, Seal};
use super::in_steps::STEP_BYTES;
use super::{Engine, TreeState, TreeVersion, locked};
use crate::bytes::pointer::{BlockPointer, Freed};
use crate::bytes::range::{KeyRange, RangeSet};
use crate::bytes::tree_id::TreeId;
use crate::error::{Error, Result};
use crate::io::Composer;
use crate::mutant::{Mutant, between, mutated};
use crate::nodes::node::{Child, Edge};
use crate::options::{KEY_BYTES_MAX, check_length};
use crate::step::{Quota, Steps, UNBOUNDED};
use crate::tree::{Change, Room};

/// What a tree has still of a range that becomes another's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    All,
    Nothing,
}

/// The trees, for as long as others wait for them.
struct InHaste<'a> {
    engine: &'a Engine,
    state: MutexGuard<'a, TreeState>,
}

impl Deref for InHaste<'_> {
    type Target = TreeState;

    fn deref(&self) -> &TreeState {
        &self.state
    }
}

impl DerefMut for InHaste<'_> {
    fn deref_mut(&mut self) -> &mut TreeState {
        &mut self.state
    }
}

impl Drop for InHaste<'_> {
    fn drop(&mut self) {
        self.state.in_haste = false;
        if !self.state.overdue.is_empty() {
            self.engine.owing.store(true, Ordering::Release);
        }
    }
}

/// The blocks of a tree.
#[derive(Default)]
struct Blocks {
    /// Where it is, if all of it is on the storage.
    root: Option<BlockPointer>,
    freed: Vec<Freed>,
}

impl Engine {
    fn tree_named(&self, name: &str) -> Result<TreeId> {
        self.tree_id(name).ok_or_else(|| Error::NoSuchName { what: "tree", name: name.to_owned() })
    }

    /// Writes what is owed by now, if that is more than a step, so that whoever has to have all trees does not have them for long. Others
    /// commit meanwhile.
    fn write_before(&self) -> Result<()> {
        if mutated(Mutant::TreesHeldToTheEnd) {
            return Ok(());
        }
        let is_begun = {
            let state = self.hold_trees();
            !state.flight.is_empty() || !state.overdue.is_empty()
        };
        if !is_begun && self.memory_bytes() as i64 + self.fresh_bytes() as i64 <= STEP_BYTES {
            return Ok(());
        }
        match self.checkpoint_of_now() {
            // What is to be done may take less.
            Err(Error::Full) => return Ok(()),
            result => result?,
        }
        self.finish_in_steps()
    }

    fn hold_trees_in_haste(&self) -> InHaste<'_> {
        let mut state = self.hold_trees();
        state.in_haste = !mutated(Mutant::TreesHeldToTheEnd);
        InHaste { engine: self, state }
    }

    /// Removes a tree.
    pub fn remove_tree(&self, name: &str) -> Result<()> {
        let known = self.tree_named(name)?;
        self.write_before()?;
        // Of a tree that nobody changes any more this is all.
        let seen = self.blocks_to_free(known)?;
        between();
        let mut state = self.hold_trees_in_haste();
        self.check()?;
        let tree = self.tree_named(name)?;
        self.drain(&mut state)?;
        let seal = self.seal(&mut state)?;
        self.drain(&mut state)?;
        self.take_back(&mut state);
        let is_seen = tree == known && seen.root.is_some() && seen.root == self.stored_root(tree);
        let freed = match is_seen || mutated(Mutant::RemovedAsSeen) {
            true => seen.freed,
            false => self.blocks_to_free(tree)?.freed,
        };
        let work = self.checkpoint_work(&mut state, seal, CatalogChange::RemoveTree { tree, freed });
        self.run(&mut state, work)?;
        self.forget(&mut state, name, tree);
        Ok(())
    }

    /// Where a tree is, if all of it is on the storage.
    fn stored_root(&self, tree: TreeId) -> Option<BlockPointer> {
        self.view().version.trees.get(&tree)?.stored_root()
    }

    /// Every block of a tree.
    fn blocks_to_free(&self, tree: TreeId) -> Result<Blocks> {
        let view = self.view();
        let Some(version) = view.version.trees.get(&tree) else { return Ok(Blocks::default()) };
        let root = version.stored_root();
        let (io, operators, shape) = (Arc::clone(&self.io), self.options.operators.clone(), self.options.shape());
        let child = Child { edge: version.root.clone(), runs: Vec::new() };
        let mut steps = Steps::new(|quota: Arc<Quota>| async move {
            let with = Composer::new(&io, &operators);
            let mut change = Change::new(with, &quota, shape, Room::none());
            change.drop_tree(&child).await?;
            Ok(Blocks { root, freed: change.freed })
        });
        loop {
            if let Some(blocks) = steps.step(&mut UNBOUNDED.clone()) {
                return blocks;
            }
        }
    }

    /// The checkpoint without a tree is durable.
    fn forget(&self, state: &mut TreeState, name: &str, tree: TreeId) {
        let mut commit = locked(&self.commit);
        commit.names.remove(name);
        let view = self.view();
        if let Some(gone) = view.version.trees.get(&tree) {
            self.active_bytes.fetch_sub(gone.active.bytes(), Ordering::AcqRel);
            if matches!(gone.root, Edge::Fresh(_)) {
                self.fresh.add(-TreeVersion::EMPTY_BYTES);
            }
        }
        state.overdue.remove(&tree);
        self.versions.publish(|trees| {
            trees.remove_mut(&tree);
        });
    }

    /// Makes a tree that begins with what another has, or with what it has in a range and keeps or not.
    pub fn clone_tree(&self, from: &str, part: Option<(KeyRange, Keep)>, to: &str) -> Result<()> {
        check_length("a name", to.len(), KEY_BYTES_MAX)?;
        self.tree_named(from)?;
        self.write_before()?;
        let mut state = self.hold_trees_in_haste();
        self.check()?;
        if matches!(part, Some((_, Keep::Nothing))) {
            // Those who wait for the move wait for little.
            self.checkpoint_with(&mut state, CatalogChange::None)?;
        }
        let (tree, clone) = {
            let mut commit = locked(&self.commit);
            if commit.names.contains_key(to) {
                return Err(Error::NameTaken { what: "tree", name: to.to_owned() });
            }
            let Some(tree) = commit.names.get(from).copied() else {
                return Err(Error::NoSuchName { what: "tree", name: from.to_owned() });
            };
            // The name is taken from now on, and there is something under it when the clone is durable.
            let clone = TreeId(commit.next_tree);
            commit.next_tree += 1;
            commit.names.insert(to.to_owned(), clone);
            if let Some((range, Keep::Nothing)) = &part {
                commit.moving = Some((tree, range.clone()));
            }
            (tree, clone)
        };
        let name = to.to_owned();
        let made = match part {
            None => self.checkpoint_with(&mut state, CatalogChange::CloneTree { tree, clone, name }),
            Some((range, keep)) => self.clone_range(&mut state, tree, clone, name, range, keep),
        };
        let mut commit = locked(&self.commit);
        commit.moving = None;
        if made.is_err() {
            commit.names.remove(to);
        }
        made
    }

    /// By two checkpoints: the first has the tree as it is cloned, and nothing of it changes until the second has the clone.
    fn clone_range(
        &self,
        state: &mut TreeState,
        tree: TreeId,
        clone: TreeId,
        name: String,
        range: KeyRange,
        keep: Keep,
    ) -> Result<()> {
        self.checkpoint_with(state, CatalogChange::None)?;
        let generation = state.superblock.generation;
        let root = state.catalog.trees.get(&tree).and_then(|record| record.root);
        let cut = self.cut_out(root, &RangeSet::of(&range))?;
        let left = match keep {
            Keep::Nothing => Some(self.cut_out(root, &RangeSet::outside(&range))?),
            Keep::All => None,
        };
        let seal = Seal { last_msn: state.superblock.last_msn, log: state.superblock.log };
        let change = RangeClone { tree, clone, name, range, generation, cut, left };
        let work = self.checkpoint_work(state, seal, CatalogChange::CloneRange(Box::new(change)));
        self.run(state, work).map(drop)
    }

    /// A part of a tree on the storage.
    fn cut_out(&self, root: Option<BlockPointer>, wanted: &RangeSet) -> Result<Cut> {
        let quota = Quota::default();
        let with = Composer::new(&self.io, &self.options.operators);
        let mut change = Change::new(with, &quota, self.options.shape(), Room::none());
        let root = root.map_or_else(|| TreeVersion::stored(None).root, Edge::Stored);
        let root = change.cut_out(&root, wanted)?;
        Ok(Cut { root, copied: change.freed })
    }

    /// Renames a tree.
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<()> {
        check_length("a name", to.len(), KEY_BYTES_MAX)?;
        self.tree_named(from)?;
        self.write_before()?;
        let mut state = self.hold_trees_in_haste();
        self.check()?;
        let tree = {
            let mut commit = locked(&self.commit);
            if commit.names.contains_key(to) {
                return Err(Error::NameTaken { what: "tree", name: to.to_owned() });
            }
            let Some(tree) = commit.names.get(from).copied() else {
                return Err(Error::NoSuchName { what: "tree", name: from.to_owned() });
            };
            // Both names are taken until one of them is durable.
            commit.names.insert(to.to_owned(), tree);
            tree
        };
        let result = self.checkpoint_with(&mut state, CatalogChange::RenameTree { tree, name: to.to_owned() });
        locked(&self.commit).names.remove(if result.is_ok() { from } else { to });
        result
    }
}
