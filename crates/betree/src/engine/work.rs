//! What is owed, one piece after the other: memtables go into the trees, the trees go to the storage.
//!
//! One piece is in flight at a time, and what it does is seen when it is done: a tree changes when its table is in it
//! whole, and a checkpoint counts when its superblock is durable. A piece that is dropped did nothing.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use storage::BLOCK_BYTES;

use super::checkpoint::Written;
use super::gone;
use super::in_steps::STEP_BYTES;
use super::{Engine, TreeState, TreeVersion};
use crate::bytes::pointer::Freed;
use crate::bytes::tree_id::TreeId;
use crate::error::{Error, Result};
use crate::io::Composer;
use crate::memtable::Memtable;
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::Edge;
use crate::step::{Steps, UNBOUNDED};
use crate::tree::{Blocked, Change, Reach, Room};

/// Of what a checkpoint writes that changed nodes made due, the catalog is one part in so many at most.
const CATALOG_SHARE: u64 = 8;

/// A piece of work in flight.
pub(crate) struct Work {
    steps: Steps<Result<Outcome>>,
    kind: Kind,
    /// The tree that it changes.
    tree: Option<TreeId>,
    /// For whoever waits for what comes of it.
    report: Option<Report>,
}

/// How far a change went, as soon as it is seen by everybody. Nobody else holds it any more if it failed.
pub(super) type Report = Arc<OnceLock<Progress>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Makes something in memory.
    Memory,
    /// Writes; then a failure is the store's.
    Checkpoint,
    /// Tells the device what is free.
    Discard,
}

impl Work {
    fn memory(steps: Steps<Result<Outcome>>) -> Self {
        Self { steps, kind: Kind::Memory, tree: None, report: None }
    }

    pub(super) fn checkpoint(steps: Steps<Result<Outcome>>) -> Self {
        Self { steps, kind: Kind::Checkpoint, tree: None, report: None }
    }

    pub(super) fn tree(&self) -> Option<TreeId> {
        self.tree
    }

    /// Whether nobody else may take free blocks meanwhile.
    pub(super) fn holds_space(&self) -> bool {
        self.kind != Kind::Memory
    }
}

/// What came of a piece of work.
pub(super) enum Outcome {
    Changed(Box<Changed>),
    Written(Box<Written>),
    /// Nothing that anybody sees.
    Nothing,
}

/// A changed tree.
pub(super) struct Changed {
    tree: TreeId,
    root: Edge,
    /// The table that is in it now.
    drained: Option<Arc<Memtable>>,
    freed: Vec<Freed>,
    fresh_bytes: i64,
    /// Given back when they count.
    room: Room,
    progress: Progress,
    blocked: Vec<Blocked>,
    reach: Option<Reach>,
}

/// What is done to a tree.
enum Task {
    /// A sealed table goes into it.
    Drain(Arc<Memtable>),
    /// Messages move down.
    Move(Reach),
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
    fn change_work(&self, state: &TreeState, tree: TreeId, version: &TreeVersion, task: Task) -> Work {
        let shape = self.options.shape();
        // What a checkpoint may write now, less what it will write anyway; and what may be in memory until then.
        let free = state.space.free_blocks() * BLOCK_BYTES as u64;
        let paths = 1 + state.flight.changes() as u64;
        let space = free as i64 - self.fresh_bytes() as i64 - (paths * shape.overhead_bytes()) as i64;
        let memory = 2 * self.fresh_bytes_max(state) as i64 - self.fresh_bytes() as i64;
        let least = 4 * shape.leaf_storage_bytes() as i64;
        let most = if state.in_haste { STEP_BYTES } else { memory.max(least) };
        let budget = if mutated(Mutant::FreshUnbounded) { space } else { space.min(most) };
        let room = Room::of(&self.fresh, budget);
        let (io, operators, root) = (Arc::clone(&self.io), self.options.operators.clone(), version.root.clone());
        let steps = Steps::new(|quota| async move {
            let with = Composer::new(&io, &operators);
            let mut change = Change::new(with, &quota, shape, room);
            let (root, drained, reach) = match task {
                Task::Drain(table) => (change.drain(&root, &table).await?, Some(table), None),
                Task::Move(reach) => (change.move_down(&root, reach).await?, None, Some(reach)),
            };
            let progress = match (change.stopped, change.moved) {
                (false, _) => Progress::Done,
                (true, true) => Progress::More,
                (true, false) => Progress::Stuck,
            };
            let Change { freed, fresh_bytes, room, blocked, .. } = change;
            let changed = Changed { tree, root, drained, freed, fresh_bytes, room, progress, blocked, reach };
            Ok(Outcome::Changed(Box::new(changed)))
        });
        Work { tree: Some(tree), ..Work::memory(steps) }
    }

    /// Moves messages of a tree down, as far as there is room.
    pub(super) fn move_down(&self, state: &mut TreeState, tree: TreeId, reach: Reach) -> Result<Progress> {
        let view = self.view();
        let Some(version) = view.version.trees.get(&tree) else { return Ok(Progress::Done) };
        let work = self.change_work(state, tree, version, Task::Move(reach));
        drop(view);
        self.run(state, work)
    }

    /// Begins to do that, as the piece that is gone on with next; where its report will be. None if the tree is gone.
    pub(super) fn begin_to_move_down(&self, state: &mut TreeState, tree: TreeId, reach: Reach) -> Option<Report> {
        let view = self.view();
        let version = view.version.trees.get(&tree)?;
        let report = Report::default();
        let work = self.change_work(state, tree, version, Task::Move(reach));
        state.flight.put_back(Work { report: Some(Arc::clone(&report)), ..work });
        Some(report)
    }

    /// Bytes of changed nodes at which a checkpoint writes them. One change may make twice as many.
    pub(super) fn fresh_bytes_max(&self, state: &TreeState) -> u64 {
        // The catalog is written whole: not for less than so many times its length.
        let catalog_bytes = u64::from(state.superblock.catalog.stored_bytes);
        self.options.fresh_bytes.max(catalog_bytes * CATALOG_SHARE)
    }

    /// The piece of work that comes next, if any is owed.
    fn next_work(&self, state: &mut TreeState, checkpoints: bool) -> Result<Option<Work>> {
        // Of a table that a reader still holds, the reader gives the memory back.
        while let Some(table) = state.drained.pop() {
            if let Some(table) = Arc::into_inner(table) {
                let steps = Steps::new(|quota| async move {
                    table.clear(&quota).await;
                    Ok(Outcome::Nothing)
                });
                return Ok(Some(Work::memory(steps)));
            }
        }
        if !state.gone.is_empty() {
            let gone = std::mem::take(&mut state.gone);
            let steps = Steps::new(|quota| async move {
                gone::free(gone, &quota).await;
                Ok(Outcome::Nothing)
            });
            return Ok(Some(Work::memory(steps)));
        }
        // While a checkpoint writes trees none of them changes, and what two changes make has to have room beside each other.
        let fresh_bytes_max = self.fresh_bytes_max(state);
        let crowded = state.flight.changes() > 0
            && self.fresh.all() > fresh_bytes_max as i64
            && !mutated(Mutant::CheckpointOverWork);
        if state.flight.holds_space() || crowded {
            return Ok(None);
        }
        loop {
            let view = self.view();
            let early = checkpoints && state.checkpoint_due && mutated(Mutant::CheckpointBeforeDrain);
            // The oldest table whose tree nobody is at.
            let mut place = 0;
            while let Some(tree) = state.to_drain.get(place).copied().filter(|_| !early) {
                let version = view.version.trees.get(&tree);
                match version.and_then(|version| Some((version, version.sealed.last()?))) {
                    Some(_) if state.flight.is_changing(tree) => place += 1,
                    Some((version, oldest)) => {
                        return Ok(Some(self.change_work(state, tree, version, Task::Drain(Arc::clone(oldest)))));
                    }
                    None => drop(state.to_drain.remove(place)),
                }
            }
            // All else waits for what is begun.
            if !state.flight.is_empty() && !mutated(Mutant::CheckpointOverWork) {
                return Ok(None);
            }
            if checkpoints && state.queue.wants_seal() {
                drop(view);
                self.seal(state)?;
                state.checkpoint_due = true;
                continue;
            }
            let due = state.checkpoint_due || self.fresh_bytes() > fresh_bytes_max;
            let seal = if mutated(Mutant::SealTooLate) { Some(self.seal_now()) } else { state.sealed_at };
            if due
                && checkpoints
                && !state.queue.is_asked()
                && let Some(tree) = state.unwritten.pop_first()
            {
                let Some(version) = view.version.trees.get(&tree) else { continue };
                return Ok(Some(self.change_work(state, tree, version, Task::Move(Reach::Unwritten))));
            }
            if let Some(seal) = seal.filter(|_| due && checkpoints) {
                if state.queue.is_asked() {
                    // Whoever waits for it may be in want of room.
                    self.take_back(state);
                }
                let change = state.queue.begin();
                return Ok(Some(self.checkpoint_work(state, seal, change)));
            }
            if let Some(tree) = state.overdue.first().copied().filter(|_| checkpoints) {
                let Some(version) = view.version.trees.get(&tree) else {
                    state.overdue.remove(&tree);
                    continue;
                };
                if self.fresh_bytes() <= fresh_bytes_max {
                    return Ok(Some(self.change_work(state, tree, version, Task::Move(Reach::Overdue))));
                }
                // What it is to make has no room beside what is there: a checkpoint first.
                drop(view);
                self.seal(state)?;
                state.checkpoint_due = true;
                continue;
            }
            return Ok(self.options.discard_bytes.and_then(|bytes| self.discard_work(state, bytes)));
        }
    }

    /// Tells the device what is free and was not when it was last told, if that is at least `least_bytes`.
    fn discard_work(&self, state: &mut TreeState, least_bytes: u64) -> Option<Work> {
        let bytes = state.space.undiscarded_blocks() * BLOCK_BYTES as u64;
        if bytes == 0 || bytes < least_bytes {
            return None;
        }
        let (io, extents) = (Arc::clone(&self.io), state.space.take_undiscarded());
        let steps = Steps::new(|quota| async move {
            for extent in extents {
                // It is a hint, and no more than that.
                let _ = io.discard(extent);
                quota.spend(BLOCK_BYTES as u64).await;
            }
            Ok(Outcome::Nothing)
        });
        Some(Work { steps, kind: Kind::Discard, tree: None, report: None })
    }

    /// Tells the device everything that is free.
    pub(super) fn discard(&self, state: &mut TreeState) -> Result<()> {
        match self.options.discard_bytes.and_then(|_| self.discard_work(state, 0)) {
            Some(work) => self.run(state, work).map(drop),
            None => Ok(()),
        }
    }

    /// Works until `bytes` are spent, or nothing more is owed; whether more is.
    pub(super) fn advance(&self, state: &mut TreeState, bytes: &mut i64) -> Result<bool> {
        self.advance_with(state, bytes, true)
    }

    fn advance_with(&self, state: &mut TreeState, bytes: &mut i64, checkpoints: bool) -> Result<bool> {
        loop {
            let mut work = match state.flight.take() {
                Some(work) => work,
                None => match self.next_work(state, checkpoints)? {
                    Some(work) => work,
                    None => {
                        self.owing.store(false, Ordering::Release);
                        return Ok(false);
                    }
                },
            };
            self.owing.store(true, Ordering::Release);
            match self.step(&mut work, bytes) {
                Some(outcome) => self.complete(state, work, outcome).map(drop)?,
                None => {
                    state.flight.put_back(work);
                    return Ok(true);
                }
            }
        }
    }

    /// Works on a piece until `bytes` are spent; what came of it, if it is done.
    pub(super) fn step(&self, work: &mut Work, bytes: &mut i64) -> Option<Result<Outcome>> {
        let spent = work.steps.spent_bytes();
        let outcome = work.steps.step(bytes);
        self.worked_bytes.fetch_add(work.steps.spent_bytes() - spent, Ordering::Relaxed);
        outcome
    }

    /// The piece that a thread begins now: what is owed, or what is due since the room for new messages is used up.
    pub(super) fn begin_work(&self, state: &mut TreeState) -> Result<Option<Work>> {
        let mut next = self.next_work(state, true)?;
        if next.is_none() && state.flight.is_empty() && self.seal_what_is_due(state)? {
            next = self.next_work(state, true)?;
        }
        self.owing.store(next.is_some() || !state.flight.is_empty(), Ordering::Release);
        Ok(next)
    }

    /// Does one piece of work from beginning to end. Nothing else may be in flight.
    pub(super) fn run(&self, state: &mut TreeState, mut work: Work) -> Result<Progress> {
        loop {
            if let Some(outcome) = self.step(&mut work, &mut UNBOUNDED.clone()) {
                let progress = self.complete(state, work, outcome);
                state.gone.clear();
                return progress;
            }
        }
    }

    /// Brings what is sealed into the trees. A checkpoint in flight is completed, or given up for want of room; no other
    /// one is begun.
    pub(super) fn drain(&self, state: &mut TreeState) -> Result<()> {
        loop {
            match self.advance_with(state, &mut UNBOUNDED.clone(), false) {
                Ok(true) | Err(Error::Full) => {}
                Ok(false) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes it so that everybody sees what came of a piece of work.
    pub(super) fn complete(&self, state: &mut TreeState, work: Work, outcome: Result<Outcome>) -> Result<Progress> {
        let Work { kind, report, .. } = work;
        let result = match outcome {
            Ok(Outcome::Changed(changed)) => Ok(self.complete_change(state, *changed)),
            Ok(Outcome::Written(written)) => self.complete_checkpoint(state, *written).map(|()| Progress::Done),
            Ok(Outcome::Nothing) => Ok(Progress::Done),
            Err(error) => {
                if kind == Kind::Checkpoint {
                    // Everything is as before, but for the generation: no place has two contents under one name. The
                    // next one goes to the same slot.
                    state.generation += if mutated(Mutant::FailureChangesSlot) { 1 } else { 2 };
                }
                Err(error)
            }
        };
        self.free_blocks.store(state.space.free_blocks(), Ordering::Release);
        if let (Some(report), Ok(progress)) = (report, &result) {
            // It is set by nobody else.
            let _ = report.set(*progress);
        }
        if kind != Kind::Checkpoint {
            return result;
        }
        state.queue.end(result.is_ok());
        self.guard(result)
    }

    fn complete_change(&self, state: &mut TreeState, changed: Changed) -> Progress {
        let number = self.versions.publish(|trees| {
            if let Some(tree) = trees.get_mut(&changed.tree) {
                state.gone.push(std::mem::replace(&mut tree.root, changed.root));
                if changed.drained.is_some() {
                    tree.sealed.pop();
                }
            }
        });
        match (changed.reach, changed.progress) {
            (None, Progress::More | Progress::Stuck) => drop(state.overdue.insert(changed.tree)),
            (Some(Reach::Overdue), Progress::Done | Progress::Stuck) => drop(state.overdue.remove(&changed.tree)),
            _ => {}
        }
        // A change that moves only what is due may not have come to it.
        if changed.drained.is_some() || changed.reach == Some(Reach::Empty) {
            self.note_blocked(changed.tree, changed.blocked);
        }
        if let Some(table) = changed.drained {
            if let Some(place) = state.to_drain.iter().position(|tree| *tree == changed.tree) {
                state.to_drain.remove(place);
            }
            state.unwritten.insert(changed.tree);
            self.sealed_bytes.fetch_sub(table.bytes(), Ordering::AcqRel);
            state.drained.push(table);
        }
        let newest = state.catalog.newest_snapshot();
        let newest = newest.filter(|_| !mutated(Mutant::SnapshotNotHeld));
        for freed in &changed.freed {
            if state.catalog.families.give_up(changed.tree, freed) {
                state.space.retire(&freed.pointer, number, state.generation, newest);
            }
            // Whoever still has the old tree reads it again.
            self.io.cache.remove(&freed.pointer);
        }
        if mutated(Mutant::SpaceReusedEarly) {
            state.space.settle(usize::MAX, u64::MAX);
        }
        self.fresh.add(changed.fresh_bytes);
        drop(changed.room);
        #[cfg(test)]
        self.most_fresh_bytes.fetch_max(self.fresh_bytes(), Ordering::AcqRel);
        changed.progress
    }
}
