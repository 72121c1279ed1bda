//! The mq-deadline scheduler (block/mq-deadline.c).
//!
//! Requests wait in two orders at once: by sector, and by expiry. Reads are
//! preferred; a batch of up to `fifo_batch` requests follows sector order; a
//! new batch starts from the oldest request if that one has expired.
//!
//! The two orders exist once for each I/O priority class. A class waits while
//! a more urgent one has requests, here or at the device, unless its own have
//! waited for `prio_aging_expire`.

use std::collections::BTreeSet;

use units::Nanos;

use super::interface::{Entry, Position, Scheduler};
use super::per_request::PerRequest;
use super::settings::MqDeadlineConfig;
use crate::bio::BioOp;
use crate::config::NoMerges;
use crate::pool::{Attempt, Merge, Pool};
use crate::request::{Direction, Kind, Priority, Request, RequestList, Rq};

pub(super) const ENTRY: Entry = Entry {
    name: "mq-deadline",
    description: "deadlines and sorted batches (block/mq-deadline.c)",
    make: |config, _| Box::new(MqDeadline::new(config.mq_deadline.clone())),
};

/// A request in an order by sector: (sector, arrival in this order, request).
type BySector = BTreeSet<(u64, u64, Rq)>;

/// State of mq-deadline, shared by all hardware queues.
pub(super) struct MqDeadline {
    config: MqDeadlineConfig,
    /// By priority, most urgent first.
    classes: [Class; Priority::ALL.len()],
    known: PerRequest<Known>,
    last_direction: Direction,
    batching: u32,
    starved: u32,
    /// The request that last took a merge (`q->last_merge`).
    last_merge: Option<Rq>,
    sequence: u64,
}

/// What is known of a request.
#[derive(Clone, Copy, Default)]
struct Known {
    /// When it was taken in, and when it expires (`fifo_time`).
    inserted_at: Nanos,
    expires_at: Nanos,
    /// Tells requests at one sector apart in a sorted order.
    sequence: u64,
    /// Taken in and not yet freed (`rq->elv.priv[0]`).
    queued: bool,
}

/// The requests of one priority class (`struct dd_per_prio`).
#[derive(Default)]
struct Class {
    /// For each direction: requests by expiry, and by first sector.
    fifo: [RequestList; 2],
    sorted: [BySector; 2],
    /// For each direction: mergeable requests by the sector behind their last,
    /// for back merges (`q->elevator->hash`).
    ends: [BySector; 2],
    /// Requests inserted at the head, to go before all others.
    dispatch: RequestList,
    /// Where the last request of each direction began (`latest_pos`).
    latest_sector: [u64; 2],
    /// Requests inserted and not yet freed, those at the device among them (`dd_queued`).
    queued: u32,
}

impl Class {
    fn is_empty(&self) -> bool {
        self.dispatch.is_empty() && self.fifo.iter().all(RequestList::is_empty)
    }

    /// The first request at or after `sector` (deadline_from_pos).
    fn at_or_after(&self, direction: Direction, sector: u64) -> Option<Rq> {
        self.sorted[direction as usize].range((sector, 0, 0)..).next().map(|(_, _, rq)| *rq)
    }

    fn next_sorted(&self, direction: Direction) -> Option<Rq> {
        self.at_or_after(direction, self.latest_sector[direction as usize])
    }
}

impl MqDeadline {
    pub(super) fn new(config: MqDeadlineConfig) -> Self {
        Self {
            config,
            classes: Default::default(),
            known: PerRequest::default(),
            last_direction: Direction::Read,
            batching: 0,
            starved: 0,
            last_merge: None,
            sequence: 0,
        }
    }

    fn add_sorted(&mut self, pool: &Pool, rq: Rq) {
        self.sequence += 1;
        self.known[rq].sequence = self.sequence;
        let request = &pool.requests[rq];
        let direction = request.direction() as usize;
        let class = &mut self.classes[request.priority() as usize];
        class.sorted[direction].insert((request.sector, self.sequence, rq));
        class.ends[direction].insert((request.end_sector(), self.sequence, rq));
    }

    fn remove_sorted(&mut self, pool: &Pool, rq: Rq) {
        let request = &pool.requests[rq];
        let sequence = self.known[rq].sequence;
        let direction = request.direction() as usize;
        let class = &mut self.classes[request.priority() as usize];
        let found = class.sorted[direction].remove(&(request.sector, sequence, rq));
        debug_assert!(found);
        let found = class.ends[direction].remove(&(request.end_sector(), sequence, rq));
        debug_assert!(found);
    }

    /// Takes a request out of both orders (deadline_remove_request).
    fn remove(&mut self, pool: &mut Pool, rq: Rq) {
        self.remove_sorted(pool, rq);
        let (direction, priority) = (pool.requests[rq].direction(), pool.requests[rq].priority());
        self.classes[priority as usize].fifo[direction as usize].remove(&mut pool.requests, rq);
        if self.last_merge == Some(rq) {
            self.last_merge = None;
        }
    }

    /// The newest mergeable request that ends at `sector` (elv_rqhash_find).
    fn ending_at(&self, pool: &Pool, priority: Priority, direction: Direction, sector: u64) -> Option<Rq> {
        let ends = &self.classes[priority as usize].ends[direction as usize];
        let there = ends.range((sector, 0, 0)..(sector + 1, 0, 0));
        there.rev().map(|(_, _, rq)| *rq).find(|rq| pool.request_mergeable(*rq))
    }

    /// Finds the request a bio joins, and how (elv_merge).
    fn find_merge(&self, pool: &Pool, bio: u32) -> Option<Rq> {
        if let Some(rq) = self.last_merge
            && pool.merge_kind(rq, bio).is_some()
        {
            return Some(rq);
        }
        if pool.nomerges != NoMerges::All {
            return None;
        }
        let slot = &pool.bios[bio];
        let direction = if slot.op == BioOp::Read { Direction::Read } else { Direction::Write };
        let priority = Priority::of(slot.flags);
        if let Some(rq) = self.ending_at(pool, priority, direction, slot.sector)
            && pool.merge_kind(rq, bio).is_some()
        {
            return Some(rq);
        }
        if !self.config.front_merges {
            return None;
        }
        let end = slot.end_sector();
        let rq = self.classes[priority as usize].at_or_after(direction, end)?;
        (pool.requests[rq].sector == end && pool.merge_kind(rq, bio) == Some(Merge::Front)).then_some(rq)
    }

    /// Joins `next` to `rq`, which ends where it begins (attempt_merge,
    /// dd_merged_requests): the pair expires when the first of them would.
    fn join(&mut self, pool: &mut Pool, rq: Rq, next: Rq, freed: &mut Vec<Rq>) -> bool {
        let direction = pool.requests[rq].direction() as usize;
        let old_end = pool.requests[rq].end_sector();
        let next_key = (pool.requests[next].sector, self.known[next].sequence, next);
        let next_end = (pool.requests[next].end_sector(), self.known[next].sequence, next);
        if !pool.merge_requests(rq, next) {
            return false;
        }
        let sequence = self.known[rq].sequence;
        let new_end = pool.requests[rq].end_sector();
        let class = &mut self.classes[pool.requests[rq].priority() as usize];
        class.ends[direction].remove(&(old_end, sequence, rq));
        class.ends[direction].insert((new_end, sequence, rq));
        let fifo = &mut class.fifo[direction];
        if self.known[next].expires_at < self.known[rq].expires_at {
            fifo.remove(&mut pool.requests, rq);
            fifo.insert_before(&mut pool.requests, next, rq);
            self.known[rq].expires_at = self.known[next].expires_at;
        }
        fifo.remove(&mut pool.requests, next);
        class.sorted[direction].remove(&next_key);
        class.ends[direction].remove(&next_end);
        self.last_merge = Some(rq);
        freed.push(next);
        true
    }

    /// The neighbour before or after a request in sector order.
    fn neighbour(&self, pool: &Pool, rq: Rq, after: bool) -> Option<Rq> {
        let request = &pool.requests[rq];
        let sorted = &self.classes[request.priority() as usize].sorted[request.direction() as usize];
        let key = (request.sector, self.known[rq].sequence, rq);
        if after {
            sorted.range((std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded)).next().map(|entry| entry.2)
        } else {
            sorted.range(..key).next_back().map(|entry| entry.2)
        }
    }

    /// Chooses a request of one class that began to wait by `latest_start`
    /// (__dd_dispatch_request).
    fn choose(&mut self, priority: Priority, now: Nanos, latest_start: Nanos) -> Option<Rq> {
        let class = &self.classes[priority as usize];
        let waited = |rq: Rq| self.known[rq].inserted_at <= latest_start;
        if let Some(rq) = class.dispatch.first() {
            return waited(rq).then_some(rq);
        }
        let next = class.next_sorted(self.last_direction);
        if self.batching < self.config.fifo_batch
            && let Some(rq) = next
        {
            return waited(rq).then_some(rq);
        }
        let [reads, writes] = [Direction::Read, Direction::Write].map(|d| class.fifo[d as usize].first());
        let direction = match (reads, writes) {
            (None, None) => return None,
            (Some(_), None) => Direction::Read,
            (None, Some(_)) => Direction::Write,
            (Some(_), Some(_)) => {
                let starved = self.starved >= self.config.writes_starved;
                self.starved += 1;
                if starved { Direction::Write } else { Direction::Read }
            }
        };
        if direction == Direction::Write {
            self.starved = 0;
        }
        let oldest = class.fifo[direction as usize].first()?;
        let expired = self.known[oldest].expires_at <= now;
        let rq = if expired { oldest } else { class.next_sorted(direction).unwrap_or(oldest) };
        self.last_direction = direction;
        self.batching = 0;
        waited(rq).then_some(rq)
    }

    /// Chooses among the classes: first what has waited too long behind a more
    /// urgent one, then the most urgent class that has any
    /// (dd_dispatch_prio_aged_requests, dd_dispatch_request).
    fn choose_class(&mut self, now: Nanos) -> Option<Rq> {
        if self.classes.iter().filter(|class| class.queued > 0).count() > 1
            && let Some(latest_start) = now.0.checked_sub(self.config.prio_aging_expire.0)
        {
            for priority in [Priority::BestEffort, Priority::Idle] {
                if let Some(rq) = self.choose(priority, now, Nanos(latest_start)) {
                    return Some(rq);
                }
            }
        }
        let urgent = Priority::ALL.into_iter().find(|priority| self.classes[*priority as usize].queued > 0)?;
        self.choose(urgent, now, Nanos::MAX)
    }
}

impl Scheduler for MqDeadline {
    fn insert(&mut self, pool: &mut Pool, rq: Rq, position: Position, now: Nanos, freed: &mut Vec<Rq>) {
        let request = &pool.requests[rq];
        let (direction, priority) = (request.direction(), request.priority());
        let class = &mut self.classes[priority as usize];
        let expire = match direction {
            Direction::Read => self.config.read_expire,
            Direction::Write => self.config.write_expire,
        };
        // Of a flush sequence, a request may be taken in again.
        class.queued += u32::from(!self.known.take(rq).queued);
        self.known.insert(rq, Known { inserted_at: now, expires_at: now + expire, sequence: 0, queued: true });
        if position == Position::Head {
            class.dispatch.push_front(&mut pool.requests, rq);
            return;
        }
        self.add_sorted(pool, rq);
        self.classes[priority as usize].fifo[direction as usize].push_back(&mut pool.requests, rq);
        // The newcomer may continue a request that waits, and that one another
        // (elv_attempt_insert_merge).
        if pool.nomerges == NoMerges::Never || !pool.request_mergeable(rq) {
            return;
        }
        if let Some(last) = self.last_merge
            && self.join(pool, last, rq, freed)
        {
            return;
        }
        let mut newcomer = rq;
        while pool.nomerges == NoMerges::All
            && let Some(earlier) = self.ending_at(pool, priority, direction, pool.requests[newcomer].sector)
            && earlier != newcomer
            && self.join(pool, earlier, newcomer, freed)
        {
            newcomer = earlier;
        }
        if self.last_merge.is_none() {
            self.last_merge = Some(newcomer);
        }
    }

    fn merge_bio(&mut self, pool: &mut Pool, _ctx: u16, bio: u32, freed: &mut Vec<Rq>) -> bool {
        let Some(rq) = self.find_merge(pool, bio) else { return false };
        // Its place in the orders changes with the merge.
        self.remove_sorted(pool, rq);
        let attempt = pool.attempt_merge(rq, bio);
        self.add_sorted(pool, rq);
        let Attempt::Merged(kind) = attempt else {
            if self.last_merge == Some(rq) {
                self.last_merge = None;
            }
            return false;
        };
        self.last_merge = Some(rq);
        // The bio may have closed the gap between two requests.
        match kind {
            Merge::Back => {
                if let Some(next) = self.neighbour(pool, rq, true) {
                    self.join(pool, rq, next, freed);
                }
            }
            Merge::Front => {
                if let Some(previous) = self.neighbour(pool, rq, false) {
                    self.join(pool, previous, rq, freed);
                }
            }
            Merge::Discard => {}
        }
        true
    }

    fn dispatch(&mut self, pool: &mut Pool, _hctx: u16, now: Nanos) -> Option<Rq> {
        let rq = self.choose_class(now)?;
        let priority = pool.requests[rq].priority();
        let class = &mut self.classes[priority as usize];
        if class.dispatch.first() == Some(rq) {
            class.dispatch.pop_front(&mut pool.requests);
        } else {
            self.batching += 1;
            self.remove(pool, rq);
        }
        let request = &pool.requests[rq];
        debug_assert!(request.kind != Kind::Flush, "a flush went through the scheduler");
        self.classes[priority as usize].latest_sector[request.direction() as usize] = request.sector;
        Some(rq)
    }

    fn finished(&mut self, rq: Rq, request: &Request) {
        if self.known.take(rq).queued {
            let class = &mut self.classes[request.priority() as usize];
            debug_assert!(class.queued > 0);
            class.queued -= 1;
        }
    }

    fn has_work(&self, _hctx: u16) -> bool {
        self.classes.iter().any(|class| !class.is_empty())
    }

    fn clear(&mut self) {
        *self = Self::new(self.config.clone());
    }
}

#[cfg(test)]
mod tests;
