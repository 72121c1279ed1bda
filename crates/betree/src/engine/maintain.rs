//! Work that keeps memory, log and storage within their bounds, done by whoever commits.

use std::sync::atomic::Ordering;

use storage::BLOCK_BYTES;

use super::checkpoint::{Progress, SnapshotChange};
use super::{Engine, TreeVersion, locked};
use crate::catalog::TreeId;
use crate::error::{Error, Result};
use crate::memtable::RANGES_MAX;
use crate::mutant::{Mutant, mutated};
use crate::tree::Change;

impl Engine {
    /// Bytes and range deletes in all memtables.
    fn memory(&self) -> (u64, usize) {
        let view = self.view();
        let tables = view.version.trees.values().flat_map(|tree| tree.tables());
        tables.fold((0, 0), |sum, table| (sum.0 + table.bytes(), sum.1 + table.ranges()))
    }

    /// Bytes that are kept back so that deletes and checkpoints succeed on a full store: half of it for deletes on
    /// their way, half for rewriting leaves, one after the other with a checkpoint in between.
    fn reserve_bytes(&self) -> u64 {
        let shape = self.options.shape();
        let capacity = self.io.capacity_blocks() * BLOCK_BYTES as u64;
        let half = 3 * shape.leaf_storage_bytes() + shape.overhead_bytes();
        (capacity / 16).max(2 * half).min(capacity / 4)
    }

    /// Whether what is in memory, and this batch, can be written by the next checkpoint. Deletes may use half of the
    /// reserve.
    pub(super) fn storage_has_room(&self, bytes: usize, grows: bool) -> bool {
        let reserve = if grows { self.reserve_bytes() } else { self.reserve_bytes() / 2 };
        let free = self.free_blocks.load(Ordering::Acquire) * BLOCK_BYTES as u64;
        let shape = self.options.shape();
        let needed = shape.storage_bytes(self.memory().0 + bytes as u64) + self.fresh_bytes() + shape.overhead_bytes();
        free > reserve.saturating_add(needed) || (mutated(Mutant::ReserveIgnored) && free > 0)
    }

    /// What a commit leaves to do, if anything.
    pub(super) fn maintain(&self) -> Result<()> {
        let (bytes, ranges) = self.memory();
        let full = bytes > self.options.memtable_bytes || ranges > RANGES_MAX;
        let log_half = self.log_used_blocks.load(Ordering::Acquire) > self.log_blocks / 2;
        if !full && !log_half {
            return Ok(());
        }
        let mut state = locked(&self.trees);
        if log_half {
            return self.checkpoint_with(&mut state, &SnapshotChange::None);
        }
        self.seal()?;
        self.drain(&mut state)?;
        if self.fresh_bytes() > self.options.fresh_bytes {
            self.checkpoint_with(&mut state, &SnapshotChange::None)?;
        }
        Ok(())
    }

    /// Frees what a checkpoint can free, and what deletes in buffers can.
    pub(super) fn make_room(&self) -> Result<()> {
        match self.quiesce() {
            Err(Error::Full) => Ok(()),
            result => result,
        }
    }

    /// Moves every message to its leaf and makes it durable: the state in which nothing is owed. On a full store leaf
    /// after leaf.
    pub fn quiesce(&self) -> Result<()> {
        let mut state = locked(&self.trees);
        self.checkpoint_with(&mut state, &SnapshotChange::None)?;
        let trees: Vec<TreeId> = self.view().version.trees.keys().copied().collect();
        for tree in trees {
            loop {
                let work = |change: &mut Change<'_>, version: &TreeVersion| change.drain_buffers(&version.root);
                let progress = self.change_tree(&mut state, tree, 0, work)?;
                // The second frees what the first no longer needed.
                self.checkpoint_with(&mut state, &SnapshotChange::None)?;
                self.checkpoint_with(&mut state, &SnapshotChange::None)?;
                match progress {
                    Progress::Done => break,
                    Progress::More => {}
                    Progress::Stuck => return Err(Error::Full),
                }
            }
        }
        Ok(())
    }
}
