//! Keeps memory, log and storage within their bounds. Whoever commits does the work, as much as the pacing says.

use std::sync::atomic::Ordering;

use storage::BLOCK_BYTES;

use super::checkpoint::CatalogChange;
use super::in_steps::STEP_BYTES;
use super::work::Progress;
use super::{Engine, TreeState, locked};
use crate::bytes::tree_id::TreeId;
use crate::changes::{Change, Changes};
use crate::error::{Error, Result};
use crate::memtable::RANGES_MAX;
use crate::mutant::{Mutant, mutated};
use crate::pacing::{Pacing, PacingLoad};
use crate::step::UNBOUNDED;
use crate::tree::Reach;

/// The part of the room for new messages in memory up to which a tree has little of it, and by how much of it others may be ahead of those
/// that have more. Less than that is left in [`Engine::budget_bytes`].
const SLIGHT_SHARE: f64 = 0.125;
pub(super) const SLIGHT_MORE: f64 = 0.25;

/// What a commit added.
#[derive(Clone, Copy)]
pub(super) struct Added {
    pub bytes: usize,
    pub ranges: usize,
    /// Blocks of the log that its own frame took, where it has one.
    pub log_blocks: u64,
    /// Blocks of values that lie apart.
    pub value_blocks: u64,
}

impl Added {
    const NOTHING: Self = Self { bytes: 0, ranges: 0, log_blocks: 0, value_blocks: 0 };

    pub fn by(batch: &Changes, bytes: usize, value_blocks: u64) -> Self {
        let ranges = batch.list.iter().filter(|change| matches!(change, Change::DeleteRange { .. })).count();
        Self { bytes, ranges, log_blocks: 0, value_blocks }
    }
}

impl Engine {
    /// Bytes in all memtables.
    pub fn memory_bytes(&self) -> u64 {
        self.active_bytes.load(Ordering::Acquire) + self.sealed_bytes.load(Ordering::Acquire)
    }

    fn reserve_bytes(&self) -> u64 {
        self.options.reserve_bytes(self.io.capacity_blocks() * BLOCK_BYTES as u64)
    }

    /// Whether what is in memory, and this batch, can be written by the next checkpoint. Deletes may use half of the
    /// reserve.
    pub(super) fn storage_has_room(&self, bytes: usize, grows: bool) -> bool {
        let reserve = if grows { self.reserve_bytes() } else { self.reserve_bytes() / 2 };
        let free = self.free_blocks.load(Ordering::Acquire) * BLOCK_BYTES as u64;
        free > reserve.saturating_add(self.needed_bytes(bytes)) || (mutated(Mutant::ReserveIgnored) && free > 0)
    }

    /// Bytes that the next checkpoint takes, with so many more in memory.
    fn needed_bytes(&self, more_bytes: usize) -> u64 {
        self.options.needed_bytes(self.memory_bytes() + more_bytes as u64, self.fresh_bytes())
    }

    /// Free bytes that neither the next checkpoint needs, with full memtables, nor the reserve.
    pub fn spare_bytes(&self) -> u64 {
        let free = self.free_blocks.load(Ordering::Acquire) * BLOCK_BYTES as u64;
        if mutated(Mutant::SpareIsFree) {
            return free;
        }
        free.saturating_sub(self.reserve_bytes())
            .saturating_sub(self.needed_bytes(2 * self.options.memtable_bytes as usize))
    }

    /// How far the room for new messages is used up, and what a commit took of it. The log counts as used up at a
    /// quarter: a checkpoint leaves what came since its seal, and the next one begins a quarter later.
    fn load(&self, added: Added) -> PacingLoad {
        let bytes = self.active_bytes.load(Ordering::Acquire);
        let ranges = self.active_ranges.load(Ordering::Acquire);
        let log = self.log_unsealed_blocks.load(Ordering::Acquire);
        let values = locked(&self.pool).unsealed_blocks();
        let value_room = self.value_room_blocks() as f64;
        let memtable_bytes = self.options.memtable_bytes.max(1);
        let of = |bytes: u64, ranges: usize, log_blocks: f64, value_blocks: u64| {
            let log = log_blocks * 4.0 / self.log_blocks as f64;
            let values = value_blocks as f64 * 4.0 / value_room;
            let ranges = if mutated(Mutant::RangesUnbounded) { 0.0 } else { ranges as f64 / RANGES_MAX as f64 };
            (bytes as f64 / memtable_bytes as f64).max(ranges).max(log).max(values)
        };
        let frame = (added.log_blocks as f64).max(added.bytes as f64 / BLOCK_BYTES as f64);
        let taken = of(added.bytes as u64, added.ranges, frame, added.value_blocks);
        PacingLoad { memtable_bytes, filled: of(bytes, ranges, log as f64, values), taken }
    }

    /// Whether memory is what is used up, and a batch's trees have little of it: those who have much make room, and it goes on
    /// meanwhile.
    fn is_slight(&self, batch: &Changes, load: &PacingLoad) -> bool {
        let of_memory = self.active_bytes.load(Ordering::Acquire) as f64 / load.memtable_bytes as f64;
        if of_memory < load.filled || mutated(Mutant::SlightWait) {
            return false;
        }
        let view = self.view();
        let little = (load.memtable_bytes as f64 * SLIGHT_SHARE) as u64;
        let has_little = |tree| view.version.trees.get(tree).is_none_or(|tree| tree.active.bytes() <= little);
        batch.list.iter().all(|change| match change {
            Change::CreateTree { .. } => true,
            Change::Point { tree, .. } | Change::DeleteRange { tree, .. } => has_little(tree),
        })
    }

    /// Does a commit's part of what is owed.
    pub(super) fn maintain(&self, added: Added, batch: &Changes) -> Result<()> {
        let mut load = self.load(added);
        let due = load.filled >= 1.0;
        let slight = due && self.is_slight(batch, &load);
        if slight {
            load.filled = (load.filled - SLIGHT_MORE).max(1.0);
        }
        if !due && !self.owing.load(Ordering::Acquire) {
            return Ok(());
        }
        // None: without bound.
        let quota = self.options.pacing.quota_bytes(&load).map(|bytes| (bytes as i64).min(UNBOUNDED / 4));
        let credit = self.credit_bytes.fetch_add(quota.unwrap_or(0), Ordering::AcqRel);
        if quota == Some(0) {
            if self.has_threads() && !mutated(Mutant::BellUnrung) {
                self.bell.ring();
            }
            return Ok(());
        }
        if quota.is_none() && self.has_threads() && self.work_along()? {
            return Ok(());
        }
        // Small parts are put together, so that most commits do not even look.
        if !due && credit < (load.memtable_bytes / 512) as i64 {
            return Ok(());
        }
        let free = self.trees.try_lock().ok().filter(|state| !state.flight.is_out());
        let mut state = match free {
            Some(state) => state,
            // Somebody is at it. There is room to go on meanwhile.
            None if !due || (slight && quota.is_some()) => return Ok(()),
            None => self.hold_trees(),
        };
        let credit = self.credit_bytes.swap(0, Ordering::AcqRel);
        let Some(quota) = quota else {
            return self.pay(&mut state, &mut UNBOUNDED.clone()).map(drop);
        };
        // What others could not do while somebody had the trees is not for one of them to do.
        let most = if mutated(Mutant::CreditUnbounded) { UNBOUNDED } else { quota + STEP_BYTES };
        let mut part = credit.min(most);
        let left = credit - part;
        if self.pay(&mut state, &mut part)? {
            self.credit_bytes.fetch_add(left + part, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Does up to `bytes` of the owed work, and of what is due now; whether more is owed.
    fn pay(&self, state: &mut TreeState, bytes: &mut i64) -> Result<bool> {
        if self.advance(state, bytes)? {
            return Ok(true);
        }
        if self.seal_what_is_due(state)? { self.advance(state, bytes) } else { Ok(false) }
    }

    /// Seals memtables if the room for new messages is used up; whether it is.
    pub(super) fn seal_what_is_due(&self, state: &mut TreeState) -> Result<bool> {
        if self.load(Added::NOTHING).filled < 1.0 {
            return Ok(false);
        }
        self.seal(state)?;
        let used = self.log_used_blocks.load(Ordering::Acquire);
        state.checkpoint_due |= used * 8 > self.log_blocks * 3;
        state.checkpoint_due |= locked(&self.pool).used_blocks() * 8 > self.value_room_blocks() * 3;
        Ok(true)
    }

    /// Whether commits wait until there is room for new messages.
    pub(super) fn is_used_up(&self) -> bool {
        self.load(Added::NOTHING).filled >= 2.0
    }

    /// Whether the store has threads of its own.
    fn has_threads(&self) -> bool {
        matches!(self.options.pacing, Pacing::Beside(_))
    }

    /// Frees what a checkpoint can free, and what deletes in buffers can.
    pub(super) fn make_room(&self) -> Result<()> {
        match self.compact() {
            Err(Error::Full) => Ok(()),
            result => result,
        }
    }

    /// Does all that is owed: messages that give space back go to their leaves, and everything is durable in the trees. Others commit
    /// meanwhile, and of what they do some may wait then.
    pub fn quiesce(&self) -> Result<()> {
        self.move_all(Reach::Rest)
    }

    /// Moves every message to its leaf and makes that durable. Others commit meanwhile.
    pub fn compact(&self) -> Result<()> {
        self.move_all(Reach::Empty)
    }

    /// On a full store it goes leaf after leaf, with checkpoints in between.
    fn move_all(&self, reach: Reach) -> Result<()> {
        self.checkpoint_of_now()?;
        let overdue: Vec<TreeId> = self.hold_trees().overdue.iter().copied().collect();
        for tree in overdue {
            if self.move_down_in_steps(tree, Reach::Overdue)? == Progress::More {
                self.checkpoint_of_now()?;
            }
        }
        let trees: Vec<TreeId> = self.view().version.trees.keys().copied().collect();
        for tree in trees {
            loop {
                let progress = self.move_down_in_steps(tree, reach)?;
                self.checkpoint_of_now()?;
                // A second frees what the first no longer needed.
                let free = self.free_blocks.load(Ordering::Acquire) * BLOCK_BYTES as u64;
                if progress != Progress::More || free < 4 * self.fresh_bytes_max(&self.hold_trees()) {
                    self.checkpoint_of_now()?;
                }
                match progress {
                    Progress::Done => break,
                    Progress::More => {}
                    Progress::Stuck => return Err(Error::Full),
                }
            }
        }
        let mut state = self.hold_trees();
        self.drain(&mut state)?;
        self.discard(&mut state)
    }

    /// Makes what is committed by now durable in the trees.
    pub(super) fn checkpoint_of_now(&self) -> Result<()> {
        self.checkpoint_in_steps(|_| Ok(()), || CatalogChange::None)
    }
}
