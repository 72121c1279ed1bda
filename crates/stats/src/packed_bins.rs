//! A histogram's bins in few bytes: a large sweep holds thousands of them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Ascending (upper end of bin in nanoseconds, count), empty bins left out.
///
/// Kept as the distances between the ends and the counts, each in as many
/// bytes as its size needs (LEB128); written as a list of pairs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PackedBins {
    packed: Box<[u8]>,
}

impl PackedBins {
    /// The bins, ascending.
    pub fn iter(&self) -> Unpacked<'_> {
        Unpacked { rest: &self.packed, end: 0 }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }
}

/// The bins of a [`PackedBins`], ascending.
#[derive(Clone, Debug)]
pub struct Unpacked<'a> {
    rest: &'a [u8],
    end: u64,
}

impl Unpacked<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        let mut shift = 0;
        while shift < u64::BITS {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
        Some(value)
    }
}

impl Iterator for Unpacked<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        // What is packed are pairs, so the second is there when the first is.
        let distance = self.number()?;
        let count = self.number()?;
        self.end = self.end.wrapping_add(distance);
        Some((self.end, count))
    }
}

fn pack(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl FromIterator<(u64, u64)> for PackedBins {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(bins: I) -> Self {
        let mut packed = Vec::new();
        let mut last = 0u64;
        for (end, count) in bins {
            // Ends that do not ascend, as a damaged file may have them, come back as they were.
            pack(end.wrapping_sub(last), &mut packed);
            pack(count, &mut packed);
            last = end;
        }
        Self { packed: packed.into_boxed_slice() }
    }
}

impl fmt::Debug for PackedBins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for PackedBins {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for PackedBins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<(u64, u64)>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn bins_come_back(bins: Vec<(u64, u64)>) {
            let packed: PackedBins = bins.iter().copied().collect();
            proptest::prop_assert_eq!(packed.iter().collect::<Vec<_>>(), bins.clone());
            let text = serde_json::to_string(&packed).unwrap();
            proptest::prop_assert_eq!(&text, &serde_json::to_string(&bins).unwrap());
            proptest::prop_assert_eq!(serde_json::from_str::<PackedBins>(&text).unwrap(), packed);
        }
    }

    #[test]
    fn ordinary_bins_take_few_bytes() {
        let bins: PackedBins = (1..=300u64).map(|n| (n * 512, n % 100)).collect();
        assert!(bins.packed.len() <= 3 * 300, "{} bytes", bins.packed.len());
    }
}
