//! Full units on their way to arrays: zones take turns at the idle ones.
//!
//! A zone that pads is one of them, so n writers leave a finish one part in n + 1 of
//! the arrays' time. A zone that writes one command at a time gets as much as one with
//! a hundred outstanding.

use std::collections::VecDeque;

use units::Nanos;

use super::Zoned;
use crate::slab::NONE;
use crate::zoned::config::StripeOrder;
use crate::zoned::flash::{Job, JobKind};

/// How many stripe units an array may have of a zone beyond an even share.
const LEAD: u64 = 4;

/// What came of a zone's turn.
enum Turn {
    /// A unit went to its array.
    Sent,
    /// There was none.
    Nothing,
    /// The array of its next unit is busy.
    Busy,
}

/// The zones that have units for arrays, in order of their turns.
pub(super) type Turns = VecDeque<u32>;

impl Zoned {
    /// Puts bytes of padding into a zone's open unit, or a new one; how many. A full
    /// unit waits for its array.
    pub(super) fn pad_unit(&mut self, zone: u32, most: u64) -> u64 {
        let id = self.open_unit(zone);
        let taken = most.min(self.layout.program_bytes - u64::from(self.buffer[id].filled));
        self.buffer.pad(id, taken);
        self.close_if_full(zone);
        taken
    }

    /// Puts up to `bytes` of a host's data into a zone's open unit, or a new one; how
    /// many. A full unit waits for its array.
    pub(super) fn fill_unit(&mut self, zone: u32, bytes: u64, ready: Nanos) -> u64 {
        let id = self.open_unit(zone);
        let taken = bytes.min(self.layout.program_bytes - u64::from(self.buffer[id].filled));
        self.buffer.put(id, taken, ready);
        self.close_if_full(zone);
        taken
    }

    fn open_unit(&mut self, zone: u32) -> u32 {
        let flash = &mut self.zones[zone as usize];
        if flash.unit == NONE {
            let index = (flash.placed_bytes / self.layout.program_bytes) as u32 + flash.full.len() as u32;
            flash.unit = self.buffer.open(zone, flash.generation, index);
        }
        flash.unit
    }

    fn close_if_full(&mut self, zone: u32) {
        let flash = &mut self.zones[zone as usize];
        if u64::from(self.buffer[flash.unit].filled) == self.layout.program_bytes {
            flash.full.push_back(std::mem::replace(&mut flash.unit, NONE));
            self.take_turns(zone);
        }
    }

    /// Gives a zone its place among those that take turns.
    pub(super) fn take_turns(&mut self, zone: u32) {
        let flash = &mut self.zones[zone as usize];
        if !flash.in_turn {
            flash.in_turn = true;
            self.turns.push_back(zone);
        }
    }

    /// Sends units to idle arrays while programs may begin.
    pub(super) fn dispatch(&mut self, now: Nanos) {
        let mut busy = 0;
        while !self.flash.is_gated()
            && self.flash.idle() > 0
            && busy < self.turns.len()
            && let Some(zone) = self.turns.pop_front()
        {
            match self.turn(now, zone) {
                Turn::Sent => {
                    busy = 0;
                    self.turns.push_back(zone);
                }
                Turn::Busy => {
                    busy += 1;
                    self.turns.push_back(zone);
                }
                Turn::Nothing => self.zones[zone as usize].in_turn = false,
            }
        }
    }

    /// A zone's turn.
    fn turn(&mut self, now: Nanos, zone: u32) -> Turn {
        if self.zones[zone as usize].full.is_empty() && !self.pads(zone) {
            return Turn::Nothing;
        }
        if !self.has_idle_array(zone) {
            return Turn::Busy;
        }
        if self.zones[zone as usize].full.is_empty() {
            self.pad_next(zone);
        }
        self.send_unit(now, zone);
        Turn::Sent
    }

    /// Sends all of a zone's full units to their arrays, idle or not.
    pub(super) fn send_all(&mut self, now: Nanos, zone: u32) {
        while !self.zones[zone as usize].full.is_empty() {
            self.send_unit(now, zone);
        }
    }

    /// Sends a zone's oldest full unit to its array.
    fn send_unit(&mut self, now: Nanos, zone: u32) {
        let at = self.zones[zone as usize].placed_bytes;
        self.place(zone, at);
        let array = self.array_of(zone, at);
        let bytes = self.layout.program_bytes;
        let flash = &mut self.zones[zone as usize];
        let Some(id) = flash.full.pop_front() else { return };
        flash.placed_bytes += bytes;
        flash.in_flight += 1;
        let unit = &self.buffer[id];
        self.counters.flash_programmed_bytes += bytes;
        self.counters.padded_bytes += u64::from(unit.padding);
        let padding = unit.is_padding();
        self.padding_units += u32::from(padding);
        let time = self.flash.program_time(padding);
        let job = Job::new(JobKind::Program, id, time, unit.ready, bytes as u32);
        self.flash.enqueue(array, now, job, &mut self.events);
    }

    /// Whether the array that the zone's next unit goes to, or one of those that it
    /// may go to, has no program to do.
    fn has_idle_array(&self, zone: u32) -> bool {
        let flash = &self.zones[zone as usize];
        let at = flash.placed_bytes;
        let chooses = self.config.stripe.order == StripeOrder::LeastBusy && at.is_multiple_of(self.layout.stripe_bytes);
        if !chooses {
            return self.flash.pending(self.array_of(zone, at)) == 0;
        }
        let most = self.units_on_most((at / self.layout.stripe_bytes) as usize);
        (0..self.layout.zone_arrays()).any(|unit| {
            let room = flash.units_on.get(unit as usize).is_none_or(|units| u64::from(*units) < most);
            room && self.flash.pending(self.striping.array(flash.physical, unit)) == 0
        })
    }

    /// Stripe units of a whole zone on each of its arrays.
    fn units_on_each(&self) -> u64 {
        let capacity = self.layout.capacity_blocks * self.layout.lba_bytes / self.layout.stripe_bytes;
        capacity / u64::from(self.layout.zone_arrays())
    }

    /// How many units an array may have of a zone that goes on at stripe unit `unit`:
    /// arrays keep together, so that no few of them are left for the zone's end.
    fn units_on_most(&self, unit: usize) -> u64 {
        let even = unit as u64 / u64::from(self.layout.zone_arrays());
        self.units_on_each().min(even + LEAD)
    }

    /// Chooses the array of the stripe unit that begins at byte `at` of a zone, where
    /// the order leaves a choice.
    pub(super) fn place(&mut self, zone: u32, at: u64) {
        if self.config.stripe.order == StripeOrder::LeastBusy && at.is_multiple_of(self.layout.stripe_bytes) {
            self.place_least_busy(zone, (at / self.layout.stripe_bytes) as usize);
        }
    }

    fn place_least_busy(&mut self, zone: u32, unit: usize) {
        let arrays = self.layout.zone_arrays();
        let (each, most) = (self.units_on_each(), self.units_on_most(unit));
        let flash = &mut self.zones[zone as usize];
        if flash.placement.is_empty() {
            flash.placement = vec![0; (each * u64::from(arrays)) as usize].into_boxed_slice();
            flash.units_on = vec![0; arrays as usize].into_boxed_slice();
        }
        let previous = unit.checked_sub(1).map_or(arrays - 1, |previous| flash.placement[previous].into());
        let mut best = None;
        for turn in 1..=arrays {
            let candidate = (previous + turn) % arrays;
            if u64::from(flash.units_on[candidate as usize]) >= most {
                continue;
            }
            let load = self.flash.pending(self.striping.array(flash.physical, candidate));
            if best.is_none_or(|(least, _)| load < least) {
                best = Some((load, candidate));
                if load == 0 {
                    break;
                }
            }
        }
        debug_assert!(best.is_some(), "a zone's units are as many as its arrays hold");
        let (_, chosen) = best.unwrap_or((0, previous));
        flash.placement[unit] = chosen as u16;
        flash.units_on[chosen as usize] += 1;
    }
}
