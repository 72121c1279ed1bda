//! One thread of a job: the loop that issues and reaps I/O.
//!
//! It follows fio 3.33's `do_io` (backend.c): fill the queue to `iodepth`,
//! submitting every `iodepth_batch`; when it is full, reap at least
//! `iodepth_batch_complete_min` until the depth is down to `iodepth_low`.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use block::{Bio, BioFlags, BioOp, BioResult, Sector};
use trace::{RequestId, Span, Step, Track};
use units::Nanos;

use super::contents::{self, Filler};
use super::flights::{Flight, Flights, Kind};
use super::ledger::Ledger;
use super::measure::{Measured, State, Times};
use super::pace::Pace;
use super::plan::Plan;
use crate::Host;
use crate::fio::generate::{Generator, Io};
use crate::fio::parse::{EngineKind, Job, Options, PriorityClass, SubmitMode, SyncWrites, Verify};
use crate::fio::report::IoError;
use crate::fio::{Direction, PerDirection};

/// Submissions of more than this many I/Os are plugged (fs/aio.c,
/// `AIO_PLUG_THRESHOLD`; io_uring/io_uring.h, `IO_PLUG_THRESHOLD`).
const PLUG_THRESHOLD: usize = 2;

pub(super) struct Thread {
    host: Host,
    job: Rc<Job>,
    plan: Plan,
    /// Its number among all threads of the run.
    index: u32,
    cpu: sim::cpu::Thread,
    generator: Generator,
    pace: Pace,
    flights: Flights,
    /// Decided on, not yet submitted.
    queued: Vec<(Kind, RequestId, Nanos)>,
    /// Reaped, not yet accounted for; empty between reapings.
    reaped: Vec<(Flight, BioResult)>,
    filler: Option<Filler>,
    ledger: Option<Ledger>,
    measured: Rc<RefCell<Measured>>,
    count: Count,
    requests: u64,
    spun: Nanos,
}

/// What was issued since measuring began.
#[derive(Default)]
struct Count {
    bytes: u64,
    ios: u64,
    writes: u64,
    last_was_sync: bool,
    since_think: u32,
}

impl Thread {
    pub fn new(
        host: &Host,
        job: &Rc<Job>,
        plan: Plan,
        index: u32,
        keeps_contents: bool,
        measured: Rc<RefCell<Measured>>,
    ) -> Self {
        let options = &job.options;
        let stream = |purpose: &str| sim::rng::stream(plan.seed, &format!("fio/{}/{purpose}", plan.stream));
        let generator = Generator::new(options, plan.region, plan.seed, &plan.stream);
        let blocks = PerDirection::from_fn(|direction| options.blocks[direction].min());
        let pace = Pace::new(options.rate_process, plan.rate_bytes_per_s, blocks, stream("rate"));
        let writes = options.pattern.writes;
        let longest = options.blocks.iter().map(|(_, sizes)| sizes.max()).max().unwrap_or(0).min(plan.region.bytes);
        let filler = (keeps_contents && writes).then(|| {
            Filler::new(&options.contents, options.verify, &options.verify_pattern, longest, stream("contents"))
        });
        let ledger = (writes && options.do_verify && options.verify != Verify::None).then(Ledger::default);
        Self {
            cpu: host.cpus.thread(format!("{}/{index}", job.name), plan.core),
            flights: Flights::new(plan.depth),
            queued: Vec::with_capacity(plan.batch as usize),
            reaped: Vec::new(),
            host: host.clone(),
            job: job.clone(),
            plan,
            index,
            generator,
            pace,
            filler,
            ledger,
            measured,
            count: Count::default(),
            requests: 0,
            spun: Nanos::ZERO,
        }
    }

    fn options(&self) -> &Options {
        &self.job.options
    }

    fn now(&self) -> Nanos {
        self.host.sim.now()
    }

    /// Does everything the job asks for.
    pub async fn run(mut self) {
        let started_at = self.now();
        let measured_from = started_at + self.options().ramp_time;
        {
            let mut measured = self.measured.borrow_mut();
            measured.state = State::Running;
            measured.started_at = started_at;
            measured.measured_from = measured_from;
            measured.begin_phase(measured_from);
            measured.finished_at = started_at;
        }
        self.pace.start_at(started_at);
        let deadline = self.plan.runtime.map_or(Nanos::MAX, |runtime| measured_from + runtime);
        self.issue_all(measured_from, deadline).await;
        self.submit().await;
        self.drain().await;
        if !self.has_failed() {
            // Closing the device and `end_fsync` each flush once, where asked.
            let options = self.options();
            let closing =
                if options.pattern.writes { u8::from(options.end_fsync) + u8::from(options.fsync_on_close) } else { 0 };
            for _ in 0..closing {
                self.sync_and_wait().await;
            }
            self.verify().await;
        }
        let usage = self.cpu.usage();
        let mut measured = self.measured.borrow_mut();
        measured.cpu.user = self.spun;
        measured.cpu.system = usage.busy.since(self.spun);
        measured.cpu.context_switches = usage.voluntary_switches + usage.involuntary_switches;
        measured.state = State::Finished;
    }

    async fn issue_all(&mut self, measured_from: Nanos, deadline: Nanos) {
        let mut ramping = self.now() < measured_from;
        let mut pass = 1;
        let mut pass_bytes = 0;
        loop {
            if ramping && self.now() >= measured_from {
                ramping = false;
                pass_bytes = 0;
                self.count = Count { last_was_sync: self.count.last_was_sync, ..Count::default() };
            }
            let done = !ramping
                && (self.plan.target_bytes.is_some_and(|target| self.count.bytes >= target)
                    || self.plan.target_ios.is_some_and(|target| self.count.ios >= target));
            if done || self.now() >= deadline || self.has_failed() {
                return;
            }
            if self.sync_is_due() {
                self.sync().await;
                self.make_room().await;
                continue;
            }
            let direction = self.choose_direction();
            if let Some(due) = self.pace.due(direction).filter(|due| *due > self.now()) {
                self.wait_for_turn(due.min(deadline)).await;
                if self.now() >= deadline {
                    return;
                }
            }
            let again = self.plan.repeats || ramping || pass < self.plan.passes;
            let pass_is_over = self.plan.pass_bytes.is_some_and(|bytes| pass_bytes >= bytes);
            let next = if pass_is_over { None } else { self.generator.next(direction) };
            let io = match next {
                Some(io) => io,
                None if again => {
                    pass += 1;
                    pass_bytes = 0;
                    self.generator.restart();
                    let direction = self.generator.direction();
                    let Some(io) = self.generator.next(direction) else { return };
                    io
                }
                None => return,
            };
            pass_bytes += io.bytes;
            self.issue(io).await;
            self.make_room().await;
            self.think(deadline).await;
        }
    }

    fn has_failed(&self) -> bool {
        self.measured.borrow().failure.is_some()
    }

    /// I/Os decided on and not yet reaped.
    fn outstanding(&self) -> u32 {
        self.flights.len() + self.queued.len() as u32
    }

    /// The next I/O's direction. One that must wait for its rate gives way to the
    /// other if that is due earlier or has no rate (fio io_u.c, rate_ddir).
    #[inline]
    fn choose_direction(&mut self) -> Direction {
        let drawn = self.generator.direction();
        let other = match drawn {
            Direction::Read => Direction::Write,
            _ => Direction::Read,
        };
        let pattern = self.job.options.pattern;
        if !(pattern.reads && pattern.writes) {
            return drawn;
        }
        let now = self.now();
        match (self.pace.due(drawn), self.pace.due(other)) {
            (Some(due), None) if due > now => other,
            (Some(due), Some(earlier)) if due > now && earlier < due => other,
            _ => drawn,
        }
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId((u64::from(self.index) + 1) << 40 | self.requests)
    }

    async fn issue(&mut self, io: Io) {
        let decided_at = self.now();
        let request = self.request();
        self.count.bytes += io.bytes;
        self.count.ios += 1;
        self.count.last_was_sync = false;
        self.count.since_think += 1;
        self.pace.issued(io.direction, io.bytes);
        let mut sequence = None;
        match (io.direction, &mut self.ledger) {
            (Direction::Write, Some(ledger)) => sequence = Some(ledger.issue(&io)),
            (Direction::Trim, Some(ledger)) => {
                ledger.forget(&io);
            }
            _ => {}
        }
        self.count.writes += u64::from(io.direction == Direction::Write);
        self.enqueue(Kind::Io(io, sequence), request, decided_at).await;
    }

    /// Submits an I/O, now or with its batch.
    async fn enqueue(&mut self, kind: Kind, request: RequestId, decided_at: Nanos) {
        let is_trim = matches!(kind, Kind::Io(Io { direction: Direction::Trim, .. }, _));
        self.measured.borrow_mut().depths.issued(self.outstanding() + 1);
        // A trim is an ioctl (BLKDISCARD) with every engine: it blocks.
        if is_trim || self.options().engine.kind == EngineKind::Synchronous {
            self.submit().await;
            self.do_and_wait(kind, request, decided_at).await;
            return;
        }
        self.queued.push((kind, request, decided_at));
        if self.queued.len() >= self.plan.batch as usize {
            self.submit().await;
        }
    }

    /// One system call that submits what is queued.
    async fn submit(&mut self) {
        let Some((_, first, _)) = self.queued.first().copied() else { return };
        let count = self.queued.len();
        self.cpu.syscall_for(first, self.host.costs.submit * count as u64).await;
        let (core, issued_at) = (self.cpu.core(), self.now());
        let mut plug = (count > PLUG_THRESHOLD).then(|| self.host.disk.plug(core));
        let mut queued = std::mem::take(&mut self.queued);
        for (kind, request, decided_at) in queued.drain(..) {
            let bio = self.bio(kind, request);
            let future = match &mut plug {
                Some(plug) => plug.submit(bio),
                None => self.host.disk.submit(core, bio),
            };
            self.flights.add(Flight { kind, request, decided_at, issued_at }, future);
        }
        drop(plug);
        self.queued = queued;
        let mut measured = self.measured.borrow_mut();
        measured.depths.submitted(count as u32);
        measured.in_flight = self.flights.len();
    }

    /// One I/O that the job blocks for.
    async fn do_and_wait(&mut self, kind: Kind, request: RequestId, decided_at: Nanos) {
        self.cpu.compute_for(request, self.host.costs.submit).await;
        let issued_at = self.now();
        self.measured.borrow_mut().in_flight += 1;
        let bio = self.bio(kind, request);
        let result = self.host.disk.submit(self.cpu.core(), bio).await;
        let syncs_itself = self.options().sync != SyncWrites::None
            && matches!(kind, Kind::Io(Io { direction: Direction::Write, .. }, _));
        // A synchronous write to a block device opened with O_SYNC or O_DSYNC
        // also flushes once it is done (block/fops.c, blkdev_write_iter, calls
        // generic_write_sync); an asynchronous one is only FUA.
        let result = if syncs_itself && result.status.is_success() {
            let flush = self.bio(Kind::Sync, request);
            self.host.disk.submit(self.cpu.core(), flush).await
        } else {
            result
        };
        self.host.sim.sleep_until(self.interrupt(request)).await;
        self.cpu.syscall_for(request, Nanos::ZERO).await;
        {
            let mut measured = self.measured.borrow_mut();
            measured.in_flight -= 1;
            measured.depths.submitted(1);
            measured.depths.completed(1);
        }
        self.account(Flight { kind, request, decided_at, issued_at }, result, true);
    }

    fn bio(&mut self, kind: Kind, request: RequestId) -> Bio {
        let Kind::Io(io, sequence) = kind else {
            let flags = BioFlags::PREFLUSH | BioFlags::SYNC;
            return Bio {
                nsid: nvme::NamespaceId::FIRST,
                op: BioOp::Write,
                sector: Sector(0),
                bytes: 0,
                flags,
                data: None,
                request,
            };
        };
        let (op, flags, data) = match io.direction {
            Direction::Read => (BioOp::Read, BioFlags::SYNC, None),
            Direction::Trim => (BioOp::Discard, BioFlags::SYNC, None),
            Direction::Write => {
                // REQ_SYNC | REQ_IDLE for direct writes, REQ_FUA with O_DSYNC
                // (block/fops.c, dio_bio_write_op).
                let fua = self.job.options.sync != SyncWrites::None;
                let flags = BioFlags::SYNC | if fua { BioFlags::FUA } else { BioFlags::empty() };
                let number = sequence.unwrap_or(self.requests);
                (BioOp::Write, flags, self.filler.as_mut().map(|filler| filler.fill(&io, number)))
            }
        };
        let priority = match self.job.options.priority_class {
            PriorityClass::Realtime => BioFlags::REALTIME,
            PriorityClass::BestEffort => BioFlags::empty(),
            PriorityClass::Idle => BioFlags::IDLE_PRIORITY,
        };
        let sector = Sector(io.offset / Sector::BYTES);
        Bio { nsid: nvme::NamespaceId::FIRST, op, sector, bytes: io.bytes, flags: flags | priority, data, request }
    }

    /// Runs a request's completion interrupt on the job's core (blk-mq completes
    /// where it was submitted); gives the time at which the handler returns.
    fn interrupt(&self, request: RequestId) -> Nanos {
        self.host.cpus.interrupt_for(request, self.cpu.core(), self.host.costs.complete)
    }

    /// Reaps from `min` to `max` I/Os (at most those in flight).
    async fn reap(&mut self, min: u32, max: u32) {
        let had_to_wait = self.flights.completed(min.max(1)) < min;
        self.flights.wait_for(min).await;
        let count = self.flights.completed(max).min(max);
        let mut reaped = std::mem::take(&mut self.reaped);
        let mut handled_at = self.now();
        for _ in 0..count {
            let Some((flight, result)) = self.flights.reap() else { break };
            handled_at = self.interrupt(flight.request);
            reaped.push((flight, result));
        }
        // A job that slept wakes from the interrupt; one that did not only loses
        // the interrupt's time, which its next computation on the core pays.
        if had_to_wait {
            self.host.sim.sleep_until(handled_at).await;
        }
        // io_uring's completions lie in shared memory: a call is made only to wait.
        if had_to_wait || self.options().engine.kind != EngineKind::IoUring {
            self.cpu.syscall().await;
        }
        {
            let mut measured = self.measured.borrow_mut();
            measured.depths.completed(count);
            measured.in_flight = self.flights.len();
        }
        for (flight, result) in reaped.drain(..) {
            self.account(flight, result, false);
        }
        self.reaped = reaped;
    }

    fn account(&mut self, flight: Flight, result: BioResult, synchronous: bool) {
        let now = self.now();
        let mut measured = self.measured.borrow_mut();
        let (direction, offset, bytes) = match flight.kind {
            Kind::Io(io, _) => (Some(io.direction), io.offset, io.bytes),
            Kind::Sync => (None, 0, 0),
        };
        if self.host.recorder.is_on() {
            let step = match direction {
                Some(Direction::Read) => Step::Read,
                Some(Direction::Write) => Step::Write,
                Some(Direction::Trim) => Step::Discard,
                None => Step::Flush,
            };
            let track = Track::Job(u16::try_from(self.index).unwrap_or(u16::MAX));
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let span = Span { start: flight.decided_at, end: now, track, step, request: flight.request, offset, bytes };
            self.host.recorder.record(span);
        }
        if !result.status.is_success() {
            measured.failed(IoError { direction, offset, bytes, status: result.status, at: now });
            return;
        }
        let Kind::Io(io, sequence) = flight.kind else {
            measured.synced(flight.decided_at, now);
            return;
        };
        // A trim or write of a synchronous call has no submission latency;
        // neither has a trim with an asynchronous engine.
        let times = Times { decided_at: flight.decided_at, issued_at: flight.issued_at, reaped_at: now, synchronous };
        measured.completed(io.direction, io.bytes, times);
        match io.direction {
            Direction::Write => {
                if let (Some(ledger), Some(sequence)) = (&mut self.ledger, sequence) {
                    ledger.complete(&io, sequence);
                }
            }
            Direction::Read => {
                let options = &self.job.options;
                // Reads of a mixed phase race with its writes and are not judged.
                let judged = options.verify != Verify::None && (sequence.is_some() || !options.pattern.writes);
                if judged {
                    let data = result.data.as_deref();
                    let outcome = contents::check(options.verify, &options.verify_pattern, &io, sequence, data);
                    measured.verified(outcome, options.verify_fatal);
                }
            }
            Direction::Trim => {}
        }
    }

    /// Reaps while the queue is full, or looks for completions where the job polls.
    async fn make_room(&mut self) {
        let (min, max) = (self.plan.complete_min, self.plan.complete_max);
        if self.outstanding() >= self.plan.depth {
            self.submit().await;
            while self.outstanding() > 0 {
                self.reap(min.max(1), max).await;
                if self.outstanding() <= self.plan.low.min(self.plan.depth - 1) {
                    break;
                }
            }
        } else if min == 0 && self.flights.len() > 0 {
            self.reap(0, max).await;
        }
    }

    /// Submits and reaps everything.
    async fn drain(&mut self) {
        self.submit().await;
        while self.flights.len() > 0 {
            self.reap(1, self.plan.complete_max).await;
        }
    }

    /// Waits until a rated I/O is due.
    async fn wait_for_turn(&mut self, due: Nanos) {
        if self.options().submit_mode == SubmitMode::Inline {
            // fio io_u.c, rate_ddir: io_u_quiesce before it sleeps.
            self.drain().await;
            self.host.sim.sleep_until(due).await;
            return;
        }
        self.submit().await;
        let mut sleep = pin!(self.host.sim.sleep_until(due));
        loop {
            if self.flights.len() == 0 {
                sleep.as_mut().await;
                return;
            }
            let slept = {
                let mut completion = pin!(self.flights.wait_for(1));
                std::future::poll_fn(|context| {
                    if sleep.as_mut().poll(context).is_ready() {
                        return Poll::Ready(true);
                    }
                    completion.as_mut().poll(context).map(|()| false)
                })
                .await
            };
            if slept {
                return;
            }
            self.reap(1, u32::MAX).await;
        }
    }

    /// Pauses after `thinktime_blocks` I/Os, with none in flight (fio backend.c,
    /// handle_thinktime).
    async fn think(&mut self, deadline: Nanos) {
        let options = self.options();
        let (time, spin, blocks) = (options.thinktime, options.thinktime_spin, options.thinktime_blocks);
        if time == Nanos::ZERO || self.count.since_think < blocks {
            return;
        }
        self.count.since_think = 0;
        self.drain().await;
        let until = (self.now() + time).min(deadline);
        let spin = spin.min(until.since(self.now()));
        self.spun += spin;
        self.cpu.compute(spin).await;
        self.host.sim.sleep_until(until).await;
    }

    fn sync_is_due(&self) -> bool {
        let options = self.options();
        let every = |count: u32| count > 0 && self.count.writes.is_multiple_of(u64::from(count));
        self.count.writes > 0 && !self.count.last_was_sync && (every(options.fsync) || every(options.fdatasync))
    }

    /// An fsync as the engine does it: queued like any I/O, or blocking.
    async fn sync(&mut self) {
        self.count.last_was_sync = true;
        match self.options().engine.kind {
            EngineKind::IoUring | EngineKind::PosixAio | EngineKind::UringCommand | EngineKind::Spdk => {
                let (request, decided_at) = (self.request(), self.now());
                self.enqueue(Kind::Sync, request, decided_at).await;
            }
            EngineKind::Synchronous | EngineKind::LinuxAio => {
                self.submit().await;
                self.sync_and_wait().await;
            }
        }
    }

    async fn sync_and_wait(&mut self) {
        let (request, decided_at) = (self.request(), self.now());
        self.do_and_wait(Kind::Sync, request, decided_at).await;
    }

    /// Reads back and checks what the job wrote.
    async fn verify(&mut self) {
        let Some(ledger) = self.ledger.take() else { return };
        let now = self.now();
        self.measured.borrow_mut().begin_phase(now);
        for (io, sequence) in ledger.certain() {
            if self.has_failed() {
                break;
            }
            let (request, decided_at) = (self.request(), self.now());
            self.enqueue(Kind::Io(io, Some(sequence)), request, decided_at).await;
            self.make_room().await;
        }
        self.drain().await;
    }
}
