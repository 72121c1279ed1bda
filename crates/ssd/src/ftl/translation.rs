//! The translation layer's state: where each logical unit is on flash, what is
//! valid there, and which of its changes a power cut would take back.
//!
//! The map names the newest version of a unit. While that is in the write
//! buffer, the unit's *place* on flash is kept here beside the version; a change
//! of place goes there, and to the map once the version is on flash and the
//! [`order`](super::order) lets it be mapped.

use std::ops::Range;

use crash::order::Places;

use super::blocks::Blocks;
use super::delayed::Delayed;
use super::flash_contents::FlashContents;
use super::gc::{self, GcPolicy, Plan, View};
use super::journal::Journal;
use super::map::{Entry, Map};
use super::order::{self, Immediate, Order};
use crate::config::{GcPolicyKind, Layout};
use crate::slab::NONE;
use crate::state::InitialLayout;

mod recovery;

/// Where a unit is on flash.
#[derive(Clone, Copy)]
struct Resolved {
    /// As the map has it.
    entry: Entry,
    /// The physical unit that the entry means, or `NONE`.
    ppn: u32,
}

impl Resolved {
    const NOWHERE: Self = Self { entry: Entry::UNMAPPED, ppn: NONE };

    fn at(ppn: u32) -> Self {
        Self { entry: Entry::flash(ppn), ppn }
    }
}

/// Map, validity, block states, undo and journal of a device.
pub(crate) struct Translation {
    map: Map,
    /// By version: where on flash its unit is; kept for the newest version of a unit only.
    places: Vec<Resolved>,
    pub blocks: Blocks,
    pub journal: Journal,
    order: Order,
    delayed: Delayed,
    policy: Box<dyn GcPolicy>,
    /// Host units programmed, those before the run included: the clock of ages.
    host_units: u64,
    units_per_block: u32,
    blocks_per_die: u32,
    /// Whether a power cut takes changes back that the journal has not written.
    volatile: bool,
    /// What flash holds, where a power cut is to leave just that.
    pub flash: Option<Box<FlashContents>>,
    /// Takes garbage for valid, or what is delayed for garbage: defects, for tests.
    #[cfg(test)]
    pub ignores_validity: bool,
    #[cfg(test)]
    pub forgets_delayed: bool,
    /// Has the journal say that a delayed version that moved is mapped: another.
    #[cfg(test)]
    pub journals_delayed_moves: bool,
    /// When each version was accepted, and which of them each unit is mapped to.
    #[cfg(test)]
    serials: std::collections::BTreeMap<u32, u64>,
    #[cfg(test)]
    mapped: std::collections::BTreeMap<u32, u64>,
}

impl Translation {
    /// With blocks that are filled as `initial` has it, up to the clock `host_units`.
    pub fn new(
        layout: &Layout,
        initial: InitialLayout,
        blocks: Blocks,
        host_units: u64,
        policy: GcPolicyKind,
        volatile: bool,
    ) -> Self {
        Self {
            map: Map::new(layout, initial),
            places: Vec::new(),
            blocks,
            journal: Journal::default(),
            order: Order::Immediate(Immediate),
            delayed: Delayed::default(),
            policy: gc::policy(policy),
            host_units,
            units_per_block: layout.units_per_block(),
            blocks_per_die: layout.blocks_per_die,
            volatile,
            flash: None,
            #[cfg(test)]
            ignores_validity: false,
            #[cfg(test)]
            forgets_delayed: false,
            #[cfg(test)]
            journals_delayed_moves: false,
            #[cfg(test)]
            serials: Default::default(),
            #[cfg(test)]
            mapped: Default::default(),
        }
    }

    /// Maps versions in another order. Call before the first is accepted.
    pub fn set_order(&mut self, order: Order) {
        self.order = order;
    }

    /// What the map has for a unit.
    #[inline]
    pub fn entry(&self, unit: u32) -> Entry {
        self.map.entry(unit)
    }

    /// The physical unit that an entry of `unit` means; `NONE` if it means none. Not for a version's.
    #[inline]
    pub fn locate(&self, unit: u32, entry: Entry) -> u32 {
        self.map.locate(unit, entry)
    }

    /// Brings what the map has for a unit into the cache ahead of its use.
    #[inline]
    pub fn prefetch(&self, unit: u32) {
        self.map.prefetch(unit);
    }

    /// Brings into the cache what `install` of a version will need.
    #[inline]
    pub fn prefetch_version(&self, unit: u32, version: u32) {
        self.map.prefetch(unit);
        self.map.prefetch_valid(self.places[version as usize].ppn);
    }

    /// Where a unit is on flash, whose map entry is `entry`.
    #[inline]
    fn place(&self, unit: u32, entry: Entry) -> Resolved {
        match entry.as_slot() {
            Some(version) => self.places[version as usize],
            None => Resolved { entry, ppn: self.map.locate(unit, entry) },
        }
    }

    /// A version in the buffer is the newest of its unit, whose map entry was
    /// `entry`, and belongs to `places`; it carries the rest of its unit from the
    /// version `below`, if that is one. Where the unit is on flash, or `NONE`.
    pub fn cover(&mut self, unit: u32, entry: Entry, version: u32, places: &Places, below: u32) -> u32 {
        let place = self.place(unit, entry);
        let at = version as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, Resolved::NOWHERE);
        }
        self.places[at] = place;
        self.map.set(unit, Entry::slot(version));
        self.order.accepted(version, places, below);
        #[cfg(test)]
        self.note_accepted(version);
        place.ppn
    }

    /// Whether a write accepted now may go into a version that waits in the buffer.
    #[inline]
    pub fn may_coalesce(&self, version: u32, places: &Places) -> bool {
        self.order.may_coalesce(version, places)
    }

    /// A stream of ordered writes begins.
    pub fn stream_opened(&mut self, stream: u64) {
        self.order.opened(stream);
    }

    /// All versions of an epoch are accepted.
    pub fn epoch_completed(&mut self, stream: u64, epoch: u64) {
        self.order.completed(stream, epoch);
    }

    /// Nothing more of a stream will be accepted.
    pub fn stream_closed(&mut self, stream: u64) {
        self.order.closed(stream);
    }

    /// The first epoch of a stream of which something is not mapped, or may still come.
    pub fn first_epoch(&self, stream: u64) -> Option<u64> {
        self.order.get().first_epoch(stream)
    }

    /// Memory that the order takes.
    pub fn order_bytes(&self) -> u64 {
        self.order.get().memory_bytes()
    }

    /// A version is lost with the buffer: the unit is where flash has it.
    pub fn uncover(&mut self, unit: u32, version: u32) {
        if self.map.entry(unit) == Entry::slot(version) {
            self.map.set(unit, self.places[version as usize].entry);
        }
    }

    /// A version of a unit that somebody needs is on flash at `ppn`: whether it
    /// may be mapped now. If not, its place counts as valid until it is.
    #[inline]
    pub fn programmed(&mut self, unit: u32, version: u32, ppn: u32) -> order::Plan {
        let plan = self.order.programmed(version);
        if plan == order::Plan::Delay {
            self.delay(unit, version, ppn);
        }
        plan
    }

    fn delay(&mut self, unit: u32, version: u32, ppn: u32) {
        #[cfg(test)]
        if self.forgets_delayed {
            self.delayed.insert(version, ppn);
            return;
        }
        self.gain(unit, Resolved::at(ppn));
        self.delayed.insert(version, ppn);
    }

    /// A delayed version may be mapped now: it, and where it is on flash.
    #[inline]
    pub fn next_ready(&mut self) -> Option<(u32, u32)> {
        let version = self.order.next_ready()?;
        let ppn = self.delayed.remove(version)?;
        self.lose_delayed(ppn);
        Some((version, ppn))
    }

    /// Nobody needs a version any more that is not mapped. Again for the same one changes nothing.
    #[inline]
    pub fn dropped(&mut self, version: u32) {
        self.order.dropped(version);
        if let Some(ppn) = self.delayed.remove(version) {
            self.lose_delayed(ppn);
        }
    }

    /// The versions are lost with the buffer.
    pub fn drop_versions(&mut self) {
        self.order.clear();
        while let Some(ppn) = self.delayed.pop() {
            self.lose_delayed(ppn);
        }
    }

    fn lose_delayed(&mut self, ppn: u32) {
        #[cfg(test)]
        if self.forgets_delayed {
            return;
        }
        self.lose(ppn);
    }

    /// A version of a unit may be mapped to `ppn`, and none newer is on flash: maps it there.
    pub fn install(&mut self, unit: u32, version: u32, ppn: u32) {
        #[cfg(test)]
        self.note_mapped(unit, version);
        let entry = self.map.entry(unit);
        let place = self.place(unit, entry);
        self.note_undo(unit, place.entry);
        let holder = entry.as_slot().filter(|newest| *newest != version);
        self.relocate(unit, holder, place.ppn, Resolved::at(ppn));
        self.note_change(unit, Some(ppn));
        self.journal.entries += 1;
    }

    /// The journal is to say that a unit is at `ppn`, or nowhere.
    #[inline]
    fn note_change(&mut self, unit: u32, ppn: Option<u32>) {
        if let Some(flash) = &mut self.flash {
            flash.change(unit, ppn);
        }
    }

    #[cfg(test)]
    fn note_accepted(&mut self, version: u32) {
        let next = self.serials.values().max().map_or(1, |last| last + 1);
        self.serials.insert(version, next);
    }

    /// Panics if a unit's map goes back to an older version.
    #[cfg(test)]
    fn note_mapped(&mut self, unit: u32, version: u32) {
        let before = self.mapped.insert(unit, self.serials[&version]);
        assert!(
            before.is_none_or(|before| before < self.serials[&version]),
            "unit {unit} goes back to an older version"
        );
    }

    /// A unit of host data is programmed.
    #[inline]
    pub fn count_host_unit(&mut self) {
        self.host_units += 1;
    }

    /// A unit reads as zeroes from now on; its map entry was `entry`.
    pub fn unmap(&mut self, unit: u32, entry: Entry) {
        self.note_change(unit, None);
        let place = self.place(unit, entry);
        if place.ppn != NONE {
            self.note_undo(unit, place.entry);
            self.relocate(unit, None, place.ppn, Resolved::NOWHERE);
        } else if entry.as_slot().is_some() {
            self.map.set(unit, Entry::UNMAPPED);
        }
    }

    /// The content of a unit changed, which was at `from`: until the journal says so, a power cut takes it back.
    fn note_undo(&mut self, unit: u32, from: Entry) {
        if self.volatile {
            self.journal.note_undo(unit, from);
        }
    }

    /// A unit is moved from one physical unit to another; a newer version on
    /// flash makes the copy garbage.
    ///
    /// A move survives a power cut without the journal: the copy carries its
    /// logical address beside the data, and is as good as the original.
    pub fn moved(&mut self, unit: u32, from: u32, to: u32) {
        if let Some(flash) = &mut self.flash {
            flash.copy(unit, from, to);
        }
        let before = self.map.entry_for(from, self.blocks.is_initial(from));
        let entry = self.map.entry(unit);
        let holder = entry.as_slot();
        let current = holder.map_or(entry, |version| self.places[version as usize].entry) == before;
        #[cfg(test)]
        let current = current || self.ignores_validity;
        if current {
            self.relocate(unit, holder, from, Resolved::at(to));
            self.note_change(unit, Some(to));
            self.journal.entries += 1;
        } else if self.delayed.moved(from, to) {
            self.lose(from);
            self.gain(unit, Resolved::at(to));
            #[cfg(test)]
            if self.journals_delayed_moves {
                self.note_change(unit, Some(to));
            }
        }
    }

    /// A block is erased; `is_slc` says of which kind.
    pub fn erased(&mut self, block: u32, is_slc: bool) {
        self.blocks.erased(block, is_slc);
        if let Some(flash) = &mut self.flash {
            flash.erase(block, self.units_per_block);
        }
    }

    /// Changes a unit's place, in the map or beside the version that the map names, `holder`.
    fn relocate(&mut self, unit: u32, holder: Option<u32>, old: u32, to: Resolved) {
        if old != NONE {
            self.lose(old);
        }
        if to.ppn != NONE {
            self.gain(unit, to);
        }
        match holder {
            Some(version) => self.places[version as usize] = to,
            None => self.map.set(unit, to.entry),
        }
    }

    /// A physical unit is valid no more.
    #[inline]
    fn lose(&mut self, ppn: u32) {
        let block = ppn / self.units_per_block;
        debug_assert!(self.blocks.valid[block as usize] > 0, "{ppn} in block {block} that holds nothing");
        self.blocks.valid[block as usize] -= 1;
        self.map.flip_valid(ppn);
    }

    /// A physical unit is valid from now on: it holds `unit`.
    #[inline]
    fn gain(&mut self, unit: u32, place: Resolved) {
        self.blocks.valid[(place.ppn / self.units_per_block) as usize] += 1;
        self.map.flip_valid(place.ppn);
        if place.entry != Entry::INITIAL {
            self.map.set_owner(place.ppn, unit);
        }
    }

    /// The first unit of `units` that may be mapped or have a version: none of those before it has.
    pub fn first_candidate(&self, units: Range<u32>) -> Option<u32> {
        self.map.first_candidate(units)
    }

    /// The full block, among `candidates` of one die, whose collection pays best
    /// where there is room to move `movable` units. It becomes a victim.
    pub fn choose_victim(&mut self, candidates: Range<u32>, movable: u32) -> Option<u32> {
        let (capacity, host_units) = (self.units_per_block, self.host_units);
        let view = View { blocks: &self.blocks, candidates, capacity, movable, host_units };
        let Plan::Collect { block } = self.policy.choose(&view) else { return None };
        self.blocks.take_victim(block);
        if std::mem::take(&mut self.blocks.veiled[block as usize]) {
            self.map.expose(block / self.blocks_per_die, block % self.blocks_per_die);
        }
        Some(block)
    }

    /// The block being filled is full.
    pub fn close_block(&mut self, block: u32) {
        self.blocks.close(block, self.host_units);
    }

    /// Whether a physical unit of a victim is valid.
    #[inline]
    pub fn is_valid(&self, ppn: u32) -> bool {
        self.map.is_valid(ppn)
    }

    /// The logical unit that a victim's physical unit holds, if that is valid;
    /// `initial` says that the place is as initially.
    #[inline]
    pub fn valid_unit(&self, ppn: u32, initial: bool) -> Option<u32> {
        let valid = self.map.is_valid(ppn);
        #[cfg(test)]
        let valid = valid || (self.ignores_validity && self.map.owner(ppn, initial) != NONE);
        valid.then(|| self.map.owner(ppn, initial))
    }

    /// Address space of the map's two tables in bytes; resident only as touched.
    pub fn table_bytes(&self) -> u64 {
        self.map.table_bytes()
    }

    /// Panics with the first disagreement between the tables. Takes time in
    /// proportion to the device's size.
    #[cfg(test)]
    pub fn check_invariants(&self, layout: &Layout) {
        use super::blocks::BlockState;
        let mut valid = vec![0_u32; layout.blocks() as usize];
        let mut held = vec![false; layout.blocks() as usize * layout.units_per_block() as usize];
        for unit in 0..layout.logical_units() {
            let Resolved { entry, ppn } = self.place(unit, self.map.entry(unit));
            assert_eq!(ppn, self.map.locate(unit, entry), "the place of unit {unit}");
            if ppn == NONE {
                continue;
            }
            let block = ppn / layout.units_per_block();
            let initial = self.blocks.is_initial(ppn);
            assert_eq!(self.map.owner(ppn, initial), unit, "the reverse map of {ppn} in block {block}");
            assert_eq!(self.map.entry_for(ppn, initial), entry, "unit {unit} in block {block}");
            assert_ne!(self.blocks.state[block as usize], BlockState::Free, "unit {unit} is in a free block");
            valid[block as usize] += 1;
            held[ppn as usize] = true;
        }
        for ppn in self.delayed.places() {
            let block = ppn / layout.units_per_block();
            assert_ne!(self.blocks.state[block as usize], BlockState::Free, "{ppn} is delayed in a free block");
            valid[block as usize] += 1;
            held[ppn as usize] = true;
        }
        assert_eq!(valid, self.blocks.valid, "valid counts");
        for (ppn, held) in (0..).zip(held) {
            let block = ppn / layout.units_per_block();
            let initially = self.blocks.veiled[block as usize] && self.map.owner(ppn, true) != NONE;
            assert_eq!(self.map.is_valid(ppn) ^ initially, held, "validity of {ppn} in block {block}");
        }
    }
}
