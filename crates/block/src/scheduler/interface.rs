//! What a scheduler does, and what its file says of it.

use units::Nanos;

use crate::config::QueueConfig;
use crate::pool::Pool;
use crate::request::{Request, Rq};

/// Where a request enters a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// Behind what is there, to be ordered as the scheduler sees fit.
    Tail,
    /// Before everything else: data of a flush sequence
    /// (`BLK_MQ_INSERT_AT_HEAD` in block/blk-mq.c).
    Head,
}

/// An I/O scheduler.
pub(crate) trait Scheduler {
    /// Takes in a request. Requests that merged into others at this moment are
    /// appended to `freed`; the caller gives their tags back.
    fn insert(&mut self, pool: &mut Pool, rq: Rq, position: Position, now: Nanos, freed: &mut Vec<Rq>);

    /// Tries to put a bio from CPU `ctx` into a request that waits here. Requests
    /// that merged into others in consequence are appended to `freed`.
    fn merge_bio(&mut self, pool: &mut Pool, ctx: u16, bio: u32, freed: &mut Vec<Rq>) -> bool;

    /// Gives out the next request for hardware queue `hctx`, or none. A
    /// scheduler whose state spans the queues may give one that belongs to another.
    fn dispatch(&mut self, pool: &mut Pool, hctx: u16, now: Nanos) -> Option<Rq>;

    /// A request is freed: it ended, or merged into another. It may be one that
    /// was never inserted here (`finish_request`).
    fn finished(&mut self, rq: Rq, request: &Request) {
        let _ = (rq, request);
    }

    /// Whether `dispatch` might give something.
    fn has_work(&self, hctx: u16) -> bool;

    /// Whether it has a clock of its own: without one, `next_event` and `tick` are never asked.
    fn has_clock(&self) -> bool {
        false
    }

    /// When `tick` next has something to do, if ever.
    fn next_event(&self) -> Option<Nanos> {
        None
    }

    /// Does what is due at or before `now`; whether `dispatch` may give more since.
    fn tick(&mut self, now: Nanos) -> bool {
        let _ = now;
        false
    }

    /// Epochs for which management requests were held back, summed over them.
    fn holds(&self) -> u64 {
        0
    }

    /// Forgets every request, as after a power cut.
    fn clear(&mut self);
}

/// What a scheduler's file says of it.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// Makes one, with the hardware queue of each CPU.
    pub(super) make: fn(&QueueConfig, &[u16]) -> Box<dyn Scheduler>,
}
