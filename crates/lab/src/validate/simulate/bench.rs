//! A device on a clock of its own, and the streams that drive it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::{Bio, BioFlags, BioOp, BlockDevice, QueueConfig, Sector, ZoneOp};
use nvme::NamespaceId;
use rand::RngExt;
use sim::Executor;
use sim::rng::{Rng, stream};
use sim::sync::{Mutex, MutexGuard};
use ssd::profile::{BuildOptions, Profile};
use stats::Histogram;
use trace::{Recorder, RequestId};
use units::Nanos;

use super::Unfit;
use crate::interference::Operation;
use crate::validate::hosts::HostPath;
use crate::validate::stack::Stack;

/// Seed of every simulation here: a row's figures depend on nothing but the
/// row, the profile and the host.
const SEED: u64 = 1;

/// How far apart the threads of a stream begin.
const START_WITHIN: Nanos = Nanos::from_millis(10);

/// How long a host that pads a zone itself by passthrough rests after each write.
const PADDING_REST: Nanos = Nanos::from_micros(50);

/// A zoned device on a virtual clock, driven by passthrough commands or through the
/// block layer.
pub(super) struct Bench {
    pub(super) executor: Executor,
    pub(super) rig: Rig,
}

/// What the tasks share.
#[derive(Clone)]
pub(super) struct Rig {
    pub(super) sim: sim::Handle,
    disk: BlockDevice,
    pub(super) zones: Zones,
    pub(super) path: HostPath,
    /// Commands are passed through, or go through the block layer.
    flags: BioFlags,
}

/// The shape of the zones.
#[derive(Clone, Copy)]
pub(super) struct Zones {
    pub(super) count: u32,
    pub(super) max_open: Option<u32>,
    pub(super) block_bytes: u64,
    pub(super) capacity_bytes: u64,
    size_bytes: u64,
    append_limit_bytes: u64,
    transfer_limit_bytes: u64,
}

/// Which completions count: those from `from` on, before `to`.
#[derive(Clone)]
pub(super) struct Window {
    pub(super) from: Rc<Cell<Nanos>>,
    pub(super) to: Rc<Cell<Nanos>>,
}

/// What a stream did inside the window.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) latency: Histogram,
    /// When the first and the last counted operation completed.
    pub(super) first_at: Nanos,
    pub(super) last_at: Nanos,
    /// Completions before the window too.
    pub(super) completed: u64,
    /// The first failure, which ends the stream.
    pub(super) failure: Option<String>,
    /// Whether some thread ran out of zones.
    pub(super) exhausted: bool,
}

pub(super) type SharedTally = Rc<RefCell<Tally>>;

/// Zones for a stream's threads, from the first on.
#[derive(Clone, Copy)]
pub(super) struct Zone(pub(super) u32);

impl Bench {
    /// The device of `profile` with `threads` submitting CPUs, behind `stack`.
    pub(super) fn new(profile: &Profile, threads: u32, path: HostPath, stack: &Stack) -> Result<Self, Unfit> {
        let options = BuildOptions { seed: Some(SEED), ..BuildOptions::default() };
        let device = profile.build(&options).map_err(|error| Unfit(error.to_string()))?;
        let identity = device.identity().clone();
        let zoned = identity
            .zoned
            .as_ref()
            .ok_or_else(|| Unfit(format!("`{}` has no zones; its profile needs kind = \"zoned\"", profile.name)))?;
        let block_bytes = u64::from(identity.lba_bytes);
        let namespace_blocks = identity.namespace_blocks.first().copied().unwrap_or(0);
        let zones = Zones {
            count: u32::try_from(namespace_blocks / zoned.zone_blocks).unwrap_or(u32::MAX),
            max_open: zoned.max_open.into_iter().chain(zoned.max_active).min(),
            block_bytes,
            capacity_bytes: zoned.zone_capacity_blocks * block_bytes,
            size_bytes: zoned.zone_blocks * block_bytes,
            append_limit_bytes: zoned.append_limit_bytes.into(),
            transfer_limit_bytes: identity.max_transfer_bytes.into(),
        };
        let executor = Executor::new_virtual();
        let sim = executor.handle();
        let cpus = u16::try_from(threads.max(1)).ok().and_then(std::num::NonZeroU16::new);
        let config = QueueConfig {
            scheduler: Some(stack.scheduler.unwrap_or(block::SchedulerKind::None)),
            zinc: stack.zinc_config(),
            cpus: cpus.ok_or_else(|| Unfit(format!("{threads} threads are more than a host has")))?,
            ..QueueConfig::default()
        };
        let disk = BlockDevice::new(&sim, device, config, Recorder::default());
        let flags = if stack.has_block_layer() { BioFlags::empty() } else { BioFlags::PASSTHROUGH };
        Ok(Self { executor, rig: Rig { sim, disk, zones, path, flags } })
    }
}

impl Zones {
    /// Whether a stream's blocks can be transferred at all.
    pub(super) fn check_block(&self, operation: Operation, bytes: u64) -> Result<(), Unfit> {
        let limit = if operation == Operation::Append { self.append_limit_bytes } else { self.transfer_limit_bytes };
        if !bytes.is_multiple_of(self.block_bytes) {
            return Err(Unfit(format!("{bytes} B is no multiple of the logical block, {} B", self.block_bytes)));
        }
        if bytes > limit || bytes > self.capacity_bytes {
            return Err(Unfit(format!("one {operation} of {bytes} B is above the device's limit, {limit} B")));
        }
        Ok(())
    }

    fn sector(&self, zone: Zone, offset_bytes: u64) -> Sector {
        Sector((u64::from(zone.0) * self.size_bytes + offset_bytes) / Sector::BYTES)
    }
}

impl Rig {
    /// One command, passed through; the reason where it fails.
    pub(super) async fn command(&self, cpu: u16, op: BioOp, zone: Zone, offset: u64, bytes: u64) -> Result<(), String> {
        let bio = Bio {
            nsid: NamespaceId::FIRST,
            op,
            sector: self.zones.sector(zone, offset),
            bytes,
            flags: self.flags,
            data: None,
            order: None,
            request: RequestId(0),
        };
        let result = self.disk.submit(cpu, bio).await;
        if result.status.is_success() {
            return Ok(());
        }
        Err(format!("the device refused {op:?} in zone {} at {} ({})", zone.0, self.sim.now(), result.status))
    }

    /// Writes `bytes` from the start of a zone, in transfers as large as may be.
    pub(super) async fn fill(&self, zone: Zone, bytes: u64) -> Result<(), String> {
        let largest = self.zones.transfer_limit_bytes.min(1 << 20);
        let largest = largest - largest % self.zones.block_bytes;
        let mut offset = 0;
        while offset < bytes {
            let part = largest.min(bytes - offset);
            self.command(0, BioOp::Write, zone, offset, part).await?;
            offset += part;
        }
        Ok(())
    }

    /// Writes a zone from `offset` to its end, `chunk` bytes at a time.
    async fn pad(&self, cpu: u16, zone: Zone, mut offset: u64, chunk: u64) -> Result<(), String> {
        while offset < self.zones.capacity_bytes {
            let bytes = chunk.min(self.zones.capacity_bytes - offset);
            self.command(cpu, BioOp::Write, zone, offset, bytes).await?;
            if self.flags.contains(BioFlags::PASSTHROUGH) {
                self.sim.sleep(PADDING_REST).await;
            }
            offset += bytes;
        }
        Ok(())
    }

    /// Manages a zone.
    pub(super) async fn manage(&self, op: ZoneOp, zone: Zone) -> Result<(), String> {
        self.command(0, BioOp::Zone(op), zone, 0, 0).await
    }
}

/// A stream to start.
pub(super) struct StreamPlan {
    pub(super) operation: Operation,
    pub(super) block_bytes: u64,
    pub(super) threads: u32,
    pub(super) queue_depth: u32,
    /// A finish that the host does itself, in writes of so many bytes.
    pub(super) padding_bytes: Option<u64>,
    /// Operations a second at most.
    pub(super) limit_per_s: Option<f64>,
    /// First zone and number of zones: written, or for reads and resets full.
    pub(super) first_zone: u32,
    pub(super) zones: u32,
    /// CPU of the first thread.
    pub(super) first_cpu: u16,
    pub(super) from: Nanos,
    /// When the stream ends by itself.
    pub(super) until: Nanos,
    /// Names the random numbers.
    pub(super) name: &'static str,
}

/// A command on its way: lets go of the thread once the device has it.
async fn released<G>(command: impl Future<Output = Result<(), String>>, busy: Option<G>) -> Result<(), String> {
    let mut command = std::pin::pin!(command);
    let early = std::future::poll_fn(|context| std::task::Poll::Ready(command.as_mut().poll(context))).await;
    drop(busy);
    match early {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => command.await,
    }
}

/// What the operations in flight of one thread share.
struct Thread {
    index: u32,
    cpu: u16,
    /// After the stream's start: threads of a host do not begin as one.
    starts_after: Nanos,
    /// Held while the thread itself is busy.
    busy: Mutex<()>,
    work: RefCell<Work>,
}

/// Where a thread's next operation goes.
struct Work {
    rng: Rng,
    /// Zones of this thread, left to do.
    zones: std::ops::Range<u32>,
    /// Bytes of the first of them that are given out.
    offset: u64,
}

/// What all threads of a stream share.
struct Pace {
    from: Nanos,
    until: Nanos,
    interval_ns: Option<f64>,
    issued: Cell<u64>,
    /// Zones to reset, the next one last.
    resets: RefCell<Vec<u32>>,
}

/// Starts the tasks of a stream.
pub(super) fn start(rig: &Rig, plan: &StreamPlan, window: &Window) -> SharedTally {
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

/// One operation in flight.
struct Slot {
    rig: Rig,
    operation: Operation,
    block_bytes: u64,
    padding_bytes: Option<u64>,
    /// Whether the thread has no other.
    alone: bool,
    threads: u32,
    thread: Rc<Thread>,
    pace: Rc<Pace>,
    window: Window,
    tally: SharedTally,
}

impl Slot {
    async fn run(self) {
        let sim = self.rig.sim.clone();
        sim.sleep_until(self.pace.from + self.thread.starts_after).await;
        // The thread: held from one completion to the next submission.
        let mut busy = None;
        loop {
            if let Some(interval_ns) = self.pace.interval_ns {
                let issued = self.pace.issued.get();
                self.pace.issued.set(issued + 1);
                // fio's zoned fork learns of a finish's bytes when it is done,
                // and has set the time of the next one by then: one goes ahead.
                let turn = if self.operation == Operation::Finish { issued.saturating_sub(1) } else { issued };
                let due = self.pace.from + Nanos((turn as f64 * interval_ns) as u64);
                if due > sim.now() {
                    busy = None;
                    sim.sleep_until(due).await;
                }
            }
            if sim.now() >= self.pace.until {
                return;
            }
            if busy.is_none() && !self.alone {
                busy = Some(self.thread.busy.lock().await);
            }
            let Some((zone, offset)) = self.next() else {
                self.tally.borrow_mut().exhausted = true;
                return;
            };
            match self.once(zone, offset, busy.take()).await {
                Ok(held) => busy = held,
                Err(failure) => {
                    self.tally.borrow_mut().failure.get_or_insert(failure);
                    return;
                }
            }
        }
    }

    /// One operation, from the decision to the next.
    async fn once<'a>(
        &'a self,
        zone: Zone,
        offset: u64,
        busy: Option<MutexGuard<'a, ()>>,
    ) -> Result<Option<MutexGuard<'a, ()>>, String> {
        let sim = &self.rig.sim;
        let path = self.rig.path;
        self.core().await;
        let mut began = sim.now();
        self.spend(path.submit).await;
        let io = |op, bytes| self.rig.command(self.thread.cpu, op, zone, offset, bytes);
        match self.operation {
            Operation::Read => {
                released(io(BioOp::Read, self.block_bytes), busy).await?;
                self.spend(path.read_delay).await;
            }
            Operation::Write => released(io(BioOp::Write, self.block_bytes), busy).await?,
            Operation::Append => {
                let append = self.rig.command(self.thread.cpu, BioOp::ZoneAppend, zone, 0, self.block_bytes);
                released(append, busy).await?;
            }
            Operation::Reset => released(io(BioOp::Zone(ZoneOp::Reset), 0), busy).await?,
            Operation::Finish => {
                io(BioOp::Write, self.block_bytes).await?;
                began = sim.now();
                match self.padding_bytes {
                    Some(chunk) => {
                        let padding = self.rig.pad(self.thread.cpu, zone, self.block_bytes, chunk);
                        released(padding, busy).await?;
                    }
                    None => released(io(BioOp::Zone(ZoneOp::Finish), 0), busy).await?,
                }
            }
        }
        self.spend(path.delay + self.jitter()).await;
        let held = if self.alone { None } else { Some(self.thread.busy.lock().await) };
        self.core().await;
        self.spend(path.complete).await;
        self.count(began);
        self.spend(path.think).await;
        Ok(held)
    }

    async fn spend(&self, time: Nanos) {
        if time > Nanos::ZERO {
            self.rig.sim.sleep(time).await;
        }
    }

    /// Waits until the thread has a core: where threads are more than cores,
    /// those without one change in turn.
    async fn core(&self) {
        let Some(cores) = self.rig.path.cores.filter(|cores| *cores < self.threads) else { return };
        let waiting = u64::from(self.threads - cores);
        let has_core =
            |slice: u64| (u64::from(self.thread.index) + slice * waiting) % u64::from(self.threads) < u64::from(cores);
        let now = self.rig.sim.now();
        let slice = now.0 / HostPath::TIME_SLICE.0;
        // Every thread gets a core within one round.
        if let Some(next) = (slice..=slice + u64::from(self.threads)).find(|slice| has_core(*slice))
            && next > slice
        {
            self.rig.sim.sleep_until(HostPath::TIME_SLICE * next).await;
        }
    }

    /// A draw of the host's random delays.
    fn jitter(&self) -> Nanos {
        let path = &self.rig.path;
        let rng = &mut self.thread.work.borrow_mut().rng;
        let exponential = |rng: &mut Rng, mean: Nanos| {
            let draw: f64 = rng.random();
            Nanos((-(1.0 - draw).ln() * mean.0 as f64) as u64)
        };
        let mut late = Nanos::ZERO;
        if path.jitter > Nanos::ZERO {
            late += exponential(rng, path.jitter);
        }
        if let Some((one_in, mean)) = path.hiccup
            && rng.random_range(0..one_in) == 0
        {
            late += exponential(rng, mean);
        }
        late
    }

    fn count(&self, began: Nanos) {
        let now = self.rig.sim.now();
        let mut tally = self.tally.borrow_mut();
        tally.completed += 1;
        if now < self.window.from.get() || now >= self.window.to.get() {
            return;
        }
        if tally.latency.is_empty() {
            tally.first_at = now;
        }
        tally.last_at = now;
        tally.latency.record(now.since(began));
    }

    /// Zone and offset of the next operation; `None` when no zone is left.
    fn next(&self) -> Option<(Zone, u64)> {
        let zones = &self.rig.zones;
        let mut work = self.thread.work.borrow_mut();
        match self.operation {
            Operation::Reset => self.pace.resets.borrow_mut().pop().map(|zone| (Zone(zone), 0)),
            Operation::Read => {
                let blocks = zones.capacity_bytes / self.block_bytes;
                let range = work.zones.clone();
                let zone = work.rng.random_range(range);
                Some((Zone(zone), work.rng.random_range(0..blocks) * self.block_bytes))
            }
            Operation::Finish => work.zones.next().map(|zone| (Zone(zone), 0)),
            Operation::Write | Operation::Append => {
                if work.offset + self.block_bytes > zones.capacity_bytes {
                    work.zones.next();
                    work.offset = 0;
                }
                if work.zones.is_empty() {
                    return None;
                }
                let place = (Zone(work.zones.start), work.offset);
                work.offset += self.block_bytes;
                Some(place)
            }
        }
    }
}
