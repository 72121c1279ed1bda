//! No scheduler: a software queue for each CPU (block/blk-mq.c,
//! block/blk-mq-sched.c where `q->elevator` is null).

use units::Nanos;

use super::interface::{Entry, Position, Scheduler};
use crate::pool::{Attempt, Pool};
use crate::request::{RequestList, Rq};

pub(super) const ENTRY: Entry = Entry {
    name: "none",
    description: "software queues feed the hardware queues (Linux's choice for NVMe)",
    make: |_, map| Box::new(SoftwareQueues::new(map)),
};

/// How many waiting requests of a software queue a bio is held against, newest
/// first (blk_bio_list_merge).
const MERGE_CANDIDATES: usize = 8;

/// The software queues, first in first out, taken from in turn
/// (blk_mq_do_dispatch_ctx).
///
/// Requests get here only when the driver was busy, or as data of a flush
/// sequence; otherwise they are issued directly.
pub(super) struct SoftwareQueues {
    /// One queue for each CPU.
    queues: Vec<RequestList>,
    /// CPUs of each hardware queue: (first, one past the last).
    cpus: Vec<(u16, u16)>,
    /// The CPU whose turn it is, and requests waiting, for each hardware queue.
    turn: Vec<u16>,
    waiting: Vec<u32>,
    /// Hardware queue of each CPU.
    map: Vec<u16>,
}

impl SoftwareQueues {
    /// Queues for CPUs mapped by `map`, in which each hardware queue's CPUs are neighbours.
    pub(super) fn new(map: &[u16]) -> Self {
        let hctxs = map.last().map_or(0, |last| last + 1);
        let cpus: Vec<(u16, u16)> = (0..hctxs)
            .map(|hctx| {
                let first = map.partition_point(|queue| *queue < hctx) as u16;
                (first, map.partition_point(|queue| *queue <= hctx) as u16)
            })
            .collect();
        Self {
            queues: vec![RequestList::default(); map.len()],
            turn: cpus.iter().map(|(first, _)| *first).collect(),
            waiting: vec![0; cpus.len()],
            cpus,
            map: map.to_vec(),
        }
    }
}

impl Scheduler for SoftwareQueues {
    fn insert(&mut self, pool: &mut Pool, rq: Rq, position: Position, _now: Nanos, _freed: &mut Vec<Rq>) {
        let request = &pool.requests[rq];
        self.waiting[usize::from(request.hctx)] += 1;
        let queue = &mut self.queues[usize::from(request.ctx)];
        match position {
            Position::Tail => queue.push_back(&mut pool.requests, rq),
            Position::Head => queue.push_front(&mut pool.requests, rq),
        }
    }

    fn merge_bio(&mut self, pool: &mut Pool, ctx: u16, bio: u32, _freed: &mut Vec<Rq>) -> bool {
        let mut candidate = self.queues[usize::from(ctx)].last();
        for _ in 0..MERGE_CANDIDATES {
            let Some(rq) = candidate else { return false };
            match pool.attempt_merge(rq, bio) {
                Attempt::Merged(_) => return true,
                Attempt::Refused => return false,
                Attempt::Unrelated => candidate = RequestList::before(&pool.requests, rq),
            }
        }
        false
    }

    fn dispatch(&mut self, pool: &mut Pool, hctx: u16, _now: Nanos) -> Option<Rq> {
        let hctx = usize::from(hctx);
        if self.waiting[hctx] == 0 {
            return None;
        }
        let (first, end) = self.cpus[hctx];
        for _ in first..end {
            let cpu = self.turn[hctx];
            self.turn[hctx] = if cpu + 1 == end { first } else { cpu + 1 };
            if let Some(rq) = self.queues[usize::from(cpu)].pop_front(&mut pool.requests) {
                self.waiting[hctx] -= 1;
                return Some(rq);
            }
        }
        None
    }

    fn has_work(&self, hctx: u16) -> bool {
        self.waiting[usize::from(hctx)] > 0
    }

    fn clear(&mut self) {
        *self = Self::new(&std::mem::take(&mut self.map));
    }
}
