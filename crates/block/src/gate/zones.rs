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

use std::ops::Range;

use super::interface::{End, Gate, Pass, Plan};
use crate::bio::{BioFlags, BioOp, Sector, ZoneOp};
use crate::limits::ZoneLimits;
use crate::pool::{Attempt, BioSlot, Pool};
use crate::request::Rq;
use crate::slab::{NIL, Slab};

/// The write plugs of one namespace.
pub(super) struct ZoneWritePlugs {
    limits: ZoneLimits,
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

impl ZoneWritePlugs {
    pub(super) fn new(limits: &ZoneLimits) -> Self {
        Self { limits: limits.clone(), zones: vec![IDLE; limits.zones as usize] }
    }

    fn plug(&mut self, sector: u64) -> &mut ZonePlug {
        let zone = self.limits.zone_of(Sector(sector));
        &mut self.zones[zone as usize]
    }

    /// Appends every write in line for some zones to `void`.
    fn void(&mut self, bios: &mut Slab<BioSlot>, zones: Range<usize>, void: &mut Vec<u32>) {
        for plug in &mut self.zones[zones] {
            void.extend(std::iter::from_fn(|| plug.pop(bios)));
        }
    }
}

impl ZonePlug {
    /// Takes the write that waits longest out of the line. Its `next` is the caller's.
    fn pop(&mut self, bios: &mut Slab<BioSlot>) -> Option<u32> {
        let bio = self.first;
        if bio == NIL {
            return None;
        }
        self.first = std::mem::replace(&mut bios[bio].next, NIL);
        if self.first == NIL {
            self.last = NIL;
        }
        Some(bio)
    }
}

impl Gate for ZoneWritePlugs {
    /// blk_zone_plug_bio.
    fn governs(&self, bio: &BioSlot) -> bool {
        matches!(bio.op, BioOp::Write | BioOp::WriteZeroes)
            && bio.bytes > 0
            && !bio.flags.contains(BioFlags::PASSTHROUGH)
    }

    /// Lets a write go if its zone is idle, or puts it in line.
    fn admit(&mut self, bios: &mut Slab<BioSlot>, bio: u32) -> Plan {
        let plug = self.plug(bios[bio].sector);
        if !std::mem::replace(&mut plug.plugged, true) {
            return Plan::Pass;
        }
        bios[bio].next = NIL;
        match std::mem::replace(&mut plug.last, bio) {
            NIL => plug.first = bio,
            last => bios[last].next = bio,
        }
        Plan::Hold
    }

    /// Takes those in line along that continue the write
    /// (blk_zone_write_plug_init_request).
    fn gather(&mut self, pool: &mut Pool, rq: Rq) {
        let plug = self.plug(pool.requests[rq].sector);
        while plug.first != NIL
            && pool.bio_mergeable(plug.first)
            && pool.merge_kind(rq, plug.first).is_some()
            && pool.has_room_for(rq, plug.first)
            && let Some(bio) = plug.pop(&mut pool.bios)
        {
            let attempt = pool.attempt_merge(rq, bio);
            debug_assert!(matches!(attempt, Attempt::Merged(_)));
        }
    }

    /// The next write to the zone, from the CPU of the one that it waited for, or none
    /// and it is idle (disk_zone_wplug_unplug_bio, blk_zone_wplug_bio_work).
    fn ended(&mut self, bios: &mut Slab<BioSlot>, end: &End, passing: &mut Vec<Pass>) {
        let plug = self.plug(end.sector.0);
        debug_assert!(plug.plugged, "the zone of sector {} is not plugged", end.sector.0);
        let next = plug.pop(bios);
        plug.plugged = next.is_some();
        passing.extend(next.map(|bio| Pass { bio, cpu: end.cpu }));
    }

    /// A zone reset or finish fails the writes in line for the zone, or for every
    /// zone (blk_zone_wplug_handle_reset_or_finish, disk_zone_wplug_abort).
    fn passed_by(&mut self, bios: &mut Slab<BioSlot>, bio: u32, void: &mut Vec<u32>) {
        let zones = match bios[bio].op {
            BioOp::Zone(ZoneOp::Reset | ZoneOp::Finish) => {
                let zone = self.limits.zone_of(Sector(bios[bio].sector)) as usize;
                zone..zone + 1
            }
            BioOp::Zone(ZoneOp::ResetAll) => 0..self.zones.len(),
            _ => return,
        };
        self.void(bios, zones, void);
    }

    fn clear(&mut self, bios: &mut Slab<BioSlot>, void: &mut Vec<u32>) {
        self.void(bios, 0..self.zones.len(), void);
        self.zones.fill(IDLE);
    }
}
