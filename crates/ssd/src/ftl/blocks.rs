//! The state of every block unit (one block index on all planes of a die).

use crate::config::Layout;
use crate::slab::NONE;
use crate::state::InitialLayout;

/// Where a block unit is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockState {
    /// Erased.
    Free,
    /// Being filled.
    Open,
    /// Full.
    Closed,
    /// Its valid units are being moved.
    Victim,
    /// Read to the end; waits for its units to be mapped elsewhere, and for the map journal.
    Doomed,
    /// Nothing needs it any more; it is being erased.
    Erasing,
}

/// All block units, as parallel arrays so that a scan of one die's valid counts
/// is a walk over consecutive words.
#[derive(Clone)]
pub(crate) struct Blocks {
    per_die: u32,
    units_per_block: u32,
    /// Units that the current map has in the block.
    pub valid: Vec<u32>,
    pub state: Vec<BlockState>,
    /// Units at its start that are as the initial state has them: none once erased.
    pub initial_units: Vec<u32>,
    /// Holds initial units, and its validity bits still relative (see `map::Map::expose`).
    pub veiled: Vec<bool>,
    /// Program/erase cycles.
    pub pe_cycles: Vec<u32>,
    /// Host units written to the device when the block was closed.
    pub closed_at: Vec<u64>,
    /// Rows being programmed.
    pub programming: Vec<u16>,
    /// Units picked up by the collector and not yet settled elsewhere.
    pub moving: Vec<u32>,
    free: Vec<FreeBlocks>,
}

/// Free blocks of one die.
#[derive(Clone, Default)]
struct FreeBlocks {
    normal: Vec<u32>,
    slc: Vec<u32>,
}

impl Blocks {
    pub fn new(layout: &Layout, pe_cycles: u32) -> Self {
        let count = layout.blocks() as usize;
        let per_die = layout.blocks_per_die;
        // Taken from the end: lowest index first.
        let free = (0..layout.dies)
            .map(|die| FreeBlocks {
                normal: (0..layout.normal_blocks_per_die).rev().map(|index| die * per_die + index).collect(),
                slc: (layout.normal_blocks_per_die..per_die).rev().map(|index| die * per_die + index).collect(),
            })
            .collect();
        Self {
            per_die,
            units_per_block: layout.units_per_block(),
            valid: vec![0; count],
            state: vec![BlockState::Free; count],
            initial_units: vec![0; count],
            veiled: vec![false; count],
            pe_cycles: vec![pe_cycles; count],
            closed_at: vec![0; count],
            programming: vec![0; count],
            moving: vec![0; count],
            free,
        }
    }

    /// The die of a block.
    #[inline]
    pub fn die(&self, block: u32) -> u32 {
        block / self.per_die
    }

    /// Whether a physical unit is as the initial state has it.
    #[inline]
    pub fn is_initial(&self, ppn: u32) -> bool {
        let block = ppn / self.units_per_block;
        ppn - block * self.units_per_block < self.initial_units[block as usize]
    }

    /// The blocks of a die.
    pub fn of_die(&self, die: u32) -> std::ops::Range<u32> {
        die * self.per_die..(die + 1) * self.per_die
    }

    /// Free normal blocks of a die.
    #[inline]
    pub fn free(&self, die: u32) -> u32 {
        self.free[die as usize].normal.len() as u32
    }

    /// Free SLC blocks of a die.
    #[inline]
    pub fn free_slc(&self, die: u32) -> u32 {
        self.free[die as usize].slc.len() as u32
    }

    /// Opens the least worn free block, the first to become free among equals.
    pub fn open(&mut self, die: u32, slc: bool) -> Option<u32> {
        let lists = &mut self.free[die as usize];
        let list = if slc { &mut lists.slc } else { &mut lists.normal };
        // The end of the list is the oldest entry, so prefer later positions.
        let at = (0..list.len()).rev().min_by_key(|at| self.pe_cycles[list[*at] as usize])?;
        let block = list.remove(at);
        debug_assert_eq!(self.state[block as usize], BlockState::Free);
        self.state[block as usize] = BlockState::Open;
        Some(block)
    }

    /// The block is full.
    pub fn close(&mut self, block: u32, host_units: u64) {
        debug_assert_eq!(self.state[block as usize], BlockState::Open);
        self.state[block as usize] = BlockState::Closed;
        self.closed_at[block as usize] = host_units;
    }

    /// The full block is to be collected.
    pub fn take_victim(&mut self, block: u32) {
        debug_assert_eq!(self.state[block as usize], BlockState::Closed);
        self.state[block as usize] = BlockState::Victim;
    }

    /// The block was erased.
    pub fn erased(&mut self, block: u32, slc: bool) {
        debug_assert_eq!((self.valid[block as usize], self.moving[block as usize]), (0, 0));
        debug_assert!(!self.veiled[block as usize]);
        let die = self.die(block) as usize;
        self.state[block as usize] = BlockState::Free;
        self.initial_units[block as usize] = 0;
        self.pe_cycles[block as usize] += 1;
        let lists = &mut self.free[die];
        let list = if slc { &mut lists.slc } else { &mut lists.normal };
        list.insert(0, block);
    }

    /// Puts every block into its initial state and returns the write clock.
    /// Open ones are handed to `open`: the die, whether the collector's, the block.
    pub fn fill(
        &mut self,
        layout: &Layout,
        initial: &InitialLayout,
        mut open: impl FnMut(u32, bool, OpenBlock),
    ) -> u64 {
        let mut oldest = 0;
        for die in 0..layout.dies {
            for index in 0..layout.normal_blocks_per_die {
                let Some(filled) = initial.block(die, index) else { continue };
                let block = die * self.per_die + index;
                let at = block as usize;
                self.valid[at] = filled.valid;
                self.initial_units[at] = filled.superpages * layout.units_per_superpage;
                self.veiled[at] = true;
                self.closed_at[at] = filled.age;
                oldest = oldest.max(filled.age);
                // Rows are programmed whole.
                let superpage = filled.superpages.next_multiple_of(layout.superpages_per_row);
                if superpage >= layout.superpages_per_block {
                    self.state[at] = BlockState::Closed;
                    continue;
                }
                self.state[at] = BlockState::Open;
                open(die, filled.gc, OpenBlock { block, superpage });
            }
            let state = &self.state;
            self.free[die as usize].normal.retain(|block| state[*block as usize] == BlockState::Free);
        }
        // Ages become times on a clock that stands at the oldest block's age.
        for (closed_at, initial) in self.closed_at.iter_mut().zip(&self.initial_units) {
            *closed_at = if *initial > 0 { oldest - *closed_at } else { 0 };
        }
        oldest
    }

    /// Free blocks of a die, for audits.
    #[cfg(test)]
    pub fn free_list(&self, die: u32) -> impl Iterator<Item = u32> + '_ {
        let lists = &self.free[die as usize];
        lists.normal.iter().chain(&lists.slc).copied()
    }
}

/// A block being filled, and how far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenBlock {
    pub block: u32,
    /// Next superpage to program.
    pub superpage: u32,
}

impl OpenBlock {
    /// None open.
    pub const NONE: Self = Self { block: NONE, superpage: 0 };
}
