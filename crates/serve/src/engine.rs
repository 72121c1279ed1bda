//! The device on the wall clock: what every front-end submits to.

use nvme::{Command, NamespaceId, Status, WriteOrder};
use ssd::{ControllerEvent, Device};
use units::Nanos;

use crate::backend::{Backend, Reply, Request};
use crate::calibration::{Calibration, Lead};
use crate::clock::WallClock;
use crate::front_end::Outcome;
use crate::latency::{Latencies, RecentLatency};
use crate::power::{PowerLoss, Survival};

/// What the engine remembers of a request.
pub(crate) struct InDevice<C> {
    seen_at: Nanos,
    context: C,
}

/// A device, the clock, and the requests on their way.
pub(crate) struct Engine<C> {
    backend: Backend<InDevice<C>>,
    clock: WallClock,
    now: Nanos,
    lead: Lead,
    calibration: Calibration,
    latencies: Latencies,
    replies: Vec<Reply<InDevice<C>>>,
    /// Answers on their way out, whose latency is not counted yet.
    leaving: Vec<Leaving>,
    counts: Counts,
    lba_bytes: u64,
    powered: bool,
}

/// An answer given since latencies were last counted.
struct Leaving {
    seen_at: Nanos,
    modelled: Nanos,
    completed_at: Nanos,
}

/// What has gone through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) errors: u64,
}

impl Counts {
    fn read(&mut self, bytes: u64) {
        self.reads += 1;
        self.read_bytes += bytes;
    }

    fn wrote(&mut self, bytes: u64) {
        self.writes += 1;
        self.written_bytes += bytes;
    }
}

impl<C> Engine<C> {
    pub(crate) fn new(device: Box<dyn Device>, calibration: Calibration) -> Self {
        Self {
            lba_bytes: device.identity().lba_bytes.into(),
            backend: Backend::new(device),
            clock: WallClock::start(),
            now: Nanos::ZERO,
            lead: Lead::new(calibration),
            calibration,
            latencies: Latencies::new(calibration.transport),
            replies: Vec::new(),
            leaving: Vec::new(),
            counts: Counts::default(),
            powered: true,
        }
    }

    /// When the loop last woke up, counted from the start of serving: the time at
    /// which what its descriptors have was seen. The clock is not read again until
    /// answers have left, since each reading is on the requests' way (and in a
    /// kernel in virtual time is what costs most there).
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// The loop has woken up; gives the time.
    pub(crate) fn wake_up(&mut self) -> Nanos {
        self.now = self.clock.now();
        self.now
    }

    /// Gives the device a request that was seen at `seen_at`, on queue `queue`
    /// modulo the device's queues.
    pub(crate) fn submit(&mut self, seen_at: Nanos, queue: usize, nsid: NamespaceId, request: Request, context: C) {
        self.counts.requests += 1;
        match &request {
            Request::Read { length, .. } => self.counts.read(u64::from(*length)),
            Request::Write { data, .. } => self.counts.wrote(data.len() as u64),
            Request::Command { command, data } => match (command, data) {
                (Command::Read { range, .. }, _) => self.counts.read(u64::from(range.count) * self.lba_bytes),
                (Command::Write(_) | Command::ZoneAppend { .. }, Some(data)) => self.counts.wrote(data.len() as u64),
                _ => {}
            },
            _ => {}
        }
        let context = InDevice { seen_at, context };
        if !self.powered {
            let result = Err(Status::NAMESPACE_NOT_READY);
            self.replies.push(Reply { context, result, value: 0, submitted_at: seen_at, completed_at: seen_at });
            return;
        }
        self.backend.submit(seen_at, queue, nsid, request, context, &mut self.replies);
    }

    /// Does what is due; says whether more is due.
    pub(crate) fn advance(&mut self) -> bool {
        self.powered && self.backend.advance(self.now + self.lead.now(), &mut self.replies)
    }

    /// Gives what has ended to `answer`.
    pub(crate) fn answers(&mut self, mut answer: impl FnMut(C, Outcome, Nanos)) {
        for reply in self.replies.drain(..) {
            let (modelled, completed_at) = (reply.modelled_latency(), reply.completed_at);
            self.leaving.push(Leaving { seen_at: reply.context.seen_at, modelled, completed_at });
            self.counts.errors += u64::from(reply.result.is_err());
            answer(reply.context.context, Outcome { result: reply.result, value: reply.value }, self.now);
        }
    }

    /// Counts the latencies of the answers that have just left; gives the time.
    pub(crate) fn left(&mut self) -> Nanos {
        if self.leaving.is_empty() {
            return self.now;
        }
        let now = self.clock.now();
        for Leaving { seen_at, modelled, completed_at } in self.leaving.drain(..) {
            self.latencies.record(now, modelled, now.since(seen_at));
            self.lead.learn(seen_at, completed_at, now);
        }
        now
    }

    /// A write of these streams failed before the device saw it.
    pub(crate) fn break_streams(&mut self, order: &WriteOrder) {
        self.backend.break_streams(self.now, order);
    }

    /// When the device next has something to do, on the wall clock.
    pub(crate) fn next_event(&self, spin: Nanos) -> Option<Nanos> {
        if !self.powered {
            return None;
        }
        self.backend.next_event().map(|due| due.since(self.lead.now() + spin))
    }

    pub(crate) fn backend(&self) -> &Backend<InDevice<C>> {
        &self.backend
    }

    pub(crate) fn is_powered(&self) -> bool {
        self.powered
    }

    /// Cuts the device's power: what was outstanding is gone, and of what its cache
    /// had, `survival` says what is on the media. It has its power back at once, or
    /// is `off` until [`Engine::power_on`]. Returns the contexts of what was
    /// outstanding.
    pub(crate) fn power_cut(&mut self, survival: Survival, off: bool) -> (Vec<C>, PowerLoss) {
        let (orphans, cut) = self.backend.power_cut(self.now);
        let mut loss = PowerLoss { orphans: orphans.len() as u64, undecided: cut.undecided.len() as u64, survived: 0 };
        for write in survival.choose(&cut.undecided) {
            self.backend.survive(write);
            loss.survived += 1;
        }
        self.powered = !off;
        (orphans.into_iter().map(|orphan| orphan.context).collect(), loss)
    }

    /// Gives the device its power back.
    pub(crate) fn power_on(&mut self) {
        self.powered = true;
    }

    /// Something happens to a zone; whether it applies.
    pub(crate) fn zone_event(&mut self, nsid: NamespaceId, zone: u32, event: ControllerEvent) -> bool {
        self.backend.zone_event(self.now, nsid, zone, event)
    }

    /// Finishes what is outstanding and commits the device's cache. A device without
    /// power has neither.
    pub(crate) fn shut_down(&mut self) -> Result<(), String> {
        if self.powered { self.backend.shut_down(&mut self.replies) } else { self.backend.finish_store() }
    }

    /// Bounds the memory for contents.
    pub(crate) fn limit_memory(&mut self, bytes: Option<u64>) {
        self.backend.limit_memory(bytes);
    }

    pub(crate) fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// The latencies of the last whole second.
    pub(crate) fn recent(&mut self) -> RecentLatency {
        self.latencies.recent(self.now)
    }

    pub(crate) fn calibration(&self) -> Calibration {
        self.calibration
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// When serving began, on CLOCK_MONOTONIC.
    pub(crate) fn started_at(&self) -> Nanos {
        self.clock.started_at()
    }
}
