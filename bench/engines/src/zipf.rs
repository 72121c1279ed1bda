//! Ranks with Zipf's distribution: rank r comes as often as 1 / (r + 1)^0.99 says.
//!
//! By the inverse of the integral, which is exact enough from the second rank on and takes no table.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

const EXPONENT: f64 = 0.99;

pub fn rank(random: &mut Xoshiro256PlusPlus, count: u64) -> u64 {
    let power = 1.0 - EXPONENT;
    // Density over [1, count + 1), so that each rank has an interval of length 1.
    let top = ((count as f64 + 1.0).powf(power) - 1.0) / power;
    let at = random.random::<f64>() * top;
    let rank = (at * power + 1.0).powf(1.0 / power) - 1.0;
    (rank as u64).min(count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn low_ranks_come_often() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut first = [0u64; 2];
        for _ in 0..100_000 {
            if let Some(count) = first.get_mut(rank(&mut random, 1000) as usize) {
                *count += 1;
            }
        }
        // Of 1000, the sum of 1 / r^0.99 is 7.7; the integral over the first interval is 0.69 of 6.96.
        assert!((9000..11_000).contains(&first[0]), "{first:?}");
        assert!((5000..6500).contains(&first[1]), "{first:?}");
    }
}
