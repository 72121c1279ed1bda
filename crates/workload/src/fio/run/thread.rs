//! One thread of a job: the loop that issues and reaps I/O.
//!
//! It follows fio 3.33's `do_io` (backend.c): fill the queue to `iodepth`,
//! submitting every `iodepth_batch`; when it is full, reap at least
//! `iodepth_batch_complete_min` until the depth is down to `iodepth_low`.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use block::BioResult;
use trace::RequestId;
use units::Nanos;

use super::contents::Filler;
use super::flights::{Flight, Flights, Kind};
use super::ledger::Ledger;
use super::measure::{Measured, State};
use super::pace::Pace;
use super::plan::ThreadPlan;
use super::transport::{Path, Polls, Queued};
use super::zones::Placed;
use crate::Host;
use crate::fio::generate::{Generator, Io};
use crate::fio::parse::{EngineKind, Job, Options, SubmitMode, Verify};
use crate::fio::report::ShortfallReason;
use crate::fio::{Direction, PerDirection};

pub(super) struct Thread {
    pub(super) host: Host,
    pub(super) job: Rc<Job>,
    pub(super) plan: ThreadPlan,
    /// Its number among all threads of the run.
    pub(super) index: u32,
    pub(super) cpu: sim::cpu::Thread,
    pub(super) path: Path,
    pub(super) generator: Generator,
    pub(super) pace: Pace,
    pub(super) flights: Flights,
    /// Decided on, not yet submitted.
    pub(super) queued: Vec<Queued>,
    /// Reaped, not yet accounted for; empty between reapings.
    pub(super) reaped: Vec<(Flight, BioResult)>,
    pub(super) filler: Option<Filler>,
    pub(super) ledger: Option<Ledger>,
    pub(super) measured: Rc<RefCell<Measured>>,
    pub(super) count: Count,
    pub(super) requests: u64,
    spun: Nanos,
    /// Zones to finish, each still locked for the write that says so.
    pub(super) to_finish: Vec<u32>,
    /// Under `zoneskip`, where the zone now read or written begins, and the bytes
    /// moved since.
    pub(super) skip_from: u64,
    pub(super) since_skip_bytes: u64,
    /// Whether its zones hold something to read.
    has_data: bool,
}

/// What was issued since measuring began.
#[derive(Default)]
pub(super) struct Count {
    pub(super) bytes: u64,
    ios: u64,
    writes: u64,
    last_was_sync: bool,
    since_think: u32,
}

impl Thread {
    pub fn new(
        host: &Host,
        job: &Rc<Job>,
        plan: ThreadPlan,
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
        let longest = options.blocks.write.max().min(plan.region.bytes);
        let filler = (keeps_contents && writes).then(|| {
            Filler::new(&options.contents, options.verify, &options.verify_pattern, longest, stream("contents"))
        });
        let ledger = (writes && options.do_verify && options.verify != Verify::None).then(Ledger::default);
        let cpu = host.cpus.thread(format!("{}/{index}", job.name), plan.core);
        Self {
            path: Path::new(options, &host.sim, &host.disk, cpu.core(), host.costs.submit),
            cpu,
            skip_from: plan.region.start,
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
            to_finish: Vec::new(),
            since_skip_bytes: 0,
            has_data: false,
        }
    }

    pub(super) fn options(&self) -> &Options {
        &self.job.options
    }

    pub(super) fn now(&self) -> Nanos {
        self.host.sim.now()
    }

    /// Does everything the job asks for.
    pub async fn run(mut self) {
        if self.options().zones.initial_reset || self.verifies_zones() {
            self.reset_region().await;
        }
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
        // A thread that polls keeps its core all the time.
        let elapsed = measured.finished_at.since(started_at);
        (measured.cpu.user, measured.cpu.system) = match self.path.polls() {
            None => (self.spun, usage.busy.since(self.spun)),
            Some(Polls::Kernel) => (self.spun, elapsed.since(self.spun)),
            Some(Polls::Program) => (elapsed, Nanos::ZERO),
        };
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
            let placed = if pass_is_over { None } else { self.next(direction).await };
            let Some(Placed { io, zone }) = placed else {
                // A pass without a single I/O would be followed by others like it.
                if !again || pass_bytes == 0 || self.has_failed() {
                    if self.requests == 0 && self.plan.zones.is_some() {
                        self.measured.borrow_mut().failure.get_or_insert(ShortfallReason::NoZone { direction });
                    }
                    return;
                }
                pass += 1;
                pass_bytes = 0;
                self.generator.restart();
                if self.verifies_zones() {
                    self.drain().await;
                    self.reset_region().await;
                }
                continue;
            };
            pass_bytes += io.bytes;
            self.issue(io, zone).await;
            self.make_room().await;
            self.think(deadline).await;
        }
    }

    /// The next I/O in its place, its direction turned into a write where there is
    /// nothing to read yet (fio zbd.c, zbd_adjust_ddir).
    async fn next(&mut self, direction: Direction) -> Option<Placed> {
        let mut direction = direction;
        if let Some(plan) = &self.plan.zones {
            let pattern = self.job.options.pattern;
            let reads = direction == Direction::Read && !self.options().zones.read_beyond_write_pointer;
            if reads && pattern.writes && !self.has_data {
                self.has_data = plan.zones.hold_data(&plan.range);
                if !self.has_data {
                    direction = Direction::Write;
                }
            }
            self.skip_zones(direction);
        }
        let drawn = self.generator.next(direction)?;
        let placed = self.place(drawn).await?;
        self.generator.placed(&drawn, &placed.io);
        self.since_skip_bytes += placed.io.bytes;
        Some(placed)
    }

    /// Whether the job's zones are emptied before each pass.
    fn verifies_zones(&self) -> bool {
        let options = self.options();
        self.plan.zones.is_some() && options.pattern.writes && options.verify != Verify::None
    }

    pub(super) fn has_failed(&self) -> bool {
        self.measured.borrow().failure.is_some()
    }

    /// I/Os decided on and not yet reaped.
    pub(super) fn outstanding(&self) -> u32 {
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

    pub(super) fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId((u64::from(self.index) + 1) << 40 | self.requests)
    }

    async fn issue(&mut self, io: Io, zone: Option<u32>) {
        let decided_at = self.now();
        let request = self.request();
        self.count.bytes += io.bytes;
        self.count.ios += 1;
        self.count.last_was_sync = false;
        self.count.since_think += 1;
        self.pace.issued(io.direction, io.bytes);
        let mut sequence = None;
        let appends = self.appends_to(zone).is_some();
        match (io.direction, &mut self.ledger) {
            (Direction::Write, Some(ledger)) if appends => sequence = Some(ledger.issue_append()),
            (Direction::Write, Some(ledger)) => sequence = Some(ledger.issue(&io)),
            (Direction::Trim, Some(ledger)) => {
                ledger.forget(&io);
            }
            _ => {}
        }
        self.count.writes += u64::from(io.direction == Direction::Write);
        self.enqueue(Queued { kind: Kind::Io(io, sequence), request, decided_at, zone }).await;
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
        self.finish_zones().await;
    }

    /// Submits and reaps everything, and finishes the zones that are due then.
    pub(super) async fn drain(&mut self) {
        self.quiesce().await;
        self.finish_zones().await;
    }

    /// Submits and reaps everything.
    pub(super) async fn quiesce(&mut self) {
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
            self.finish_zones().await;
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
                self.enqueue(Queued { kind: Kind::Sync, request, decided_at, zone: None }).await;
            }
            EngineKind::Synchronous | EngineKind::LinuxAio => {
                self.submit().await;
                self.sync_and_wait().await;
            }
        }
    }

    async fn sync_and_wait(&mut self) {
        let (request, decided_at) = (self.request(), self.now());
        self.do_and_wait(Queued { kind: Kind::Sync, request, decided_at, zone: None }).await;
    }

    /// Reads back and checks what the job wrote.
    async fn verify(&mut self) {
        let Some(ledger) = self.ledger.take() else { return };
        let now = self.now();
        self.measured.borrow_mut().begin_phase(now);
        for (io, stamp) in ledger.certain() {
            if self.has_failed() {
                break;
            }
            let (request, decided_at) = (self.request(), self.now());
            self.enqueue(Queued { kind: Kind::Verify(io, stamp), request, decided_at, zone: None }).await;
            self.make_room().await;
        }
        self.drain().await;
    }
}
