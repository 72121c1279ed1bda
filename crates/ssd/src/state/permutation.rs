//! A keyed permutation of 0..n that needs no table.

/// A generalised Feistel network on `a x 2^k >= n` (Black and Rogaway, Ciphers
/// with Arbitrary Finite Domains, 2002), walked until it lands below `n`. The
/// domain is less than `2^k`, about the root of `n`, too large, so a second
/// step is rare.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    n: u32,
    a: u32,
    right_bits: u32,
    keys: [u32; ROUNDS],
}

const ROUNDS: usize = 4;

impl Permutation {
    /// The permutation of `0..n` under `seed`.
    pub fn new(n: u32, seed: u64) -> Self {
        let right_bits = (32 - n.leading_zeros()) / 2;
        let a = n.div_ceil(1 << right_bits).max(1);
        // SplitMix64 spreads the seed over the round keys.
        let mut state = seed;
        let keys = std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed >> 32) as u32
        });
        Self { n, a, right_bits, keys }
    }

    /// Where `x` goes.
    #[inline]
    pub fn forward(&self, x: u32) -> u32 {
        debug_assert!(x < self.n);
        let (bits, mask) = (self.right_bits, (1 << self.right_bits) - 1);
        let mut at = x;
        loop {
            let (mut left, mut right) = (at >> bits, at & mask);
            for pair in self.keys.chunks_exact(2) {
                left = add(left, round(right, pair[0], self.a), self.a);
                right = right.wrapping_add(round(left, pair[1], mask + 1)) & mask;
            }
            at = left << bits | right;
            if at < self.n {
                return at;
            }
        }
    }

    /// Where `y` comes from.
    #[inline]
    pub fn backward(&self, y: u32) -> u32 {
        debug_assert!(y < self.n);
        let (bits, mask) = (self.right_bits, (1 << self.right_bits) - 1);
        let mut at = y;
        loop {
            let (mut left, mut right) = (at >> bits, at & mask);
            for pair in self.keys.chunks_exact(2).rev() {
                right = right.wrapping_sub(round(left, pair[1], mask + 1)) & mask;
                left = sub(left, round(right, pair[0], self.a), self.a);
            }
            at = left << bits | right;
            if at < self.n {
                return at;
            }
        }
    }
}

/// A number below `modulus` that depends on all of `half` and `key`.
#[inline]
fn round(half: u32, key: u32, modulus: u32) -> u32 {
    let mut mixed = (half ^ key).wrapping_mul(0x9e37_79b1);
    mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85eb_ca77);
    mixed ^= mixed >> 13;
    ((u64::from(mixed) * u64::from(modulus)) >> 32) as u32
}

#[inline]
fn add(x: u32, y: u32, modulus: u32) -> u32 {
    let sum = x + y;
    if sum >= modulus { sum - modulus } else { sum }
}

#[inline]
fn sub(x: u32, y: u32, modulus: u32) -> u32 {
    if x >= y { x - y } else { x + modulus - y }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_permutation_and_its_inverse() {
        for n in [1, 2, 3, 7, 64, 1000, 4099] {
            let permutation = Permutation::new(n, 7);
            let mut seen = vec![false; n as usize];
            for x in 0..n {
                let y = permutation.forward(x);
                assert!(!std::mem::replace(&mut seen[y as usize], true), "{y} twice with n = {n}");
                assert_eq!(permutation.backward(y), x);
            }
        }
    }

    #[test]
    fn neighbours_part() {
        // Of consecutive inputs, the images should fall into each of 16 equal
        // bins equally often: chi-square with 15 degrees, 0.1 % at 37.7.
        let n = 1 << 20;
        let permutation = Permutation::new(n, 1);
        let mut bins = [0_u32; 16];
        for x in 5000..21_000 {
            bins[(permutation.forward(x) / (n / 16)) as usize] += 1;
        }
        let chi: f64 = bins.iter().map(|count| (f64::from(*count) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 37.7, "{chi} {bins:?}");
    }
}
