//! How long the next I/O is.

use sim::rng::Rng;

use super::below;
use crate::fio::parse::BlockSizes;

/// The lengths of one direction.
pub(super) struct Sizes {
    kind: Kind,
    min: u64,
}

enum Kind {
    Fixed,
    /// So many multiples of the smallest, from 1.
    Multiples(u64),
    /// Length, and the share of draws up to and with it in percent.
    Weighted(Vec<(u64, u64)>),
}

impl Sizes {
    pub fn new(sizes: &BlockSizes) -> Self {
        let kind = match sizes {
            BlockSizes::Fixed(_) => Kind::Fixed,
            BlockSizes::Range(low, high) => Kind::Multiples(high / low),
            BlockSizes::Split(parts) => {
                let mut up_to = 0;
                let cumulate = |&(bytes, percent): &(u64, u8)| {
                    up_to += u64::from(percent);
                    (bytes, up_to)
                };
                Kind::Weighted(parts.iter().map(cumulate).collect())
            }
        };
        Self { kind, min: sizes.min() }
    }

    /// The smallest length in bytes.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// A length in bytes.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match &self.kind {
            Kind::Fixed => self.min,
            Kind::Multiples(count) => self.min * (1 + below(rng, *count)),
            Kind::Weighted(parts) => {
                let drawn = below(rng, 100);
                parts.iter().find(|(_, up_to)| drawn < *up_to).map_or(self.min, |(bytes, _)| *bytes)
            }
        }
    }
}
