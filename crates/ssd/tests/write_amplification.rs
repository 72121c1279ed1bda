//! Write amplification against the published analysis, and the computed steady
//! state against the one that long writing reaches.

use crate::common::{Random, Rig, write};
use ssd::config::{GcPolicyKind, HotCold, Initial, Overwritten, SsdConfig};
use ssd::{Device, Ssd};
use units::ByteSize;

const BLOCKS: u32 = 400;

/// One die of 400 blocks of 384 units each, of which `spare` is not for data.
fn one_die(spare: f64) -> SsdConfig {
    let mut config = SsdConfig::reference();
    config.namespaces.clear();
    config.over_provisioning = Some(spare);
    config.geometry.channels = 1;
    config.geometry.chips_per_channel = 1;
    config.geometry.dies_per_chip = 1;
    config.geometry.blocks_per_plane = Some(BLOCKS);
    config.geometry.pages_per_block = 48;
    config.max_transfer = ByteSize(64 << 10);
    config.buffer.size = ByteSize(256 << 10);
    config.gc.start_below = 4;
    config.gc.stop_at = 4;
    config.initial = Initial { fill: 1.0, overwritten: Overwritten::Uniform, ..Initial::default() };
    config
}

/// Xiang and Kurkoski, An Improved Analytic Expression for Write Amplification
/// in NAND Flash, ICNC 2012 (the same limit as Desnoyers, SYSTOR 2012): greedy
/// collection, uniform random writes, large blocks. `alpha` is physical over
/// logical capacity, W the Lambert function:
/// A = 1 / (1 + W(-alpha e^-alpha) / alpha).
fn xiang_kurkoski(alpha: f64) -> f64 {
    let target = -alpha * (-alpha).exp();
    // The principal branch lies in (-1, 0); halving finds it.
    let (mut low, mut high) = (-1.0_f64, 0.0_f64);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if middle * middle.exp() < target { low = middle } else { high = middle }
    }
    1.0 / (1.0 + low / alpha)
}

struct Writer {
    rig: Rig<Ssd>,
    random: Random,
    hot: HotCold,
}

impl Writer {
    fn new(config: &SsdConfig) -> Self {
        let hot = config.initial.hot.unwrap_or(HotCold { writes: 1.0, space: 1.0 });
        Self { rig: Rig::new(Ssd::new(config).unwrap()), random: Random(11), hot }
    }

    fn blocks(&self) -> u64 {
        self.rig.device.identity().namespace_blocks[0]
    }

    /// Write amplification over the next `times` the logical capacity of writes.
    fn amplification(&mut self, times: f64) -> f64 {
        let blocks = self.blocks();
        let names = ["gc_moved_bytes", "destaged_bytes"];
        let before = names.map(|name| self.rig.counter(name));
        let (random, hot) = (&mut self.random, self.hot);
        let hot_blocks = (blocks as f64 * hot.space).round() as u64;
        self.rig.closed_loop(16, (blocks as f64 * times) as u64, || {
            let at = if random.share() <= hot.writes {
                random.below(hot_blocks)
            } else {
                hot_blocks + random.below(blocks - hot_blocks)
            };
            write(at, 1)
        });
        let [moved, written] = std::array::from_fn(|index| self.rig.counter(names[index]) - before[index]);
        1.0 + moved as f64 / written as f64
    }
}

fn assert_near(actual: f64, expected: f64, share: f64, what: &str) {
    let error = actual / expected - 1.0;
    assert!(error.abs() <= share, "{what}: {actual:.3} is {:.1} % off {expected:.3}", error * 100.0);
}

#[test]
fn greedy_agrees_with_xiang_and_kurkoski() {
    for spare in [0.07, 0.15, 0.28] {
        let mut config = one_die(spare);
        // The spare share is of what can hold data. A victim is chosen when the
        // host has opened a block and left three free; the collector's own open
        // block is half full on average.
        let usable = f64::from(BLOCKS) - 3.0 - 1.0 - 0.5;
        config.over_provisioning = Some(f64::from(BLOCKS) / (usable / (1.0 + spare)) - 1.0);
        let mut writer = Writer::new(&config);
        writer.amplification(1.0);
        let actual = writer.amplification(3.0);
        assert_near(actual, xiang_kurkoski(1.0 + spare), 0.05, &format!("spare {spare}"));
    }
}

#[test]
fn the_computed_state_is_the_one_that_writing_reaches() {
    for (spare, policy) in
        [(0.07, GcPolicyKind::Greedy), (0.28, GcPolicyKind::Greedy), (0.15, GcPolicyKind::CostBenefit)]
    {
        let mut config = one_die(spare);
        config.gc.policy = policy;
        let mut writer = Writer::new(&config);
        let at_once = writer.amplification(1.0);
        writer.amplification(2.0);
        let long_after = writer.amplification(1.0);
        assert_near(at_once, long_after, 0.04, &format!("{policy:?}, spare {spare}"));
    }
}

#[test]
fn hot_and_cold_start_steady_too() {
    for policy in [GcPolicyKind::Greedy, GcPolicyKind::CostBenefit] {
        let mut config = one_die(0.2);
        config.gc.policy = policy;
        config.initial.overwritten = Overwritten::HotCold;
        config.initial.hot = Some(HotCold { writes: 0.8, space: 0.2 });
        let mut writer = Writer::new(&config);
        let at_once = writer.amplification(1.0);
        writer.amplification(5.0);
        let long_after = writer.amplification(1.0);
        assert_near(at_once, long_after, 0.05, &format!("{policy:?}"));
    }
}

#[test]
fn wear_is_even() {
    let mut config = one_die(0.2);
    config.initial.pe_cycles = 1000;
    let mut writer = Writer::new(&config);
    writer.amplification(4.0);
    let (least, most) = writer.rig.device.wear();
    assert!(least >= 1000 && most > 1005, "{least}..{most}");
    assert!(f64::from(most - 1000) <= 3.0 * writer.rig.counter("erases") as f64 / f64::from(BLOCKS), "{least}..{most}");
}
