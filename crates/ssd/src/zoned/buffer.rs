//! The write buffer: units of one program each, lent to zones in turn.
//!
//! A zone fills one unit at a time; a full one goes to its array, and comes free
//! when the program has ended. A zone that needs a unit and finds none waits in line,
//! once whatever it has to write, so units go round the waiting zones: a zone with
//! one write outstanding gets as many as one with a hundred, and as a padding finish.

use std::collections::VecDeque;

use units::Nanos;

use crate::slab::NONE;

/// A unit lent to a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// The zone, through the device.
    pub zone: u32,
    /// The zone's generation when it was lent.
    pub generation: u32,
    /// Its place in the zone, counted in units.
    pub index: u32,
    /// Bytes in it.
    pub filled: u32,
    /// Of these, padding.
    pub padding: u32,
    /// When the last byte is there.
    pub ready: Nanos,
    /// Distinguishes what the same unit is used for.
    pub serial: u32,
}

/// All units.
pub(super) struct WriteBuffer {
    units: Vec<Unit>,
    free: Vec<u32>,
    waiting: VecDeque<u32>,
    serial: u32,
}

impl WriteBuffer {
    pub fn new(units: u32) -> Self {
        let unit = Unit { zone: NONE, generation: 0, index: 0, filled: 0, padding: 0, ready: Nanos::ZERO, serial: 0 };
        Self {
            units: vec![unit; units as usize],
            free: (0..units).rev().collect(),
            waiting: VecDeque::new(),
            serial: 0,
        }
    }

    /// Lends a unit for place `index` of a zone, if one is free and no zone waits.
    pub fn take(&mut self, zone: u32, generation: u32, index: u32) -> Option<u32> {
        if self.waiting.is_empty() { self.lend(zone, generation, index) } else { None }
    }

    /// Lends a unit to a zone whose turn it is.
    pub fn lend(&mut self, zone: u32, generation: u32, index: u32) -> Option<u32> {
        let id = self.free.pop()?;
        self.serial = self.serial.wrapping_add(1);
        self.units[id as usize] =
            Unit { zone, generation, index, filled: 0, padding: 0, ready: Nanos::ZERO, serial: self.serial };
        Some(id)
    }

    /// Puts a zone, which is not in it, at the end of the line.
    pub fn wait(&mut self, zone: u32) {
        self.waiting.push_back(zone);
    }

    /// The next zone in line, if there is a unit for it.
    pub fn next_waiting(&mut self) -> Option<u32> {
        if self.free.is_empty() { None } else { self.waiting.pop_front() }
    }

    /// Takes a unit back.
    pub fn give_back(&mut self, id: u32) {
        debug_assert!(!self.free.contains(&id));
        self.free.push(id);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.free.clear();
        self.free.extend((0..self.units.len() as u32).rev());
    }
}

impl std::ops::Index<u32> for WriteBuffer {
    type Output = Unit;
    #[inline]
    fn index(&self, id: u32) -> &Unit {
        &self.units[id as usize]
    }
}

impl std::ops::IndexMut<u32> for WriteBuffer {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Unit {
        &mut self.units[id as usize]
    }
}
