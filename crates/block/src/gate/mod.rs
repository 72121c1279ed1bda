//! Ordering gates: whether, and when, a bio may become a request.
//!
//! A gate stands before the tags. A bio that it governs passes or is held; when
//! the request of one that passed has left for the device or has ended, the gate
//! says which may pass next. Each ordering is a file that looks and returns a
//! plan, and a line in [`Gates::new`]; here the queue carries the plans out.

mod barrier_single_queue;
#[cfg(test)]
pub(crate) mod mutant;
mod order;
mod ordering;
mod policy;
mod streams;
#[cfg(test)]
mod verify;
mod zones;

use nvme::{NamespaceId, Status};
use ssd::Identity;
use trace::RequestId;
use units::Nanos;

use crate::bio::{Bio, BioFlags, BioOp, Owner, Sector};
use crate::config::QueueConfig;
use crate::driver;
use crate::limits::Limits;
use crate::pool::{BioSlot, Pool, place};
use crate::queue::Queue;
use crate::request::Rq;
use crate::slab::{NIL, Slab};
pub(crate) use order::{Asks, InStream, Ordered};
pub use ordering::{EpochKind, OrderStatistics, Ordering, OrderingInForce, StreamsConfig};
pub use policy::StreamPolicyKind;

/// What becomes of a bio that asks to pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// It goes on.
    Pass,
    /// It goes on from this CPU.
    PassFrom(u16),
    /// The gate keeps it, and gives it out again.
    Hold,
}

/// A bio that may pass, and the CPU from which.
struct Pass {
    bio: u32,
    cpu: u16,
}

/// The end of a request that passed a gate.
struct End {
    nsid: NamespaceId,
    /// Its first sector, and the CPU it was made on.
    sector: Sector,
    cpu: u16,
    status: Status,
    /// Of an ordered one, what the gate itself asked for, if it did.
    asks: Option<Asks>,
    /// Its epochs, its bios, those of them that never left for the device, and whether a flush went before them.
    places: [Option<InStream>; 2],
    bios: u32,
    never_left: u32,
    took_flush: bool,
}

/// An ordering. Bios that it holds are its own, `BioSlot::next` included.
trait Gate {
    /// Whether it has a say in a bio. Any other goes past it.
    fn governs(&self, bio: &BioSlot) -> bool;

    /// A bio that it governs was submitted from a CPU, and is not cut yet.
    fn arrive(&mut self, bio: &mut BioSlot, cpu: u16) {
        let _ = (bio, cpu);
    }

    /// A bio that it governs, and that fits one request, asks to pass.
    fn admit(&mut self, bios: &mut Slab<BioSlot>, bio: u32) -> Plan;

    /// A request was made of a bio that passed: lets it take bios along that are held.
    fn gather(&mut self, pool: &mut Pool, rq: Rq) {
        let _ = (pool, rq);
    }

    /// A command of so many bios that passed goes to the device; what it says of order can still change.
    fn leaves(&mut self, order: &mut Ordered, bios: u32) {
        let _ = (order, bios);
    }

    /// The request of a bio that passed has ended. Appends what may pass since to
    /// `passing`.
    fn ended(&mut self, bios: &mut Slab<BioSlot>, end: &End, passing: &mut Vec<Pass>);

    /// Appends what may pass since something else happened: a bio came or left.
    fn pass_more(&mut self, bios: &mut Slab<BioSlot>, passing: &mut Vec<Pass>) {
        let _ = (bios, passing);
    }

    /// What broke since writes failed is to be in order again.
    fn restore(&mut self, bios: &mut Slab<BioSlot>) {
        let _ = bios;
    }

    /// An owner submits no more.
    fn end_owner(&mut self, bios: &mut Slab<BioSlot>, owner: Owner) {
        let _ = (bios, owner);
    }

    /// What it did for order.
    fn statistics(&self) -> OrderStatistics {
        OrderStatistics::default()
    }

    /// A bio goes past the gate. Appends what it makes void of what is held to `void`.
    fn passed_by(&mut self, bios: &mut Slab<BioSlot>, bio: u32, void: &mut Vec<u32>) {
        let _ = (bios, bio, void);
    }

    /// Forgets everything, as after a power cut. Appends what is held to `void`.
    fn clear(&mut self, bios: &mut Slab<BioSlot>, void: &mut Vec<u32>);
}

/// A bio of a gate's own: a flush, or a command without data.
fn own_command(bios: &mut Slab<BioSlot>, asks: Asks, flags: BioFlags) -> u32 {
    let bio = Bio {
        nsid: NamespaceId::FIRST,
        op: BioOp::Write,
        sector: Sector(0),
        bytes: 0,
        flags,
        data: None,
        order: None,
        request: RequestId::default(),
    };
    let mut slot = BioSlot::new(bio, Nanos::ZERO);
    slot.detached = true;
    slot.order = Some(Box::new(Ordered::new(asks)));
    bios.insert(slot)
}

/// The gates of a queue.
pub(crate) struct Gates {
    /// Of each namespace with zones; none at all where none has any.
    zones: Vec<Option<Box<dyn Gate>>>,
    /// That of ordered writes, whichever namespace they are to: streams are the controller's.
    order: Box<dyn Gate>,
    in_force: OrderingInForce,
    /// Requests that passed and have ended.
    ended: Vec<End>,
    /// Something has happened since the gates were last asked.
    news: bool,
    /// Bios that were held.
    holds: u64,
    /// Kept for their memory.
    passing: Vec<Pass>,
    void: Vec<u32>,
}

impl Gates {
    /// The gates of a device's namespaces, with these limits.
    pub(crate) fn new(limits: &[Limits], identity: &Identity, config: &QueueConfig, in_force: OrderingInForce) -> Self {
        let gate = |limits: &Limits| -> Option<Box<dyn Gate>> {
            let zones = limits.zoned.as_ref()?;
            Some(Box::new(zones::ZoneWritePlugs::new(zones)))
        };
        let mut zones: Vec<_> = limits.iter().map(gate).collect();
        if zones.iter().all(Option::is_none) {
            zones.clear();
        }
        let (block_bytes, has_cache) = (identity.lba_bytes.max(1).into(), identity.volatile_write_cache);
        let order: Box<dyn Gate> = match in_force.ordering {
            Ordering::BarrierSingleQueue => Box::new(barrier_single_queue::BarrierSingleQueue::new(has_cache)),
            Ordering::Flush | Ordering::FlushNoFua | Ordering::Streams => {
                Box::new(streams::Streams::new(in_force, config.streams, block_bytes, has_cache))
            }
        };
        Self { zones, order, in_force, ended: Vec::new(), news: false, holds: 0, passing: Vec::new(), void: Vec::new() }
    }

    fn zones_of(&mut self, nsid: NamespaceId) -> Option<&mut Box<dyn Gate>> {
        self.zones.get_mut(place(nsid))?.as_mut()
    }

    /// Whether a zone's gate has a say in a bio.
    #[inline]
    pub(crate) fn govern(&self, bio: &BioSlot) -> bool {
        !self.zones.is_empty() && matches!(self.zones.get(place(bio.nsid)), Some(Some(gate)) if gate.governs(bio))
    }

    /// Whether a bio that fits one request may go on; if not, it is held.
    #[inline]
    pub(crate) fn admit(&mut self, bios: &mut Slab<BioSlot>, bio: u32) -> bool {
        if !self.govern(&bios[bio]) {
            return true;
        }
        let Some(gate) = self.zones_of(bios[bio].nsid) else { return true };
        let passes = gate.admit(bios, bio) != Plan::Hold;
        self.holds += u64::from(!passes);
        passes
    }

    /// An ordered bio is submitted: its order is decided.
    pub(crate) fn arrive(&mut self, bio: &mut BioSlot, cpu: u16) {
        self.order.arrive(bio, cpu);
    }

    /// Whether an ordered bio that fits one request may go on, and from which CPU; if not, it is held.
    pub(crate) fn admit_ordered(&mut self, bios: &mut Slab<BioSlot>, bio: u32, cpu: u16) -> Option<u16> {
        self.news = true;
        match self.order.admit(bios, bio) {
            Plan::Pass => Some(cpu),
            Plan::PassFrom(cpu) => Some(cpu),
            Plan::Hold => None,
        }
    }

    /// An ordered request goes to the device.
    pub(crate) fn leaves(&mut self, pool: &mut Pool, rq: Rq) {
        let request = &pool.requests[rq];
        let (first, mut bio, mut count) = (request.first_bio, request.first_bio, 0);
        while bio != NIL {
            count += 1;
            let slot = &mut pool.bios[bio];
            let (next, parent) = (slot.next, slot.parent);
            if let Some(order) = &mut slot.order {
                order.has_left = true;
            }
            sent(&mut pool.bios, bio);
            if parent != NIL {
                sent(&mut pool.bios, parent);
            }
            // Of one bio, `next` means nothing.
            bio = if bio == pool.requests[rq].last_bio { NIL } else { next };
        }
        if let Some(order) = &mut pool.bios[first].order {
            self.news = true;
            self.order.leaves(order, count);
        }
    }

    /// An ordered request ends, and its bios have not yet.
    pub(crate) fn note_ordered_end(&mut self, pool: &Pool, rq: Rq, status: Status) {
        let request = &pool.requests[rq];
        let Some(first) = pool.bios[request.first_bio].order.as_ref() else { return };
        let has_left = |bio: &u32| pool.bios[*bio].order.as_ref().is_some_and(|order| order.has_left);
        let bios = driver::bios(pool, request).count() as u32;
        self.news = true;
        self.ended.push(End {
            nsid: request.nsid,
            sector: Sector(request.sector),
            cpu: request.ctx,
            status,
            asks: Some(first.asks),
            places: first.places,
            bios,
            never_left: bios - driver::bios(pool, request).filter(has_left).count() as u32,
            took_flush: pool.bios[request.first_bio].flags.contains(BioFlags::PREFLUSH),
        });
    }

    /// How order is kept.
    pub(crate) fn in_force(&self) -> OrderingInForce {
        self.in_force
    }

    /// What was done for it.
    pub(crate) fn order_statistics(&self) -> OrderStatistics {
        self.order.statistics()
    }

    /// A request was made of a bio that passed a gate.
    pub(crate) fn gather(&mut self, pool: &mut Pool, rq: Rq) {
        if let Some(gate) = self.zones_of(pool.requests[rq].nsid) {
            gate.gather(pool, rq);
        }
    }

    /// A request that passed a zone's gate has ended.
    pub(crate) fn note_end(&mut self, nsid: NamespaceId, sector: u64, cpu: u16) {
        self.news = true;
        self.ended.push(End {
            nsid,
            sector: Sector(sector),
            cpu,
            status: Status::SUCCESS,
            asks: None,
            places: [None, None],
            bios: 0,
            never_left: 0,
            took_flush: false,
        });
    }

    /// Whether something has happened since the gates were last asked.
    #[inline]
    pub(crate) fn have_news(&self) -> bool {
        self.news
    }

    /// Bios that were held so far.
    pub(crate) fn holds(&self) -> u64 {
        self.holds
    }
}

impl Queue {
    /// Sends what may pass since requests have left or ended.
    pub(crate) fn open_gates(&mut self, now: Nanos) {
        while self.gates.have_news() {
            self.gates.news = false;
            let mut ended = std::mem::take(&mut self.gates.ended);
            for end in ended.drain(..) {
                let mut passing = std::mem::take(&mut self.gates.passing);
                let gate = if end.asks.is_some() { Some(&mut self.gates.order) } else { self.gates.zones_of(end.nsid) };
                if let Some(gate) = gate {
                    gate.ended(&mut self.pool.bios, &end, &mut passing);
                }
                self.send_passing(now, passing);
            }
            if self.gates.ended.is_empty() {
                self.gates.ended = ended;
            }
            let mut passing = std::mem::take(&mut self.gates.passing);
            self.gates.order.pass_more(&mut self.pool.bios, &mut passing);
            self.send_passing(now, passing);
        }
    }

    /// What broke since writes failed is to be in order again.
    pub(crate) fn restore_order(&mut self, now: Nanos) {
        self.gates.order.restore(&mut self.pool.bios);
        self.gates.news = true;
        self.open_gates(now);
    }

    /// An owner of streams submits no more.
    pub(crate) fn end_owner(&mut self, now: Nanos, owner: Owner) {
        self.gates.order.end_owner(&mut self.pool.bios, owner);
        self.gates.news = true;
        self.open_gates(now);
    }

    fn send_passing(&mut self, now: Nanos, mut passing: Vec<Pass>) {
        for Pass { bio, cpu } in passing.drain(..) {
            self.request(now, cpu, bio, None);
        }
        self.gates.passing = passing;
    }

    /// A bio goes past the gates; what it makes void fails.
    pub(crate) fn pass_by(&mut self, now: Nanos, bio: u32) {
        let mut void = std::mem::take(&mut self.gates.void);
        if let Some(gate) = self.gates.zones_of(self.pool.bios[bio].nsid) {
            gate.passed_by(&mut self.pool.bios, bio, &mut void);
        }
        self.fail_held(now, void, Status::ABORT_REQUESTED);
    }

    /// The power is gone: what is held fails.
    pub(crate) fn clear_gates(&mut self, now: Nanos) {
        self.gates.ended.clear();
        self.gates.news = false;
        let mut void = std::mem::take(&mut self.gates.void);
        for gate in self.gates.zones.iter_mut().flatten() {
            gate.clear(&mut self.pool.bios, &mut void);
        }
        self.gates.order.clear(&mut self.pool.bios, &mut void);
        self.fail_held(now, void, Status::ABORTED_POWER_LOSS);
    }

    fn fail_held(&mut self, now: Nanos, mut void: Vec<u32>, status: Status) {
        for bio in void.drain(..) {
            self.complete_bio(bio, status, None, now);
        }
        self.gates.void = void;
    }
}

/// One of the commands that a bio waits for has gone to the device.
fn sent(bios: &mut Slab<BioSlot>, bio: u32) {
    let slot = &mut bios[bio];
    let Some(order) = &mut slot.order else { return };
    order.unsent -= 1;
    if order.unsent == 0
        && let Some(waker) = &slot.waker
    {
        waker.wake_by_ref();
    }
}
