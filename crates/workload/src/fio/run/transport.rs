//! How a thread's I/O gets to the device and back: system calls, interrupts,
//! polling.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use block::{Bio, BioFlags, BioFuture, BioOp, BioResult, BlockDevice, Plug, Sector, ZoneOp};
use sim::Handle;
use sim::sync::mpsc::{self, UnboundedSender};
use trace::RequestId;
use units::Nanos;

use super::flights::{Flight, Kind, OnItsWay};
use super::fragments::{Handler, Parts};
use super::thread::Thread;
use crate::fio::Direction;
use crate::fio::generate::Io;
use crate::fio::parse::{EngineKind, Options, PriorityClass, SyncWrites};

/// Submissions of more than this many I/Os are plugged (fs/aio.c,
/// `AIO_PLUG_THRESHOLD`; io_uring/io_uring.h, `IO_PLUG_THRESHOLD`).
const PLUG_THRESHOLD: usize = 2;

/// A thread's way to the device.
///
/// A thread that polls never gives up its core; it is taken to have one of its
/// own, so its costs pass as time and not through the processors' scheduler.
pub(super) enum Path {
    /// System calls that submit and wait, and interrupts.
    Kernel,
    /// `hipri`: system calls, of which those that wait poll the device.
    KernelPolled,
    /// `sqthread_poll`: a thread of the kernel submits, and the job polls the
    /// ring's memory for completions, which come by interrupt.
    SubmissionThread {
        /// To that thread.
        to: UnboundedSender<(Bio, Rc<Handed>)>,
        /// Interrupts on its core.
        interrupts: Rc<Cell<Interrupts>>,
    },
    /// A driver in the program.
    User,
}

impl Path {
    pub fn new(options: &Options, sim: &Handle, disk: &BlockDevice, core: u16, submit_cost: Nanos) -> Self {
        match options.engine.kind {
            EngineKind::Spdk => Self::User,
            kind if kind.is_uring() && options.polled_submission => {
                let interrupts = Rc::new(Cell::new(Interrupts::default()));
                let to = submission_thread(sim.clone(), disk.clone(), core, submit_cost, interrupts.clone());
                Self::SubmissionThread { to, interrupts }
            }
            kind if kind.is_uring() && options.polled_completion => Self::KernelPolled,
            _ => Self::Kernel,
        }
    }

    /// Whether the thread keeps its core while it waits: in the program itself,
    /// or in the kernel.
    pub fn polls(&self) -> Option<Polls> {
        match self {
            Self::Kernel => None,
            Self::KernelPolled => Some(Polls::Kernel),
            Self::SubmissionThread { .. } | Self::User => Some(Polls::Program),
        }
    }
}

/// Interrupts on the core of a submission thread, which they hold up: blk-mq
/// completes where it was submitted.
#[derive(Clone, Copy, Default)]
pub(super) struct Interrupts {
    /// When the handlers due have returned.
    until: Nanos,
    /// Time they have taken in all.
    taken: Nanos,
}

/// Where a thread polls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Polls {
    Kernel,
    Program,
}

/// An I/O that the submission thread has, or has submitted.
pub(super) struct Handed(RefCell<HandedState>);

enum HandedState {
    Waiting(Option<Waker>),
    Submitted(BioFuture),
}

impl Future for &Handed {
    type Output = BioResult;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BioResult> {
        match &mut *self.0.borrow_mut() {
            HandedState::Waiting(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            HandedState::Submitted(future) => Pin::new(future).poll(cx),
        }
    }
}

/// Takes I/Os one after the other, each at `cost`, interrupts not counted. It
/// ends with its sender.
fn submission_thread(
    sim: Handle,
    disk: BlockDevice,
    core: u16,
    cost: Nanos,
    interrupts: Rc<Cell<Interrupts>>,
) -> UnboundedSender<(Bio, Rc<Handed>)> {
    // The job's iodepth bounds the channel.
    let (to, mut from) = mpsc::unbounded::<(Bio, Rc<Handed>)>();
    let task = {
        let sim = sim.clone();
        async move {
            while let Some((bio, handed)) = from.recv().await {
                let Interrupts { until, mut taken } = interrupts.get();
                let mut done_at = sim.now().max(until) + cost;
                loop {
                    sim.sleep_until(done_at).await;
                    let more = interrupts.get().taken - taken;
                    if more == Nanos::ZERO {
                        break;
                    }
                    done_at += more;
                    taken += more;
                }
                let submitted = HandedState::Submitted(disk.submit(core, bio));
                if let HandedState::Waiting(Some(waker)) = handed.0.replace(submitted) {
                    waker.wake();
                }
            }
        }
    };
    drop(sim.spawn_named("submission thread", task));
    to
}

/// An I/O decided on and not yet submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub kind: Kind,
    pub request: RequestId,
    pub decided_at: Nanos,
    /// The zone locked for it.
    pub zone: Option<u32>,
}

impl Thread {
    /// Submits an I/O, now or with its batch.
    pub(super) async fn enqueue(&mut self, queued: Queued) {
        let is_trim = matches!(queued.kind, Kind::Io(Io { direction: Direction::Trim, .. }, _));
        self.measured.borrow_mut().depths.issued(self.outstanding() + 1);
        // A trim is an ioctl (BLKDISCARD, BLKRESETZONE) with every engine: it blocks.
        if is_trim || self.options().engine.kind == EngineKind::Synchronous {
            self.submit().await;
            self.do_and_wait(queued).await;
            return;
        }
        self.queued.push(queued);
        if self.queued.len() >= self.plan.batch as usize {
            self.submit().await;
        }
    }

    /// One system call, or its like, that submits what is queued.
    pub(super) async fn submit(&mut self) {
        let Some(first) = self.queued.first().map(|queued| queued.request) else { return };
        let count = self.queued.len();
        let bios: u64 = self.queued.iter().map(|queued| self.bios_of(queued.kind)).sum();
        let cost = self.host.costs.submit * bios;
        match &self.path {
            Path::Kernel => self.cpu.syscall_for(first, cost).await,
            Path::KernelPolled => self.host.sim.sleep(self.cpu.syscall_cost() + cost).await,
            Path::User => self.host.sim.sleep(cost).await,
            Path::SubmissionThread { .. } => {}
        }
        let (core, issued_at) = (self.cpu.core(), self.now());
        let mut plug = (count > PLUG_THRESHOLD && matches!(self.path, Path::Kernel | Path::KernelPolled))
            .then(|| self.host.disk.plug(core));
        let mut queued = std::mem::take(&mut self.queued);
        for Queued { kind, request, decided_at, zone } in queued.drain(..) {
            let bio = self.bio(kind, request, zone);
            let on_its_way = match (&self.path, &mut plug) {
                (Path::SubmissionThread { to, .. }, _) => {
                    let handed = Rc::new(Handed(RefCell::new(HandedState::Waiting(None))));
                    // The thread lives as long as its sender.
                    let sent = to.send((bio, handed.clone()));
                    debug_assert!(sent.is_ok());
                    OnItsWay::Handed(handed)
                }
                (_, plug) => self.send(bio, plug.as_mut()),
            };
            self.flights.add(Flight { kind, request, decided_at, issued_at, zone }, on_its_way);
        }
        drop(plug);
        self.queued = queued;
        let mut measured = self.measured.borrow_mut();
        measured.depths.submitted(count as u32);
        measured.in_flight = self.flights.len();
    }

    /// Hands a bio to the block layer, behind `plug` where there is one: as it is,
    /// or as one for each piece of the file, which are plugged in any case.
    fn send(&self, bio: Bio, plug: Option<&mut Plug>) -> OnItsWay {
        let core = self.cpu.core();
        let Some(fragments) = self.plan.fragments.filter(|_| bio.bytes > 0) else {
            return OnItsWay::Submitted(match plug {
                Some(plug) => plug.submit(bio),
                None => self.host.disk.submit(core, bio),
            });
        };
        let (sector, request) = (bio.sector, bio.request);
        let parts = fragments.split(bio);
        let mut own = None;
        let plug = plug.unwrap_or_else(|| own.insert(self.host.disk.plug(core)));
        let parts = parts.into_iter().map(|part| plug.submit(part)).collect();
        let (cpus, cost) = (self.host.cpus.clone(), self.host.costs.complete);
        let handler = matches!(self.path, Path::Kernel).then_some(Handler { cpus, core, cost, request });
        OnItsWay::InParts(Parts::new(parts, sector, handler))
    }

    /// How many bios an I/O becomes.
    fn bios_of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Io(io, _) | Kind::Verify(io, _) => self.bios_at(Sector(io.offset / Sector::BYTES), io.bytes),
            Kind::Sync => 1,
        }
    }

    fn bios_at(&self, sector: Sector, bytes: u64) -> u64 {
        let fragments = self.plan.fragments.filter(|_| bytes > 0);
        fragments.map_or(1, |fragments| fragments.count(sector.0 * Sector::BYTES, bytes))
    }

    /// One I/O that the job blocks for.
    pub(super) async fn do_and_wait(&mut self, queued: Queued) {
        let Queued { kind, request, decided_at, zone } = queued;
        let bio = self.bio(kind, request, zone);
        self.measured.borrow_mut().in_flight += 1;
        let result = match (kind, zone) {
            // fio resets no empty zone.
            (Kind::Io(Io { direction: Direction::Trim, .. }, _), Some(zone)) if !self.trim_is_a_command(zone) => {
                BioResult { status: nvme::Status::SUCCESS, sector: bio.sector, data: None, completed_at: self.now() }
            }
            _ => self.call(bio).await,
        };
        {
            let mut measured = self.measured.borrow_mut();
            measured.in_flight -= 1;
            measured.depths.submitted(1);
            measured.depths.completed(1);
        }
        let issued_at = decided_at;
        self.account(Flight { kind, request, decided_at, issued_at, zone }, result, true);
    }

    /// A call that returns when its I/O is done.
    pub(super) async fn call(&mut self, bio: Bio) -> BioResult {
        let request = bio.request;
        let costs = self.host.costs;
        if matches!(self.path, Path::User) {
            self.host.sim.sleep(costs.submit).await;
            let result = self.host.disk.submit(self.cpu.core(), bio).await;
            self.host.sim.sleep(costs.complete).await;
            return result;
        }
        // A synchronous write to a block device opened with O_SYNC or O_DSYNC
        // also flushes once it is done (block/fops.c, blkdev_write_iter, calls
        // generic_write_sync); an asynchronous one is only FUA.
        let flushes = self.options().sync != SyncWrites::None && bio.op == BioOp::Write && bio.bytes > 0;
        self.cpu.compute_for(request, costs.submit * self.bios_at(bio.sector, bio.bytes)).await;
        let mut result = self.send(bio, None).await;
        if flushes && result.status.is_success() {
            let flush = self.bio(Kind::Sync, request, None);
            result = self.host.disk.submit(self.cpu.core(), flush).await;
        }
        self.host.sim.sleep_until(self.interrupt(request)).await;
        self.cpu.syscall_for(request, Nanos::ZERO).await;
        result
    }

    fn bio(&mut self, kind: Kind, request: RequestId, zone: Option<u32>) -> Bio {
        let nsid = self.plan.nsid;
        let (io, sequence) = match kind {
            Kind::Io(io, sequence) => (io, sequence),
            Kind::Verify(io, _) => (io, None),
            Kind::Sync => {
                let flags = BioFlags::PREFLUSH | BioFlags::SYNC;
                return Bio {
                    nsid,
                    op: BioOp::Write,
                    sector: Sector(0),
                    bytes: 0,
                    flags,
                    data: None,
                    order: None,
                    request,
                };
            }
        };
        let at = |offset: u64| Sector(offset / Sector::BYTES);
        let plain = |op| (op, at(io.offset), io.bytes, BioFlags::SYNC, None);
        let (op, sector, bytes, flags, data) = match io.direction {
            Direction::Read => plain(BioOp::Read),
            Direction::Trim if zone.is_some() => (BioOp::Zone(ZoneOp::Reset), at(io.offset), 0, BioFlags::SYNC, None),
            Direction::Trim => plain(BioOp::Discard),
            Direction::Write => {
                // REQ_SYNC | REQ_IDLE for direct writes, REQ_FUA with O_DSYNC
                // (block/fops.c, dio_bio_write_op).
                let fua = self.options().sync != SyncWrites::None;
                let flags = BioFlags::SYNC | if fua { BioFlags::FUA } else { BioFlags::empty() };
                let number = sequence.unwrap_or(self.requests);
                let data = self.filler.as_mut().map(|filler| filler.fill(&io, number));
                match self.appends_to(zone) {
                    Some(start) => (BioOp::ZoneAppend, at(start), io.bytes, flags, data),
                    None => (BioOp::Write, at(io.offset), io.bytes, flags, data),
                }
            }
        };
        Bio { nsid, op, sector, bytes, flags: flags | self.engine_flags(), data, order: None, request }
    }

    /// The first byte of the zone that a write is appended to, where writes are.
    pub(super) fn appends_to(&self, zone: Option<u32>) -> Option<u64> {
        let plan = self.plan.zones.as_ref().filter(|_| self.options().zones.append)?;
        Some(plan.zones.span(zone?).start)
    }

    /// Flags of everything the engine submits.
    pub(super) fn engine_flags(&self) -> BioFlags {
        let options = self.options();
        let priority = match options.priority_class {
            PriorityClass::Realtime => BioFlags::REALTIME,
            PriorityClass::BestEffort => BioFlags::empty(),
            PriorityClass::Idle => BioFlags::IDLE_PRIORITY,
        };
        priority | if options.engine.kind.is_passthrough() { BioFlags::PASSTHROUGH } else { BioFlags::empty() }
    }

    /// Runs a request's completion interrupt on the job's core (blk-mq completes
    /// where it was submitted); gives the time at which the handler returns.
    fn interrupt(&self, request: RequestId) -> Nanos {
        self.host.cpus.interrupt_for(request, self.cpu.core(), self.host.costs.complete)
    }

    /// Reaps from `min` to `max` I/Os (at most those in flight).
    pub(super) async fn reap(&mut self, min: u32, max: u32) {
        let had_to_wait = self.flights.completed(min.max(1)) < min;
        self.flights.wait_for(min).await;
        let count = self.flights.completed(max).min(max);
        let mut reaped = std::mem::take(&mut self.reaped);
        let (now, complete) = (self.now(), self.host.costs.complete);
        let mut handled_at = now;
        for _ in 0..count {
            let Some((flight, result)) = self.flights.reap() else { break };
            handled_at = match &self.path {
                Path::Kernel => self.interrupt(flight.request),
                Path::SubmissionThread { interrupts, .. } => {
                    let Interrupts { until, taken } = interrupts.get();
                    let until = now.max(until) + complete;
                    interrupts.set(Interrupts { until, taken: taken + complete });
                    until
                }
                Path::KernelPolled | Path::User => handled_at + complete * self.bios_of(flight.kind),
            };
            reaped.push((flight, result));
        }
        match self.path {
            Path::Kernel => {
                // A job that slept wakes from the interrupt; one that did not only
                // loses the interrupt's time, which its next computation on the
                // core pays.
                if had_to_wait {
                    self.host.sim.sleep_until(handled_at).await;
                }
                // io_uring's completions lie in shared memory: a call is made only to wait.
                if had_to_wait || !self.options().engine.kind.is_uring() {
                    self.cpu.syscall().await;
                }
            }
            Path::KernelPolled => self.host.sim.sleep_until(handled_at + self.cpu.syscall_cost()).await,
            Path::SubmissionThread { .. } | Path::User => self.host.sim.sleep_until(handled_at).await,
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
}
