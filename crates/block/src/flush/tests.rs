//! The flush machine against a checker, and machines with a fault each, which
//! the checker must catch.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::RngExt;

use super::*;
use crate::bio::BioFlags;
use crate::limits::Limits;

/// What the checker drives: the machine, or one with a fault.
trait Machine {
    fn queue(&mut self) -> &mut FlushQueue;
    fn start(&mut self, rq: Rq, needed: Steps, now: Nanos, actions: &mut Vec<Action>) {
        self.queue().start(rq, needed, now, actions);
    }
    fn start_with_data(&mut self) -> Steps {
        self.queue().start_with_data()
    }
    fn data_done(&mut self, rq: Rq, done: Steps, status: Status, now: Nanos, actions: &mut Vec<Action>) {
        self.queue().data_done(rq, done, status, now, actions);
    }
    fn flush_done(&mut self, status: Status, now: Nanos, actions: &mut Vec<Action>) {
        self.queue().flush_done(status, now, actions);
    }
}

impl Machine for FlushQueue {
    fn queue(&mut self) -> &mut FlushQueue {
        self
    }
}

/// A command at the modelled device.
enum InFlight {
    /// Data of a request; the steps behind it if it is in a sequence.
    Data { rq: Rq, done: Option<Steps> },
    /// A flush, and the completed writes that it covers.
    Flush { covers: BTreeSet<Rq> },
}

/// A request as the checker sees it.
struct Seen {
    flags: BioFlags,
    has_data: bool,
    /// Writes acknowledged before it came: what its PREFLUSH promises.
    before: BTreeSet<Rq>,
    submitted_at: Nanos,
    /// Since when it has waited for a flush, if it does.
    waits_since: Option<Nanos>,
    ended: bool,
}

/// Host and device around a machine. The device keeps the least that NVMe
/// promises: a flush covers the writes completed before it was submitted.
struct Checker<'a> {
    machine: &'a mut dyn Machine,
    limits: Limits,
    now: Nanos,
    seen: Vec<Seen>,
    in_flight: Vec<InFlight>,
    /// Writes in the device's cache, and on its media.
    cached: BTreeSet<Rq>,
    durable: BTreeSet<Rq>,
    acknowledged: BTreeSet<Rq>,
    /// When a flush or this request's data last failed.
    flush_failed_at: Option<Nanos>,
    data_failed: BTreeSet<Rq>,
}

impl Checker<'_> {
    fn submit(&mut self, flags: BioFlags, has_data: bool) {
        let rq = self.seen.len() as Rq;
        let needed = Steps::needed(&self.limits, flags, u64::from(has_data));
        let (before, submitted_at) = (self.acknowledged.clone(), self.now);
        self.seen.push(Seen { flags, has_data, before, submitted_at, waits_since: None, ended: false });
        if needed == Steps::DATA {
            self.in_flight.push(InFlight::Data { rq, done: None });
        } else if needed == Steps::DATA | Steps::POSTFLUSH {
            let done = self.machine.start_with_data();
            self.in_flight.push(InFlight::Data { rq, done: Some(done) });
        } else {
            self.seen[rq as usize].waits_since = Some(self.now);
            let mut actions = Vec::new();
            self.machine.start(rq, needed, self.now, &mut actions);
            self.perform(actions);
        }
    }

    /// Ends one command, well or not.
    fn end(&mut self, index: usize, failed: bool) {
        let status = if failed { Status::WRITE_FAULT } else { Status::SUCCESS };
        let mut actions = Vec::new();
        match self.in_flight.swap_remove(index) {
            InFlight::Flush { covers } => {
                if failed {
                    self.flush_failed_at = Some(self.now);
                } else {
                    self.durable.extend(covers);
                }
                self.machine.flush_done(status, self.now, &mut actions);
            }
            InFlight::Data { rq, done } => {
                if failed {
                    self.data_failed.insert(rq);
                } else {
                    let fua = self.limits.fua && self.seen[rq as usize].flags.contains(BioFlags::FUA);
                    let place = if fua { &mut self.durable } else { &mut self.cached };
                    place.insert(rq);
                }
                match done {
                    None => return self.complete(rq, status),
                    Some(done) => {
                        self.seen[rq as usize].waits_since = Some(self.now);
                        self.machine.data_done(rq, done, status, self.now, &mut actions);
                    }
                }
            }
        }
        self.perform(actions);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Complete { rq, status } => self.complete(rq, status),
                Action::Data { rq, done } => {
                    let seen = &mut self.seen[rq as usize];
                    seen.waits_since = None;
                    assert!(seen.has_data && !seen.ended);
                    if seen.flags.contains(BioFlags::PREFLUSH) {
                        assert!(seen.before.is_subset(&self.durable), "data of {rq} before its flush was done");
                    }
                    self.in_flight.push(InFlight::Data { rq, done: Some(done) });
                }
                Action::Flush { .. } => {
                    assert!(!self.flushing(), "two flushes at once");
                    let covers = self.cached.clone();
                    self.in_flight.push(InFlight::Flush { covers });
                }
            }
        }
        // C1 to C3: a flush is under way exactly when someone may have one.
        let Some(since) = self.seen.iter().filter(|seen| !seen.ended).filter_map(|seen| seen.waits_since).min() else {
            return;
        };
        let data = self.in_flight.iter().any(|command| matches!(command, InFlight::Data { done: Some(_), .. }));
        if !data || self.now >= since + PENDING_TIMEOUT {
            assert!(self.flushing(), "no flush although one is due");
        }
    }

    fn flushing(&self) -> bool {
        self.in_flight.iter().any(|command| matches!(command, InFlight::Flush { .. }))
    }

    fn complete(&mut self, rq: Rq, status: Status) {
        let seen = &mut self.seen[rq as usize];
        assert!(!std::mem::replace(&mut seen.ended, true), "{rq} ended twice");
        if status.is_success() {
            assert!(!self.data_failed.contains(&rq), "{rq} ended well although its data failed");
            if seen.flags.contains(BioFlags::PREFLUSH) {
                assert!(seen.before.is_subset(&self.durable), "{rq} ended before its flush was done");
            }
            if seen.has_data {
                let durable = self.durable.contains(&rq);
                assert!(durable || !seen.flags.contains(BioFlags::FUA), "{rq} has FUA and could be lost");
                self.acknowledged.insert(rq);
            }
        } else {
            let cause =
                self.data_failed.contains(&rq) || self.flush_failed_at.is_some_and(|at| at >= seen.submitted_at);
            assert!(cause, "{rq} failed for no reason");
        }
    }
}

/// Drives a machine through random writes, completions, failures and pauses.
fn drive(machine: &mut dyn Machine, seed: u64) {
    let mut rng = sim::rng::stream(seed, "flush");
    let limits = Limits {
        logical_block_bytes: 512,
        capacity_sectors: 1 << 20,
        max_sectors: 256,
        max_hw_sectors: 256,
        max_segments: 128,
        segment_bytes: 4096,
        max_discard_sectors: 0,
        max_discard_segments: 1,
        max_write_zeroes_sectors: 0,
        rotational: false,
        write_cache: true,
        fua: seed.is_multiple_of(2),
        zoned: None,
    };
    let mut checker = Checker {
        machine,
        limits,
        now: Nanos::ZERO,
        seen: Vec::new(),
        in_flight: Vec::new(),
        cached: BTreeSet::new(),
        durable: BTreeSet::new(),
        acknowledged: BTreeSet::new(),
        flush_failed_at: None,
        data_failed: BTreeSet::new(),
    };
    for _ in 0..60 {
        checker.now += match rng.random_range(0..20) {
            0 => PENDING_TIMEOUT,
            _ => Nanos::from_micros(10),
        };
        if checker.in_flight.is_empty() || rng.random_bool(0.5) {
            let flags = BioFlags::from_bits_truncate(rng.random_range(0..4));
            let empty = flags == BioFlags::PREFLUSH && rng.random_bool(0.4);
            checker.submit(flags, !empty);
        } else {
            let index = rng.random_range(0..checker.in_flight.len());
            checker.end(index, rng.random_bool(0.03));
        }
    }
    let mut ends = 0;
    while !checker.in_flight.is_empty() {
        checker.now += Nanos(1);
        let index = rng.random_range(0..checker.in_flight.len());
        checker.end(index, false);
        ends += 1;
        assert!(ends < 1000, "the machine never comes to rest");
    }
    let waiting = checker.seen.iter().filter(|seen| !seen.ended).count();
    assert_eq!(waiting, 0, "requests wait for ever");
}

const SEEDS: u64 = 400;

#[test]
fn the_machine_keeps_every_promise() {
    for seed in 0..SEEDS {
        drive(&mut FlushQueue::default(), seed);
    }
}

/// Defines a machine with one fault and a test that the checker sees it.
macro_rules! faulty {
    ($test:ident, $name:ident { $($field:ident: $type:ty),* }, $($method:item)*) => {
        #[derive(Default)]
        struct $name { queue: FlushQueue, $($field: $type),* }
        impl Machine for $name {
            fn queue(&mut self) -> &mut FlushQueue {
                &mut self.queue
            }
            $($method)*
        }
        #[test]
        fn $test() {
            let caught = |seed| catch_unwind(AssertUnwindSafe(|| drive(&mut $name::default(), seed))).is_err();
            assert!((0..SEEDS).any(caught), "the checker let the fault pass");
        }
    };
}

faulty! {
    a_skipped_preflush_is_seen,
    SkipsPreflush {},
    fn start(&mut self, rq: Rq, needed: Steps, now: Nanos, actions: &mut Vec<Action>) {
        self.queue.start(rq, needed - Steps::PREFLUSH, now, actions);
    }
}

faulty! {
    a_skipped_postflush_is_seen,
    SkipsPostflush {},
    fn start_with_data(&mut self) -> Steps {
        self.queue.start_with_data() | Steps::POSTFLUSH
    }
}

faulty! {
    a_preflush_taken_for_the_postflush_is_seen,
    SharesOneFlush {},
    fn start(&mut self, rq: Rq, needed: Steps, now: Nanos, actions: &mut Vec<Action>) {
        let needed = if needed.contains(Steps::PREFLUSH) { needed - Steps::POSTFLUSH } else { needed };
        self.queue.start(rq, needed, now, actions);
    }
}

faulty! {
    joining_a_running_flush_is_seen,
    JoinsRunning { joined: Vec<(Rq, Steps)> },
    fn start(&mut self, rq: Rq, needed: Steps, now: Nanos, actions: &mut Vec<Action>) {
        if self.queue.running.is_empty() {
            self.queue.start(rq, needed, now, actions);
        } else {
            self.joined.push((rq, needed - Steps::PREFLUSH));
        }
    }
    fn flush_done(&mut self, status: Status, now: Nanos, actions: &mut Vec<Action>) {
        self.queue.flush_done(status, now, actions);
        for (rq, needed) in std::mem::take(&mut self.joined) {
            self.queue.start(rq, needed, now, actions);
        }
    }
}

faulty! {
    a_swallowed_flush_error_is_seen,
    SwallowsFlushErrors {},
    fn flush_done(&mut self, _status: Status, now: Nanos, actions: &mut Vec<Action>) {
        self.queue.flush_done(Status::SUCCESS, now, actions);
    }
}

faulty! {
    a_swallowed_data_error_is_seen,
    SwallowsDataErrors {},
    fn data_done(&mut self, rq: Rq, done: Steps, _status: Status, now: Nanos, actions: &mut Vec<Action>) {
        self.queue.data_done(rq, done, Status::SUCCESS, now, actions);
    }
}

faulty! {
    a_second_flush_is_seen,
    FlushesAtOnce {},
    fn start(&mut self, rq: Rq, needed: Steps, now: Nanos, actions: &mut Vec<Action>) {
        if !self.queue.running.is_empty() {
            actions.push(Action::Flush { first: rq });
        }
        self.queue.start(rq, needed, now, actions);
    }
}

faulty! {
    a_lost_request_is_seen,
    LosesRequests {},
    fn flush_done(&mut self, status: Status, now: Nanos, actions: &mut Vec<Action>) {
        if self.queue.running.len() > 1 {
            self.queue.running.pop();
        }
        self.queue.flush_done(status, now, actions);
    }
}

faulty! {
    a_flush_put_off_for_ever_is_seen,
    NeverTimesOut {},
    fn data_done(&mut self, rq: Rq, done: Steps, status: Status, _now: Nanos, actions: &mut Vec<Action>) {
        self.queue.data_done(rq, done, status, Nanos::ZERO, actions);
    }
    fn start(&mut self, rq: Rq, needed: Steps, _now: Nanos, actions: &mut Vec<Action>) {
        self.queue.start(rq, needed, Nanos::ZERO, actions);
    }
}
