//! Where each logical unit is, and what each physical unit holds.
//!
//! Both tables are zeroed memory that the system provides on first touch, and
//! zero means "as the initial state has it", so a device of any size and fill
//! is ready at once. With the validity bits they take 8.13 bytes per unit, and
//! 4.13 for each spare one. A page of the forward map that was never written is
//! not read either, since a read would have the system provide it: what goes
//! over a whole new drive (a discard of all of it) takes no memory.

use std::ops::Range;

use super::table::Table;
use crate::config::Layout;
use crate::slab::NONE;
use crate::state::InitialLayout;

/// An L2P entry: as initially, a flash address, a buffer slot, or nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry(u32);

/// Entries of the forward map to one page of the system's memory.
const ENTRIES_PER_PAGE: usize = Table::<u32>::PER_PAGE;

/// Slots follow the flash addresses (see `config::check::MAX_UNITS`).
const SLOT_BASE: u32 = u32::MAX - (1 << 20);

impl Entry {
    /// As the initial state has it.
    pub const INITIAL: Self = Self(0);
    /// Deallocated: reads as zeroes.
    pub const UNMAPPED: Self = Self(u32::MAX);

    /// At a physical unit.
    #[inline]
    pub fn flash(ppn: u32) -> Self {
        debug_assert!(ppn + 1 < SLOT_BASE);
        Self(ppn + 1)
    }

    /// In a buffer slot, which remembers where on flash the unit is besides.
    #[inline]
    pub fn slot(slot: u32) -> Self {
        debug_assert!(slot < u32::MAX - SLOT_BASE);
        Self(SLOT_BASE + slot)
    }

    /// The buffer slot, if it is one.
    #[inline]
    pub fn as_slot(self) -> Option<u32> {
        (self.0 >= SLOT_BASE && self.0 != u32::MAX).then(|| self.0 - SLOT_BASE)
    }
}

impl Default for Entry {
    fn default() -> Self {
        Self::UNMAPPED
    }
}

/// The forward and the reverse map.
pub(crate) struct Map {
    /// Logical to physical unit, as `Entry`; `Entry::INITIAL` is 0.
    l2p: Table<u32>,
    /// Physical to logical unit plus one; 0: as initially, or nothing.
    p2l: Table<u32>,
    /// One bit per physical unit: whether it is valid. In a block that is as
    /// initially and was never a victim: whether that differs from the initial
    /// state, so that nothing need be written at the start.
    valid: Table<u64>,
    initial: InitialLayout,
}

impl Map {
    pub fn new(layout: &Layout, initial: InitialLayout) -> Self {
        let physical = layout.blocks() as usize * layout.units_per_block() as usize;
        Self {
            l2p: Table::new(layout.logical_units() as usize),
            p2l: Table::new(physical),
            valid: Table::new(physical.div_ceil(64)),
            initial,
        }
    }

    #[inline]
    pub fn entry(&self, unit: u32) -> Entry {
        let at = unit as usize;
        if self.l2p.is_written(at / ENTRIES_PER_PAGE) { Entry(self.l2p.get(at)) } else { Entry::INITIAL }
    }

    #[inline]
    pub fn set(&mut self, unit: u32, entry: Entry) {
        *self.l2p.at(unit as usize) = entry.0;
    }

    /// The first unit of `units` that may be mapped: none of those before it is,
    /// and most of them were not even looked at.
    #[inline]
    pub fn first_candidate(&self, units: Range<u32>) -> Option<u32> {
        let mut unit = units.start;
        while unit < units.end && !self.initial.holds(unit) {
            let page = unit as usize / ENTRIES_PER_PAGE;
            if self.l2p.is_written(page) {
                break;
            }
            unit = u32::try_from((page + 1) * ENTRIES_PER_PAGE).unwrap_or(u32::MAX);
        }
        (unit < units.end).then_some(unit)
    }

    /// The physical unit that a flash entry of `unit` means; `NONE` if it means none.
    #[inline]
    pub fn locate(&self, unit: u32, entry: Entry) -> u32 {
        debug_assert!(entry.as_slot().is_none());
        match entry {
            Entry::INITIAL => self.initial.locate(unit),
            Entry::UNMAPPED => NONE,
            Entry(code) => code - 1,
        }
    }

    /// Whether a flash entry of `unit` means any place.
    #[inline]
    pub fn is_mapped(&self, unit: u32, entry: Entry) -> bool {
        match entry {
            Entry::INITIAL => self.initial.holds(unit),
            other => other != Entry::UNMAPPED,
        }
    }

    /// The flash entry by which `unit` would be mapped to `ppn`; `initial`
    /// says that the place is as initially.
    #[inline]
    pub fn entry_for(&self, ppn: u32, initial: bool) -> Entry {
        if initial { Entry::INITIAL } else { Entry::flash(ppn) }
    }

    /// Notes that a physical unit became valid or ceased to be.
    #[inline]
    pub fn flip_valid(&mut self, ppn: u32) {
        *self.valid.at(ppn as usize / 64) ^= 1 << (ppn % 64);
    }

    /// Whether a physical unit is valid; of a block that was `expose`d if it is
    /// as initially.
    #[inline]
    pub fn is_valid(&self, ppn: u32) -> bool {
        self.valid.get(ppn as usize / 64) >> (ppn % 64) & 1 == 1
    }

    /// Makes the validity bits of a block as initially absolute (again relative,
    /// the second time).
    pub fn expose(&mut self, die: u32, index: u32) {
        let valid = &mut self.valid;
        self.initial.for_each_held(die, index, |ppn| *valid.at(ppn as usize / 64) ^= 1 << (ppn % 64));
    }

    /// Brings a unit's entry into the cache ahead of its use.
    #[inline]
    pub fn prefetch(&self, unit: u32) {
        prefetch(self.l2p.place(unit as usize));
    }

    /// Brings the validity of a physical unit into the cache; of `NONE`, nothing.
    #[inline]
    pub fn prefetch_valid(&self, ppn: u32) {
        prefetch(self.valid.place(ppn as usize / 64));
    }

    /// The logical unit last written to `ppn`, or `NONE`.
    #[inline]
    pub fn owner(&self, ppn: u32, initial: bool) -> u32 {
        if initial {
            return self.initial.owner(ppn);
        }
        // 0 wraps to NONE.
        self.p2l.get(ppn as usize).wrapping_sub(1)
    }

    #[inline]
    pub fn set_owner(&mut self, ppn: u32, unit: u32) {
        *self.p2l.at(ppn as usize) = unit + 1;
    }

    /// Bytes of address space; resident only as touched.
    pub fn table_bytes(&self) -> u64 {
        (self.l2p.bytes() + self.p2l.bytes() + self.valid.bytes()) as u64
    }
}

/// Asks for the cache line of `item`, if there is one.
#[inline]
fn prefetch<T>(item: Option<&T>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = item {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of a valid reference has no architectural effect.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = item;
}
