//! Rows on their way to flash.

use crate::config::Layout;
use crate::slab::Slab;

/// Rows being programmed, and the units they carry.
pub(super) struct Rows {
    pub slab: Slab<Row>,
    /// `width` units of every row.
    pub units: Vec<RowUnit>,
    pub width: usize,
}

/// One programming operation's worth of units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub die: u32,
    pub block: u32,
    /// First physical unit.
    pub first: u32,
    /// Units in it.
    pub count: u32,
}

/// A row filled with surviving writes after a power cut.
#[derive(Clone, Copy)]
pub(super) struct RecoveryRow {
    pub row: Row,
    /// Units that it takes.
    pub width: u32,
}

impl RecoveryRow {
    /// Its next physical unit, if it has room.
    pub fn take(&mut self) -> Option<u32> {
        let at = self.row.count;
        (at < self.width).then(|| {
            self.row.count += 1;
            self.row.first + at
        })
    }
}

/// A unit in a row: a buffer slot, or a moved unit.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowUnit {
    /// Nothing.
    Empty,
    /// Host data in this slot.
    Slot(u32),
    /// A logical unit that lay at the physical unit `from`.
    Moved { unit: u32, from: u32 },
}

impl Rows {
    pub fn new(layout: &Layout) -> Self {
        let width = (layout.units_per_superpage * layout.superpages_per_row) as usize;
        Self { slab: Slab::with_capacity(64), units: Vec::new(), width }
    }

    /// A new row with no units yet.
    pub fn insert(&mut self, row: Row) -> u32 {
        let id = self.slab.insert(row);
        let end = (id as usize + 1) * self.width;
        if self.units.len() < end {
            self.units.resize(end, RowUnit::Empty);
        }
        id
    }

    pub fn push(&mut self, id: u32, unit: RowUnit) {
        let row = &mut self.slab[id];
        self.units[id as usize * self.width + row.count as usize] = unit;
        row.count += 1;
    }

    /// Frees the row; its place then counts no units.
    pub fn remove(&mut self, id: u32) {
        self.slab[id].count = 0;
        self.slab.remove(id);
    }

    pub fn unit(&self, id: u32, index: u32) -> RowUnit {
        self.units[id as usize * self.width + index as usize]
    }
}
