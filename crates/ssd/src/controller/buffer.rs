//! The write buffer: slots of one mapping unit each.

use std::collections::VecDeque;

use trace::RequestId;
use units::Nanos;

use crate::contents::WritePart;
use crate::slab::{Fifo, NONE, Slab};

use super::timer::Timer;

/// What a slot is waiting for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlotState {
    /// The rest of its unit is being read from flash.
    Reading,
    /// To be destaged.
    Dirty,
    /// On its way to flash.
    Programming,
    /// On flash; its turn to be mapped has not come.
    Delayed,
    /// Deallocated before it was destaged; leaves the queue when its turn comes.
    Dead,
}

/// One version of one logical unit.
///
/// Several versions of a unit exist while an older one is being programmed (or
/// carries FUA); they are linked, and the L2P entry names the newest.
pub(super) struct Slot {
    /// Logical unit; `NONE` in a free place.
    pub unit: u32,
    pub state: SlotState,
    /// A newer version is already on flash, or the unit was deallocated.
    pub stale: bool,
    /// Nobody waits for it any more.
    pub settled: bool,
    pub older: u32,
    pub newer: u32,
    /// Number of the flush interval in which it was accepted.
    pub interval: u32,
    /// FUA command that waits for it.
    pub fua: u32,
    /// Accepted writes that it holds, newest first.
    pub parts: u32,
    pub since: Nanos,
    pub request: RequestId,
}

/// The part of an accepted write that lies in one unit, in a list of them.
#[derive(Clone, Copy)]
struct Part {
    part: WritePart,
    next: u32,
}

/// All slots and what waits for them.
pub(super) struct WriteBuffer {
    pub slots: Slab<Slot>,
    parts: Slab<Part>,
    /// Slots neither used nor reserved.
    pub free: u32,
    /// Looks at the age of what is to be destaged.
    pub age_timer: Timer,
    /// Slots to destage, oldest first.
    dirty: Fifo,
    /// Slots of FUA writes to destage, before the others.
    urgent: Fifo,
    /// Of both queues, slots that are not dead.
    live: u32,
    urgent_live: u32,
    /// Of the live ones, those accepted before the present flush interval.
    overdue: u32,
    /// Live slots of each flush interval; the last is the present one.
    intervals: VecDeque<u32>,
    first_interval: u32,
}

impl WriteBuffer {
    pub fn new(slots: u32) -> Self {
        Self {
            slots: Slab::with_capacity(slots.min(4096) as usize),
            parts: Slab::with_capacity(0),
            free: slots,
            age_timer: Timer::default(),
            dirty: Fifo::default(),
            urgent: Fifo::default(),
            live: 0,
            urgent_live: 0,
            overdue: 0,
            intervals: VecDeque::from([0]),
            first_interval: 0,
        }
    }

    /// Slots waiting to be destaged.
    pub fn waiting(&self) -> u32 {
        self.live
    }

    /// Whether waiting slots must not wait for company.
    pub fn is_urgent(&self) -> bool {
        self.urgent_live > 0 || self.overdue > 0
    }

    /// Since when the oldest waiting slot waits.
    pub fn oldest(&self) -> Option<Nanos> {
        if self.live == 0 {
            return None;
        }
        self.dirty.front().or(self.urgent.front()).map(|slot| self.slots[slot].since)
    }

    /// The present flush interval.
    pub fn interval(&self) -> u32 {
        self.first_interval + self.intervals.len() as u32 - 1
    }

    /// Accepts a version into a reserved slot.
    pub fn insert(&mut self, slot: Slot) -> u32 {
        if let Some(count) = self.intervals.back_mut() {
            *count += 1;
        }
        self.slots.insert(slot)
    }

    /// Queues a slot for destaging.
    pub fn enqueue(&mut self, id: u32) {
        let slot = &mut self.slots[id];
        slot.state = SlotState::Dirty;
        let (fua, late) = (slot.fua != NONE, slot.interval != self.interval());
        self.live += 1;
        self.overdue += u32::from(late);
        self.urgent_live += u32::from(fua);
        let queue = if fua { &mut self.urgent } else { &mut self.dirty };
        queue.push_back(&mut self.slots, id);
    }

    /// Takes the next slot to destage, and gives dead ones back on the way.
    pub fn dequeue(&mut self) -> Option<u32> {
        loop {
            let id = match self.urgent.pop_front(&mut self.slots) {
                Some(id) => id,
                None => self.dirty.pop_front(&mut self.slots)?,
            };
            if self.slots[id].state == SlotState::Dead {
                self.release(id);
                continue;
            }
            self.leave_queue(id);
            self.slots[id].state = SlotState::Programming;
            return Some(id);
        }
    }

    /// A queued slot that nobody needs any more.
    pub fn kill(&mut self, id: u32) {
        self.leave_queue(id);
        self.slots[id].state = SlotState::Dead;
    }

    fn leave_queue(&mut self, id: u32) {
        let slot = &self.slots[id];
        debug_assert_eq!(slot.state, SlotState::Dirty);
        self.live -= 1;
        self.overdue -= u32::from(slot.interval != self.first_interval + self.intervals.len() as u32 - 1);
        self.urgent_live -= u32::from(slot.fua != NONE);
    }

    /// Counts a version out of its flush interval: it is on flash, or superseded.
    pub fn settle(&mut self, id: u32) {
        let at = self.slots[id].interval - self.first_interval;
        self.intervals[at as usize] -= 1;
        while self.intervals.len() > 1 && self.intervals[0] == 0 {
            self.intervals.pop_front();
            self.first_interval += 1;
        }
    }

    /// Gives a slot back.
    pub fn release(&mut self, id: u32) {
        self.slots[id].unit = NONE;
        self.slots.remove(id);
        self.free += 1;
    }

    /// Begins a new flush interval and returns the one that ended, if a flush
    /// must wait for it: it is over when `interval_is_over`.
    pub fn end_interval(&mut self) -> Option<u32> {
        if self.intervals.iter().all(|count| *count == 0) {
            return None;
        }
        let ended = self.interval();
        self.intervals.push_back(0);
        self.overdue = self.live;
        Some(ended)
    }

    /// Whether every version accepted up to the end of that interval is settled.
    pub fn interval_is_over(&self, interval: u32) -> bool {
        self.first_interval > interval
    }

    /// Whether any accepted version is not on flash yet.
    pub fn has_unsettled(&self) -> bool {
        self.intervals.iter().any(|count| *count != 0)
    }

    /// Accepted versions that are not on flash yet.
    pub fn unsettled(&self) -> u32 {
        self.intervals.iter().sum()
    }

    /// Takes a version out of the list of its unit's versions.
    pub fn unlink(&mut self, id: u32) {
        let Slot { older, newer, .. } = self.slots[id];
        if older != NONE {
            self.slots[older].newer = newer;
        }
        if newer != NONE {
            self.slots[newer].older = older;
        }
    }

    /// Adds a part to what a slot holds.
    pub fn add_part(&mut self, id: u32, part: WritePart) {
        let next = self.slots[id].parts;
        self.slots[id].parts = self.parts.insert(Part { part, next });
    }

    /// Takes the newest part that a slot holds.
    pub fn pop_part(&mut self, id: u32) -> Option<WritePart> {
        let first = self.slots[id].parts;
        if first == NONE {
            return None;
        }
        let Part { part, next } = self.parts[first];
        self.parts.remove(first);
        self.slots[id].parts = next;
        Some(part)
    }
}
