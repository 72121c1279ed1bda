//! Streams: what the threads of one share, and how they start.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt;
use sim::rng::{Rng, stream};
use sim::sync::Mutex;
use stats::Histogram;
use units::Nanos;

use super::Operation;
use super::bench::{CommandError, Rig, SEED};
use super::slot::Slot;

/// How far apart the threads of a stream begin.
const START_WITHIN: Nanos = Nanos::from_millis(10);

/// Which completions count: those from `from` on, before `to`.
#[derive(Clone)]
pub struct Window {
    /// The first instant that counts.
    pub from: Rc<Cell<Nanos>>,
    /// The first one that does not any more.
    pub to: Rc<Cell<Nanos>>,
}

/// What a stream did inside the window.
#[derive(Default)]
pub struct Tally {
    /// Of the counted operations.
    pub latency: Histogram,
    /// When the first counted operation completed.
    pub first_at: Nanos,
    /// When the last one did.
    pub last_at: Nanos,
    /// Completions before the window too.
    pub completed: u64,
    /// The first failure, which ends the stream.
    pub failure: Option<CommandError>,
    /// Whether some thread ran out of zones.
    pub exhausted: bool,
}

/// A tally that the tasks of a stream fill.
pub type SharedTally = Rc<RefCell<Tally>>;

/// A stream to start.
pub struct StreamPlan {
    /// What it does.
    pub operation: Operation,
    /// Bytes of a transfer.
    pub block_bytes: u64,
    /// How many do it.
    pub threads: u32,
    /// Operations in flight of each thread.
    pub queue_depth: u32,
    /// A finish that the host does itself, in writes of so many bytes.
    pub padding_bytes: Option<u64>,
    /// Operations a second at most.
    pub limit_per_s: Option<f64>,
    /// The first of its zones: written, or for reads and resets full.
    pub first_zone: u32,
    /// How many zones it has.
    pub zones: u32,
    /// CPU of the first thread.
    pub first_cpu: u16,
    /// When the stream begins.
    pub from: Nanos,
    /// When the stream ends by itself.
    pub until: Nanos,
    /// Names the random numbers.
    pub name: &'static str,
}

/// What the operations in flight of one thread share.
pub(super) struct Thread {
    pub(super) index: u32,
    pub(super) cpu: u16,
    /// After the stream's start: threads of a host do not begin as one.
    pub(super) starts_after: Nanos,
    /// Held while the thread itself is busy.
    pub(super) busy: Mutex<()>,
    pub(super) work: RefCell<Work>,
}

/// Where a thread's next operation goes.
pub(super) struct Work {
    pub(super) rng: Rng,
    /// Zones of this thread, left to do.
    pub(super) zones: std::ops::Range<u32>,
    /// Bytes of the first of them that are given out.
    pub(super) offset: u64,
}

/// What all threads of a stream share.
pub(super) struct Pace {
    pub(super) from: Nanos,
    pub(super) until: Nanos,
    pub(super) interval_ns: Option<f64>,
    pub(super) issued: Cell<u64>,
    /// Zones to reset, the next one last.
    pub(super) resets: RefCell<Vec<u32>>,
}

/// Starts the tasks of a stream.
pub fn start(rig: &Rig, plan: &StreamPlan, window: &Window) -> SharedTally {
    let tally = SharedTally::default();
    let mut rng = stream(SEED, plan.name);
    let mut resets: Vec<u32> = Vec::new();
    if plan.operation == Operation::Reset {
        resets.extend(plan.first_zone..plan.first_zone + plan.zones);
        // Fisher and Yates: each zone once, in random order.
        for last in (1..resets.len()).rev() {
            resets.swap(last, rng.random_range(0..=last));
        }
    }
    let pace = Rc::new(Pace {
        from: plan.from,
        until: plan.until,
        interval_ns: plan.limit_per_s.map(|rate| 1e9 / rate),
        issued: Cell::new(0),
        resets: RefCell::new(resets),
    });
    let each = plan.zones / plan.threads;
    for thread in 0..plan.threads {
        // Reads go anywhere, the others each to zones of their own.
        let zones = if plan.operation == Operation::Read {
            plan.first_zone..plan.first_zone + plan.zones
        } else {
            let first = plan.first_zone + thread * each;
            first..first + each
        };
        let work = Work { rng: stream(SEED, &format!("{} {thread}", plan.name)), zones, offset: 0 };
        let cpu = plan.first_cpu.wrapping_add(thread as u16);
        let starts_after = Nanos(rng.random_range(0..START_WITHIN.0));
        let thread = Thread { index: thread, cpu, starts_after, busy: Mutex::new(()), work: RefCell::new(work) };
        let thread = Rc::new(thread);
        for _ in 0..plan.queue_depth {
            let slot = Slot {
                rig: rig.clone(),
                operation: plan.operation,
                block_bytes: plan.block_bytes,
                padding_bytes: plan.padding_bytes,
                alone: plan.queue_depth == 1,
                threads: plan.threads,
                thread: thread.clone(),
                pace: pace.clone(),
                window: window.clone(),
                tally: tally.clone(),
            };
            rig.sim.spawn(slot.run());
        }
    }
    tally
}
