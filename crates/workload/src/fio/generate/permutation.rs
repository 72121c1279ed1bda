//! A random order of 0..n that takes no memory.

use sim::rng::Rng;

/// A keyed bijection of `0..count`: an unbalanced Feistel network over the next
/// power of two, walked until it lands inside (Black and Rogaway, "Ciphers with
/// Arbitrary Finite Domains", CT-RSA 2002). It takes the place of fio's map of
/// used blocks: each block comes once, in an order that looks random.
pub(super) struct Permutation {
    count: u64,
    high_bits: u32,
    low_bits: u32,
    keys: [u64; ROUNDS],
}

/// Enough that short ranges still look shuffled.
const ROUNDS: usize = 6;

impl Permutation {
    /// An order of `0..count` drawn from `rng`.
    pub fn new(count: u64, rng: &mut Rng) -> Self {
        debug_assert!(count > 0);
        let bits = count.saturating_sub(1).checked_ilog2().map_or(1, |log| log + 1);
        let low_bits = bits / 2;
        let keys = std::array::from_fn(|_| rand::Rng::next_u64(rng));
        Self { count, high_bits: bits - low_bits, low_bits, keys }
    }

    /// The element at `position`, which is below `count`.
    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        debug_assert!(position < self.count);
        // The walk follows the cycle of `position`, which comes back to it at
        // the latest, so it ends; on average after less than two steps.
        let mut value = position;
        loop {
            value = self.scramble(value);
            if value < self.count {
                return value;
            }
        }
    }

    #[inline]
    fn scramble(&self, value: u64) -> u64 {
        let (high_mask, low_mask) = ((1_u64 << self.high_bits) - 1, (1_u64 << self.low_bits) - 1);
        let (mut high, mut low) = (value >> self.low_bits, value & low_mask);
        for pair in self.keys.chunks_exact(2) {
            high ^= mix(low ^ pair[0]) & high_mask;
            low ^= mix(high ^ pair[1]) & low_mask;
        }
        high << self.low_bits | low
    }
}

/// One multiplication and a fold: every input bit reaches the low output bits.
#[inline]
fn mix(value: u64) -> u64 {
    let product = u128::from(value) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_comes_once() {
        let mut rng = sim::rng::stream(1, "permutation");
        for count in (1..300).chain([1023, 1024, 1025, 65_537]) {
            let order = Permutation::new(count, &mut rng);
            let mut seen = vec![false; count as usize];
            for position in 0..count {
                let element = order.at(position) as usize;
                assert!(!std::mem::replace(&mut seen[element], true), "{element} of {count} came twice");
            }
        }
    }

    /// Chi-square over where each sixteenth of the order falls: 225 degrees of
    /// freedom, so a random order exceeds 330 about once in 10^5 draws.
    #[test]
    fn the_order_looks_random() {
        let mut rng = sim::rng::stream(2, "permutation");
        for count in [4096_u64, 100_000] {
            let order = Permutation::new(count, &mut rng);
            let mut cells = [0_u64; 256];
            for position in 0..count {
                cells[(position * 16 / count * 16 + order.at(position) * 16 / count) as usize] += 1;
            }
            let expected = count as f64 / 256.0;
            let chi: f64 = cells.iter().map(|seen| (*seen as f64 - expected).powi(2) / expected).sum();
            assert!(chi < 330.0, "chi-square {chi} over {count}");
            let ascending = (1..count).filter(|p| order.at(*p) == order.at(p - 1) + 1).count();
            assert!(ascending < 10, "{ascending} neighbours stayed neighbours");
        }
    }
}
