//! What becomes of the map when the power is cut.

use super::super::flash_contents::UnitContents;
use super::super::map::Entry;
use super::{Resolved, Translation};
use crate::slab::NONE;

impl Translation {
    /// Puts a unit, of which there is no version in the buffer, to a physical unit.
    pub fn put(&mut self, unit: u32, ppn: u32) {
        self.replace(unit, Resolved::at(ppn));
    }

    /// Takes a unit off flash, of which there is no version in the buffer.
    pub fn remove(&mut self, unit: u32) {
        if self.is_mapped(unit) {
            self.replace(unit, Resolved::NOWHERE);
        }
        if let Some(flash) = &mut self.flash {
            flash.remove(unit);
        }
    }

    /// Whether flash has anything of a unit, of which there is no version in the buffer.
    pub fn is_mapped(&self, unit: u32) -> bool {
        self.map.is_mapped(unit, self.map.entry(unit))
    }

    fn replace(&mut self, unit: u32, to: Resolved) {
        let entry = self.map.entry(unit);
        self.relocate(unit, None, self.map.locate(unit, entry), to);
    }

    /// Takes back, newest first, what the journal has not written. No unit has a version in the buffer.
    pub fn take_back(&mut self) {
        let mut undo = self.journal.take_undo();
        for (unit, before) in undo.drain(..).rev() {
            let ppn = self.map.locate(unit, before);
            self.replace(unit, Resolved { entry: before, ppn });
        }
    }

    /// After a power cut, once the versions are dropped and the undo is done: takes the map from flash instead, wherever that
    /// has another version of a unit. What every unit that was ever written or deallocated holds by it.
    pub fn recover_from_flash(&mut self) -> Vec<(u32, UnitContents)> {
        let Some(mut flash) = self.flash.take() else { return Vec::new() };
        flash.lose_power();
        let initially = |unit| Some(self.map.locate(unit, Entry::INITIAL)).filter(|ppn| *ppn != NONE);
        let recovered = flash.recover(self.units_per_block, initially);
        let mut contents = Vec::with_capacity(recovered.len());
        for found in recovered {
            let unit = found.unit;
            let (here, there) = (self.map.locate(unit, self.map.entry(unit)), found.place.unwrap_or(NONE));
            let is_same = if here == NONE || there == NONE { here == there } else { flash.is_copy(here, there) };
            if !is_same {
                let initial = there != NONE && self.blocks.is_initial(there);
                let entry = if there == NONE { Entry::UNMAPPED } else { self.map.entry_for(there, initial) };
                self.replace(unit, Resolved { entry, ppn: there });
            }
            contents.push((unit, found.contents));
        }
        self.flash = Some(flash);
        contents
    }
}

#[cfg(test)]
mod tests {
    use crash::order::{EpochId, Places};

    use super::*;
    use crate::config::SsdConfig;
    use crate::ftl::blocks::Blocks;
    use crate::ftl::flash_contents::FlashContents;
    use crate::ftl::order::{Order, Plan, Streams};
    use crate::state::InitialLayout;

    const BEFORE: u8 = 1;
    const AFTER: u8 = 2;

    /// What a unit holds after a cut, of which a version was delayed and then moved by the collector.
    fn delayed_and_moved(journals_delayed_moves: bool) -> u8 {
        let config = SsdConfig::reference();
        let layout = config.layout().unwrap();
        let initial = InitialLayout::new(&config, &layout).unwrap();
        let blocks = Blocks::new(&layout, 0);
        let mut ftl = Translation::new(&layout, initial, blocks, 0, config.gc.policy, true);
        ftl.set_order(Order::Streams(Box::<Streams>::default()));
        ftl.journals_delayed_moves = journals_delayed_moves;
        let contents = |byte| UnitContents { bytes: [byte; 8].into(), sequences: vec![0; 8] };
        let (unit, slot, ppn, copy) = (5, 1, 3, 3 + layout.units_per_block());
        let mut flash = Box::<FlashContents>::default();
        flash.learn(unit, contents(BEFORE));
        flash.accept(slot, contents(AFTER));
        flash.program(unit, slot, ppn);
        ftl.flash = Some(flash);

        let at = |epoch| -> Places { [Some(EpochId { stream: 1, epoch, is_late: false }), None] };
        ftl.stream_opened(1);
        ftl.cover(6, ftl.entry(6), 0, &at(0), NONE);
        ftl.epoch_completed(1, 0);
        ftl.cover(unit, ftl.entry(unit), slot, &at(1), NONE);
        assert_eq!(ftl.programmed(unit, slot, ppn), Plan::Delay);
        ftl.moved(unit, ppn, copy);
        let flash = ftl.flash.as_mut().unwrap();
        flash.journal_begins(1);
        flash.journal_page_done();

        ftl.uncover(unit, slot);
        ftl.drop_versions();
        ftl.take_back();
        let found = ftl.recover_from_flash();
        assert_eq!((found.len(), found[0].0), (1, unit));
        found[0].1.bytes[0]
    }

    #[test]
    fn what_is_delayed_stays_so_where_the_collector_moves_it() {
        assert_eq!(delayed_and_moved(false), BEFORE);
        assert_eq!(delayed_and_moved(true), AFTER, "a journal that maps what is only moved is not noticed");
    }
}
