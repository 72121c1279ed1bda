//! The placement that long random overwriting leaves.

use std::sync::Arc;

use crate::config::{ConfigError, HotCold, Layout, SsdConfig};
use crate::slab::NONE;

use super::layout::InitialBlock;
use super::permutation::Permutation;
use super::steady::{CLASSES, Filled, Workload};

/// Units of each class in random order over blocks filled as computed.
///
/// Block index `k` is alike on every die: the units of a class that a stripe of
/// such blocks holds are dealt to the dies in turn, and lie evenly spread over
/// the block's written part.
#[derive(Clone)]
pub(super) struct Scattered {
    classes: [Class; CLASSES],
    stripes: Arc<[Stripe]>,
    dies: u32,
    blocks_per_die: u32,
    units_per_block: u32,
    units_per_superpage: u32,
}

#[derive(Clone)]
struct Class {
    /// First logical unit.
    first: u32,
    /// Logical units.
    count: u32,
    order: Permutation,
    /// Units of the class in the stripes before each stripe, and in all.
    before: Arc<[u32]>,
    /// Stripe of the first unit in each of `GUIDE` equal ranges of ranks.
    guide: Arc<[u32]>,
}

/// The blocks of one index on all dies.
struct Stripe {
    /// Units of each class on all dies.
    units: [u32; CLASSES],
    /// Superpages written.
    superpages: u32,
    gc: bool,
    age: u64,
}

const GUIDE: u64 = 1024;

/// Blocks of a die that the steady state is computed for at most; beyond,
/// neighbours in age share one result.
const BLOCKS_MAX: u32 = 1536;

impl Scattered {
    pub fn new(config: &SsdConfig, layout: &Layout, filled: u32) -> Result<Self, ConfigError> {
        let hot = config.initial.hot.unwrap_or(HotCold { writes: 1.0, space: 1.0 });
        let hot_units = (f64::from(filled) * hot.space).round() as u32;
        let counts = [hot_units, filled - hot_units];
        let writes = [hot.writes, 1.0 - hot.writes];
        let stripes = stripes(config, layout, counts, writes).ok_or(ConfigError::NoSteadyState)?;
        let seed = config.initial.seed;
        let class = |class: usize| {
            let mut before = vec![0];
            for stripe in &stripes {
                before.push(before[before.len() - 1] + stripe.units[class]);
            }
            let count = counts[class];
            let guide = (0..GUIDE)
                .map(|step| {
                    let rank = (step * u64::from(count) / GUIDE) as u32;
                    before.partition_point(|before| *before <= rank) as u32 - 1
                })
                .collect();
            let order = order(count, seed, class);
            Class { first: if class == 0 { 0 } else { counts[0] }, count, order, before: before.into(), guide }
        };
        Ok(Self {
            classes: [class(0), class(1)],
            stripes: stripes.into(),
            dies: layout.dies,
            blocks_per_die: layout.blocks_per_die,
            units_per_block: layout.units_per_block(),
            units_per_superpage: layout.units_per_superpage,
        })
    }

    /// The same under another seed.
    pub fn seeded(&self, seed: u64) -> Self {
        let mut other = self.clone();
        for (number, class) in other.classes.iter_mut().enumerate() {
            class.order = order(class.count, seed, number);
        }
        other
    }

    /// Units of a class in the stripe's block on a die.
    #[inline]
    fn held(&self, stripe: &Stripe, class: usize, die: u32) -> u32 {
        let units = stripe.units[class];
        units / self.dies + u32::from(die < units % self.dies)
    }

    /// The place of a unit that holds data.
    pub fn locate(&self, unit: u32) -> u32 {
        let number = usize::from(unit >= self.classes[1].first && self.classes[1].count > 0);
        let class = &self.classes[number];
        let rank = class.order.forward(unit - class.first);
        let mut index = class.guide[(u64::from(rank) * GUIDE / u64::from(class.count)) as usize] as usize;
        while class.before[index + 1] <= rank {
            index += 1;
        }
        let within = rank - class.before[index];
        let (die, mut place) = (within % self.dies, within / self.dies);
        let stripe = &self.stripes[index];
        let hot = self.held(stripe, 0, die);
        if number == 1 {
            place += hot;
        }
        let held = hot + self.held(stripe, 1, die);
        let written = stripe.superpages * self.units_per_superpage;
        let offset = u64::from(place) * u64::from(written) / u64::from(held);
        (die * self.blocks_per_die + index as u32) * self.units_per_block + offset as u32
    }

    /// The unit at a place of a block as initially, or `NONE`.
    pub fn owner(&self, ppn: u32) -> u32 {
        let (block, offset) = (ppn / self.units_per_block, ppn % self.units_per_block);
        let (die, index) = (block / self.blocks_per_die, (block % self.blocks_per_die) as usize);
        let Some(stripe) = self.stripes.get(index) else { return NONE };
        let hot = self.held(stripe, 0, die);
        let held = hot + self.held(stripe, 1, die);
        let written = stripe.superpages * self.units_per_superpage;
        if offset >= written || held == 0 {
            return NONE;
        }
        // The only place that could have been spread to this offset.
        let place = (u64::from(offset) * u64::from(held)).div_ceil(u64::from(written));
        if place >= u64::from(held) || place * u64::from(written) / u64::from(held) != u64::from(offset) {
            return NONE;
        }
        let (number, place) = if (place as u32) < hot { (0, place as u32) } else { (1, place as u32 - hot) };
        let class = &self.classes[number];
        class.first + class.order.backward(class.before[index] + place * self.dies + die)
    }

    pub fn block(&self, die: u32, index: u32) -> Option<InitialBlock> {
        let stripe = self.stripes.get(index as usize).filter(|stripe| stripe.superpages > 0)?;
        let valid = self.held(stripe, 0, die) + self.held(stripe, 1, die);
        Some(InitialBlock { valid, superpages: stripe.superpages, gc: stripe.gc, age: stripe.age })
    }
}

/// The order of a class's units.
fn order(count: u32, seed: u64, class: usize) -> Permutation {
    Permutation::new(count.max(1), seed.wrapping_add(class as u64))
}

/// The stripes of a steady device: full ones oldest first, then the two open ones.
fn stripes(config: &SsdConfig, layout: &Layout, counts: [u32; CLASSES], writes: [f64; CLASSES]) -> Option<Vec<Stripe>> {
    let dies = f64::from(layout.dies);
    let merged = layout.normal_blocks_per_die.div_ceil(BLOCKS_MAX);
    let blocks = layout.normal_blocks_per_die / merged;
    let block_units = f64::from(layout.units_per_block() * merged);
    let workload = Workload {
        blocks: blocks as usize,
        block_units,
        units: counts.map(|count| f64::from(count) / dies),
        writes,
        policy: config.gc.policy,
        start_below: (config.gc.start_below / merged).max(1) as usize,
        stop_at: (config.gc.stop_at / merged).max(1) as usize,
    };
    let steady = workload.solve()?;
    let merged_f = f64::from(merged);
    let closed = steady.closed.iter().flat_map(|block| std::iter::repeat_n((block, false), merged as usize));
    let all: Vec<(&Filled, bool)> = closed.chain([(&steady.host, false), (&steady.gc, true)]).collect();
    let mut stripes: Vec<Stripe> = all
        .iter()
        .map(|(block, gc)| {
            let rows = (block.written * f64::from(layout.superpages_per_block / layout.superpages_per_row)) as u32;
            Stripe {
                units: [0; CLASSES],
                superpages: rows * layout.superpages_per_row,
                gc: *gc,
                age: (block.age * dies) as u64,
            }
        })
        .collect();
    for (class, count) in counts.into_iter().enumerate() {
        deal(&mut stripes, class, count, layout, |index| all[index].0.valid[class] * dies / merged_f);
    }
    Some(stripes)
}

/// Gives each stripe its expected units of a class in whole numbers that sum to
/// `count` and fit.
fn deal(stripes: &mut [Stripe], class: usize, count: u32, layout: &Layout, expected: impl Fn(usize) -> f64) {
    let mut left = count;
    let room = |stripe: &Stripe| {
        let written = stripe.superpages * layout.units_per_superpage * layout.dies;
        // A class that does not divide by the dies puts one more on some of them.
        written.saturating_sub(stripe.units.iter().sum::<u32>() + layout.dies)
    };
    for (index, stripe) in stripes.iter_mut().enumerate() {
        let units = (expected(index) as u32).min(room(stripe)).min(left);
        stripe.units[class] += units;
        left -= units;
    }
    // What rounding left over goes to the youngest stripes with room.
    for stripe in stripes.iter_mut().rev() {
        let units = left.min(room(stripe));
        stripe.units[class] += units;
        left -= units;
    }
    debug_assert_eq!(left, 0, "the steady state has no room for its own units");
}
