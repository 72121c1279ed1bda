//! One operation in flight: what its thread does for it, and when.

use std::rc::Rc;

use block::{BioOp, ZoneOp};
use rand::RngExt;
use sim::rng::Rng;
use sim::sync::MutexGuard;
use units::Nanos;

use super::bench::{CommandError, Rig, Zone};
use super::stream::{Pace, SharedTally, Thread, Window};
use super::{HostPath, Operation};

/// A command on its way: lets go of the thread once the device has it.
async fn released<G>(
    command: impl Future<Output = Result<(), CommandError>>,
    busy: Option<G>,
) -> Result<(), CommandError> {
    let mut command = std::pin::pin!(command);
    let early = std::future::poll_fn(|context| std::task::Poll::Ready(command.as_mut().poll(context))).await;
    drop(busy);
    match early {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => command.await,
    }
}

/// One operation in flight.
pub(super) struct Slot {
    pub(super) rig: Rig,
    pub(super) operation: Operation,
    pub(super) block_bytes: u64,
    pub(super) padding_bytes: Option<u64>,
    /// Whether the thread has no other.
    pub(super) alone: bool,
    pub(super) threads: u32,
    pub(super) thread: Rc<Thread>,
    pub(super) pace: Rc<Pace>,
    pub(super) window: Window,
    pub(super) tally: SharedTally,
}

impl Slot {
    pub(super) async fn run(self) {
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
    ) -> Result<Option<MutexGuard<'a, ()>>, CommandError> {
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
