//! Where the initial data lies.

use crate::config::Layout;
use crate::slab::NONE;

/// The initial place of every logical unit, as formulas.
pub(crate) struct InitialLayout {
    /// Logical units that hold data: those below.
    filled: u32,
    placement: Placement,
    layout: Layout,
}

enum Placement {
    /// Written once in order of address: superpages round-robin over the dies.
    Sequential,
}

impl InitialLayout {
    /// `filled` units written in order of address.
    pub fn sequential(layout: &Layout, filled: u32) -> Self {
        Self { filled, placement: Placement::Sequential, layout: layout.clone() }
    }

    /// Whether the unit holds data.
    #[inline]
    pub fn holds(&self, unit: u32) -> bool {
        unit < self.filled
    }

    /// The unit's place, or `NONE`.
    #[inline]
    pub fn locate(&self, unit: u32) -> u32 {
        if !self.holds(unit) {
            return NONE;
        }
        let layout = &self.layout;
        match &self.placement {
            Placement::Sequential => {
                let stripe = unit / layout.units_per_superpage;
                let (die, row) = (stripe % layout.dies, stripe / layout.dies);
                let (index, superpage) = (row / layout.superpages_per_block, row % layout.superpages_per_block);
                let block = die * layout.blocks_per_die + index;
                (block * layout.superpages_per_block + superpage) * layout.units_per_superpage
                    + unit % layout.units_per_superpage
            }
        }
    }

    /// The unit at a place of an untouched block, or `NONE`.
    #[inline]
    pub fn owner(&self, ppn: u32) -> u32 {
        let layout = &self.layout;
        let unit = match &self.placement {
            Placement::Sequential => {
                let stripe = ppn / layout.units_per_superpage;
                let (block, superpage) = (stripe / layout.superpages_per_block, stripe % layout.superpages_per_block);
                let (die, index) = (block / layout.blocks_per_die, block % layout.blocks_per_die);
                let row = u64::from(index) * u64::from(layout.superpages_per_block) + u64::from(superpage);
                (row * u64::from(layout.dies) + u64::from(die)) * u64::from(layout.units_per_superpage)
                    + u64::from(ppn % layout.units_per_superpage)
            }
        };
        if unit < u64::from(self.filled) { unit as u32 } else { NONE }
    }
}
