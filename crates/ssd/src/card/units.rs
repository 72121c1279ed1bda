//! Open allocation units: what the card does to the flash for a write.

use std::collections::BTreeSet;
use std::ops::Range;

use super::config::CardConfig;

/// Flash operations, to be timed by the device.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct FlashWork {
    /// Stripes read, and maps.
    pub reads: u64,
    /// Stripes programmed, and maps.
    pub programs: u64,
    /// Allocation units erased.
    pub erases: u64,
}

/// The allocation units open for writing, the latest used last.
#[derive(Debug)]
pub(super) struct OpenUnits {
    stripe_bytes: u64,
    stripes_per_unit: u64,
    max_open: usize,
    open: Vec<OpenUnit>,
    /// Stripes programmed since the last erase; as many as fill a unit have
    /// used one up.
    programmed: u64,
}

#[derive(Debug)]
struct OpenUnit {
    number: u64,
    /// Stripes whose latest data is in pieces: some in the unit's write log,
    /// the rest where it was.
    ragged: BTreeSet<u64>,
}

impl OpenUnits {
    /// No unit open.
    pub(super) fn new(config: &CardConfig) -> Self {
        Self {
            stripe_bytes: config.flash.stripe.0,
            stripes_per_unit: config.mapping.allocation_unit.0 / config.flash.stripe.0,
            max_open: config.mapping.open_units as usize,
            open: Vec::with_capacity(config.mapping.open_units as usize),
            programmed: 0,
        }
    }

    /// Opens the units that a write of `bytes` touches; gives the work of
    /// leaving others and loading their maps.
    pub(super) fn open_for(&mut self, bytes: &Range<u64>) -> FlashWork {
        let mut work = FlashWork::default();
        for number in self.units(bytes) {
            if let Some(index) = self.open.iter().position(|unit| unit.number == number) {
                let unit = self.open.remove(index);
                self.open.push(unit);
                continue;
            }
            if self.open.len() == self.max_open {
                let left = self.open.remove(0);
                // Each ragged stripe is read, completed and programmed whole;
                // then the unit's map is stored.
                work.reads += left.ragged.len() as u64;
                work.programs += left.ragged.len() as u64 + 1;
            }
            work.reads += 1;
            self.open.push(OpenUnit { number, ragged: BTreeSet::new() });
        }
        self.account(&mut work);
        work
    }

    /// Appends a write of `bytes` to the logs of its units, which are open;
    /// a stripe that it does not fill is programmed all the same.
    pub(super) fn write(&mut self, bytes: &Range<u64>) -> FlashWork {
        let mut work = FlashWork::default();
        for stripe in bytes.start / self.stripe_bytes..bytes.end.div_ceil(self.stripe_bytes) {
            let whole = bytes.start <= stripe * self.stripe_bytes && (stripe + 1) * self.stripe_bytes <= bytes.end;
            let number = stripe / self.stripes_per_unit;
            if let Some(unit) = self.open.iter_mut().find(|unit| unit.number == number) {
                if whole {
                    unit.ragged.remove(&stripe)
                } else {
                    unit.ragged.insert(stripe)
                };
            }
            work.programs += 1;
        }
        self.account(&mut work);
        work
    }

    /// Drops `bytes` from the map: stripes that are gone need no completing;
    /// the map is stored.
    pub(super) fn erase(&mut self, bytes: &Range<u64>) -> FlashWork {
        let gone = bytes.start.div_ceil(self.stripe_bytes)..bytes.end / self.stripe_bytes;
        for unit in &mut self.open {
            unit.ragged.retain(|stripe| !gone.contains(stripe));
        }
        let mut work = FlashWork { programs: 1, ..FlashWork::default() };
        self.account(&mut work);
        work
    }

    /// After a power cut nothing is open; what was ragged stays so, and is
    /// completed when its unit is next left.
    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }

    fn units(&self, bytes: &Range<u64>) -> Range<u64> {
        let unit_bytes = self.stripe_bytes * self.stripes_per_unit;
        bytes.start / unit_bytes..bytes.end.div_ceil(unit_bytes)
    }

    /// Adds the erases that the programs make necessary.
    fn account(&mut self, work: &mut FlashWork) {
        self.programmed += work.programs;
        work.erases = self.programmed / self.stripes_per_unit;
        self.programmed %= self.stripes_per_unit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{CardBus, CardController, CardFlash, CardMapping};
    use ::units::{ByteSize, Nanos};

    /// Two open units of four stripes of 16 KiB.
    fn open_units() -> OpenUnits {
        OpenUnits::new(&CardConfig {
            model: String::new(),
            lba: ByteSize(512),
            capacity: ByteSize(1 << 30),
            flash: CardFlash { stripe: ByteSize(16 << 10), read: Nanos(1), program: Nanos(1), erase: Nanos(1) },
            mapping: CardMapping { allocation_unit: ByteSize(64 << 10), open_units: 2 },
            controller: CardController { command_overhead: Nanos(1) },
            bus: CardBus { bandwidth: ByteSize(1), max_transfer: ByteSize(1 << 20) },
        })
    }

    fn kib(range: Range<u64>) -> Range<u64> {
        range.start << 10..range.end << 10
    }

    #[test]
    fn whole_stripes_leave_nothing_to_complete() {
        let mut units = open_units();
        for unit in 0..10 {
            let bytes = kib(unit * 64..unit * 64 + 64);
            let opened = units.open_for(&bytes);
            // Load a map; from the third on, store the map of the one left.
            assert_eq!((opened.reads, opened.programs), (1, u64::from(unit >= 2)));
            assert_eq!(units.write(&bytes).programs, 4);
        }
    }

    #[test]
    fn ragged_stripes_are_completed_when_their_unit_is_left() {
        let mut units = open_units();
        units.open_for(&kib(0..4));
        assert_eq!(units.write(&kib(0..4)).programs, 1);
        assert_eq!(units.write(&kib(20..40)).programs, 2);
        // Filling stripe 1 and erasing stripe 2 heals both.
        units.write(&kib(16..32));
        units.erase(&kib(30..48));
        units.open_for(&kib(64..68));
        let left = units.open_for(&kib(128..132));
        assert_eq!((left.reads, left.programs), (1 + 1, 1 + 1));
    }

    #[test]
    fn a_unit_is_erased_for_every_unit_programmed() {
        let mut units = open_units();
        units.open_for(&kib(0..4));
        let erases: u64 = (0..40).map(|_| units.write(&kib(0..4)).erases).sum();
        assert_eq!(erases, 40 / 4);
    }
}
