//! Pieces of work that are begun: those that wait for somebody to go on with them, and those that threads are at.
//!
//! Threads take pieces of different trees and go on with them while others have the trees ([`Engine::work`]). Whoever has to have all
//! trees as they are ([`Engine::hold_trees`]) waits until every thread has put its piece back, which it does after its next step.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::in_steps::STEP_BYTES;
use super::work::Work;
use super::{Engine, TreeState, locked};
use crate::bytes::tree_id::TreeId;
use crate::error::{Error, Result};
use crate::mutant::{Mutant, mutated};
use crate::pacing::Pacing;
use crate::step::UNBOUNDED;
use crate::turns::{is_scheduled, turn};

/// What a thread is at.
struct Out {
    number: u64,
    /// The tree that it changes.
    tree: Option<TreeId>,
    holds_space: bool,
}

/// What is begun.
#[derive(Default)]
pub(super) struct Flight {
    waiting: Vec<Work>,
    out: Vec<Out>,
    last: u64,
}

impl Flight {
    /// The piece that was put back last.
    pub fn take(&mut self) -> Option<Work> {
        self.waiting.pop()
    }

    /// It waits for somebody to go on with it.
    pub fn put_back(&mut self, work: Work) {
        self.waiting.push(work);
    }

    /// A thread is at it from now on; which number it has there.
    fn begin(&mut self, work: &Work) -> u64 {
        self.last += 1;
        self.out.push(Out { number: self.last, tree: work.tree(), holds_space: work.holds_space() });
        self.last
    }

    fn end(&mut self, number: u64) {
        self.out.retain(|out| out.number != number);
    }

    /// Whether threads are at pieces.
    pub fn is_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether a piece is begun that changes this tree.
    pub fn is_changing(&self, tree: TreeId) -> bool {
        let mut trees = self.waiting.iter().map(Work::tree).chain(self.out.iter().map(|out| out.tree));
        trees.any(|changed| changed == Some(tree)) && !mutated(Mutant::TreeTakenTwice)
    }

    /// How many pieces are begun that change trees.
    pub fn changes(&self) -> usize {
        let waiting = self.waiting.iter().filter(|work| work.tree().is_some());
        waiting.count() + self.out.iter().filter(|out| out.tree.is_some()).count()
    }

    /// Whether nobody else may take free blocks, or change a tree.
    pub fn holds_space(&self) -> bool {
        self.waiting.iter().any(Work::holds_space) || self.out.iter().any(|out| out.holds_space)
    }

    /// Whether nothing is begun.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.out.is_empty()
    }
}

/// A thread that is at a piece. However it ends, nobody waits for it any more.
struct Absent<'a> {
    engine: &'a Engine,
    number: u64,
    is_back: bool,
}

impl<'a> Absent<'a> {
    /// The trees, with the thread at nothing any more.
    fn come_back(mut self) -> MutexGuard<'a, TreeState> {
        self.is_back = true;
        self.end()
    }

    fn end(&self) -> MutexGuard<'a, TreeState> {
        let mut state = locked(&self.engine.trees);
        state.flight.end(self.number);
        self.engine.returned.notify_all();
        state
    }
}

impl Drop for Absent<'_> {
    fn drop(&mut self) {
        if !self.is_back {
            drop(self.end());
        }
    }
}

/// What came of a thread's look for work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Did {
    /// It came to the end of a piece.
    Piece,
    /// A part of one, which waits.
    Part,
    /// There is nothing that it could do.
    Nothing,
}

impl Engine {
    /// The trees, with nobody at a piece of work. Whoever comes back for them waits behind those who wait already.
    pub(super) fn hold_trees(&self) -> MutexGuard<'_, TreeState> {
        let _next = locked(&self.next_in_line);
        self.wanted.store(true, Ordering::Release);
        let mut state = locked(&self.trees);
        while state.flight.is_out() && !mutated(Mutant::TreesWithWorkOut) {
            state = self.until_one_returns(state);
        }
        self.wanted.store(false, Ordering::Release);
        state
    }

    fn until_one_returns<'a>(&'a self, state: MutexGuard<'a, TreeState>) -> MutexGuard<'a, TreeState> {
        if is_scheduled() {
            drop(state);
            turn();
            return locked(&self.trees);
        }
        self.returned.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Does up to `bytes` of the owed work, beside whoever else does; whether there is more for this thread.
    pub fn work(&self, bytes: u64) -> Result<bool> {
        let mut bytes = i64::try_from(bytes).unwrap_or(UNBOUNDED).min(UNBOUNDED);
        while bytes > 0 {
            match self.work_on_one(&mut bytes) {
                Ok(Did::Piece) => {}
                Ok(Did::Part) => return Ok(true),
                // Whoever commits makes room.
                Ok(Did::Nothing) | Err(Error::Full) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// A commit that finds the room used up works beside the store's threads until there is some. Whether there is.
    pub(super) fn work_along(&self) -> Result<bool> {
        while self.is_used_up() {
            match self.work_on_one(&mut UNBOUNDED.clone()) {
                Ok(Did::Piece | Did::Part) => {}
                Ok(Did::Nothing) => {
                    let state = locked(&self.trees);
                    if !state.flight.is_out() {
                        return Ok(false);
                    }
                    drop(self.until_one_returns(state));
                }
                Err(Error::Full) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Goes on with one piece, to its end or until the trees are wanted.
    fn work_on_one(&self, bytes: &mut i64) -> Result<Did> {
        self.check()?;
        let (mut work, absent) = {
            let _next = locked(&self.next_in_line);
            let mut state = locked(&self.trees);
            let work = match state.flight.take() {
                Some(work) => work,
                None => match self.begin_work(&mut state)? {
                    Some(work) => work,
                    None => return Ok(Did::Nothing),
                },
            };
            let number = state.flight.begin(&work);
            (work, Absent { engine: self, number, is_back: false })
        };
        // There may be something for another thread, too.
        if matches!(self.options.pacing, Pacing::Beside(2..)) {
            self.bell.ring();
        }
        let outcome = loop {
            let mut left = STEP_BYTES.min(*bytes);
            let given = left;
            let outcome = self.step(&mut work, &mut left);
            *bytes -= given - left;
            let goes_on = *bytes > 0 && !self.wanted.load(Ordering::Acquire) && !self.bell.is_over();
            if outcome.is_some() || !goes_on {
                break outcome;
            }
        };
        let mut state = absent.come_back();
        match outcome {
            Some(outcome) => self.complete(&mut state, work, outcome).map(|_| Did::Piece),
            None => {
                state.flight.put_back(work);
                Ok(Did::Part)
            }
        }
    }
}
