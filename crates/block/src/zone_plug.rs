//! Zone write plugging (block/blk-zoned.c).
//!
//! A zone takes writes only at its write pointer, so that two on their way at
//! once could pass each other in the scheduler or the hardware queues. The first
//! write to an idle zone *plugs* it; later ones wait in the zone's line until
//! the request before them ends, then go one by one. The request made for the
//! next takes those behind it along where they continue it.
//!
//! Zone appends are not plugged, nor is passthrough. Unlike Linux this keeps no
//! write pointer of its own: a write that is not at the zone's write pointer is
//! refused by the device, not before.

use nvme::{NamespaceId, Status};
use units::Nanos;

use crate::bio::{BioFlags, BioOp, Sector};
use crate::pool::{Attempt, BioSlot, place};
use crate::queue::Queue;
use crate::request::Rq;
use crate::slab::{NIL, Slab};

/// The write plugs of one namespace.
#[derive(Default)]
pub(crate) struct ZonePlugs {
    zones: Vec<ZonePlug>,
}

/// A zone's write plug (`struct blk_zone_wplug`).
#[derive(Clone, Copy)]
struct ZonePlug {
    /// A write is on its way (BLK_ZONE_WPLUG_PLUGGED).
    plugged: bool,
    /// The writes that wait, linked through `BioSlot::next`.
    first: u32,
    last: u32,
}

const IDLE: ZonePlug = ZonePlug { plugged: false, first: NIL, last: NIL };

impl ZonePlugs {
    /// Plugs for `zones` zones; none for a namespace without.
    pub(crate) fn new(zones: u32) -> Self {
        Self { zones: vec![IDLE; zones as usize] }
    }

    /// Lets a write go if its zone is idle, or puts it in line; whether it may go.
    pub(crate) fn admit(&mut self, bios: &mut Slab<BioSlot>, zone: u32, bio: u32) -> bool {
        let plug = &mut self.zones[zone as usize];
        if !std::mem::replace(&mut plug.plugged, true) {
            return true;
        }
        bios[bio].next = NIL;
        match std::mem::replace(&mut plug.last, bio) {
            NIL => plug.first = bio,
            last => bios[last].next = bio,
        }
        false
    }

    /// The write that waits longest.
    pub(crate) fn first(&self, zone: u32) -> Option<u32> {
        let first = self.zones[zone as usize].first;
        (first != NIL).then_some(first)
    }

    /// Takes the write that waits longest out of the line. Its `next` is the caller's.
    pub(crate) fn pop(&mut self, bios: &mut Slab<BioSlot>, zone: u32) -> Option<u32> {
        let plug = &mut self.zones[zone as usize];
        let bio = plug.first;
        if bio == NIL {
            return None;
        }
        plug.first = std::mem::replace(&mut bios[bio].next, NIL);
        if plug.first == NIL {
            plug.last = NIL;
        }
        Some(bio)
    }

    /// The write on its way has ended: the next one, or none and the zone is idle
    /// (disk_zone_wplug_unplug_bio).
    pub(crate) fn unplug(&mut self, bios: &mut Slab<BioSlot>, zone: u32) -> Option<u32> {
        debug_assert!(self.zones[zone as usize].plugged, "zone {zone} is not plugged");
        let next = self.pop(bios, zone);
        self.zones[zone as usize].plugged = next.is_some();
        next
    }

    /// Number of zones.
    pub(crate) fn zones(&self) -> u32 {
        self.zones.len() as u32
    }

    /// Takes every zone for idle; the lines are empty.
    pub(crate) fn clear(&mut self) {
        debug_assert!(self.zones.iter().all(|plug| plug.first == NIL));
        self.zones.fill(IDLE);
    }
}

impl Queue {
    /// The zone that a bio writes to, for zone write plugging: (place of the
    /// namespace, zone). `None` where it is not plugged (blk_zone_plug_bio).
    pub(crate) fn plugged_zone(&self, bio: u32) -> Option<(usize, u32)> {
        let bio = &self.pool.bios[bio];
        let zones = self.pool.limits(bio.nsid).zoned.as_ref()?;
        let plugged = matches!(bio.op, BioOp::Write | BioOp::WriteZeroes)
            && bio.bytes > 0
            && !bio.flags.contains(BioFlags::PASSTHROUGH);
        plugged.then(|| (place(bio.nsid), zones.zone_of(Sector(bio.sector))))
    }

    /// Sends the next write to each zone whose last one has ended, from the CPU
    /// it ended on (blk_zone_wplug_bio_work).
    pub(crate) fn unplug_zones(&mut self, now: Nanos) {
        let mut unplugged = std::mem::take(&mut self.unplugged);
        for (nsid, zone, cpu) in unplugged.drain(..) {
            if let Some(bio) = self.zone_plugs[place(nsid)].unplug(&mut self.pool.bios, zone) {
                self.request(now, cpu, bio, None);
            }
        }
        debug_assert!(self.unplugged.is_empty(), "a write ended while it was made");
        self.unplugged = unplugged;
    }

    /// Lets a zone's write take those in line along that continue it
    /// (blk_zone_write_plug_init_request).
    pub(crate) fn gather_plugged(&mut self, rq: Rq) {
        let Some((place, zone)) = self.plugged_zone(self.pool.requests[rq].first_bio) else { return };
        while let Some(bio) = self.zone_plugs[place].first(zone)
            && self.pool.bio_mergeable(bio)
            && self.pool.merge_kind(rq, bio).is_some()
            && self.pool.has_room_for(rq, bio)
        {
            self.zone_plugs[place].pop(&mut self.pool.bios, zone);
            let attempt = self.pool.attempt_merge(rq, bio);
            debug_assert!(matches!(attempt, Attempt::Merged(_)));
        }
    }

    /// A zone reset or finish fails the writes in line for the zone, or for every
    /// zone (blk_zone_wplug_handle_reset_or_finish, disk_zone_wplug_abort).
    pub(crate) fn abort_plugged(&mut self, now: Nanos, nsid: NamespaceId, sector: Option<u64>) {
        let zones = match (sector, &self.pool.limits(nsid).zoned) {
            (Some(sector), Some(zones)) => {
                let zone = zones.zone_of(Sector(sector));
                zone..zone + 1
            }
            _ => 0..self.zone_plugs[place(nsid)].zones(),
        };
        for zone in zones {
            self.fail_plugged(now, place(nsid), zone, Status::ABORT_REQUESTED);
        }
    }

    /// Fails the writes in line for a zone.
    pub(crate) fn fail_plugged(&mut self, now: Nanos, place: usize, zone: u32, status: Status) {
        while let Some(bio) = self.zone_plugs[place].pop(&mut self.pool.bios, zone) {
            self.complete_bio(bio, status, None, now);
        }
    }
}
