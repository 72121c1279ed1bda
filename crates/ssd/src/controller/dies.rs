//! What the translation layer is doing on each die, and rows on their way.

use units::Nanos;

use crate::config::Layout;
use crate::ftl::blocks::OpenBlock;
use crate::slab::{NONE, Slab};

/// Rows of host data that a die takes at a time: one being programmed, one
/// whose data is on its way.
pub(super) const HOST_ROWS_PER_DIE: u8 = 2;

/// The write streams and the collector of one die.
pub(super) struct DieStreams {
    pub host: OpenBlock,
    pub gc: OpenBlock,
    /// Rows of host data in flight.
    pub host_rows: u8,
    /// Rows of moved data in flight.
    pub gc_rows: u8,
    /// Whether free blocks fell below the low mark and have not recovered.
    pub collecting: bool,
    /// The block being read, and its next superpage.
    pub victim: u32,
    pub superpage: u32,
    /// Collector reads in flight: superpage numbers, oldest first.
    pub reading: [u32; COLLECTOR_READS],
    pub reads: usize,
    /// Units read and not yet programmed, with where they were: (logical, physical).
    pub pending: Vec<(u32, u32)>,
    /// Victims read to the end and not yet erased.
    pub doomed: u32,
    /// Of these, those whose units are all mapped elsewhere.
    pub erasing: u32,
    /// Blocks being collected and since when, for the trace.
    pub began: Vec<(u32, Nanos)>,
}

/// Collector reads in flight per die.
pub(super) const COLLECTOR_READS: usize = 2;

impl DieStreams {
    pub fn new(layout: &Layout) -> Self {
        let pending =
            Vec::with_capacity(layout.units_per_superpage as usize * (layout.superpages_per_row as usize + 3));
        Self {
            host: OpenBlock::NONE,
            gc: OpenBlock::NONE,
            host_rows: 0,
            gc_rows: 0,
            collecting: false,
            victim: NONE,
            superpage: 0,
            reading: [0; COLLECTOR_READS],
            reads: 0,
            pending,
            doomed: 0,
            erasing: 0,
            began: Vec::new(),
        }
    }

    pub fn all(layout: &Layout) -> Vec<Self> {
        (0..layout.dies).map(|_| Self::new(layout)).collect()
    }
}

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

/// A set of dies, searched round-robin.
pub(super) struct DieSet {
    words: Vec<u64>,
    dies: u32,
}

impl DieSet {
    pub fn new(dies: u32) -> Self {
        Self { words: vec![0; dies.div_ceil(64) as usize], dies }
    }

    pub fn put(&mut self, die: u32, member: bool) {
        let word = &mut self.words[die as usize / 64];
        let bit = 1 << (die % 64);
        *word = if member { *word | bit } else { *word & !bit };
    }

    /// The first member at or after `from`, going round once.
    pub fn next_from(&self, from: u32) -> Option<u32> {
        self.scan(from, self.dies).or_else(|| self.scan(0, from))
    }

    fn scan(&self, from: u32, to: u32) -> Option<u32> {
        let mut at = from;
        while at < to {
            let word = self.words[at as usize / 64] >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros();
                return (found < to).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dies_are_found_in_turn() {
        let mut set = DieSet::new(130);
        assert_eq!(set.next_from(5), None);
        for die in [3, 64, 129] {
            set.put(die, true);
        }
        let next = |from| set.next_from(from);
        assert_eq!([next(0), next(3), next(4), next(65), next(129)], [3, 3, 64, 129, 129].map(Some));
        set.put(129, false);
        assert_eq!(set.next_from(65), Some(3));
    }
}
