//! The mq-deadline scheduler (block/mq-deadline.c).
//!
//! Requests wait in two orders at once: by sector, and by expiry. Reads are
//! preferred; a batch of up to `fifo_batch` requests follows sector order; a
//! new batch starts from the oldest request if that one has expired. Linux
//! keeps this state once for each I/O priority class; bios here carry no
//! priority, so there is one class and `prio_aging_expire` has no meaning.

use std::collections::BTreeSet;

use units::Nanos;

use crate::bio::BioOp;
use crate::config::{MqDeadlineConfig, NoMerges};
use crate::pool::{Attempt, Merge, Pool};
use crate::request::{Direction, Kind, RequestList, Rq};
use crate::scheduler::{Position, Scheduler};

/// A request in an order by sector: (sector, arrival in this order, request).
type BySector = BTreeSet<(u64, u64, Rq)>;

/// State of mq-deadline, shared by all hardware queues.
pub(crate) struct MqDeadline {
    config: MqDeadlineConfig,
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
    last_direction: Direction,
    batching: u32,
    starved: u32,
    /// The request that last took a merge (`q->last_merge`).
    last_merge: Option<Rq>,
    sequence: u64,
}

impl MqDeadline {
    pub(crate) fn new(config: MqDeadlineConfig) -> Self {
        Self {
            config,
            fifo: Default::default(),
            sorted: Default::default(),
            ends: Default::default(),
            dispatch: RequestList::default(),
            latest_sector: [0; 2],
            last_direction: Direction::Read,
            batching: 0,
            starved: 0,
            last_merge: None,
            sequence: 0,
        }
    }

    fn add_sorted(&mut self, pool: &mut Pool, rq: Rq) {
        self.sequence += 1;
        let request = &mut pool.requests[rq];
        request.sort_sequence = self.sequence;
        let direction = request.direction() as usize;
        self.sorted[direction].insert((request.sector, self.sequence, rq));
        self.ends[direction].insert((request.end_sector(), self.sequence, rq));
    }

    fn remove_sorted(&mut self, pool: &Pool, rq: Rq) {
        let request = &pool.requests[rq];
        let direction = request.direction() as usize;
        let found = self.sorted[direction].remove(&(request.sector, request.sort_sequence, rq));
        debug_assert!(found);
        let found = self.ends[direction].remove(&(request.end_sector(), request.sort_sequence, rq));
        debug_assert!(found);
    }

    /// Takes a request out of both orders (deadline_remove_request).
    fn remove(&mut self, pool: &mut Pool, rq: Rq) {
        self.remove_sorted(pool, rq);
        self.fifo[pool.requests[rq].direction() as usize].remove(&mut pool.requests, rq);
        if self.last_merge == Some(rq) {
            self.last_merge = None;
        }
    }

    /// The newest mergeable request that ends at `sector` (elv_rqhash_find).
    fn ending_at(&self, pool: &Pool, direction: Direction, sector: u64) -> Option<Rq> {
        let ends = self.ends[direction as usize].range((sector, 0, 0)..(sector + 1, 0, 0));
        ends.rev().map(|(_, _, rq)| *rq).find(|rq| pool.request_mergeable(*rq))
    }

    /// The first request at or after `sector` (deadline_from_pos).
    fn at_or_after(&self, direction: Direction, sector: u64) -> Option<Rq> {
        self.sorted[direction as usize].range((sector, 0, 0)..).next().map(|(_, _, rq)| *rq)
    }

    fn next_sorted(&self, direction: Direction) -> Option<Rq> {
        self.at_or_after(direction, self.latest_sector[direction as usize])
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
        if let Some(rq) = self.ending_at(pool, direction, slot.sector)
            && pool.merge_kind(rq, bio).is_some()
        {
            return Some(rq);
        }
        if !self.config.front_merges {
            return None;
        }
        let end = slot.end_sector();
        let rq = self.at_or_after(direction, end)?;
        (pool.requests[rq].sector == end && pool.merge_kind(rq, bio) == Some(Merge::Front)).then_some(rq)
    }

    /// Joins `next` to `rq`, which ends where it begins (attempt_merge,
    /// dd_merged_requests): the pair expires when the first of them would.
    fn join(&mut self, pool: &mut Pool, rq: Rq, next: Rq, freed: &mut Vec<Rq>) -> bool {
        let direction = pool.requests[rq].direction() as usize;
        let old_end = pool.requests[rq].end_sector();
        let next_key = (pool.requests[next].sector, pool.requests[next].sort_sequence, next);
        let next_end = (pool.requests[next].end_sector(), pool.requests[next].sort_sequence, next);
        if !pool.merge_requests(rq, next) {
            return false;
        }
        let sequence = pool.requests[rq].sort_sequence;
        let new_end = pool.requests[rq].end_sector();
        self.ends[direction].remove(&(old_end, sequence, rq));
        self.ends[direction].insert((new_end, sequence, rq));
        let fifo = &mut self.fifo[direction];
        if pool.requests[next].expires_at < pool.requests[rq].expires_at {
            fifo.remove(&mut pool.requests, rq);
            fifo.insert_before(&mut pool.requests, next, rq);
            pool.requests[rq].expires_at = pool.requests[next].expires_at;
        }
        fifo.remove(&mut pool.requests, next);
        self.sorted[direction].remove(&next_key);
        self.ends[direction].remove(&next_end);
        self.last_merge = Some(rq);
        freed.push(next);
        true
    }

    /// The neighbour before or after a request in sector order.
    fn neighbour(&self, pool: &Pool, rq: Rq, after: bool) -> Option<Rq> {
        let request = &pool.requests[rq];
        let sorted = &self.sorted[request.direction() as usize];
        let key = (request.sector, request.sort_sequence, rq);
        if after {
            sorted.range((std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded)).next().map(|entry| entry.2)
        } else {
            sorted.range(..key).next_back().map(|entry| entry.2)
        }
    }

    /// Chooses a request by the rules above (__dd_dispatch_request).
    fn choose(&mut self, pool: &Pool, now: Nanos) -> Option<Rq> {
        if self.batching < self.config.fifo_batch
            && let Some(rq) = self.next_sorted(self.last_direction)
        {
            return Some(rq);
        }
        let [reads, writes] = [Direction::Read, Direction::Write].map(|d| self.fifo[d as usize].first());
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
        let oldest = self.fifo[direction as usize].first()?;
        let expired = pool.requests[oldest].expires_at <= now;
        let rq = if expired { oldest } else { self.next_sorted(direction).unwrap_or(oldest) };
        self.last_direction = direction;
        self.batching = 0;
        Some(rq)
    }
}

impl Scheduler for MqDeadline {
    fn insert(&mut self, pool: &mut Pool, rq: Rq, position: Position, now: Nanos, freed: &mut Vec<Rq>) {
        if position == Position::Head {
            self.dispatch.push_front(&mut pool.requests, rq);
            return;
        }
        let direction = pool.requests[rq].direction();
        let expire = match direction {
            Direction::Read => self.config.read_expire,
            Direction::Write => self.config.write_expire,
        };
        pool.requests[rq].expires_at = now + expire;
        self.add_sorted(pool, rq);
        self.fifo[direction as usize].push_back(&mut pool.requests, rq);
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
            && let Some(earlier) = self.ending_at(pool, direction, pool.requests[newcomer].sector)
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
        let rq = match self.dispatch.pop_front(&mut pool.requests) {
            Some(rq) => rq,
            None => {
                let rq = self.choose(pool, now)?;
                self.batching += 1;
                self.remove(pool, rq);
                rq
            }
        };
        let request = &pool.requests[rq];
        debug_assert!(request.kind != Kind::Flush, "a flush went through the scheduler");
        self.latest_sector[request.direction() as usize] = request.sector;
        Some(rq)
    }

    fn has_work(&self, _hctx: u16) -> bool {
        !self.dispatch.is_empty() || self.fifo.iter().any(|fifo| !fifo.is_empty())
    }

    fn clear(&mut self) {
        *self = Self::new(self.config.clone());
    }
}

#[cfg(test)]
mod tests;
