//! The device on the wall clock: what every front-end submits to.

use ssd::Device;
use units::Nanos;

use crate::backend::{Backend, Reply, Request};
use crate::calibration::{Calibration, Lead};
use crate::clock::WallClock;
use crate::latency::{Latencies, LatencySummary};
use nvme::NamespaceId;

/// What the engine remembers of a request.
pub(crate) struct InDevice<C> {
    seen_at: Nanos,
    context: C,
}

/// A device, the clock, and the requests on their way.
pub(crate) struct Engine<C> {
    backend: Backend<InDevice<C>>,
    clock: WallClock,
    lead: Lead,
    calibration: Calibration,
    latencies: Latencies,
    replies: Vec<Reply<InDevice<C>>>,
    counts: Counts,
}

/// What has gone through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) errors: u64,
}

impl<C> Engine<C> {
    pub(crate) fn new(device: Box<dyn Device>, calibration: Calibration) -> Self {
        Self {
            backend: Backend::new(device),
            clock: WallClock::start(),
            lead: Lead::new(calibration),
            calibration,
            latencies: Latencies::new(calibration.transport),
            replies: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Time since serving began.
    pub(crate) fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Gives the device a request that was seen at `seen_at`, on queue `queue`
    /// modulo the device's queues.
    pub(crate) fn submit(&mut self, seen_at: Nanos, queue: usize, nsid: NamespaceId, request: Request, context: C) {
        self.counts.requests += 1;
        match &request {
            Request::Read { length, .. } => self.counts.read_bytes += u64::from(*length),
            Request::Write { data, .. } => self.counts.written_bytes += data.len() as u64,
            _ => {}
        }
        self.backend.submit(seen_at, queue, nsid, request, InDevice { seen_at, context }, &mut self.replies);
    }

    /// Does what is due; says whether more is due.
    pub(crate) fn advance(&mut self) -> bool {
        self.backend.advance(self.clock.now() + self.lead.now(), &mut self.replies)
    }

    /// Gives what has ended to `answer`.
    pub(crate) fn answers(&mut self, mut answer: impl FnMut(C, crate::front_end::Outcome, Nanos)) {
        if self.replies.is_empty() {
            return;
        }
        let now = self.clock.now();
        for reply in self.replies.drain(..) {
            self.latencies.record(reply.modelled_latency(), now.since(reply.context.seen_at));
            self.lead.learn(reply.context.seen_at, reply.completed_at, now);
            self.counts.errors += u64::from(reply.result.is_err());
            answer(reply.context.context, crate::front_end::Outcome { result: reply.result, value: reply.value }, now);
        }
    }

    /// When the device next has something to do, on the wall clock.
    pub(crate) fn next_event(&self, spin: Nanos) -> Option<Nanos> {
        self.backend.next_event().map(|due| due.since(self.lead.now() + spin))
    }

    pub(crate) fn backend(&self) -> &Backend<InDevice<C>> {
        &self.backend
    }

    /// Finishes what is outstanding and commits the device's cache.
    pub(crate) fn shut_down(&mut self) -> nvme::Status {
        self.backend.shut_down(&mut self.replies)
    }

    pub(crate) fn latency(&self) -> LatencySummary {
        self.latencies.summary()
    }

    pub(crate) fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    pub(crate) fn calibration(&self) -> Calibration {
        self.calibration
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}
