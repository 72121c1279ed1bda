//! Seeded random numbers, one stream per named component.

use rand::SeedableRng;
/// The generator: small, fast, and the same on every platform.
pub use rand_xoshiro::Xoshiro256PlusPlus as Rng;

/// The stream of component `name` under `seed`.
///
/// Streams are independent of each other and of the order in which they are
/// made, so adding a component never changes another's numbers.
pub fn stream(seed: u64, name: &str) -> Rng {
    // FNV-1a over the name, then mixed with the seed; `seed_from_u64` expands it.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    Rng::seed_from_u64(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, RngExt};

    /// These values are part of every result: they must never change. Worked
    /// out apart from this code, from the definitions of FNV-1a, SplitMix64 and
    /// xoshiro256++.
    #[test]
    fn first_values_are_fixed() {
        let first = |seed, name: &str| {
            let mut rng = stream(seed, name);
            [rng.next_u64(), rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(first(0, ""), [0xc7c9_810f_3d1c_f2b7, 0x1bc4_7e21_0716_5ab2, 0x2563_b8b8_ca5b_dbb5]);
        assert_eq!(first(1, "ftl"), [0x2aa6_5ed0_c81a_7d24, 0x3dc8_e208_1613_b1fe, 0x58cb_9126_b518_80c3]);
        assert_eq!(first(1, "job 0"), [0x4dfe_bf6e_18ca_ec65, 0xac55_4fcf_1266_c80a, 0xf3f4_b881_5482_edfa]);
    }

    #[test]
    fn a_stream_depends_on_its_seed_and_name_alone() {
        let mut one = stream(7, "gc");
        let mut other = stream(7, "workload");
        other.next_u64();
        let mut again = stream(7, "gc");
        for _ in 0..100 {
            assert_eq!(one.next_u64(), again.next_u64());
        }
    }

    /// Streams of near seeds and near names: the correlation of two of them
    /// over n draws has a standard deviation of 1 / sqrt(n).
    #[test]
    fn streams_are_independent() {
        let n = 20_000;
        let mut streams = Vec::new();
        for seed in 0..4 {
            for name in ["job 0", "job 1", "ssd", "ftl"] {
                let mut rng = stream(seed, name);
                streams.push((0..n).map(|_| rng.random::<f64>() - 0.5).collect::<Vec<_>>());
            }
        }
        let bound = 5.0 / f64::from(n).sqrt();
        for (i, a) in streams.iter().enumerate() {
            let mean = a.iter().sum::<f64>() / f64::from(n);
            assert!(mean.abs() < bound * (1.0_f64 / 12.0).sqrt(), "stream {i} has a mean of {mean}");
            for (j, b) in streams.iter().enumerate().skip(i + 1) {
                let product: f64 = a.iter().zip(b).map(|(x, y)| x * y).sum();
                let correlation = product / f64::from(n) * 12.0;
                assert!(correlation.abs() < bound, "streams {i} and {j} correlate by {correlation}");
            }
        }
    }
}
