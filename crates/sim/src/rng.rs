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
