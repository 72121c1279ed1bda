//! The zones of a device as fio keeps them (zbd.c of fio 3.33).
//!
//! All jobs on a namespace share one [`Zones`]: fio's own idea of every write
//! pointer, taken from the device before the jobs start and moved with each I/O
//! it issues, the list of zones that are written to at a time, and a lock for
//! each zone. What the device thinks is never asked again.
//!
//! - `place` chooses where an I/O really goes.
//! - `manage` resets and finishes.

mod lock;
mod manage;
mod place;

use std::cell::RefCell;
use std::ops::Range;

use nvme::{NamespaceId, ZoneState};
use sim::sync::Notify;

use crate::Host;
use lock::Lock;
pub(super) use place::{Placed, ZonePlan};

/// What is shared by the jobs on a namespace.
pub(super) struct Zones {
    nsid: NamespaceId,
    zone_bytes: u64,
    /// Whether the device has them; imagined ones need no commands.
    real: bool,
    table: RefCell<Table>,
    /// A zone's lock has passed on, or a write has ended.
    changed: Notify,
}

/// What changes.
struct Table {
    zones: Vec<Zone>,
    /// Zones written to at a time, by index, oldest first.
    targets: Vec<u32>,
    /// How many there may be; 0 is no limit.
    targets_max: u32,
    /// How many each thread has put there.
    targets_of: Vec<u32>,
    writes_in_flight: u32,
    /// Under `zone_reset_frequency`: the jobs' region, the bytes in it, and
    /// writes until the next reset.
    watched: Option<Watched>,
}

struct Zone {
    /// In bytes, as all positions here.
    start: u64,
    write_pointer: u64,
    capacity_end: u64,
    offline: bool,
    /// The thread that made it a target.
    target_of: Option<u32>,
    /// It is to be reset at the next write, full or not.
    reset_due: bool,
    lock: Lock,
}

struct Watched {
    range: Range<u32>,
    data_bytes: u64,
    writes_left: u64,
}

/// A claim on a zone to write to.
#[derive(Clone, Copy)]
struct Claim {
    thread: u32,
    /// `job_max_open_zones`; 0 is no limit.
    thread_max: u32,
    /// Room the zone must have; 0 takes a full one, to be reset.
    room: u64,
}

impl Zone {
    fn room(&self) -> u64 {
        self.capacity_end.saturating_sub(self.write_pointer)
    }

    fn written(&self) -> u64 {
        self.write_pointer - self.start
    }
}

impl Zones {
    /// The zones that the device has in a namespace, as they are now.
    pub fn of_device(host: &Host, nsid: NamespaceId) -> Option<Self> {
        let limits = host.disk.limits_of(nsid)?;
        let zoned = limits.zoned?;
        let zone_bytes = zoned.zone_sectors * block::Sector::BYTES;
        let block_bytes = u64::from(limits.logical_block_bytes);
        let capacity_bytes = zoned.zone_capacity_sectors * block::Sector::BYTES;
        let states = host.disk.with_device(|device| device.zones(nsid));
        let zone = |(index, start): (usize, u64)| match states.get(index) {
            None => Zone::empty(start, capacity_bytes),
            Some(status) => {
                let offline = matches!(status.state, ZoneState::Offline | ZoneState::ReadOnly);
                let written = if offline { 0 } else { status.written_blocks * block_bytes };
                Zone {
                    write_pointer: start + written,
                    offline,
                    ..Zone::empty(start, status.capacity_blocks * block_bytes)
                }
            }
        };
        let starts = (0..u64::from(zoned.zones)).map(|index| index * zone_bytes);
        Some(Self::new(nsid, zone_bytes, true, starts.enumerate().map(zone).collect()))
    }

    /// Zones imagined on a device without.
    pub fn imagined(nsid: NamespaceId, device_bytes: u64, zone_bytes: u64, capacity_bytes: u64) -> Self {
        let starts = (0..device_bytes / zone_bytes).map(|index| index * zone_bytes);
        Self::new(nsid, zone_bytes, false, starts.map(|start| Zone::empty(start, capacity_bytes)).collect())
    }

    fn new(nsid: NamespaceId, zone_bytes: u64, real: bool, zones: Vec<Zone>) -> Self {
        let table = Table {
            zones,
            targets: Vec::new(),
            targets_max: 0,
            targets_of: Vec::new(),
            writes_in_flight: 0,
            watched: None,
        };
        Self { nsid, zone_bytes, real, table: RefCell::new(table), changed: Notify::default() }
    }

    pub fn nsid(&self) -> NamespaceId {
        self.nsid
    }

    pub fn zone_bytes(&self) -> u64 {
        self.zone_bytes
    }

    pub fn are_real(&self) -> bool {
        self.real
    }

    /// Number of zones.
    pub fn count(&self) -> u32 {
        self.table.borrow().zones.len() as u32
    }

    /// The smallest capacity of a zone in `range`.
    pub fn capacity_bytes(&self, range: &Range<u32>) -> u64 {
        let table = self.table.borrow();
        let zones = &table.zones[range.start as usize..range.end as usize];
        zones.iter().map(|zone| zone.capacity_end - zone.start).min().unwrap_or(0)
    }

    /// The zone that a byte lies in; one past the last for the device's end.
    fn index_of(&self, offset: u64) -> u32 {
        u32::try_from(offset / self.zone_bytes).unwrap_or(u32::MAX).min(self.count())
    }

    /// The bytes of a zone.
    pub fn span(&self, zone: u32) -> Range<u64> {
        let start = u64::from(zone) * self.zone_bytes;
        start..start + self.zone_bytes
    }

    /// Where a zone's next write goes, in bytes.
    fn write_pointer(&self, zone: u32) -> u64 {
        self.table.borrow().zones[zone as usize].write_pointer
    }

    fn is_locked(&self, zone: u32, thread: u32) -> bool {
        self.table.borrow().zones[zone as usize].lock.is_held_by(thread)
    }

    /// Whether a zone of `range` holds data.
    pub fn hold_data(&self, range: &Range<u32>) -> bool {
        let table = self.table.borrow();
        table.zones[range.start as usize..range.end as usize].iter().any(|zone| zone.written() > 0)
    }

    /// Zones that may be written to at a time; 0 is no limit.
    pub fn targets_max(&self) -> u32 {
        self.table.borrow().targets_max
    }

    pub fn set_targets_max(&self, max: u32) {
        self.table.borrow_mut().targets_max = max;
    }

    /// Makes the zones of `range` that are active already targets of `thread`;
    /// whether there was room for all.
    pub fn claim_active(&self, host: &Host, range: &Range<u32>, thread: u32, thread_max: u32) -> bool {
        let states = host.disk.with_device(|device| device.zones(self.nsid));
        let limits = host.disk.limits_of(self.nsid).and_then(|limits| limits.zoned);
        // Closed zones take a place only where the device counts them.
        let counts_closed = limits.is_some_and(|limits| limits.max_active.is_some());
        let mut table = self.table.borrow_mut();
        range.clone().all(|zone| {
            let active = states.get(zone as usize).is_some_and(|status| match status.state {
                ZoneState::ImplicitlyOpened | ZoneState::ExplicitlyOpened => true,
                ZoneState::Closed => counts_closed,
                _ => false,
            });
            !active || table.claim(zone, Claim { thread, thread_max, room: 0 })
        })
    }

    /// Counts what is written in `range` from now on, for `zone_reset_frequency`;
    /// false where another range is counted already.
    pub fn watch(&self, range: &Range<u32>, frequency: f64) -> bool {
        let mut table = self.table.borrow_mut();
        match &table.watched {
            Some(watched) => watched.range == *range,
            None => {
                let zones = &table.zones[range.start as usize..range.end as usize];
                let data_bytes = zones.iter().map(Zone::written).sum();
                table.watched =
                    Some(Watched { range: range.clone(), data_bytes, writes_left: writes_per_reset(frequency) });
                true
            }
        }
    }
}

/// fio truncates the reciprocal.
fn writes_per_reset(frequency: f64) -> u64 {
    ((1.0 / frequency) as u64).clamp(1, u64::from(u32::MAX))
}

impl Zone {
    fn empty(start: u64, capacity_bytes: u64) -> Self {
        Self {
            start,
            write_pointer: start,
            capacity_end: start + capacity_bytes,
            offline: false,
            target_of: None,
            reset_due: false,
            lock: Lock::default(),
        }
    }
}

impl Table {
    fn zone(&mut self, index: u32) -> &mut Zone {
        &mut self.zones[index as usize]
    }

    /// Makes a zone a write target, if it may be one.
    fn claim(&mut self, index: u32, claim: Claim) -> bool {
        let mine = self.count_of(claim.thread);
        let zone = &self.zones[index as usize];
        if zone.offline || zone.room() < claim.room {
            return false;
        }
        // Without a limit nobody keeps the list.
        if self.targets_max == 0 {
            return true;
        }
        if zone.target_of.is_some() {
            // One that I/O in flight fills up is as good as full.
            return zone.room() > 0;
        }
        if (claim.thread_max > 0 && mine >= claim.thread_max) || self.targets.len() as u32 >= self.targets_max {
            return false;
        }
        self.zones[index as usize].target_of = Some(claim.thread);
        self.targets_of[claim.thread as usize] += 1;
        self.targets.push(index);
        true
    }

    /// How many targets a thread has.
    fn count_of(&mut self, thread: u32) -> u32 {
        let thread = thread as usize;
        if self.targets_of.len() <= thread {
            self.targets_of.resize(thread + 1, 0);
        }
        self.targets_of[thread]
    }

    /// Takes a zone from the targets.
    fn release(&mut self, index: u32) {
        if let Some(thread) = self.zone(index).target_of.take() {
            self.targets_of[thread as usize] -= 1;
            self.targets.retain(|target| *target != index);
        }
    }

    /// Moves a write pointer.
    fn set_write_pointer(&mut self, index: u32, position: u64) {
        let zone = self.zone(index);
        let before = std::mem::replace(&mut zone.write_pointer, position);
        if let Some(watched) = self.watched.as_mut().filter(|watched| watched.range.contains(&index)) {
            watched.data_bytes = watched.data_bytes + position - before;
        }
    }

    /// The target that an offset of a region picks: a share of the list equal to
    /// the offset's share of the region, or the next one that lies in `range`.
    fn candidate(&self, share: (u64, u64), range: &Range<u32>) -> Option<u32> {
        let count = self.targets.len();
        let (offset, region_bytes) = share;
        let first = (u128::from(offset) * count as u128 / u128::from(region_bytes.max(1))) as usize;
        (0..count).map(|step| self.targets[(first + step) % count]).find(|target| range.contains(target))
    }
}
