//! ZINC, a scheduler that keeps zone management from host writes (Tehrany and
//! others, "ConfZNS++", SYSTOR 2024): mq-deadline with zone resets and finishes
//! held back in two queues of their own.
//!
//! Each class, resets and finishes, has a timer that sets its *flag* once a
//! period (an epoch in the paper, which here is a word of ordered writes). The
//! flag is also set when a request comes, or ends, while fewer write units are
//! in flight than the concurrency threshold. Asked for a request with the flag
//! set, ZINC takes the flag down and sends the oldest of the class if
//!
//! 0. fewer write units are in flight than the threshold, or
//! 1. more write units than the tokens were dispatched since the last one, or
//! 2. the oldest was held back for as many periods as may be.
//!
//! Otherwise every waiting request of the class is held back for one period more.
//! So under load at most one request of a class leaves in a period. A write unit
//! is 8 KiB of write or append, from dispatch to completion.
//!
//! What is not a reset or a finish goes the way of mq-deadline.
//!
//! [`Variant::Published`] does what the published kernel module does instead
//! (github.com/stonet-research/zinc-scheduler): it takes the youngest first,
//! so that the oldest may starve; it takes appends, discards, write zeroes and
//! all management but finishes for resets; and it does not hear of a reset's end.
//!
//! The module only notes that a period has ended and waits for the next I/O that
//! comes or ends to look. So it does here, but where no write is in flight: there
//! a period's end looks by itself, as nothing else might.

use units::Nanos;

use super::interface::{Entry, Position, Scheduler};
use super::mq_deadline::MqDeadline;
use super::per_request::PerRequest;
use super::settings::{MqDeadlineConfig, ZincClassConfig, ZincConfig};
use crate::bio::{BioOp, ZoneOp};
use crate::pool::Pool;
use crate::request::{Kind, Request, RequestList, Rq};

pub(super) const DESCRIBED: Entry = Entry {
    name: "zinc",
    description: "mq-deadline that holds zone resets and finishes back while the host writes (ConfZNS++)",
    make: |config, _| Box::new(Zinc::new(Variant::Described, &config.zinc, config.mq_deadline.clone())),
};

pub(super) const PUBLISHED: Entry = Entry {
    name: "zinc-lifo",
    description: "ZINC as its code was published: youngest first, which can starve the oldest",
    make: |config, _| Box::new(Zinc::new(Variant::Published, &config.zinc, config.mq_deadline.clone())),
};

/// Bytes of a write unit.
const WRITE_UNIT_BYTES: u64 = 8 << 10;

/// Which ZINC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Variant {
    /// As it is described: first in, first out; resets and finishes only.
    Described,
    /// As its module was published.
    Published,
}

/// The classes of held requests, as places in `Zinc::classes`.
const RESET: usize = 0;
const FINISH: usize = 1;

/// State of ZINC.
pub(super) struct Zinc {
    variant: Variant,
    deadline: MqDeadline,
    /// Resets, and finishes.
    classes: [Class; 2],
    known: PerRequest<Known>,
    /// Write units between dispatch and completion.
    in_flight_units: u64,
}

/// What is known of a request.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Periods for which it was held back.
    holds: u32,
    /// Write units that it counts as in flight.
    write_units: u32,
    /// One of a class whose end is heard of.
    heard: bool,
}

impl Zinc {
    pub(super) fn new(variant: Variant, config: &ZincConfig, deadline: MqDeadlineConfig) -> Self {
        Self {
            variant,
            deadline: MqDeadline::new(deadline),
            classes: [&config.reset, &config.finish].map(|class| Class::new(class.clone(), period(class, config.tick))),
            known: PerRequest::default(),
            in_flight_units: 0,
        }
    }

    /// The class that holds a request, if any does.
    fn class_of(&self, kind: Kind) -> Option<usize> {
        match (self.variant, kind) {
            (_, Kind::Bio(BioOp::Zone(ZoneOp::Finish))) => Some(FINISH),
            (_, Kind::Bio(BioOp::Zone(ZoneOp::Reset | ZoneOp::ResetAll))) => Some(RESET),
            (Variant::Described, _) | (_, Kind::Flush | Kind::Bio(BioOp::Read | BioOp::Write)) => None,
            (Variant::Published, _) => Some(RESET),
        }
    }
}

/// How long a period of a class lasts, at least a nanosecond.
fn period(config: &ZincClassConfig, tick: Nanos) -> Nanos {
    let interval = config.epoch_interval.max(Nanos(1));
    match tick {
        Nanos::ZERO => interval,
        tick => tick * (interval.0.div_ceil(tick.0) + 1),
    }
}

/// Write units of a request: of data it writes, one at least.
fn write_units(request: &Request) -> u64 {
    match request.kind {
        Kind::Bio(op) if op.carries_data() => (request.bytes / WRITE_UNIT_BYTES).max(1),
        _ => 0,
    }
}

impl Scheduler for Zinc {
    fn insert(&mut self, pool: &mut Pool, rq: Rq, position: Position, now: Nanos, freed: &mut Vec<Rq>) {
        let Some(place) = self.class_of(pool.requests[rq].kind) else {
            self.deadline.insert(pool, rq, position, now, freed);
            return;
        };
        let class = &mut self.classes[place];
        class.tick(now);
        class.wake_below_threshold(self.in_flight_units);
        // The published module sets up the end of a request on a path that its resets do not take.
        let heard = self.variant == Variant::Described || place == FINISH;
        self.known.insert(rq, Known { heard, ..Known::default() });
        match self.variant {
            Variant::Described => class.queue.push_back(&mut pool.requests, rq),
            Variant::Published => class.queue.push_front(&mut pool.requests, rq),
        }
    }

    fn merge_bio(&mut self, pool: &mut Pool, ctx: u16, bio: u32, freed: &mut Vec<Rq>) -> bool {
        self.deadline.merge_bio(pool, ctx, bio, freed)
    }

    fn dispatch(&mut self, pool: &mut Pool, hctx: u16, now: Nanos) -> Option<Rq> {
        for class in &mut self.classes {
            class.tick(now);
            if let Some(rq) = class.choose(pool, &mut self.known, self.in_flight_units) {
                return Some(rq);
            }
        }
        let rq = self.deadline.dispatch(pool, hctx, now)?;
        let units = write_units(&pool.requests[rq]);
        // At most 8 MiB are in one command.
        self.known.insert(rq, Known { write_units: units as u32, ..Known::default() });
        self.in_flight_units += units;
        for class in &mut self.classes {
            class.dispatched_units += units;
        }
        Some(rq)
    }

    fn finished(&mut self, rq: Rq, request: &Request) {
        let known = self.known.take(rq);
        match self.class_of(request.kind) {
            Some(place) if known.heard => self.classes[place].wake_below_threshold(self.in_flight_units),
            Some(_) => {}
            None => {
                debug_assert!(self.in_flight_units >= u64::from(known.write_units));
                self.in_flight_units -= u64::from(known.write_units);
                self.deadline.finished(rq, request);
            }
        }
    }

    fn has_work(&self, hctx: u16) -> bool {
        self.classes.iter().any(|class| !class.queue.is_empty()) || self.deadline.has_work(hctx)
    }

    fn has_clock(&self) -> bool {
        true
    }

    fn next_event(&self) -> Option<Nanos> {
        // With nothing to hold, a period's end is noted when something comes.
        self.classes.iter().filter(|class| !class.queue.is_empty()).map(|class| class.period_end).min()
    }

    fn tick(&mut self, now: Nanos) -> bool {
        let [reset, finish] = &mut self.classes;
        let ended = reset.tick(now) | finish.tick(now);
        // The end of a write in flight asks for requests, as the module waits for it.
        ended && self.in_flight_units == 0
    }

    fn holds(&self) -> u64 {
        self.classes.iter().map(|class| class.holds).sum()
    }

    fn clear(&mut self) {
        self.deadline.clear();
        self.known = PerRequest::default();
        self.in_flight_units = 0;
        for class in &mut self.classes {
            *class = Class { holds: class.holds, ..Class::new(class.config.clone(), class.period) };
        }
    }
}

/// The requests of one class, and what decides when the next may go.
struct Class {
    config: ZincClassConfig,
    /// In the order in which they go.
    queue: RequestList,
    /// Write units dispatched since the last request of the class was.
    dispatched_units: u64,
    /// Whether the next dispatch looks at this class.
    flag: bool,
    /// How long a period lasts, and when the one under way ends.
    period: Nanos,
    period_end: Nanos,
    /// Periods for which requests were held back, summed over them.
    holds: u64,
}

impl Class {
    fn new(config: ZincClassConfig, period: Nanos) -> Self {
        let queue = RequestList::default();
        Self { config, queue, dispatched_units: 0, flag: false, period, period_end: period, holds: 0 }
    }

    /// Sets the flag if the timer has fired by `now`; whether it has.
    fn tick(&mut self, now: Nanos) -> bool {
        if now < self.period_end {
            return false;
        }
        self.period_end = Nanos(now.0 - now.0 % self.period.0) + self.period;
        self.flag = true;
        true
    }

    fn wake_below_threshold(&mut self, in_flight_units: u64) {
        self.flag |= in_flight_units < self.config.minimum_concurrency;
    }

    /// The request that may go now, out of the queue.
    fn choose(&mut self, pool: &mut Pool, known: &mut PerRequest<Known>, in_flight_units: u64) -> Option<Rq> {
        if !std::mem::take(&mut self.flag) {
            return None;
        }
        let first = self.queue.first()?;
        let may_go = in_flight_units < self.config.minimum_concurrency
            || self.dispatched_units > self.config.command_tokens
            || known[first].holds >= self.config.maximum_epoch_holds;
        if may_go {
            self.dispatched_units = 0;
            return self.queue.pop_front(&mut pool.requests);
        }
        let mut waiting = Some(first);
        while let Some(rq) = waiting {
            known[rq].holds += 1;
            self.holds += 1;
            waiting = RequestList::after(&pool.requests, rq);
        }
        None
    }
}

#[cfg(test)]
mod tests;
