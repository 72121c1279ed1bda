//! What every physical unit of flash holds, and the map as the journal's pages on flash tell it: all that a recovery has to go by.
//!
//! The translation layer undoes in memory what a power cut takes, and the store knows which writes are on the media. That is fast, and
//! a device whose memory is right hides what flash does not hold. A device that was asked to
//! ([`Ssd::recover_from_flash`](crate::Ssd::recover_from_flash)) keeps this beside them and has nothing but this after a cut.

use std::collections::{BTreeMap, BTreeSet};

/// The bytes of a unit, and of each of its blocks the volatile write that they are of; 0 where they were durable already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnitContents {
    pub bytes: Box<[u8]>,
    pub sequences: Vec<u64>,
}

/// What erased flash reads as.
const ERASED: u8 = 0xff;

/// Which version of a unit: programmed under a number, which its copies have, too. 0 is what the unit held initially.
type VersionId = (u32, u64);

/// Contents of flash, and the map that its journal tells.
#[derive(Default)]
pub(crate) struct FlashContents {
    /// By physical unit. One that is not here is as initially, or holds nothing.
    units: BTreeMap<u32, VersionId>,
    /// The other way round, with the contents, which are not kept for what was there initially.
    versions: BTreeMap<VersionId, (BTreeSet<u32>, Option<UnitContents>)>,
    /// Blocks that were erased: what is not in `units` there is gone.
    erased: BTreeSet<u32>,
    programs: u64,
    /// Versions in the buffer, which are programmed as they are here.
    buffered: BTreeMap<u32, UnitContents>,
    /// What units held that were written since.
    initial: BTreeMap<u32, UnitContents>,
    /// The map, as complete writes of the journal have it: a number of a version, or nothing. A unit that is not here is as initially.
    map: BTreeMap<u32, Option<u64>>,
    /// Map changes that are in no journal page, and those of the write in progress, with its pages to come.
    changes: Vec<(u32, Option<u64>)>,
    writing: Vec<(u32, Option<u64>)>,
    pages_left: u32,
}

/// What recovery finds of a unit.
pub(crate) struct Recovered {
    pub unit: u32,
    /// Where it is, if it is anywhere. There may be copies.
    pub place: Option<u32>,
    pub contents: UnitContents,
}

impl FlashContents {
    /// Whether it knows what a unit held initially.
    pub fn knows(&self, unit: u32) -> bool {
        self.initial.contains_key(&unit)
    }

    /// A unit is about to be written or deallocated for the first time.
    pub fn learn(&mut self, unit: u32, contents: UnitContents) {
        self.initial.entry(unit).or_insert(contents);
    }

    /// A version is accepted, or more into one that waits.
    pub fn accept(&mut self, slot: u32, contents: UnitContents) {
        self.buffered.insert(slot, contents);
    }

    /// A version of a unit is programmed.
    pub fn program(&mut self, unit: u32, slot: u32, ppn: u32) {
        if let Some(contents) = self.buffered.get(&slot).cloned() {
            self.program_contents(unit, ppn, contents);
        }
    }

    fn program_contents(&mut self, unit: u32, ppn: u32, contents: UnitContents) {
        self.programs += 1;
        self.hold(ppn, (unit, self.programs), Some(contents));
    }

    fn hold(&mut self, ppn: u32, version: VersionId, contents: Option<UnitContents>) {
        let before = self.units.insert(ppn, version);
        debug_assert!(before.is_none(), "{ppn} is programmed twice");
        let (places, known) = self.versions.entry(version).or_default();
        places.insert(ppn);
        *known = contents.or(known.take());
    }

    /// The collector copies a physical unit.
    pub fn copy(&mut self, unit: u32, from: u32, to: u32) {
        let version = self.units.get(&from).copied().unwrap_or((unit, 0));
        self.hold(to, version, None);
    }

    /// A block of so many units is erased.
    pub fn erase(&mut self, block: u32, units: u32) {
        let first = block * units;
        for ppn in first..first + units {
            let Some(version) = self.units.remove(&ppn) else { continue };
            if let Some((places, _)) = self.versions.get_mut(&version) {
                places.remove(&ppn);
                if places.is_empty() {
                    self.versions.remove(&version);
                }
            }
        }
        self.erased.insert(block);
    }

    /// A unit is at a physical unit from now on, or nowhere: the next journal write says so.
    pub fn change(&mut self, unit: u32, ppn: Option<u32>) {
        let number = ppn.map(|ppn| self.number_at(ppn));
        self.changes.push((unit, number));
    }

    fn number_at(&self, ppn: u32) -> u64 {
        self.units.get(&ppn).map_or(0, |(_, number)| *number)
    }

    /// The journal begins to write what has changed, in so many pages.
    pub fn journal_begins(&mut self, pages: u32) {
        self.writing = std::mem::take(&mut self.changes);
        self.pages_left = pages;
    }

    /// A page of it is programmed. The write counts with its last.
    pub fn journal_page_done(&mut self) {
        self.pages_left = self.pages_left.saturating_sub(1);
        if self.pages_left == 0 {
            self.map.extend(self.writing.drain(..));
        }
    }

    /// What has changed is journaled while the device does nothing else.
    pub fn journal_at_rest(&mut self) {
        self.map.extend(self.changes.drain(..));
    }

    /// The power is gone: only flash is left.
    pub fn lose_power(&mut self) {
        self.changes.clear();
        self.writing.clear();
        self.pages_left = 0;
        self.buffered.clear();
    }

    /// What was ever written or deallocated, as flash has it: the version that the map names, from wherever a copy of it is, as each
    /// has its unit and its number beside the data. `initially` is where a unit was at first.
    pub fn recover(&self, block_units: u32, initially: impl Fn(u32) -> Option<u32>) -> Vec<Recovered> {
        let mut found = Vec::with_capacity(self.initial.len());
        for (unit, initial) in &self.initial {
            let filled = |byte| UnitContents {
                bytes: vec![byte; initial.bytes.len()].into(),
                sequences: vec![0; initial.sequences.len()],
            };
            let number = self.map.get(unit).copied().unwrap_or(Some(0));
            let version = number.and_then(|number| self.versions.get(&(*unit, number)));
            let place = version.and_then(|(places, _)| places.first().copied());
            let contents = version.and_then(|(_, contents)| contents.clone());
            let stays = |ppn: &u32| !self.erased.contains(&(ppn / block_units));
            let (place, contents) = match (number, place, contents) {
                (None, ..) => (None, filled(0)),
                (Some(0), Some(place), _) => (Some(place), initial.clone()),
                (Some(0), None, _) => match initially(*unit) {
                    None => (None, initial.clone()),
                    Some(ppn) if stays(&ppn) => (Some(ppn), initial.clone()),
                    Some(_) => (None, filled(ERASED)),
                },
                (Some(_), Some(place), Some(contents)) => (Some(place), contents),
                (Some(_), ..) => (None, filled(ERASED)),
            };
            found.push(Recovered { unit: *unit, place, contents });
        }
        found
    }

    /// Whether two physical units hold the same version, the one a copy of the other.
    pub fn is_copy(&self, one: u32, other: u32) -> bool {
        one == other || self.number_at(one) == self.number_at(other)
    }

    /// Recovery programs a unit and journals where it is.
    pub fn put(&mut self, unit: u32, ppn: u32, contents: UnitContents) {
        self.program_contents(unit, ppn, contents);
        self.map.insert(unit, Some(self.programs));
    }

    /// Recovery journals that a unit is nowhere.
    pub fn remove(&mut self, unit: u32) {
        self.map.insert(unit, None);
    }
}
