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

use crate::pool::BioSlot;
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
