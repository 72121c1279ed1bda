//! Random offsets that are not evenly likely.

use rand_distr::{Distribution as _, Normal, Zipf};
use sim::rng::Rng;

use super::permutation::Permutation;
use super::{below, unit};
use crate::fio::parse::Distribution;

/// Draws a block of `0..count`.
pub(super) enum Skew {
    Uniform {
        count: u64,
    },
    /// Ranks by popularity, spread over the region.
    Ranked {
        ranks: Ranks,
        order: Permutation,
        shift: u64,
        count: u64,
    },
    Normal {
        gauss: Normal<f64>,
        count: u64,
    },
    /// (share of draws up to and with it in percent, first block, blocks).
    Zoned(Vec<(u64, u64, u64)>),
}

pub(super) enum Ranks {
    Zipf(Zipf<f64>),
    /// The exponent to which fio raises a uniform number.
    Pareto(f64),
}

/// Draws outside the region before the nearest block inside is taken: with the
/// mean inside the region, half of all draws are, at the least.
const NORMAL_DRAWS_MAX: u32 = 64;

impl Skew {
    /// `distribution` over `count` blocks of `unit_bytes` each.
    pub fn new(distribution: &Distribution, count: u64, unit_bytes: u64, rng: &mut Rng) -> Self {
        let uniform = Self::Uniform { count };
        match distribution {
            Distribution::Uniform => uniform,
            Distribution::Zipf { theta, center } => match Zipf::new(count as f64, *theta) {
                Ok(zipf) => Self::ranked(Ranks::Zipf(zipf), *center, count, rng),
                Err(_) => uniform,
            },
            // fio (lib/zipf.c) raises a uniform number to ln h / ln (1 - h), so
            // that a share h of the blocks gets 1 - h of the accesses.
            Distribution::Pareto { h, center } => {
                Self::ranked(Ranks::Pareto(h.ln() / (1.0 - h).ln()), *center, count, rng)
            }
            Distribution::Normal { deviation_percent, center } => {
                match Normal::new(center * count as f64, deviation_percent / 100.0 * count as f64) {
                    Ok(gauss) => Self::Normal { gauss, count },
                    Err(_) => uniform,
                }
            }
            Distribution::Zoned(zones) => {
                let (mut first, mut up_to) = (0, 0);
                let mut parts = Vec::new();
                for zone in zones {
                    let bytes = zone.extent.of(count * unit_bytes, 0);
                    let blocks = (bytes / unit_bytes).min(count - first);
                    // A zone too small for a block, or past the end, draws nothing.
                    if blocks > 0 {
                        up_to += u64::from(zone.access_percent);
                        parts.push((up_to, first, blocks));
                        first += blocks;
                    }
                }
                if parts.is_empty() { uniform } else { Self::Zoned(parts) }
            }
        }
    }

    fn ranked(ranks: Ranks, center: Option<f64>, count: u64, rng: &mut Rng) -> Self {
        let order = Permutation::new(count, rng);
        // Shifted so that the most popular block lies at the center asked for.
        let shift = center.map_or(0, |center| {
            let target = (center * (count - 1) as f64).round() as u64;
            (target + count - order.at(0)) % count
        });
        Self::Ranked { ranks, order, shift, count }
    }

    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform { count } => below(rng, *count),
            Self::Ranked { ranks, order, shift, count } => {
                let rank = match ranks {
                    Ranks::Zipf(zipf) => zipf.sample(rng) as u64 - 1,
                    Ranks::Pareto(power) => ((count - 1) as f64 * unit(rng).powf(*power)) as u64,
                };
                (order.at(rank.min(count - 1)) + shift) % count
            }
            Self::Normal { gauss, count } => {
                let inside = 0.0..*count as f64;
                let mut drawn = gauss.sample(rng);
                for _ in 1..NORMAL_DRAWS_MAX {
                    if inside.contains(&drawn) {
                        break;
                    }
                    drawn = gauss.sample(rng);
                }
                (drawn.max(0.0) as u64).min(count - 1)
            }
            Self::Zoned(parts) => {
                let all = parts.last().map_or(1, |part| part.0).max(1);
                let drawn = below(rng, all);
                let (_, first, blocks) =
                    parts.iter().find(|(up_to, ..)| drawn < *up_to).or(parts.last()).copied().unwrap_or((0, 0, 1));
                first + below(rng, blocks)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::parse::{Extent, Zone};

    fn counts(distribution: &Distribution, blocks: u64, draws: u64) -> Vec<u64> {
        let mut rng = sim::rng::stream(3, "skew");
        let skew = Skew::new(distribution, blocks, 4096, &mut rng);
        let mut counts = vec![0; blocks as usize];
        for _ in 0..draws {
            counts[skew.draw(&mut rng) as usize] += 1;
        }
        counts
    }

    #[test]
    fn zipf_ranks_follow_the_law() {
        let mut counts = counts(&Distribution::Zipf { theta: 1.2, center: Some(0.25) }, 1001, 200_000);
        assert_eq!(counts.iter().enumerate().max_by_key(|(_, n)| **n).map(|(block, _)| block), Some(250));
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let zeta: f64 = (1..=1001).map(|rank| f64::from(rank).powf(-1.2)).sum();
        for (rank, seen) in [(1_i32, counts[0]), (2, counts[1]), (10, counts[9])] {
            let want = 200_000.0 * f64::from(rank).powf(-1.2) / zeta;
            assert!((seen as f64 - want).abs() < 5.0 * want.sqrt(), "rank {rank}: {seen}, not {want:.0}");
        }
    }

    #[test]
    fn pareto_gives_its_share() {
        let mut counts = counts(&Distribution::Pareto { h: 0.2, center: None }, 1000, 200_000);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hot: u64 = counts[..200].iter().sum();
        assert!((hot as f64 / 200_000.0 - 0.8).abs() < 0.01, "{hot} of 200000 fell on 20 % of the blocks");
    }

    #[test]
    fn normal_has_its_mean_and_deviation() {
        let counts = counts(&Distribution::Normal { deviation_percent: 10.0, center: 0.5 }, 1000, 100_000);
        let mean = counts.iter().zip(0..).map(|(n, block)| *n as f64 * f64::from(block)).sum::<f64>() / 1e5;
        let variance =
            counts.iter().zip(0..).map(|(n, b)| *n as f64 * (f64::from(b) - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 499.5).abs() < 2.0 && (variance.sqrt() - 100.0).abs() < 2.0, "{mean} {}", variance.sqrt());
    }

    #[test]
    fn zones_get_their_shares() {
        let zone = |access_percent, percent| Zone { access_percent, extent: Extent::Percent(percent) };
        let counts = counts(&Distribution::Zoned(vec![zone(60, 10), zone(30, 20), zone(10, 70)]), 1000, 100_000);
        let share = |range: std::ops::Range<usize>| counts[range].iter().sum::<u64>() as f64 / 1e5;
        for (range, want) in [(0..100, 0.6), (100..300, 0.3), (300..1000, 0.1)] {
            let got = share(range.clone());
            assert!((got - want).abs() < 0.01, "{range:?} got {got}");
        }
    }
}
