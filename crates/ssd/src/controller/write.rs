//! Writes into the buffer, write zeroes, and deallocation.

use crash::order::Places;
use nvme::{LbaRange, NamespaceId, Status};
use trace::{RequestId, Step, Track};
use units::Nanos;

use crate::contents::WritePart;
use crate::event::Event;
use crate::ftl::journal::Waiter;
use crate::link::Direction;
use crate::slab::NONE;

use super::buffer::{Slot, SlotState};
use super::read::Reader;
use super::{Opcode, Ssd};

impl Ssd {
    /// A processed write or write zeroes: firmware work if it is FUA, then slots.
    pub(super) fn write(&mut self, now: Nanos, id: u32) {
        let overhead = self.config.controller.fua_overhead;
        let cmd = &mut self.host[id];
        if cmd.fua && !cmd.prepared && overhead > Nanos::ZERO && !self.config.buffer.power_loss_protected {
            self.firmware_work(now, overhead, id);
            return;
        }
        let slots = match cmd.opcode {
            Opcode::Write => cmd.units,
            // Whole units are zeroed in the map; only the ends need data.
            _ => self.partial_ends(id),
        };
        let cmd = &mut self.host[id];
        cmd.left = slots;
        cmd.since = now;
        if self.host.awaits_slots() || self.buffer.free < slots {
            self.host.wait_for_slots(id);
            self.destage(now);
            self.grant_waiting(now);
            return;
        }
        self.grant(now, id);
    }

    fn partial_ends(&self, id: u32) -> u32 {
        let cmd = &self.host[id];
        let whole = |index| self.part_of(cmd.nsid, cmd.range, index).1;
        let last = cmd.units - 1;
        u32::from(!whole(0)) + u32::from(last > 0 && !whole(last))
    }

    /// Gives the command its slots and fetches its data.
    fn grant(&mut self, now: Nanos, id: u32) {
        let cmd = &self.host[id];
        self.buffer.free -= cmd.left;
        if cmd.since < now {
            self.counters.buffer_wait += now - cmd.since;
            self.host.record(cmd.since, now, Track::Buffer, Step::BufferWait, cmd.request, 0);
        }
        if cmd.opcode != Opcode::Write {
            self.events.push(now, Event::Arrived, id);
            return;
        }
        let (bytes, request) = (u64::from(cmd.range.count) * u64::from(self.layout.lba_bytes), cmd.request);
        let end = self.host.transfer(now, Direction::ToDevice, bytes, request);
        self.events.push(end, Event::Arrived, id);
    }

    /// Serves commands that wait for slots, in order, as far as the slots go.
    pub(super) fn grant_waiting(&mut self, now: Nanos) {
        while let Some(id) = self.host.next_for_slots(self.buffer.free) {
            self.grant(now, id);
        }
    }

    /// A write's data is in the device: from here on it is accepted.
    pub(super) fn arrived(&mut self, now: Nanos, id: u32) {
        let cmd = &mut self.host[id];
        let (nsid, range, first, units, request) = (cmd.nsid, cmd.range, cmd.unit, cmd.units, cmd.request);
        let (opcode, data, reserved) = (cmd.opcode, cmd.data.take(), cmd.left);
        let protected = self.config.buffer.power_loss_protected;
        let places = self.places(id);
        let cmd = &mut self.host[id];
        let fua = cmd.fua && !protected;
        #[cfg(test)]
        let fua = fua && self.mutant != Some(super::Mutant::FuaIsEarly);
        cmd.left = 0;
        let sequence = if protected {
            match self.store.write_durable(nsid, range, data) {
                Ok(sequence) => sequence,
                Err(_) => {
                    cmd.status = Status::WRITE_FAULT;
                    0
                }
            }
        } else {
            self.store.write_ordered(nsid, range, data, places)
        };
        #[cfg(test)]
        self.acceptances.push((self.host[id].cid, places));
        self.counters.host_written_bytes += u64::from(range.count) * u64::from(self.layout.lba_bytes);
        let tracked = self.store.tracks_volatile() && !protected;
        let mut used = 0;
        for index in 0..units {
            let inside = index > 0 && index + 1 < units;
            let (part, whole) = if inside && !tracked { (range, true) } else { self.part_of(nsid, range, index) };
            let part = tracked.then_some(WritePart { sequence, nsid, range: part });
            if opcode == Opcode::Write || !whole {
                used += 1;
                self.insert(now, first + index, whole, part, (if fua { id } else { NONE }, request), &places);
            } else {
                self.unmap(now, first + index);
                part.into_iter().for_each(|part| self.ftl.journal.note_settled(part));
            }
        }
        debug_assert_eq!(used, reserved);
        self.ftl.journal.entries += usize::from(opcode == Opcode::WriteZeroes);
        if !fua {
            self.complete(now, id);
        } else if self.host[id].left == 0 {
            self.journal_wait(now, Waiter::Command(id));
        }
        if self.host[id].order.is_some() {
            self.accepted_in_order(now, id);
        }
        self.map_ready(now);
        self.wake_flushes(now);
        self.destage(now);
        self.arm_destage(now);
        self.grant_waiting(now);
    }

    /// Puts one unit of an accepted write into a reserved slot.
    fn insert(
        &mut self,
        now: Nanos,
        unit: u32,
        whole: bool,
        part: Option<WritePart>,
        (fua, request): (u32, RequestId),
        places: &Places,
    ) {
        self.learn_unit(unit);
        let entry = self.ftl.entry(unit);
        let older = entry.as_slot();
        #[cfg(test)]
        let older = older.filter(|older| !self.forgets_overwritten(now, *older, whole));
        if let Some(id) = older {
            let slot = &self.buffer.slots[id];
            // An overwritten version need not go to flash, unless FUA waits for it,
            // or the write would be mapped before its turn.
            let waits = !matches!(slot.state, SlotState::Programming | SlotState::Delayed);
            if waits && slot.fua == NONE && fua == NONE && self.ftl.may_coalesce(id, places) {
                self.counters.buffer_write_hits += 1;
                self.buffer.free += 1;
                if let Some(part) = part {
                    self.buffer.add_part(id, part);
                }
                self.note_version(unit, id);
                return;
            }
        }
        let id = self.buffer.insert(Slot {
            unit,
            state: SlotState::Reading,
            stale: false,
            settled: false,
            older: older.unwrap_or(NONE),
            newer: NONE,
            interval: self.buffer.interval(),
            fua,
            parts: NONE,
            since: now,
            request,
        });
        if let Some(older) = older {
            self.buffer.slots[older].newer = id;
        }
        if fua != NONE {
            self.host[fua].left += 1;
        }
        if let Some(part) = part {
            self.buffer.add_part(id, part);
        }
        let below = if whole { NONE } else { older.unwrap_or(NONE) };
        let place = self.ftl.cover(unit, entry, id, places, below);
        self.note_version(unit, id);
        // The rest of a unit comes from flash, unless the buffer has it.
        if whole || older.is_some() || place == NONE {
            self.buffer.enqueue(id);
        } else {
            self.counters.read_modify_writes += 1;
            self.flash_read(now, place / self.layout.units_per_superpage, 1, Reader::Slot(id));
        }
    }

    /// A defect: a delayed version that is overwritten as a whole counts as satisfied, though nothing newer is mapped. Whether it did.
    #[cfg(test)]
    fn forgets_overwritten(&mut self, now: Nanos, older: u32, whole: bool) -> bool {
        let forgets = self.mutant == Some(super::Mutant::OverwrittenIsSatisfied)
            && whole
            && self.buffer.slots[older].state == SlotState::Delayed;
        if forgets {
            self.ftl.dropped(older);
            self.buffer.unlink(older);
            self.settle(now, older);
            self.buffer.release(older);
        }
        forgets
    }

    /// The rest of a slot's unit has been read.
    pub(super) fn slot_completed(&mut self, now: Nanos, id: u32) {
        self.complete_slot(now, id);
        self.map_ready(now);
        self.destage(now);
        self.arm_destage(now);
        self.grant_waiting(now);
    }

    /// Queues a slot whose unit is whole, or gives it back if it is not needed:
    /// deallocated meanwhile, or a newer version is on flash already.
    pub(super) fn complete_slot(&mut self, now: Nanos, id: u32) {
        let slot = &self.buffer.slots[id];
        if !slot.stale {
            self.buffer.enqueue(id);
            return;
        }
        if !slot.settled {
            self.ftl.dropped(id);
            self.buffer.unlink(id);
            self.settle(now, id);
            self.wake_flushes(now);
        }
        self.buffer.release(id);
    }

    /// The unit reads as zeroes from now on.
    pub(super) fn unmap(&mut self, now: Nanos, unit: u32) {
        self.learn_unit(unit);
        let entry = self.ftl.entry(unit);
        // First, as what settles below may begin a write of the journal, which must have it.
        self.ftl.unmap(unit, entry);
        let mut at = entry.as_slot().unwrap_or(NONE);
        while at != NONE {
            let slot = &mut self.buffer.slots[at];
            let (state, older) = (slot.state, slot.older);
            slot.stale = true;
            // Versions being programmed settle when that ends.
            if state != SlotState::Programming {
                self.ftl.dropped(at);
                self.buffer.unlink(at);
                if state == SlotState::Dirty {
                    self.buffer.kill(at);
                }
                self.settle(now, at);
                if state == SlotState::Delayed {
                    self.buffer.release(at);
                }
            }
            at = older;
        }
    }

    /// A processed deallocation.
    pub(super) fn deallocate(&mut self, now: Nanos, id: u32) {
        let nsid = self.host[id].nsid;
        let ranges = self.host[id].ranges.take().unwrap_or_default();
        #[cfg(test)]
        if self.mutant == Some(super::Mutant::DeallocateIgnored) {
            return self.complete(now, id);
        }
        for range in &ranges {
            self.deallocate_range(now, id, nsid, *range);
        }
        self.complete(now, id);
        self.journal_if_full(now);
        self.map_ready(now);
        self.wake_flushes(now);
        self.destage(now);
        self.arm_destage(now);
        self.grant_waiting(now);
    }

    /// Deallocates the whole units of a range; the ends keep what they hold, as
    /// the attribute is advice (NVM 3.2.1).
    fn deallocate_range(&mut self, now: Nanos, id: u32, nsid: NamespaceId, range: LbaRange) {
        if range.count == 0 {
            return;
        }
        let (first, units) = self.units_of(nsid, range);
        let whole = |index: u32| self.part_of(nsid, range, index).1;
        let skip = u32::from(!whole(0));
        let end = units - u32::from(units > skip && !whole(units - 1));
        if skip >= end {
            return;
        }
        let start = self.part_of(nsid, range, skip).0.start;
        let last = self.part_of(nsid, range, end - 1).0;
        let inner = LbaRange { start, count: (last.end().0 - start.0) as u32 };
        #[cfg(test)]
        self.acceptances.push((self.host[id].cid, [None, None]));
        let mut sequence = None;
        if self.power_loss_protected() {
            if self.store.write_durable(nsid, inner, None).is_err() {
                self.host[id].status = Status::WRITE_FAULT;
            }
        } else {
            sequence = Some(self.store.write_volatile(nsid, inner, None)).filter(|_| self.store.tracks_volatile());
        }
        self.ftl.journal.entries += 1;
        self.counters.deallocated_bytes += u64::from(end - skip) * u64::from(self.layout.unit_bytes);
        let mut units = first + skip..first + end;
        while let Some(unit) = self.ftl.first_candidate(units.clone()) {
            self.unmap(now, unit);
            units.start = unit + 1;
        }
        // Last, as the journal may be written meanwhile, with some of the units only.
        if let Some(sequence) = sequence {
            self.ftl.journal.note_settled(WritePart { sequence, nsid, range: inner });
        }
    }
}
