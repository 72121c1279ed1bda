//! Ordering gates: whether, and when, a bio may become a request.
//!
//! A gate stands before the tags. A bio that it governs passes or is held; when
//! the request of one that passed has left for the device or has ended, the gate
//! says which may pass next. Each ordering is a file that looks and returns a
//! plan, and a line in [`Gates::new`]; the queue carries the plans out (`passing`).

mod barrier_single_queue;
mod interface;
mod streams;
#[cfg(test)]
mod verify;
mod zones;

use nvme::{NamespaceId, Status};
use ssd::Identity;

use crate::bio::{BioFlags, Sector};
use crate::config::QueueConfig;
use crate::driver;
use crate::limits::Limits;
use crate::ordering::{OrderStatistics, Ordering, OrderingInForce};
use crate::pool::{BioSlot, Pool, place};
use crate::request::Rq;
use crate::slab::{NIL, Slab};
pub(crate) use interface::{End, Gate, Pass, Plan};

/// The gates of a queue.
pub(crate) struct Gates {
    /// Of each namespace with zones; none at all where none has any.
    pub(crate) zones: Vec<Option<Box<dyn Gate>>>,
    /// That of ordered writes, whichever namespace they are to: streams are the controller's.
    pub(crate) order: Box<dyn Gate>,
    pub(crate) in_force: OrderingInForce,
    /// Requests that passed and have ended.
    pub(crate) ended: Vec<End>,
    /// Something has happened since the gates were last asked.
    pub(crate) news: bool,
    /// Bios that were held.
    pub(crate) holds: u64,
    /// Kept for their memory.
    pub(crate) passing: Vec<Pass>,
    pub(crate) void: Vec<u32>,
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

    pub(crate) fn zones_of(&mut self, nsid: NamespaceId) -> Option<&mut Box<dyn Gate>> {
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
