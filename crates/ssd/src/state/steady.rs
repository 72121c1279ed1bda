//! How full each block is after long overwriting: a mean-field computation.
//!
//! One die stands for all. Instead of units, it moves expected counts: while
//! the host fills one block, the valid units of every other block decay at the
//! rate at which their class is overwritten; then the collector takes blocks by
//! the configured policy's own rule, and their units fill the collector's
//! block. This is the large-block limit in which published analyses of greedy
//! and cost-benefit collection work (Desnoyers, Analytic Modeling of SSD Write
//! Performance, SYSTOR 2012; Van Houdt, A Mean Field Model for a Class of
//! Garbage Collection Algorithms, SIGMETRICS 2013). It runs until the write
//! amplification of successive rounds agrees.

use crate::config::GcPolicyKind;

/// Classes of logical units: hot (or all of them), cold.
pub(super) const CLASSES: usize = 2;

/// What decides the steady state.
pub(super) struct Workload {
    /// Normal blocks of a die.
    pub blocks: usize,
    /// Units of a block.
    pub block_units: f64,
    /// Units of each class on a die.
    pub units: [f64; CLASSES],
    /// Share of the writes that goes to each class.
    pub writes: [f64; CLASSES],
    pub policy: GcPolicyKind,
    pub start_below: usize,
    pub stop_at: usize,
}

/// A block in the steady state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Filled {
    /// Valid units of each class.
    pub valid: [f64; CLASSES],
    /// Host units written since it was filled.
    pub age: f64,
    /// Share of the block written: 1 but for the open ones.
    pub written: f64,
}

/// The blocks of a die.
#[derive(Clone, Debug)]
pub(super) struct Steady {
    /// Full blocks, oldest first.
    pub closed: Vec<Filled>,
    /// The host's open block.
    pub host: Filled,
    /// The collector's open block.
    pub gc: Filled,
}

/// Rounds of overwriting the die after which the computation stops anyway.
const ROUNDS_MAX: usize = 60;

impl Workload {
    /// The steady state, or `None` where nothing is ever collected.
    pub fn solve(&self) -> Option<Steady> {
        let total: f64 = self.units.iter().sum();
        if total <= 0.0 {
            return None;
        }
        // All data in full blocks, in the proportion of the classes, to begin with.
        let data_blocks = (total / self.block_units).ceil() as usize;
        let share = |class: usize| self.units[class] / data_blocks as f64;
        let block = Filled { valid: [share(0), share(1)], age: 0.0, written: 1.0 };
        let mut die = Die {
            workload: self,
            closed: vec![block; data_blocks],
            host: Filled::default(),
            gc: Filled::default(),
            free: self.blocks.checked_sub(data_blocks + 2)?,
            moved: 0.0,
        };
        let mut before = f64::INFINITY;
        for _ in 0..ROUNDS_MAX {
            die.moved = 0.0;
            for _ in 0..self.blocks {
                die.fill_host_block()?;
            }
            let amplification = 1.0 + die.moved / (self.blocks as f64 * self.block_units);
            if die.moved > 0.0 && (amplification / before - 1.0).abs() < 1e-3 {
                break;
            }
            before = amplification;
        }
        // Half of the host's block, as at any moment on average.
        die.write(self.block_units / 2.0);
        die.closed.sort_by(|a, b| b.age.total_cmp(&a.age));
        Some(Steady { closed: die.closed, host: die.host, gc: die.gc })
    }

    /// Probability that one host write hits a given unit of the class.
    fn rate(&self, class: usize) -> f64 {
        if self.units[class] > 0.0 { self.writes[class] / self.units[class] } else { 0.0 }
    }

    fn worth(&self, block: &Filled) -> f64 {
        let valid = block.valid.iter().sum::<f64>().max(1e-9);
        match self.policy {
            GcPolicyKind::Greedy => -valid,
            GcPolicyKind::CostBenefit => (block.age + 1.0) * (self.block_units - valid) / valid,
        }
    }
}

struct Die<'a> {
    workload: &'a Workload,
    closed: Vec<Filled>,
    host: Filled,
    gc: Filled,
    free: usize,
    /// Units moved in this round.
    moved: f64,
}

impl Die<'_> {
    /// The host writes `units` into its open block; everything else decays.
    fn write(&mut self, units: f64) {
        let kept: [f64; CLASSES] = std::array::from_fn(|class| (-self.workload.rate(class) * units).exp());
        for block in self.closed.iter_mut().chain([&mut self.gc, &mut self.host]) {
            for (valid, kept) in block.valid.iter_mut().zip(kept) {
                *valid *= kept;
            }
            block.age += units;
        }
        // What was overwritten is what is new: the classes keep their sizes.
        for ((valid, units), kept) in self.host.valid.iter_mut().zip(self.workload.units).zip(kept) {
            *valid += units * (1.0 - kept);
        }
        self.host.written += units / self.workload.block_units;
    }

    fn fill_host_block(&mut self) -> Option<()> {
        self.write(self.workload.block_units);
        self.closed.push(Filled { age: 0.0, written: 1.0, ..std::mem::take(&mut self.host) });
        self.free = self.free.checked_sub(1)?;
        if self.free >= self.workload.start_below {
            return Some(());
        }
        while self.free < self.workload.stop_at {
            self.collect()?;
        }
        Some(())
    }

    fn collect(&mut self) -> Option<()> {
        let workload = self.workload;
        let worth = |block: &Filled| workload.worth(block);
        let best = (0..self.closed.len()).max_by(|a, b| worth(&self.closed[*a]).total_cmp(&worth(&self.closed[*b])))?;
        let victim = self.closed.swap_remove(best);
        let valid: f64 = victim.valid.iter().sum();
        let share = valid / workload.block_units;
        if share > 0.9999 {
            return None;
        }
        self.free += 1;
        self.moved += valid;
        // Fill the collector's block; what does not fit opens the next.
        let fits = if share > 0.0 { ((1.0 - self.gc.written) / share).min(1.0) } else { 1.0 };
        self.gc.take(&victim, fits, share);
        if fits < 1.0 {
            self.closed.push(Filled { age: 0.0, written: 1.0, ..std::mem::take(&mut self.gc) });
            self.free = self.free.checked_sub(1)?;
            self.gc.take(&victim, 1.0 - fits, share);
        }
        Some(())
    }
}

impl Filled {
    /// Takes a part of a victim whose valid units are `share` of a block.
    fn take(&mut self, victim: &Filled, part: f64, share: f64) {
        for (valid, moved) in self.valid.iter_mut().zip(victim.valid) {
            *valid += moved * part;
        }
        self.written += share * part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Write amplification of greedy collection under uniform random writes in
    /// the limit of large blocks, where alpha is physical over logical
    /// (Desnoyers 2012): A = alpha / (alpha + W(-alpha e^-alpha)).
    fn analytic(alpha: f64) -> f64 {
        let target = -alpha * (-alpha).exp();
        // Newton's method for w e^w = target on the principal branch.
        let mut w = -0.5_f64;
        for _ in 0..200 {
            w -= (w * w.exp() - target) / (w.exp() * (w + 1.0));
        }
        alpha / (alpha + w)
    }

    #[test]
    fn uniform_agrees_with_the_large_block_limit() {
        for spare in [0.07, 0.15, 0.28] {
            let blocks = 1000;
            let reserve = 4.0;
            let units = 1024.0;
            let data = f64::from(blocks - 4) * units / (1.0 + spare);
            let mut workload = Workload {
                blocks: blocks as usize,
                block_units: units,
                units: [data, 0.0],
                writes: [1.0, 0.0],
                policy: GcPolicyKind::Greedy,
                start_below: 3,
                stop_at: 3,
            };
            for policy in [GcPolicyKind::Greedy, GcPolicyKind::CostBenefit] {
                workload.policy = policy;
                let steady = workload.solve().unwrap();
                let victim = steady.closed.iter().map(|b| b.valid[0]).fold(f64::INFINITY, f64::min) / units;
                let expected = analytic((f64::from(blocks) - reserve) * units / data);
                let actual = 1.0 / (1.0 - victim);
                assert!((actual / expected - 1.0).abs() < 0.02, "{spare} {policy:?}: {actual} against {expected}");
                let held: f64 = steady.closed.iter().chain([&steady.host, &steady.gc]).map(|b| b.valid[0]).sum();
                assert!((held / data - 1.0).abs() < 1e-6, "{held} of {data}");
            }
        }
    }
}
