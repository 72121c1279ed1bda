//! A device that has nothing after a power cut but what flash and its journal hold.
//!
//! Otherwise [`lose_power`](Ssd::lose_power) undoes in memory what the journal has not written, and the store says which writes are on
//! the media: both would be right on a device whose flash is not.

use nvme::{Lba, LbaRange, NamespaceId};

use super::Ssd;

impl Ssd {
    /// From now on a power cut leaves what can be read from flash through the map that complete journal writes tell, and nothing
    /// else: a mode for tests, which takes memory for all that is written. Call before the first command, and after
    /// [`Ssd::keep_contents`]; nothing changes where no contents are kept, or where capacitors save the buffer and the map.
    pub fn recover_from_flash(&mut self) {
        debug_assert!(self.host.is_idle(), "the mode comes before commands");
        if self.store.keeps_contents() && !self.power_loss_protected() {
            self.ftl.flash = Some(Box::default());
        }
    }

    /// Where a unit lies: its namespace and blocks.
    fn range_of(&self, unit: u32) -> (NamespaceId, LbaRange) {
        let index = self.layout.namespace_units.partition_point(|first| *first <= unit) - 1;
        let start = u64::from(unit - self.layout.namespace_units[index]) * u64::from(self.layout.lbas_per_unit);
        let end = (start + u64::from(self.layout.lbas_per_unit)).min(self.layout.namespace_blocks[index]);
        (NamespaceId(index as u32 + 1), LbaRange { start: Lba(start), count: (end - start) as u32 })
    }

    /// A unit is about to be written or deallocated: notes what it holds, the first time.
    pub(super) fn learn_unit(&mut self, unit: u32) {
        if self.ftl.flash.as_ref().is_some_and(|flash| !flash.knows(unit)) {
            let (nsid, range) = self.range_of(unit);
            match (self.store.durable(nsid, range), &mut self.ftl.flash) {
                (Ok(contents), Some(flash)) => flash.learn(unit, contents),
                _ => self.counters.media_errors += 1,
            }
        }
    }

    /// A version is accepted into the buffer, or more into one that waits: it will be programmed as its unit reads now.
    pub(super) fn note_version(&mut self, unit: u32, version: u32) {
        if self.ftl.flash.is_some() {
            let (nsid, range) = self.range_of(unit);
            match (self.store.newest(nsid, range), &mut self.ftl.flash) {
                (Ok(contents), Some(flash)) => flash.accept(version, contents),
                _ => self.counters.media_errors += 1,
            }
        }
    }

    /// A unit of a write that survives is programmed, with what else it holds.
    pub(super) fn program_recovered(&mut self, unit: u32, ppn: u32) {
        if self.ftl.flash.is_some() {
            let (nsid, range) = self.range_of(unit);
            match (self.store.durable(nsid, range), &mut self.ftl.flash) {
                (Ok(contents), Some(flash)) => flash.put(unit, ppn, contents),
                _ => self.counters.media_errors += 1,
            }
        }
    }

    /// After a cut: the map is the one of the journal, and the media hold what flash holds through it. Writes that are found there
    /// are undecided no more.
    pub(super) fn recover(&mut self) {
        for (unit, contents) in self.ftl.recover_from_flash() {
            let (nsid, range) = self.range_of(unit);
            if self.store.restore(nsid, range, &contents).is_err() {
                self.counters.media_errors += 1;
            }
        }
    }
}
