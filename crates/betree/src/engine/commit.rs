//! The ordered write path: batches get their numbers, go into the memtables and the log buffer, and from there, many at
//! a time, into the log.

use std::sync::atomic::Ordering;

use storage::BLOCK_BYTES;

use super::maintain::Added;
use super::values::Prepared;
use super::{Commit, Engine, TreeVersion, View, locked};
use crate::batch::{self, Batch, Change};
use crate::catalog::TreeId;
use crate::error::{Error, Result};
use crate::log::frame_blocks;
use crate::message::Message;
use crate::mutant::{Mutant, mutated};
use crate::operator::Growth;
use crate::options::{Durability, KEY_BYTES_MAX, VALUE_BYTES_MAX, check_length};
use crate::space::Space;
use crate::wire::Reader;

/// The commit buffer goes into the log at this size even if nobody waits for it.
const BUFFER_BYTES: usize = 256 << 10;

/// Tries to make room before a batch is refused.
const ATTEMPTS: usize = 3;

/// Bytes that changes take in the log, at most.
fn log_bytes(changes: &[Change]) -> usize {
    let bytes = |change: &Change| match change {
        Change::CreateTree { name, .. } => name.len(),
        Change::Point { key, message, .. } => key.len() + message.bytes(),
        Change::DeleteRange { range, .. } => range.start.len() + range.end.as_ref().map_or(0, |end| end.len()),
    };
    32 + changes.iter().map(|change| 32 + bytes(change)).sum::<usize>()
}

impl Engine {
    /// Carries out a batch. When it returns the batch is as safe as asked for, and visible.
    pub fn commit(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.check()?;
        self.validate(batch)?;
        let prepared = self.prepare(&batch.changes)?;
        let entered = self.enter(batch, &prepared);
        if entered.is_err() {
            locked(&self.pool).give_back(&prepared.places);
        }
        let (last_msn, pending) = entered?;
        let bytes = log_bytes(&prepared.changes);
        let mut added = Added::by(batch, bytes, prepared.value_blocks());
        if durability > Durability::None || pending + bytes > BUFFER_BYTES {
            self.write_log(last_msn, durability == Durability::Sync)?;
            // A frame that many batches fill costs each of them its bytes.
            if durability > Durability::None {
                added.log_blocks = frame_blocks(bytes);
            }
        }
        // The batch is done; a full storage is the next one's trouble.
        match self.guard(self.maintain(added)) {
            Err(Error::Full) => Ok(()),
            result => result,
        }
    }

    /// Gives a batch its numbers and its place among the others, where there is room for it. Returns its last number and
    /// the bytes that are to be logged before it.
    fn enter(&self, batch: &Batch, prepared: &Prepared<'_>) -> Result<(u64, usize)> {
        let bytes = log_bytes(&prepared.changes);
        let grows = batch.changes.iter().any(|change| match change {
            Change::Point { message, .. } => *message != Message::Delete,
            Change::CreateTree { .. } => true,
            Change::DeleteRange { .. } => false,
        });
        let mut attempt = 0;
        loop {
            let mut commit = locked(&self.commit);
            let pending = commit.buffer.len();
            if !self.log_has_room(pending + bytes) {
                drop(commit);
                if attempt >= ATTEMPTS {
                    return Err(Error::Full);
                }
                self.guard(self.checkpoint())?;
                attempt += 1;
                continue;
            }
            if !self.storage_has_room(bytes, grows) {
                drop(commit);
                if attempt >= ATTEMPTS {
                    return Err(Error::Full);
                }
                self.guard(self.make_room())?;
                attempt += 1;
                continue;
            }
            if !self.conditions_hold(batch)? {
                return Err(Error::Conflict);
            }
            let last_msn = self.apply(&mut commit, &prepared.changes);
            locked(&self.pool).commit(last_msn, &prepared.places);
            return Ok((last_msn, pending));
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
        let msn = self.apply(&mut commit, &[Change::CreateTree { tree, name: name.to_owned() }]);
        drop(commit);
        self.write_log(msn, true)?;
        Ok(tree)
    }

    /// Refuses what is too long or unknown.
    fn validate(&self, batch: &Batch) -> Result<()> {
        for change in &batch.changes {
            match change {
                Change::CreateTree { .. } => {}
                Change::Point { key, message, .. } => {
                    check_length("a key", key.len(), KEY_BYTES_MAX)?;
                    check_length("a value", message.bytes(), VALUE_BYTES_MAX)?;
                    if let Message::Upserts(list) = message {
                        for one in list {
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
        let max_bytes = (self.log_blocks as usize * BLOCK_BYTES) / 4;
        check_length("a batch", log_bytes(&batch.changes), max_bytes)
    }

    fn log_has_room(&self, buffered_bytes: usize) -> bool {
        let used = self.log_used_blocks.load(Ordering::Acquire);
        used + frame_blocks(buffered_bytes) <= self.log_blocks
    }

    fn conditions_hold(&self, batch: &Batch) -> Result<bool> {
        if batch.conditions.is_empty() || mutated(Mutant::ConditionIgnored) {
            return Ok(true);
        }
        let view = self.view();
        for condition in &batch.conditions {
            if self.get(&view, condition.tree, &condition.key)? != condition.value {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Numbers the changes and makes them visible, all at once; returns the last number.
    fn apply(&self, commit: &mut Commit, changes: &[Change]) -> u64 {
        let first_msn = commit.next_msn;
        if changes.is_empty() {
            return first_msn - 1;
        }
        let unlogged = mutated(Mutant::TreeNotLogged) && matches!(changes.first(), Some(Change::CreateTree { .. }));
        if !unlogged {
            batch::encode(changes, first_msn, &mut commit.buffer);
        }
        let last_msn = self.apply_to_memory(commit, changes, first_msn);
        commit.next_msn = last_msn + 1;
        commit.buffered_msn = last_msn;
        self.versions.show(last_msn);
        last_msn
    }

    fn apply_to_memory(&self, commit: &mut Commit, changes: &[Change], first_msn: u64) -> u64 {
        let mut view = self.view();
        let mut msn = first_msn;
        for (number, change) in changes.iter().enumerate() {
            msn = first_msn + number as u64;
            match change {
                Change::CreateTree { tree, name } => {
                    commit.names.insert(name.clone(), *tree);
                    commit.next_tree = commit.next_tree.max(tree.0 + 1);
                    let mut is_new = false;
                    self.versions.publish(|trees| {
                        trees.entry(*tree).or_insert_with(|| {
                            is_new = true;
                            TreeVersion::empty()
                        });
                    });
                    if is_new {
                        self.fresh_bytes.fetch_add(TreeVersion::EMPTY_BYTES, Ordering::AcqRel);
                    }
                    view = self.view();
                }
                Change::Point { tree, key, message } => {
                    if let Some(tree) = view.version.trees.get(tree) {
                        tree.active.put(msn, key, message.clone());
                    }
                }
                Change::DeleteRange { tree, range } => {
                    if let Some(tree) = view.version.trees.get(tree) {
                        tree.active.delete_range(msn, range.clone());
                    }
                }
            }
        }
        msn
    }

    /// Carries out again what a frame of the log says and the trees do not have.
    pub(super) fn replay(&self, payload: &[u8], after_msn: u64, space: &mut Space) -> Result<()> {
        let mut commit = locked(&self.commit);
        let mut from = Reader::new(payload);
        while from.remaining() > 0 {
            let (first_msn, changes) = batch::decode(&mut from).map_err(|error| Error::Corrupt {
                what: format!("log: {error}"),
                offset_bytes: 0,
                stored_bytes: payload.len() as u64,
            })?;
            // A batch is in the trees whole or not at all.
            let old = first_msn <= after_msn && !mutated(Mutant::ReplayTwice);
            if old || changes.is_empty() {
                continue;
            }
            let batch = Batch { changes, conditions: Vec::new() };
            self.validate(&batch)?;
            let last_msn = self.apply_to_memory(&mut commit, &batch.changes, first_msn);
            self.take_places_again(space, &batch.changes, last_msn)?;
            if !mutated(Mutant::MsnForgotten) {
                commit.next_msn = last_msn + 1;
            }
            self.versions.show(last_msn);
        }
        Ok(())
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
                let appended = state.log.append(&self.io, &payload);
                self.guard(appended)?;
                state.written_msn = last_msn;
            }
        }
        if sync && state.synced_msn < msn.min(state.written_msn) {
            let written = state.written_msn;
            if !mutated(Mutant::SyncWithoutFlush) {
                self.guard(self.io.flush())?;
            }
            state.log.flushed();
            state.synced_msn = written;
        }
        Ok(())
    }

    /// The value of a key in a view.
    pub fn get(&self, view: &View, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let with = &self.composer();
        let Some(version) = view.version.trees.get(&tree) else { return Ok(None) };
        let mut folded: Option<Message<'static>> = None;
        for table in version.tables() {
            let (message, covered) = table.find(key, view.msn, with)?;
            if let Some(message) = message {
                folded = Some(match folded {
                    None => message,
                    Some(newer) => newer.over(message, with)?,
                });
            }
            if !folded.as_ref().is_some_and(Message::is_final) && covered {
                folded = Some(folded.unwrap_or(Message::Delete).over_nothing(with)?);
            }
            if folded.as_ref().is_some_and(Message::is_final) {
                break;
            }
        }
        if !folded.as_ref().is_some_and(Message::is_final) {
            folded = crate::tree::find(with, &version.root, key, folded)?;
        }
        match folded {
            Some(message) => with.value(message),
            None => Ok(None),
        }
    }
}
