//! Where the initial data lies.

use crate::config::{ConfigError, Layout, Overwritten, SsdConfig};
use crate::slab::NONE;

use super::overwritten::Scattered;

/// The initial place of every logical unit, as formulas.
#[derive(Clone)]
pub(crate) struct InitialLayout {
    /// Logical units that hold data: those below.
    filled: u32,
    placement: Placement,
    /// Copies of the layout's numbers, as the formulas need them.
    dies: u32,
    blocks_per_die: u32,
    superpages_per_block: u32,
    units_per_superpage: u32,
}

#[derive(Clone)]
enum Placement {
    /// Written once in order of address: superpages round-robin over the dies.
    Sequential,
    /// Overwritten at random until the blocks' fill no longer changes.
    Scattered(Box<Scattered>),
}

/// What the initial state says about a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InitialBlock {
    /// Units that hold data.
    pub valid: u32,
    /// Superpages written; the block is full at `superpages_per_block`.
    pub superpages: u32,
    /// Whether an open block is the collector's.
    pub gc: bool,
    /// Host units written to the device since it was filled.
    pub age: u64,
}

impl InitialLayout {
    /// The state that the configuration asks for.
    pub fn new(config: &SsdConfig, layout: &Layout) -> Result<Self, ConfigError> {
        let filled = (f64::from(layout.logical_units()) * config.initial.fill).round() as u32;
        let placement = if filled == 0 || config.initial.overwritten == Overwritten::Never {
            Placement::Sequential
        } else {
            Placement::Scattered(Box::new(Scattered::new(config, layout, filled)?))
        };
        Ok(Self {
            filled,
            placement,
            dies: layout.dies,
            blocks_per_die: layout.blocks_per_die,
            superpages_per_block: layout.superpages_per_block,
            units_per_superpage: layout.units_per_superpage,
        })
    }

    /// The same under another seed, which says only which of overwritten units lies where: blocks are as full.
    pub fn seeded(&self, seed: u64) -> Self {
        let placement = match &self.placement {
            Placement::Sequential => Placement::Sequential,
            Placement::Scattered(scattered) => Placement::Scattered(Box::new(scattered.seeded(seed))),
        };
        Self { placement, ..self.clone() }
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
        match &self.placement {
            Placement::Sequential => {
                let stripe = unit / self.units_per_superpage;
                let (die, row) = (stripe % self.dies, stripe / self.dies);
                let (index, superpage) = (row / self.superpages_per_block, row % self.superpages_per_block);
                let block = die * self.blocks_per_die + index;
                (block * self.superpages_per_block + superpage) * self.units_per_superpage
                    + unit % self.units_per_superpage
            }
            Placement::Scattered(scattered) => scattered.locate(unit),
        }
    }

    /// The unit at a place of a block as initially, or `NONE`.
    #[inline]
    pub fn owner(&self, ppn: u32) -> u32 {
        match &self.placement {
            Placement::Sequential => {
                let stripe = ppn / self.units_per_superpage;
                let (block, superpage) = (stripe / self.superpages_per_block, stripe % self.superpages_per_block);
                let (die, index) = (block / self.blocks_per_die, block % self.blocks_per_die);
                let row = u64::from(index) * u64::from(self.superpages_per_block) + u64::from(superpage);
                let unit = (row * u64::from(self.dies) + u64::from(die)) * u64::from(self.units_per_superpage)
                    + u64::from(ppn % self.units_per_superpage);
                if unit < u64::from(self.filled) { unit as u32 } else { NONE }
            }
            Placement::Scattered(scattered) => scattered.owner(ppn),
        }
    }

    /// Calls `held` for every physical unit of a block that holds data.
    pub fn for_each_held(&self, die: u32, index: u32, mut held: impl FnMut(u32)) {
        let first = (die * self.blocks_per_die + index) * self.superpages_per_block * self.units_per_superpage;
        let Some(block) = self.block(die, index) else { return };
        match &self.placement {
            // Only the very end of the data can be less than a superpage.
            Placement::Sequential => (first..first + block.valid).for_each(held),
            Placement::Scattered(_) => {
                let written = u64::from(block.superpages * self.units_per_superpage);
                for place in 0..u64::from(block.valid) {
                    held(first + (place * written / u64::from(block.valid)) as u32);
                }
            }
        }
    }

    /// What a block holds; `None` if it is free.
    pub fn block(&self, die: u32, index: u32) -> Option<InitialBlock> {
        match &self.placement {
            Placement::Sequential => {
                let stripes = self.filled.div_ceil(self.units_per_superpage);
                let superpages = stripes / self.dies + u32::from(die < stripes % self.dies);
                let superpages = superpages.saturating_sub(index.saturating_mul(self.superpages_per_block));
                let superpages = superpages.min(self.superpages_per_block);
                let first = (die * self.blocks_per_die + index) * self.superpages_per_block * self.units_per_superpage;
                // Only the very last superpage can be part empty.
                let last = first + superpages * self.units_per_superpage;
                let missing = (0..self.units_per_superpage.min(last - first))
                    .take_while(|back| self.owner(last - 1 - back) == NONE)
                    .count() as u32;
                let valid = superpages * self.units_per_superpage - missing;
                (superpages > 0).then_some(InitialBlock { valid, superpages, gc: false, age: 0 })
            }
            Placement::Scattered(scattered) => scattered.block(die, index),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::ByteSize;

    use super::*;
    use crate::config::{GcPolicyKind, HotCold, Initial};

    fn config(initial: Initial) -> SsdConfig {
        let mut config = SsdConfig::reference();
        config.namespaces = vec![ByteSize(256 << 20)];
        config.geometry.channels = 1;
        config.geometry.chips_per_channel = 1;
        config.geometry.dies_per_chip = 3;
        config.geometry.pages_per_block = 12;
        config.max_transfer = ByteSize(64 << 10);
        config.initial = initial;
        config
    }

    /// Forward and backward agree, and block counts match the units there.
    fn check(config: &SsdConfig) {
        let layout = config.layout().unwrap();
        let initial = InitialLayout::new(config, &layout).unwrap();
        let mut valid = vec![0; layout.blocks() as usize];
        let filled = (f64::from(layout.logical_units()) * config.initial.fill).round() as u32;
        for unit in 0..layout.logical_units() {
            let ppn = initial.locate(unit);
            assert_eq!(ppn != NONE, unit < filled);
            if ppn != NONE {
                assert_eq!(initial.owner(ppn), unit, "at {ppn}");
                valid[(ppn / layout.units_per_block()) as usize] += 1;
            }
        }
        let owned = |ppn: &u32| initial.owner(*ppn) != NONE;
        let all: Vec<_> = (0..layout.blocks() * layout.units_per_block()).filter(owned).collect();
        assert_eq!(all.len() as u32, filled);
        let mut held = Vec::new();
        for die in 0..layout.dies {
            (0..layout.blocks_per_die).for_each(|index| initial.for_each_held(die, index, |ppn| held.push(ppn)));
        }
        assert_eq!(held, all);
        for die in 0..layout.dies {
            let mut open = 0;
            for index in 0..layout.blocks_per_die {
                let block = initial.block(die, index);
                let count = valid[(die * layout.blocks_per_die + index) as usize];
                assert_eq!(block.map_or(0, |block| block.valid), count, "die {die} block {index}: {block:?}");
                open += u32::from(block.is_some_and(|block| block.superpages < layout.superpages_per_block));
            }
            assert!(open <= 2);
        }
    }

    /// What is shared under another seed is what would have been made under it.
    #[test]
    fn a_shared_layout_is_that_of_its_seed() {
        for overwritten in [Overwritten::Never, Overwritten::Uniform] {
            let under = |seed| config(Initial { fill: 0.9, overwritten, seed, ..Initial::default() });
            let layout = under(1).layout().unwrap();
            let made = |seed| InitialLayout::new(&under(seed), &layout).unwrap();
            let (first, second, shared) = (made(1), made(2), made(1).seeded(2));
            let differs = |one: &InitialLayout, other: &InitialLayout| {
                (0..layout.logical_units()).any(|unit| one.locate(unit) != other.locate(unit))
            };
            assert!(!differs(&shared, &second));
            assert_eq!(differs(&shared, &first), overwritten == Overwritten::Uniform);
            for (die, index) in
                (0..layout.dies).flat_map(|die| (0..layout.blocks_per_die).map(move |index| (die, index)))
            {
                assert_eq!(
                    first.block(die, index),
                    second.block(die, index),
                    "a seed says nothing of how full blocks are"
                );
            }
        }
    }

    #[test]
    fn formulas_invert_each_other() {
        for fill in [0.0, 0.001, 0.37, 0.9, 1.0] {
            check(&config(Initial { fill, ..Initial::default() }));
            check(&config(Initial { fill, overwritten: Overwritten::Uniform, ..Initial::default() }));
        }
        let hot = Some(HotCold { writes: 0.8, space: 0.2 });
        for policy in [GcPolicyKind::Greedy, GcPolicyKind::CostBenefit] {
            let mut config =
                config(Initial { fill: 1.0, overwritten: Overwritten::HotCold, hot, ..Initial::default() });
            config.gc.policy = policy;
            check(&config);
        }
    }
}
