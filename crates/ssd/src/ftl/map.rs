//! Where each logical unit is, and what each physical unit holds.
//!
//! Both tables are zeroed memory that the system provides on first touch, and
//! zero means "as the initial state has it", so a device of any size and fill
//! is ready at once. Together they take 8 bytes per unit plus 4 for each spare one.

use crate::config::Layout;
use crate::slab::NONE;
use crate::state::InitialLayout;

/// An L2P entry: as initially, a flash address, a buffer slot, or nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry(u32);

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
    l2p: Vec<u32>,
    /// Physical to logical unit plus one; 0: as initially, or nothing.
    p2l: Vec<u32>,
    initial: InitialLayout,
}

impl Map {
    pub fn new(layout: &Layout, initial: InitialLayout) -> Self {
        Self {
            l2p: vec![0; layout.logical_units() as usize],
            p2l: vec![0; layout.blocks() as usize * layout.units_per_block() as usize],
            initial,
        }
    }

    #[inline]
    pub fn entry(&self, unit: u32) -> Entry {
        Entry(self.l2p[unit as usize])
    }

    #[inline]
    pub fn set(&mut self, unit: u32, entry: Entry) {
        self.l2p[unit as usize] = entry.0;
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

    /// The flash entry by which `unit` would be mapped to `ppn`; `untouched`
    /// says that the block is still in its initial state.
    #[inline]
    pub fn entry_for(&self, ppn: u32, untouched: bool) -> Entry {
        if untouched { Entry::INITIAL } else { Entry::flash(ppn) }
    }

    /// The logical unit last written to `ppn`, or `NONE`; valid only if the
    /// forward map agrees.
    #[inline]
    pub fn owner(&self, ppn: u32, untouched: bool) -> u32 {
        if untouched {
            return self.initial.owner(ppn);
        }
        // 0 wraps to NONE.
        self.p2l[ppn as usize].wrapping_sub(1)
    }

    #[inline]
    pub fn set_owner(&mut self, ppn: u32, unit: u32) {
        self.p2l[ppn as usize] = unit + 1;
    }

    /// Bytes of address space; resident only as touched.
    pub fn table_bytes(&self) -> u64 {
        4 * (self.l2p.len() as u64 + self.p2l.len() as u64)
    }
}
