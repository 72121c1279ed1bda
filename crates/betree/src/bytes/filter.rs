//! Which keys a block does not have: Bloom filters, kept in the headers beside the pointers, so that a lookup reads no
//! block for nothing.

use crate::bytes::pointer::checksum;
use crate::mutant::{Mutant, mutated};

/// Bits that each key sets: near the best for 10 bits a key, where 8 of 1,000 other keys are taken for one of the block's; 4 with 12.
const PROBES: u32 = 6;

/// How many of 1,000,000 keys that none of so many filters was made of one of them admits nevertheless.
pub(crate) fn admitted_of_million(filters: usize, bits_per_key: usize) -> u64 {
    if bits_per_key == 0 {
        return 1_000_000;
    }
    let probes = f64::from(PROBES);
    let one = (1.0 - (-probes / bits_per_key as f64).exp()).powf(probes);
    (1e6 * (1.0 - (1.0 - one).powf(filters as f64))).round() as u64
}

/// What a filter sees of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    pub fn of(key: &[u8]) -> Self {
        Self(checksum(key) as u64)
    }
}

/// A Bloom filter. An empty one admits every key.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Filter {
    bits: Box<[u8]>,
}

impl Filter {
    /// Of these keys, with so many bits for each; none: every key is admitted.
    pub fn of(keys: &[KeyHash], bits_per_key: usize) -> Self {
        let mut filter = Self { bits: vec![0; (keys.len() * bits_per_key).div_ceil(8)].into() };
        for key in keys {
            if mutated(Mutant::FilterForgets) && key.0 % 4 == 0 {
                continue;
            }
            for probe in 0..PROBES {
                let (byte, mask) = filter.place(*key, probe);
                if let Some(byte) = filter.bits.get_mut(byte) {
                    *byte |= mask;
                }
            }
        }
        filter
    }

    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { bits: bytes.into() }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bits
    }

    /// Byte and bit of one probe.
    fn place(&self, key: KeyHash, probe: u32) -> (usize, u8) {
        // Two halves of the hash make as many as are needed (Kirsch and Mitzenmacher, 2006).
        let (first, second) = (key.0 as u32, (key.0 >> 32) as u32 | 1);
        let mixed = first.wrapping_add(second.wrapping_mul(probe));
        let bit = (u64::from(mixed) * (self.bits.len() as u64 * 8)) >> 32;
        ((bit / 8) as usize, 1 << (bit % 8))
    }

    /// Whether the block may have the key: always where it has.
    pub fn admits(&self, key: KeyHash) -> bool {
        (0..PROBES).all(|probe| {
            let (byte, mask) = self.place(key, probe);
            self.bits.get(byte).is_none_or(|byte| byte & mask != 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_there_is_admitted(keys in prop::collection::vec(any::<Vec<u8>>(), 0..200), bits in 0usize..20) {
            let hashes: Vec<KeyHash> = keys.iter().map(|key| KeyHash::of(key)).collect();
            let filter = Filter::of(&hashes, bits);
            let back = Filter::from_bytes(filter.bytes());
            prop_assert!(hashes.iter().all(|hash| filter.admits(*hash) && back.admits(*hash)));
        }
    }

    #[test]
    fn what_filters_admit_of_others_is_known() {
        let hash = |number: u64| KeyHash::of(&number.to_le_bytes());
        for bits in [4, 8, 10, 12] {
            let filters: Vec<Filter> = (0..9)
                .map(|filter| Filter::of(&(0..2000).map(|key| hash(filter * 2000 + key)).collect::<Vec<_>>(), bits))
                .collect();
            for count in [1, 3, 9] {
                let admits = |key: &u64| filters[..count].iter().any(|filter| filter.admits(hash(*key)));
                let admitted = (1_000_000..1_100_000).filter(admits).count() as u64 * 10;
                let known = admitted_of_million(count, bits);
                assert!(admitted * 4 > known * 3 && admitted * 3 < known * 4, "{count} of {bits}: {admitted}, {known}");
            }
        }
        assert_eq!(admitted_of_million(3, 0), 1_000_000);
    }

    #[test]
    fn little_else_is() {
        let hash = |number: u64| KeyHash::of(&number.to_le_bytes());
        let filter = Filter::of(&(0..1000).map(hash).collect::<Vec<_>>(), 10);
        assert_eq!(filter.bytes().len(), 1250);
        let admitted = (1000..101_000).filter(|number| filter.admits(hash(*number))).count();
        assert!((300..2000).contains(&admitted), "{admitted} of 100,000");
        assert!(Filter::default().admits(hash(1)));
    }
}
