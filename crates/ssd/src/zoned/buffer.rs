//! The write buffer: bytes that writers get in order of arrival, gathered in units
//! of one program each.
//!
//! A zone fills one unit at a time. A full unit waits for its turn at an idle array
//! (`device/dispatch`), and its room comes free page by page as the array's registers
//! take it over. Padding is made where it is programmed: it takes no room.

use std::collections::VecDeque;

use units::Nanos;

/// A unit of a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// The zone, through the device.
    pub zone: u32,
    /// The zone's generation when it was opened.
    pub generation: u32,
    /// Its place in the zone, counted in units.
    pub index: u32,
    /// Bytes in it.
    pub filled: u32,
    /// Of these, padding.
    pub padding: u32,
    /// Bytes whose room is free already.
    pub released: u32,
    /// When the last byte is there.
    pub ready: Nanos,
    /// Distinguishes what the same unit is used for.
    pub serial: u32,
}

impl Unit {
    /// Whether there is nothing of the host's in it.
    pub fn is_padding(&self) -> bool {
        self.padding == self.filled
    }
}

/// All units.
pub(super) struct WriteBuffer {
    units: Vec<Unit>,
    unused: Vec<u32>,
    size_bytes: u64,
    free_bytes: u64,
    /// The zones of the commands that wait for room, oldest first.
    line: VecDeque<u32>,
    serial: u32,
}

impl WriteBuffer {
    pub fn new(size_bytes: u64) -> Self {
        Self {
            units: Vec::new(),
            unused: Vec::new(),
            size_bytes,
            free_bytes: size_bytes,
            line: VecDeque::new(),
            serial: 0,
        }
    }

    /// Opens a unit for place `index` of a zone.
    pub fn open(&mut self, zone: u32, generation: u32, index: u32) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        let unit = Unit {
            zone,
            generation,
            index,
            filled: 0,
            padding: 0,
            released: 0,
            ready: Nanos::ZERO,
            serial: self.serial,
        };
        match self.unused.pop() {
            Some(id) => {
                self.units[id as usize] = unit;
                id
            }
            None => {
                self.units.push(unit);
                (self.units.len() - 1) as u32
            }
        }
    }

    /// Bytes that it holds at most.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes that there is room for.
    pub fn room(&self) -> u64 {
        self.free_bytes
    }

    /// Puts `bytes` of a host's data, there at `ready`, into a unit.
    pub fn put(&mut self, id: u32, bytes: u64, ready: Nanos) {
        debug_assert!(bytes <= self.free_bytes);
        self.free_bytes -= bytes;
        let unit = &mut self.units[id as usize];
        unit.filled += bytes as u32;
        unit.ready = unit.ready.max(ready);
    }

    /// Pads a unit with `bytes`.
    pub fn pad(&mut self, id: u32, bytes: u64) {
        let unit = &mut self.units[id as usize];
        unit.filled += bytes as u32;
        unit.padding += bytes as u32;
    }

    /// Frees the room of up to `bytes` more of a unit; whether it has still more.
    pub fn release(&mut self, id: u32, bytes: u64) -> bool {
        let unit = &mut self.units[id as usize];
        let most = unit.filled - unit.padding;
        let released = bytes.min(u64::from(most - unit.released)) as u32;
        unit.released += released;
        self.free_bytes += u64::from(released);
        unit.released < most
    }

    /// Takes a unit back, and the room that it still has.
    pub fn give_back(&mut self, id: u32) {
        debug_assert!(!self.unused.contains(&id));
        let unit = &self.units[id as usize];
        self.free_bytes += u64::from(unit.filled - unit.padding - unit.released);
        debug_assert!(self.free_bytes <= self.size_bytes);
        self.unused.push(id);
    }

    /// Puts a command of a zone at the end of the line.
    pub fn wait(&mut self, zone: u32) {
        self.line.push_back(zone);
    }

    /// The zone of the command that is first in line.
    pub fn first_in_line(&self) -> Option<u32> {
        self.line.front().copied()
    }

    /// The first in line has what it waited for.
    pub fn leave_line(&mut self) {
        self.line.pop_front();
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.line.clear();
        self.unused.clear();
        self.unused.extend((0..self.units.len() as u32).rev());
        self.free_bytes = self.size_bytes;
    }
}

impl std::ops::Index<u32> for WriteBuffer {
    type Output = Unit;
    #[inline]
    fn index(&self, id: u32) -> &Unit {
        &self.units[id as usize]
    }
}
