//! What somebody asks for and waits for, in steps: between two of them others have the trees, and do a part of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::checkpoint::CatalogChange;
use super::work::{Progress, Report};
use super::{Engine, TreeState};
use crate::bytes::tree_id::TreeId;
use crate::error::{Error, Result};
use crate::mutant::{Mutant, between, mutated};
use crate::tree::Reach;

/// Bytes of work between two moments at which others may have the trees.
pub(super) const STEP_BYTES: i64 = 256 << 10;

/// A change of the catalog that a checkpoint is asked to make.
pub(super) struct Asked {
    number: u64,
    change: CatalogChange,
    /// Whether memtables were sealed since it was asked for.
    is_sealed: bool,
}

/// What checkpoints are asked for.
#[derive(Default)]
pub(super) struct Queue {
    /// The newest.
    last: u64,
    next: Option<Asked>,
    /// That of the checkpoint in flight.
    in_flight: Option<u64>,
    /// Those that are durable, for whoever waits for them.
    done: Vec<u64>,
}

impl Queue {
    fn ask(&mut self, change: CatalogChange, is_sealed: bool) -> u64 {
        self.last += 1;
        self.next = Some(Asked { number: self.last, change, is_sealed });
        self.last
    }

    /// Whether memtables are to be sealed for what is asked for. Then they are.
    pub fn wants_seal(&mut self) -> bool {
        self.next.as_mut().is_some_and(|asked| !std::mem::replace(&mut asked.is_sealed, true))
    }

    /// Whether somebody waits for the checkpoint that is begun now.
    pub fn is_asked(&self) -> bool {
        self.next.is_some()
    }

    /// The change that the checkpoint makes that is begun now.
    pub fn begin(&mut self) -> CatalogChange {
        let Some(asked) = self.next.take() else { return CatalogChange::None };
        self.in_flight = Some(asked.number);
        asked.change
    }

    /// A checkpoint is durable; or is given up.
    pub fn end(&mut self, is_durable: bool) {
        self.done.extend(self.in_flight.take().filter(|_| is_durable));
        // What was sealed for the next one may be in this one, and is no reason for another.
        self.next.iter_mut().for_each(|asked| asked.is_sealed = false);
    }

    fn take_done(&mut self, number: u64) -> bool {
        let before = self.done.len();
        self.done.retain(|done| *done != number);
        self.done.len() < before
    }

    fn give_up(&mut self, number: u64) {
        self.next.take_if(|asked| asked.number == number);
    }

    fn is_waiting(&self, number: u64) -> bool {
        self.in_flight == Some(number) || self.next.as_ref().is_some_and(|asked| asked.number == number)
    }
}

impl Engine {
    /// A checkpoint of all that is committed by now, and maybe of more, with a change of the catalog. Others commit meanwhile.
    pub(super) fn checkpoint_in_steps(
        &self,
        allowed: impl Fn(&TreeState) -> Result<()>,
        change: impl Fn() -> CatalogChange,
    ) -> Result<()> {
        let mut asked = None;
        loop {
            between();
            let mut state = self.hold_trees();
            self.check()?;
            match asked {
                None => {
                    allowed(&state)?;
                    if mutated(Mutant::SnapshotInOneStep) {
                        return self.checkpoint_with(&mut state, change());
                    }
                    // One at a time: whoever comes later does some of the work for the one before.
                    if state.queue.next.is_none() && state.queue.in_flight.is_none() {
                        // What was sealed before lacks what came since.
                        let is_sealed = mutated(Mutant::SnapshotOfOldSeal) && state.sealed_at.is_some();
                        asked = Some(state.queue.ask(change(), is_sealed));
                        state.checkpoint_due = true;
                        self.owing.store(true, Ordering::Release);
                    }
                }
                Some(number) if state.queue.take_done(number) => return Ok(()),
                Some(_) => {}
            }
            let worked = self.advance_a_step(&mut state);
            let Some(number) = asked.filter(|number| worked.is_err() || !state.queue.is_waiting(*number)) else {
                continue;
            };
            if !state.queue.take_done(number) {
                // It failed in somebody's hands. What there is to say of that is told to whoever asked for it.
                state.queue.give_up(number);
                allowed(&state)?;
                return self.checkpoint_with(&mut state, change());
            }
            return Ok(());
        }
    }

    /// A step of what is owed.
    fn advance_a_step(&self, state: &mut TreeState) -> Result<bool> {
        let mut left = STEP_BYTES;
        let worked = self.advance(state, &mut left);
        // So much less is left for those who commit.
        if !mutated(Mutant::CreditUnbounded) {
            let credit = self.credit_bytes.load(Ordering::Acquire);
            self.credit_bytes.fetch_sub((STEP_BYTES - left).min(credit).max(0), Ordering::AcqRel);
        }
        worked
    }

    /// Does what a checkpoint has left to do.
    pub(super) fn finish_in_steps(&self) -> Result<()> {
        // Others go on, and leave more: of that no more than there can be now.
        for _ in 0..self.budget_bytes() / STEP_BYTES as u64 {
            between();
            let mut state = self.hold_trees();
            let has_freed = state.gone.is_empty() && state.drained.is_empty();
            if has_freed && state.overdue.is_empty() && state.flight.is_empty() {
                break;
            }
            match self.advance_a_step(&mut state) {
                // What comes next may take less.
                Err(Error::Full) => break,
                result => drop(result?),
            }
        }
        Ok(())
    }

    /// Moves messages of a tree down, as far as there is room.
    pub(super) fn move_down_in_steps(&self, tree: TreeId, reach: Reach) -> Result<Progress> {
        let mut asked: Option<Report> = None;
        loop {
            between();
            let mut state = self.hold_trees();
            self.check()?;
            match &asked {
                None if mutated(Mutant::MovedInOneStep) => {
                    self.drain(&mut state)?;
                    return self.move_down(&mut state, tree, reach);
                }
                // What is begun comes first.
                None if state.flight.is_empty() => match self.begin_to_move_down(&mut state, tree, reach) {
                    Some(report) => asked = Some(report),
                    None => return Ok(Progress::Done),
                },
                _ => {}
            }
            // What fails there is told where it belongs.
            let _ = self.advance_a_step(&mut state);
            let Some(report) = &asked else { continue };
            if let Some(progress) = report.get() {
                return Ok(*progress);
            }
            if Arc::strong_count(report) == 1 {
                // It failed in somebody's hands. What there is to say of that is told to whoever asked for it.
                self.drain(&mut state)?;
                return self.move_down(&mut state, tree, reach);
            }
        }
    }
}
