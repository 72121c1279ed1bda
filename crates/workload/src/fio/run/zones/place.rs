//! Where an I/O goes under `zonemode=zbd`.
//!
//! The job draws an offset as ever; this moves it to the write pointer of a zone
//! (writes), below one (reads), or to a zone with data (random trims). The I/O's
//! zone stays locked until it has completed.

use std::ops::Range;

use super::{Claim, Zones};
use crate::fio::Direction;
use crate::fio::generate::Io;
use crate::fio::parse::Verify;
use crate::fio::run::thread::Thread;

/// A thread's part of the zones.
#[derive(Clone)]
pub(in crate::fio::run) struct ZonePlan {
    pub zones: std::rc::Rc<Zones>,
    /// The zones of its region.
    pub range: Range<u32>,
    /// `zoneskip` in bytes.
    pub skip_bytes: u64,
}

/// An I/O in its place.
pub(in crate::fio::run) struct Placed {
    pub io: Io,
    /// The zone locked for it.
    pub zone: Option<u32>,
}

impl Thread {
    /// The I/O where it really goes; `None` where there is no place for it, which
    /// ends the pass over the region.
    pub(in crate::fio::run) async fn place(&mut self, io: Io) -> Option<Placed> {
        let Some(plan) = self.plan.zones.clone() else { return Some(Placed { io, zone: None }) };
        let zones = &plan.zones;
        if io.direction == Direction::Read && self.options().zones.read_beyond_write_pointer {
            return Some(Placed { io, zone: None });
        }
        let zone = zones.index_of(io.offset).min(plan.range.end.saturating_sub(1)).max(plan.range.start);
        self.lock_zone(zone).await;
        let placed = match io.direction {
            Direction::Read => self.place_read(&plan, io, zone).await,
            Direction::Write => self.place_write(&plan, io, zone).await,
            Direction::Trim => self.place_trim(&plan, io, zone).await,
        };
        debug_assert!(
            placed.as_ref().is_none_or(|placed| placed.zone.is_some_and(|zone| zones.is_locked(zone, self.index)))
        );
        placed
    }

    async fn place_read(&mut self, plan: &ZonePlan, io: Io, drawn: u32) -> Option<Placed> {
        let min = self.smallest(Direction::Read);
        let random = self.options().pattern.random;
        let drawn_start = plan.zones.span(drawn).start;
        let pointer = plan.zones.write_pointer(drawn);
        let mut zone = drawn;
        let mut offset = io.offset;
        if pointer - drawn_start < min || (!random && io.offset + min > pointer) {
            self.unlock_zone(drawn);
            zone = self.lock_readable(plan, drawn, min).await?;
            if !random {
                offset = plan.zones.span(zone).start;
            }
        }
        let (start, pointer) = (plan.zones.span(zone).start, plan.zones.write_pointer(zone));
        let written = pointer - start;
        if written <= io.bytes {
            offset = start;
        } else if random {
            offset = start + (io.offset - drawn_start) % (written - io.bytes) / min * min;
        }
        let bytes = io.bytes.min(pointer - offset) / min * min;
        debug_assert!(bytes > 0, "nothing is left to read below {pointer} from {offset}");
        Some(Placed { io: Io { offset, bytes, ..io }, zone: Some(zone) })
    }

    async fn place_trim(&mut self, plan: &ZonePlan, io: Io, drawn: u32) -> Option<Placed> {
        let is_empty = plan.zones.write_pointer(drawn) == plan.zones.span(drawn).start;
        if !(is_empty && self.options().pattern.random) {
            let offset = plan.zones.span(drawn).start;
            return Some(Placed { io: Io { offset, ..io }, zone: Some(drawn) });
        }
        self.unlock_zone(drawn);
        let zone = self.lock_readable(plan, drawn, 1).await?;
        Some(Placed { io: Io { offset: plan.zones.span(zone).start, ..io }, zone: Some(zone) })
    }

    /// Locks the nearest zone that holds `bytes` of data: after `zone` where the
    /// job goes in order, on either side where it is random.
    async fn lock_readable(&mut self, plan: &ZonePlan, zone: u32, bytes: u64) -> Option<u32> {
        let Range { start, end } = plan.range;
        let random = self.options().pattern.random;
        for distance in 1..end - start {
            let after = zone.checked_add(distance).filter(|zone| *zone < end);
            let before = zone.checked_sub(distance).filter(|zone| *zone >= start && random);
            for near in [after, before].into_iter().flatten() {
                self.lock_zone(near).await;
                if plan.zones.write_pointer(near) - plan.zones.span(near).start >= bytes {
                    return Some(near);
                }
                self.unlock_zone(near);
            }
        }
        None
    }

    async fn place_write(&mut self, plan: &ZonePlan, io: Io, drawn: u32) -> Option<Placed> {
        let zones = &plan.zones;
        let min = self.smallest(Direction::Write);
        let mut zone = drawn;
        if !zones.table.borrow_mut().claim(zone, self.claim(min)) {
            self.unlock_zone(zone);
            zone = self.lock_target(plan, &io, min).await?;
        }
        let reset = {
            let mut table = zones.table.borrow_mut();
            let frequency = self.options().zones.reset_frequency;
            if let Some(watched) = table.watched.as_mut().filter(|_| frequency > 0.0) {
                let threshold = self.plan.region.bytes as f64 * self.options().zones.reset_threshold;
                if watched.data_bytes as f64 >= threshold {
                    watched.writes_left -= 1;
                    if watched.writes_left == 0 {
                        watched.writes_left = super::writes_per_reset(frequency);
                        table.zone(zone).reset_due = true;
                    }
                }
            }
            let zone = table.zone(zone);
            std::mem::take(&mut zone.reset_due) || zone.room() < min
        };
        if reset {
            self.drain().await;
            if !self.reset_before_write(plan, zone).await {
                self.unlock_zone(zone);
                return None;
            }
        }
        let mut table = zones.table.borrow_mut();
        let offset = table.zone(zone).write_pointer;
        let bytes = io.bytes.min(table.zone(zone).room()) / min * min;
        if bytes == 0 {
            drop(table);
            self.unlock_zone(zone);
            return None;
        }
        table.set_write_pointer(zone, offset + bytes);
        table.writes_in_flight += 1;
        Some(Placed { io: Io { offset, bytes, ..io }, zone: Some(zone) })
    }

    /// What makes a zone one to write to. Under `verify` and `finish` a full zone
    /// is not, since it would have to be reset.
    fn claim(&self, min: u64) -> Claim {
        let options = self.options();
        let keeps = options.verify != Verify::None || options.zones.finish_bytes.is_some();
        Claim { thread: self.index, thread_max: options.zones.job_max_open, room: if keeps { min } else { 0 } }
    }

    /// Locks a zone that may be written to in place of the drawn one.
    async fn lock_target(&mut self, plan: &ZonePlan, io: &Io, min: u64) -> Option<u32> {
        let zones = &plan.zones;
        let claim = self.claim(min);
        let limited = zones.targets_max() > 0;
        let share = (io.offset - self.plan.region.start, self.plan.region.bytes);
        let fallback = zones.index_of(io.offset).clamp(plan.range.start, plan.range.end - 1);
        let mut zone = fallback;
        loop {
            if limited {
                let table = zones.table.borrow();
                match table.candidate(share, &plan.range) {
                    Some(candidate) => zone = candidate,
                    // All there may be are other jobs'.
                    None if !table.targets.is_empty() => return None,
                    None => {}
                }
            }
            self.lock_zone(zone).await;
            let table = zones.table.borrow();
            // It may have been given up while this waited for the lock.
            if !limited || table.targets.is_empty() || table.candidate(share, &plan.range) == Some(zone) {
                break;
            }
            drop(table);
            self.unlock_zone(zone);
        }
        let is_full_list = {
            let mut table = zones.table.borrow_mut();
            let usable = !limited || !table.targets.is_empty();
            if usable && !table.zone(zone).offline && table.zone(zone).room() >= min {
                return Some(zone);
            }
            let (targets, mine) = (table.targets.len() as u32, table.count_of(self.index));
            targets == plan.range.end - plan.range.start
                || (limited && targets == table.targets_max)
                || (claim.thread_max > 0 && mine == claim.thread_max)
        };
        if is_full_list {
            self.drain().await;
        }
        let mut again = true;
        loop {
            for _ in plan.range.clone() {
                self.unlock_zone(zone);
                zone = if zone + 1 < plan.range.end { zone + 1 } else { plan.range.start };
                self.lock_zone(zone).await;
                let mut table = zones.table.borrow_mut();
                if table.zone(zone).target_of.is_none() && table.claim(zone, claim) {
                    return Some(zone);
                }
            }
            let targets: Vec<u32> = zones.table.borrow().targets.clone();
            for target in targets.into_iter().filter(|target| plan.range.contains(target)) {
                self.unlock_zone(zone);
                zone = target;
                self.lock_zone(zone).await;
                let mut table = zones.table.borrow_mut();
                if table.zone(zone).target_of.is_some() && table.zone(zone).room() >= min {
                    return Some(zone);
                }
            }
            self.unlock_zone(zone);
            // Writes that end may take zones off the list; each wait ends with one.
            let busy = zones.table.borrow().writes_in_flight > 0;
            if !busy && !again {
                return None;
            }
            again = busy;
            if self.outstanding() > 0 {
                self.drain().await;
            } else if busy {
                zones.changed.notified().await;
            }
            self.lock_zone(zone).await;
        }
    }

    /// Waits for a zone's lock. As fio, it ends its own I/Os before it waits for
    /// another thread's, so that no two threads wait for each other.
    pub(in crate::fio::run) async fn lock_zone(&mut self, zone: u32) {
        let Some(zones) = self.plan.zones.as_ref().map(|plan| plan.zones.clone()) else { return };
        if zones.table.borrow_mut().zone(zone).lock.try_take(self.index) {
            return;
        }
        self.drain().await;
        {
            let mut table = zones.table.borrow_mut();
            let lock = &mut table.zone(zone).lock;
            if lock.try_take(self.index) {
                return;
            }
            lock.wait(self.index);
        }
        while !zones.is_locked(zone, self.index) {
            zones.changed.notified().await;
        }
    }

    pub(in crate::fio::run) fn unlock_zone(&mut self, zone: u32) {
        let Some(plan) = &self.plan.zones else { return };
        let passed = plan.zones.table.borrow_mut().zone(zone).lock.release(self.index);
        if passed {
            plan.zones.changed.notify_all();
        }
    }

    /// Smallest block of a direction in bytes.
    pub(in crate::fio::run) fn smallest(&self, direction: Direction) -> u64 {
        self.options().blocks[direction].min()
    }

    /// Before a sequential job's next I/O: leaves out what lies behind a zone's
    /// capacity, and `zoneskip` once a zone is done with (fio zbd.c,
    /// setup_zbd_zone_mode). Past the region's end it goes on at its begin.
    pub(in crate::fio::run) fn skip_zones(&mut self, direction: Direction) {
        let Some(plan) = self.plan.zones.clone() else { return };
        let Some(position) = self.generator.position(direction) else { return };
        let region = self.plan.region;
        let zones = &plan.zones;
        let zone = zones.index_of(position);
        if zone >= plan.range.end {
            if plan.skip_bytes > 0 {
                self.skip_to(direction, region.start);
            }
            return;
        }
        let mut position = position;
        let mut zone = zone;
        if direction == Direction::Write && self.options().zones.finish_bytes.is_some() {
            // A zone that was finished is done with, wherever in it the job stands.
            let has_room = |zone: &u32| zones.table.borrow().zones[*zone as usize].room() > 0;
            if let Some(next) = (zone..plan.range.end).find(has_room).filter(|next| *next > zone) {
                zone = next;
                position = zones.span(zone).start;
                self.generator.go_to(direction, position);
            }
        }
        let span = zones.span(zone);
        let (capacity_end, pointer) = {
            let table = zones.table.borrow();
            let zone = &table.zones[zone as usize];
            (zone.capacity_end, zone.write_pointer)
        };
        if direction == Direction::Write && position >= capacity_end {
            position = span.end;
            self.generator.go_to(direction, position);
        }
        if plan.skip_bytes == 0 {
            return;
        }
        let read_all =
            direction == Direction::Read && !self.options().zones.read_beyond_write_pointer && position >= pointer;
        if position >= span.end || read_all || self.since_skip_bytes >= zones.zone_bytes {
            let next = self.skip_from + zones.zone_bytes + plan.skip_bytes;
            self.skip_to(direction, if next < region.start + region.bytes { next } else { region.start });
        }
    }

    fn skip_to(&mut self, direction: Direction, position: u64) {
        self.skip_from = position;
        self.since_skip_bytes = 0;
        self.generator.go_to(direction, position);
    }
}
