//! The ordered write path: batches get their numbers, go into the memtables and the log buffer, and from there, many at
//! a time, into the log.

use std::sync::atomic::Ordering;

use storage::BLOCK_BYTES;

use super::asked;
use super::maintain::Added;
use super::values::{Prepared, lies_apart};
use super::{Commit, Engine, TreeVersion, View, locked};
use crate::bytes::message::Message;
use crate::bytes::operator::Growth;
use crate::bytes::parts::stored_bytes;
use crate::bytes::pointer::BlockPointer;
use crate::bytes::tree_id::TreeId;
use crate::changes::{self, Batches, Change, Changes};
use crate::error::{Error, Result};
use crate::log::frame_blocks;
use crate::mutant::{Mutant, between, mutated};
use crate::options::{Durability, KEY_BYTES_MAX, VALUE_BYTES_MAX, check_length};
use crate::space::Space;

/// The commit buffer goes into the log at this size even if nobody waits for it.
const BUFFER_BYTES: usize = 256 << 10;

/// Tries to make room before a batch is refused.
const ATTEMPTS: usize = 3;

/// Bytes that changes take in the log, at most, where a value of `apart_bytes` or more lies apart.
fn log_bytes(changes: &[Change], apart_bytes: usize) -> usize {
    let bytes = |change: &Change| match change {
        Change::CreateTree { name, .. } => name.len(),
        Change::Point { key, message, .. } if lies_apart(message, apart_bytes) => {
            key.len() + BlockPointer::ENCODED_BYTES
        }
        Change::Point { key, message, .. } => key.len() + message.bytes(),
        Change::DeleteRange { range, .. } => range.start.len() + range.end.as_ref().map_or(0, |end| end.len()),
    };
    32 + changes.iter().map(|change| 32 + bytes(change)).sum::<usize>()
}

/// What a batch takes.
pub(super) struct BatchSize {
    /// In the log, at most, if values lie apart as they should.
    log_bytes: usize,
    /// On the storage for values without which it would not fit into the log.
    value_bytes: usize,
    /// From which length on a value lies apart.
    pub apart_bytes: usize,
    /// Whether it is too long for the log otherwise.
    pub must_lie_apart: bool,
    grows: bool,
}

impl Commit {
    /// Whether a batch has to do with what is being moved.
    fn moves(&self, batch: &Changes) -> bool {
        let Some((moved, moving)) = &self.moving else { return false };
        let asks = batch.conditions.iter().any(|one| one.tree == *moved && moving.contains(&one.key));
        asks || batch.list.iter().any(|change| match change {
            Change::CreateTree { .. } => false,
            Change::Point { tree, key, .. } => tree == moved && moving.contains(key),
            Change::DeleteRange { tree, range } => tree == moved && !range.intersection(moving).is_empty(),
        })
    }
}

impl Engine {
    /// Carries out a batch. When it returns the batch is as safe as asked for, and visible. Returns its last number.
    pub fn commit(&self, batch: &Changes, durability: Durability) -> Result<u64> {
        self.check()?;
        let size = self.validate(batch)?;
        self.check_blocked(&batch.list)?;
        // What cannot be is refused before anything of it is copied or written.
        if !mutated(Mutant::RoomAskedLate) {
            self.make_way(&size)?;
        }
        if mutated(Mutant::BatchesWaitForLog) {
            drop(locked(&self.log));
        }
        let mut first = self.look(batch)?;
        let (prepared, (last_msn, pending, bytes)) = loop {
            let prepared = self.prepare(&batch.list, &size)?;
            let entered = self.enter(batch, &prepared, size.grows, first.take());
            if let Ok(Some(entered)) = entered {
                break (prepared, entered);
            }
            if !mutated(Mutant::RefusedBatchLeaks) {
                // Nothing else may be written there before.
                prepared.places.iter().for_each(|place| self.io.wait_for(place.start * BLOCK_BYTES as u64));
                locked(&self.pool).give_back(&prepared.places);
            }
            // Each time more a range was moved.
            entered?;
        };
        let mut added = Added::by(batch, bytes, prepared.value_blocks());
        if durability > Durability::None || pending + bytes > BUFFER_BYTES {
            self.write_log(last_msn, durability == Durability::Sync)?;
            // A frame that many batches fill costs each of them its bytes.
            if durability > Durability::None {
                added.log_blocks = frame_blocks(bytes);
            }
        }
        // The batch is done. What became of the work of others does not change that: a write that failed stops the store,
        // and what cannot be read is told to whoever reads it.
        let _ = self.maintain(added, batch);
        Ok(last_msn)
    }

    /// Waits for room in the log and on the storage; refuses what there is none for.
    fn make_way(&self, size: &BatchSize) -> Result<()> {
        let mut attempt = 0;
        loop {
            let log = self.log_has_room(size.log_bytes);
            if log && self.storage_has_room(size.log_bytes + size.value_bytes, size.grows) {
                return Ok(());
            }
            if attempt >= ATTEMPTS {
                return Err(Error::Full);
            }
            if log { self.make_room() } else { self.checkpoint() }?;
            attempt += 1;
        }
    }

    /// Gives a batch its numbers and its place among the others, where there is room for it. In `first` its conditions hold, if
    /// it has any. Returns its last number, the bytes that are to be logged before it, and its own; nothing where its values count as
    /// another tree's by where they lie, since a range was moved meanwhile.
    fn enter(
        &self,
        batch: &Changes,
        prepared: &Prepared<'_>,
        grows: bool,
        first: Option<View>,
    ) -> Result<Option<(u64, usize, usize)>> {
        let mut first = first;
        let prepared_bytes = log_bytes(&prepared.changes, usize::MAX);
        let (mut attempt, mut asked_again) = (0, 0);
        loop {
            let patient = asked_again < asked::ATTEMPTS && !mutated(Mutant::AsksUnderLock);
            let asked = if patient { Some(self.ask(batch, &prepared.changes, first.take())?) } else { None };
            let mut commit = locked(&self.commit);
            if commit.moves(batch) && !mutated(Mutant::MoveOvertaken) {
                drop(commit);
                // Whoever moves it has this until it is done.
                drop(self.hold_trees());
                continue;
            }
            let view = self.view();
            if prepared.counts_as_moved(&view) {
                return Ok(None);
            }
            let asked = match asked {
                Some(asked) if asked.is_still_so(batch, &view) => asked,
                Some(_) => {
                    asked_again += 1;
                    continue;
                }
                // Others change the same keys all the time: now they wait.
                None => self.ask(batch, &prepared.changes, None)?,
            };
            let pending = commit.buffer.len();
            let log = self.log_has_room(pending + prepared_bytes);
            if !log || !self.storage_has_room(prepared_bytes, grows) {
                drop(commit);
                if attempt >= ATTEMPTS {
                    return Err(Error::Full);
                }
                if log { self.make_room() } else { self.checkpoint() }?;
                attempt += 1;
                continue;
            }
            if self.is_refused_late() {
                return Err(Error::Conflict);
            }
            let gone = |tree: &TreeId| !view.version.trees.contains_key(tree);
            if batch.list.iter().any(|change| match change {
                Change::CreateTree { .. } => false,
                Change::Point { tree, .. } | Change::DeleteRange { tree, .. } => gone(tree),
            }) {
                return Err(Error::TreeRemoved);
            }
            let bytes = log_bytes(&asked.changes, usize::MAX);
            // Upserts that were carried out may take more than they did.
            if bytes > prepared_bytes {
                check_length("a batch", bytes, self.batch_bytes_max())?;
                if !self.log_has_room(pending + bytes) {
                    return Err(Error::Full);
                }
            }
            for (tree, key, length) in &asked.lengths {
                if let Some(tree) = view.version.trees.get(tree) {
                    tree.active.note_length(key, *length);
                }
            }
            let last_msn = self.apply(&mut commit, &asked.changes, view);
            if !prepared.places.is_empty() {
                locked(&self.pool).commit(last_msn, &prepared.places);
            }
            return Ok(Some((last_msn, pending, bytes)));
        }
    }

    /// Makes a tree, or finds the one with this name.
    pub fn create_tree(&self, name: &str) -> Result<TreeId> {
        self.check()?;
        check_length("a name", name.len(), KEY_BYTES_MAX)?;
        if !self.log_has_room(name.len() + 64 + BUFFER_BYTES) {
            self.checkpoint()?;
        }
        let mut commit = locked(&self.commit);
        if let Some(id) = commit.names.get(name) {
            return Ok(*id);
        }
        let tree = TreeId(commit.next_tree);
        let msn = self.apply(&mut commit, &[Change::CreateTree { tree, name: name.to_owned() }], self.view());
        drop(commit);
        self.write_log(msn, true)?;
        Ok(tree)
    }

    /// Refuses what is too long or unknown.
    fn validate(&self, batch: &Changes) -> Result<BatchSize> {
        for change in &batch.list {
            match change {
                Change::CreateTree { .. } => {}
                Change::Point { key, message, .. } => {
                    check_length("a key", key.len(), KEY_BYTES_MAX)?;
                    if let Message::Insert(value) = message {
                        check_length("a value", value.len(), VALUE_BYTES_MAX)?;
                    }
                    if let Message::Upserts(list) = message {
                        for one in list {
                            check_length("an operand", one.operand.len(), VALUE_BYTES_MAX)?;
                            let id = one.operator;
                            let operator = self.options.operators.get(id).ok_or(Error::UnknownOperator { id })?;
                            match operator.growth(&one.operand) {
                                Growth::UpTo(bytes) => check_length("a value", bytes, VALUE_BYTES_MAX)?,
                                Growth::Invalid(what) => return Err(Error::InvalidOperand { id, what }),
                                Growth::By(_) | Growth::Unknown => {}
                            }
                        }
                    }
                }
                Change::DeleteRange { range, .. } => {
                    check_length("a key", range.start.len(), KEY_BYTES_MAX + 1)?;
                    let end = range.end.as_ref().map_or(0, |end| end.len());
                    check_length("a key", end, KEY_BYTES_MAX + 1)?;
                }
            }
        }
        self.size_of(batch)
    }

    /// Bytes of a batch in the log, at most.
    fn batch_bytes_max(&self) -> usize {
        (self.log_blocks as usize * BLOCK_BYTES) / 4
    }

    /// How large a batch is. Where it does not fit into the log otherwise, smaller values lie apart as well.
    fn size_of(&self, batch: &Changes) -> Result<BatchSize> {
        let max_bytes = self.batch_bytes_max();
        let large_bytes = self.options.large_value_bytes;
        let whole_bytes = log_bytes(&batch.list, usize::MAX);
        let mut size = BatchSize {
            log_bytes: log_bytes(&batch.list, large_bytes),
            value_bytes: 0,
            apart_bytes: large_bytes,
            must_lie_apart: whole_bytes > max_bytes,
            grows: batch.list.iter().any(|change| match change {
                Change::Point { message, .. } => *message != Message::Delete,
                Change::CreateTree { .. } => true,
                Change::DeleteRange { .. } => false,
            }),
        };
        if !size.must_lie_apart {
            return Ok(size);
        }
        if size.log_bytes > max_bytes && large_bytes < usize::MAX {
            size.apart_bytes = large_bytes.min(BLOCK_BYTES);
            size.log_bytes = log_bytes(&batch.list, size.apart_bytes);
        }
        check_length("a batch", size.log_bytes, max_bytes)?;
        let apart = |bytes_of: fn(usize) -> usize| {
            let blocks = |change: &Change| match change {
                Change::Point { message, .. } if lies_apart(message, size.apart_bytes) => {
                    bytes_of(message.bytes()).div_ceil(BLOCK_BYTES)
                }
                _ => 0,
            };
            batch.list.iter().map(blocks).sum::<usize>() * BLOCK_BYTES
        };
        let room_bytes = self.value_room_blocks() as usize * BLOCK_BYTES;
        check_length("the values of a batch", apart(|bytes| bytes), room_bytes)?;
        size.value_bytes = apart(stored_bytes);
        Ok(size)
    }

    /// For the proof that such a batch leaves nothing behind.
    #[cfg(test)]
    fn is_refused_late(&self) -> bool {
        let left = self.refuse_next.load(Ordering::Acquire);
        self.refuse_next.store(left.saturating_sub(1), Ordering::Release);
        left > 0
    }

    #[cfg(not(test))]
    const fn is_refused_late(&self) -> bool {
        false
    }

    fn log_has_room(&self, buffered_bytes: usize) -> bool {
        let used = self.log_used_blocks.load(Ordering::Acquire);
        used + frame_blocks(buffered_bytes) <= self.log_blocks
    }

    /// Numbers the changes and makes them visible, all at once; returns the last number. The view is one since which nobody
    /// else had `commit`.
    fn apply(&self, commit: &mut Commit, changes: &[Change], view: View) -> u64 {
        let first_msn = commit.next_msn;
        if changes.is_empty() {
            return first_msn - 1;
        }
        let unlogged = mutated(Mutant::TreeNotLogged) && matches!(changes.first(), Some(Change::CreateTree { .. }));
        if !unlogged {
            changes::encode(changes, first_msn, &mut commit.buffer);
        }
        let last_msn = self.apply_to_memory(commit, changes, first_msn, view);
        commit.next_msn = last_msn + 1;
        commit.buffered_msn = last_msn;
        self.versions.show(last_msn);
        last_msn
    }

    fn apply_to_memory(&self, commit: &mut Commit, changes: &[Change], first_msn: u64, view: View) -> u64 {
        let mut view = view;
        if mutated(Mutant::CommitCopiesTrees) {
            self.versions.publish(|trees| *trees = trees.iter().map(|(id, tree)| (*id, tree.clone())).collect());
        }
        let mut msn = first_msn;
        for (number, change) in changes.iter().enumerate() {
            msn = first_msn + number as u64;
            match change {
                Change::CreateTree { tree, name } => {
                    commit.names.insert(name.clone(), *tree);
                    commit.next_tree = commit.next_tree.max(tree.0 + 1);
                    let mut is_new = false;
                    self.versions.publish(|trees| {
                        is_new = !trees.contains_key(tree);
                        if is_new {
                            trees.insert_mut(*tree, TreeVersion::empty());
                        }
                    });
                    if is_new {
                        self.fresh.add(TreeVersion::EMPTY_BYTES);
                    }
                    view = self.view();
                }
                Change::Point { tree, key, message } => {
                    if let Some(tree) = view.version.trees.get(tree) {
                        let added = tree.active.put(msn, key, message.clone());
                        self.active_bytes.fetch_add(added, Ordering::AcqRel);
                    }
                }
                Change::DeleteRange { tree, range } => {
                    if let Some(tree) = view.version.trees.get(tree) {
                        let added = tree.active.delete_range(msn, range.clone());
                        self.active_bytes.fetch_add(added, Ordering::AcqRel);
                        self.active_ranges.fetch_add(1, Ordering::AcqRel);
                    }
                }
            }
        }
        msn
    }

    /// Carries out again what a frame of the log says and the trees do not have.
    pub(super) fn replay(&self, payload: &[u8], after_msn: u64, space: &mut Space) -> Result<()> {
        let mut commit = locked(&self.commit);
        for batch in Batches::of(payload) {
            let (first_msn, changes) = batch.map_err(|error| Error::Corrupt {
                what: format!("log: {error}"),
                offset_bytes: 0,
                stored_bytes: payload.len() as u64,
            })?;
            // A batch is in the trees whole or not at all.
            let old = first_msn <= after_msn && !mutated(Mutant::ReplayTwice);
            if old || changes.is_empty() {
                continue;
            }
            let batch = Changes { list: changes, ..Changes::default() };
            self.validate(&batch)?;
            let last_msn = self.apply_to_memory(&mut commit, &batch.list, first_msn, self.view());
            self.take_places_again(space, &batch.list, last_msn)?;
            if !mutated(Mutant::MsnForgotten) {
                commit.next_msn = last_msn + 1;
            }
            self.versions.show(last_msn);
        }
        Ok(())
    }

    /// Values are on their places before a frame names them.
    pub(super) fn settle_values(&self) -> Result<()> {
        if mutated(Mutant::FrameBeforeValues) { Ok(()) } else { self.guard(self.io.settle()) }
    }

    /// Whether everything up to `msn` is durable.
    pub fn is_durable(&self, msn: u64) -> bool {
        locked(&self.log).synced_msn >= msn
    }

    /// Makes what has been committed by now durable. What others commit while it waits for its turn is theirs: whoever took that
    /// along would have a flush for each of many who sync at once.
    pub fn sync(&self) -> Result<()> {
        let msn = if mutated(Mutant::SyncTakesAll) { u64::MAX } else { locked(&self.commit).buffered_msn };
        between();
        self.write_log(msn, true)
    }

    /// Makes sure that everything up to `msn` is in the log; with `sync` also that it is durable. Whoever comes first
    /// writes for all who wait.
    pub fn write_log(&self, msn: u64, sync: bool) -> Result<()> {
        let mut state = locked(&self.log);
        self.check()?;
        if state.written_msn < msn {
            let (payload, last_msn) = {
                let mut commit = locked(&self.commit);
                let payload = std::mem::take(&mut commit.buffer);
                if !payload.is_empty() {
                    let blocks = frame_blocks(payload.len());
                    self.log_used_blocks.fetch_add(blocks, Ordering::AcqRel);
                    self.log_unsealed_blocks.fetch_add(blocks, Ordering::AcqRel);
                }
                (payload, commit.buffered_msn)
            };
            if !payload.is_empty() {
                self.settle_values()?;
                let appended = state.log.append(&self.io, &payload);
                self.guard(appended)?;
                let late = mutated(Mutant::GroupCountsLate);
                state.written_msn = if late { locked(&self.commit).buffered_msn } else { last_msn };
            }
        }
        if sync && state.synced_msn < msn.min(state.written_msn) {
            let written = state.written_msn;
            if !mutated(Mutant::SyncWithoutFlush) {
                self.guard(self.io.flush())?;
            }
            state.log.flushed();
            let late = mutated(Mutant::SyncCountsLate);
            state.synced_msn = if late { locked(&self.commit).buffered_msn } else { written };
        }
        Ok(())
    }
}
