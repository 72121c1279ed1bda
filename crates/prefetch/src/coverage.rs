//! Which pages of a file were read, in a sample of them.
//!
//! Of every 2^s neighbouring pages, a stratum, one is in the sample, drawn by a hash of the stratum's number, and has a bit of its own. So
//! counts are exact for the sample, and a region of the file has the same share of it everywhere.

use crate::access::{Access, PAGE_BYTES};
use crate::mutant::{Mutant, mutated};

const WORDS: usize = 64;
/// The most pages of a file that are in the sample.
const MOST_STRATA: u64 = 64 * WORDS as u64;

/// Parts of a file that are told apart.
pub(crate) const REGIONS: usize = 32;
/// Of a smaller region a count would say little: of 64 pages with a fifth read, it errs by a quarter of that.
const LEAST_REGION_STRATA: u64 = 64;

/// How a file is divided.
pub(crate) struct Division {
    pub(crate) pages: u64,
    /// One page of 2^shift is in the sample.
    shift: u32,
    strata: u64,
    region_strata: u64,
}

/// One page of 2^shift is in the sample: one of four at most, so that most reads need no look at the table. Each read at random
/// comes here, so that every instruction counts; of a file without bytes nothing is read.
#[inline]
fn shift(file_bytes: u64) -> u32 {
    64 - ((file_bytes.wrapping_sub(1) / (PAGE_BYTES * MOST_STRATA)) | 2).leading_zeros()
}

/// The page of a stratum that is in the sample.
#[inline]
fn sampled(stratum: u64, shift: u32) -> u64 {
    stratum << shift | stratum.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - shift)
}

impl Division {
    pub(crate) fn of(file_bytes: u64) -> Self {
        let pages = file_bytes.div_ceil(PAGE_BYTES);
        let shift = shift(file_bytes);
        let strata = pages.div_ceil(1 << shift);
        let region_strata = strata.div_ceil(REGIONS as u64).max(1).next_multiple_of(LEAST_REGION_STRATA);
        Self { pages, shift, strata, region_strata }
    }

    /// All regions, a bit each.
    pub(crate) fn all(&self) -> u32 {
        let count = self.strata.div_ceil(self.region_strata);
        if count >= REGIONS as u64 { u32::MAX } else { (1 << count) - 1 }
    }

    /// Pages of a region.
    pub(crate) fn region_pages(&self) -> u64 {
        self.region_strata << self.shift
    }

    /// The region of a byte.
    pub(crate) fn region(&self, offset_bytes: u64) -> usize {
        ((offset_bytes / PAGE_BYTES / self.region_pages()) as usize).min(REGIONS - 1)
    }

    /// Strata of a region, of which the last may have fewer.
    pub(crate) fn strata_of(&self, region: usize) -> u64 {
        self.strata.saturating_sub(region as u64 * self.region_strata).min(self.region_strata)
    }

    /// Of a number of sampled pages, how many pages they stand for.
    pub(crate) fn estimate(&self, sampled: u32) -> u64 {
        u64::from(sampled).saturating_mul(1 << self.shift).min(self.pages)
    }
}

/// What was read of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coverage {
    /// A bit a stratum whose page was read.
    seen: [u64; WORDS],
    /// How many, by region.
    reads: [u16; REGIONS],
    /// In all.
    distinct: u32,
    /// What the file was divided by: of one that has grown much, everything is forgotten.
    shift: u32,
}

impl Coverage {
    /// Nothing was read.
    pub(crate) const NEW: Self = Self { seen: [0; WORDS], reads: [0; REGIONS], distinct: 0, shift: 0 };

    /// Whether an access reads a page of the sample.
    #[inline]
    pub(crate) fn samples(access: &Access, file_bytes: u64) -> bool {
        let shift = shift(file_bytes);
        let first = access.offset_bytes / PAGE_BYTES;
        // Of something that was read, which ends where a file can.
        let last = access.offset_bytes.wrapping_add(access.length_bytes).wrapping_sub(1) / PAGE_BYTES;
        let stratum = first >> shift;
        last >> shift != stratum || sampled(stratum, shift).wrapping_sub(first) <= last.wrapping_sub(first)
    }

    /// Bytes were read: how many pages of the sample were among them that had not been read before.
    pub(crate) fn read(&mut self, start_bytes: u64, end_bytes: u64, division: &Division) -> u32 {
        if self.shift != division.shift {
            *self = Self { shift: division.shift, ..Self::NEW };
        }
        let (first, end) = (start_bytes / PAGE_BYTES, end_bytes.div_ceil(PAGE_BYTES).min(division.pages));
        let before = self.distinct;
        for stratum in first >> division.shift..end.div_ceil(1 << division.shift).min(division.strata) {
            let (word, bit) = ((stratum / 64) as usize % WORDS, 1 << (stratum % 64));
            let is_known = self.seen[word] & bit != 0 && !mutated(Mutant::RereadsPay);
            if is_known || !(first..end).contains(&sampled(stratum, division.shift)) {
                continue;
            }
            self.seen[word] |= bit;
            let region = ((stratum / division.region_strata) as usize).min(REGIONS - 1);
            self.reads[region] = self.reads[region].saturating_add(1);
            self.distinct = self.distinct.saturating_add(1);
        }
        self.distinct.wrapping_sub(before)
    }

    /// Pages of the sample that were read, in a region.
    pub(crate) fn reads(&self, region: usize) -> u32 {
        self.reads.get(region).copied().unwrap_or(0).into()
    }

    /// The same in the whole file.
    pub(crate) fn distinct(&self) -> u32 {
        self.distinct
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is read, in whatever pieces: the sample has what a look at its pages would find.
        #[test]
        fn counts_are_those_of_the_sample(
            file_pages in 1..200_000u64,
            reads in prop::collection::vec((any::<u64>(), 1..300u64), 1..60),
        ) {
            let division = Division::of(file_pages * PAGE_BYTES);
            prop_assert!(division.strata <= MOST_STRATA);
            prop_assert!(division.strata.div_ceil(division.region_strata) <= REGIONS as u64);
            let mut coverage = Coverage::NEW;
            let mut model = std::collections::BTreeSet::new();
            for (at, pages) in reads {
                let first = at % file_pages;
                let end = (first + pages).min(file_pages);
                let access = Access { offset_bytes: first * PAGE_BYTES, length_bytes: (end - first) * PAGE_BYTES, lane: 0 };
                let found = coverage.read(first * PAGE_BYTES, end * PAGE_BYTES, &division);
                let of_sample = (0..division.strata)
                    .map(|stratum| sampled(stratum, division.shift))
                    .filter(|page| (first..end).contains(page));
                let new = of_sample.filter(|page| model.insert(*page)).count();
                prop_assert_eq!(found as usize, new);
                prop_assert!(new == 0 || Coverage::samples(&access, file_pages * PAGE_BYTES));
            }
            prop_assert_eq!(coverage.distinct() as usize, model.len());
            let by_region: u32 = (0..REGIONS).map(|region| coverage.reads(region)).sum();
            prop_assert_eq!(by_region, coverage.distinct());
            let strata: u64 = (0..REGIONS).map(|region| division.strata_of(region)).sum();
            prop_assert_eq!(strata, division.strata);
        }
    }
}
