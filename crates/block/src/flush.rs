//! The flush state machine (block/blk-flush.c).
//!
//! A write with PREFLUSH or FUA runs through up to three steps: a flush before
//! the data, the data, a flush after it. The device decides which are needed:
//! one without a volatile cache needs none, one that knows FUA takes the flag
//! and needs no flush after. Flushes are shared: requests that need one wait on
//! the *pending* list; when a flush is issued the lists swap and those it
//! covers are *running*, so that a request that comes while a flush is under
//! way waits for the next. Three conditions decide when a flush is issued:
//!
//! - C1: one flush at a time, for each hardware queue.
//! - C2: not while a request of a sequence is in its data step, since that
//!   request may soon want the same flush.
//! - C3: C2 lapses once the oldest pending request has waited
//!   [`PENDING_TIMEOUT`]. No timer fires for it: it is looked at when a step ends.

pub(crate) mod steps;

use nvme::Status;
use units::Nanos;

use crate::request::Rq;
pub(crate) use steps::Steps;

/// How long a flush may be put off by C2 (`FLUSH_PENDING_TIMEOUT`).
pub(crate) const PENDING_TIMEOUT: Nanos = Nanos::from_secs(5);

/// What the machine asks the queue to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Send the request's data; `done` are the steps behind it.
    Data { rq: Rq, done: Steps },
    /// Send a flush on behalf of `first`, the oldest request it covers.
    Flush { first: Rq },
    /// End the request.
    Complete { rq: Rq, status: Status },
}

/// One hardware queue's flush machine (`struct blk_flush_queue`).
#[derive(Default)]
pub(crate) struct FlushQueue {
    /// Requests that want a flush not yet issued, oldest first, and the steps behind them.
    pending: Vec<(Rq, Steps)>,
    pending_since: Nanos,
    /// Requests that the flush under way covers; empty when none is.
    running: Vec<(Rq, Steps)>,
    /// Requests in their data step.
    data_in_flight: u32,
}

impl FlushQueue {
    /// Takes in a request that needs `needed`, in one step at least a flush before
    /// its data or no data at all.
    pub(crate) fn start(&mut self, rq: Rq, needed: Steps, now: Nanos, actions: &mut Vec<Action>) {
        self.step_done(rq, needed.complement(), Status::SUCCESS, now, actions);
        self.kick(now, actions);
    }

    /// Notes that a request's data goes down the normal path, with a flush to
    /// follow; returns the steps behind it.
    pub(crate) fn start_with_data(&mut self) -> Steps {
        self.data_in_flight += 1;
        Steps::PREFLUSH
    }

    /// The data of a request in a sequence is written.
    pub(crate) fn data_done(&mut self, rq: Rq, done: Steps, status: Status, now: Nanos, actions: &mut Vec<Action>) {
        debug_assert!(self.data_in_flight > 0);
        self.data_in_flight -= 1;
        self.step_done(rq, done | Steps::DATA, status, now, actions);
        self.kick(now, actions);
    }

    /// The flush under way ended.
    pub(crate) fn flush_done(&mut self, status: Status, now: Nanos, actions: &mut Vec<Action>) {
        let mut running = std::mem::take(&mut self.running);
        debug_assert!(!running.is_empty(), "a flush ended that was not under way");
        for (rq, done) in running.drain(..) {
            let Some(step) = done.next() else { continue };
            debug_assert!(step != Steps::DATA);
            self.step_done(rq, done | step, status, now, actions);
        }
        // The list keeps its memory for the next flush.
        self.running = running;
        self.kick(now, actions);
    }

    /// A request's steps in `done` are behind it: on to the next, or the end
    /// (blk_flush_complete_seq).
    fn step_done(&mut self, rq: Rq, done: Steps, status: Status, now: Nanos, actions: &mut Vec<Action>) {
        match done.next() {
            Some(step) if status.is_success() => {
                if step == Steps::DATA {
                    self.data_in_flight += 1;
                    actions.push(Action::Data { rq, done });
                } else {
                    if self.pending.is_empty() {
                        self.pending_since = now;
                    }
                    self.pending.push((rq, done));
                }
            }
            _ => actions.push(Action::Complete { rq, status }),
        }
    }

    /// Issues a flush if the three conditions allow (blk_kick_flush).
    fn kick(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        if !self.running.is_empty() || self.pending.is_empty() {
            return;
        }
        if self.data_in_flight > 0 && now < self.pending_since + PENDING_TIMEOUT {
            return;
        }
        std::mem::swap(&mut self.pending, &mut self.running);
        actions.push(Action::Flush { first: self.running[0].0 });
    }

    /// Forgets everything, as after a power cut.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.running.clear();
        self.data_in_flight = 0;
    }
}

#[cfg(test)]
mod tests;
