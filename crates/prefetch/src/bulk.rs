//! When parts of a file that is read at random are worth loading.
//!
//! A file is loaded in regions, of which the one that was read most goes first. **Rent**: one is loaded when the reads at random have cost
//! as much as loading all that was loaded and it. It is the ski rental problem (Karlin et al., Algorithmica 1988): reads are rent, the
//! load is the purchase, and nobody knows how many reads will come; who buys when the rent paid equals the price pays at most twice what
//! perfect foresight would, and no deterministic rule does better. That is a bound on time, not on bytes. **Credit**: of a file whose
//! readers turned just after they were known, which no honest program does for long, what was loaded so and not read stays below twice
//! what was read.
//!
//! Only a page's first read costs something, so what counts is how many different pages were read: estimated from a fixed sample of the
//! pages (spatial sampling by hash, as in SHARDS, Waldspurger et al., FAST 2015), in a table of bits.

use crate::access::{Access, PAGE_BYTES};
use crate::mutant::{Mutant, mutated};
use crate::plan::Plan;
use crate::policy::Host;

const WORDS: usize = 32;
/// The most pages of a file that are in the sample.
const SAMPLED_PAGES: u64 = 64 * WORDS as u64;

/// Parts of a file that are loaded at once.
const REGIONS: usize = 64;
/// They are no smaller than the kernel's usual request.
const LEAST_REGION_PAGES: u64 = (128 << 10) / PAGE_BYTES;

/// Pages that may be loaded and unread for each two that were read, where readers disappointed: below twice, since the sample errs.
const DOUBTED_CREDIT: u64 = 3;

/// What was read of a file at random.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// A bit a sampled page; two that share one count once, which delays the load.
    seen: [u64; WORDS],
    /// Different pages of the sample, by region.
    reads: [u16; REGIONS],
    /// A bit for each region that was loaded.
    loaded: u64,
    /// Different pages of the sample.
    distinct: u32,
    /// Of them, in regions that were loaded.
    used: u32,
}

impl Default for Bulk {
    fn default() -> Self {
        Self::NEW
    }
}

/// How a file is divided.
struct Division {
    pages: u64,
    region_pages: u64,
    /// One page of 2^shift is in the sample.
    shift: u32,
}

impl Division {
    fn of(file_bytes: u64) -> Self {
        let pages = file_bytes.div_ceil(PAGE_BYTES);
        let region_pages = pages.div_ceil(REGIONS as u64).max(LEAST_REGION_PAGES);
        Self { pages, region_pages, shift: shift(pages) }
    }

    /// All regions, a bit each.
    fn all(&self) -> u64 {
        let count = self.pages.div_ceil(self.region_pages);
        if count >= REGIONS as u64 { u64::MAX } else { (1 << count) - 1 }
    }

    fn region(&self, offset_bytes: u64) -> usize {
        ((offset_bytes / PAGE_BYTES / self.region_pages) as usize).min(REGIONS - 1)
    }

    /// Of a number of sampled pages, how many pages they stand for.
    fn estimate(&self, sampled: u32) -> u64 {
        u64::from(sampled).saturating_mul(1 << self.shift.min(40))
    }
}

/// One page of 2^shift is in the sample: one of four at most, so that most reads need no look at the table.
#[inline]
fn shift(pages: u64) -> u32 {
    (64 - (pages / SAMPLED_PAGES).leading_zeros()).max(2)
}

#[inline]
fn hash(offset_bytes: u64) -> u64 {
    let hash = (offset_bytes / PAGE_BYTES).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

impl Bulk {
    /// Whether reads at this offset count.
    #[inline]
    pub fn samples(offset_bytes: u64, file_bytes: u64) -> bool {
        hash(offset_bytes) >> (64 - shift(file_bytes.div_ceil(PAGE_BYTES))) == 0
    }

    /// Nothing was read.
    pub const NEW: Self = Self { seen: [0; WORDS], reads: [0; REGIONS], loaded: 0, distinct: 0, used: 0 };

    /// Counts a read that no reader's window covers; the regions that are to be loaded now, if any. `doubted`: readers of the file
    /// disappointed lately.
    #[inline]
    pub fn pays(&mut self, access: &Access, file_bytes: u64, doubted: bool, host: &Host) -> Option<Plan> {
        if !Self::samples(access.offset_bytes, file_bytes) {
            return None;
        }
        let division = Division::of(file_bytes);
        let missing = division.all() & !self.loaded;
        if missing == 0 || !self.count(access, &division) {
            return None;
        }
        self.due(missing, &division, file_bytes, doubted, host)
    }

    /// Whether the read's page, which is in the sample, was not read before.
    fn count(&mut self, access: &Access, division: &Division) -> bool {
        let hash = hash(access.offset_bytes);
        let (word, bit) = (hash as usize / 64 % WORDS, 1u64 << (hash % 64));
        if self.seen[word] & bit != 0 && !mutated(Mutant::RereadsPay) {
            return false;
        }
        self.seen[word] |= bit;
        let region = division.region(access.offset_bytes);
        self.distinct = self.distinct.saturating_add(1);
        self.reads[region] = self.reads[region].saturating_add(1);
        if self.loaded >> region & 1 != 0 {
            self.used = self.used.saturating_add(1);
        }
        true
    }

    #[inline(never)]
    fn due(&mut self, missing: u64, division: &Division, file_bytes: u64, doubted: bool, host: &Host) -> Option<Plan> {
        let region_bytes = division.region_pages * PAGE_BYTES;
        let loaded_pages = u64::from(self.loaded.count_ones()).saturating_mul(division.region_pages);
        let read_pages = division.estimate(self.distinct);
        let unread_pages = loaded_pages.saturating_sub(division.estimate(self.used));
        let region_ns = host.pass_ns(region_bytes).max(1);
        let paid =
            (read_pages.saturating_mul(host.latency_ns) / region_ns).saturating_sub(self.loaded.count_ones().into());
        let credit_pages = (read_pages.saturating_mul(DOUBTED_CREDIT) / 2).saturating_sub(unread_pages);
        let credited = if doubted { credit_pages / division.region_pages } else { u64::MAX };
        let paid = if mutated(Mutant::PassAtOnce) { u64::MAX } else { paid };
        let credited = if mutated(Mutant::PassUnbounded) { u64::MAX } else { credited };
        // Of a file that does not fit, the first part would be gone before the last is there.
        let fits = u64::from(missing.count_ones()).saturating_mul(region_bytes).min(file_bytes) <= host.free_bytes;
        let affordable = paid.min(credited);
        if affordable == 0 || !fits && !mutated(Mutant::BudgetIgnored) {
            return None;
        }
        let is_missing = |region: &usize| missing >> region & 1 != 0;
        // Of several equal ones the first: they are neighbours.
        let best = (0..REGIONS).rev().filter(is_missing).max_by_key(|region| self.reads[*region])?;
        // And those behind it, as far as they are paid for.
        let count = (best..REGIONS).take_while(is_missing).take(usize::try_from(affordable).unwrap_or(REGIONS)).count();
        for region in best..best + count {
            self.loaded |= 1 << region;
            self.used = self.used.saturating_add(self.reads[region].into());
        }
        let start_bytes = best as u64 * region_bytes;
        let end_bytes = start_bytes.saturating_add(count as u64 * region_bytes).min(file_bytes);
        Some(Plan::contiguous(start_bytes, end_bytes))
    }

    /// The regions were not loaded, if `plan` was some.
    pub fn dropped(&mut self, plan: &Plan, file_bytes: u64) {
        if plan.is_window() || plan.length_bytes == 0 {
            return;
        }
        let division = Division::of(file_bytes);
        let last = plan.start_bytes.saturating_add(plan.length_bytes - 1);
        for region in division.region(plan.start_bytes)..=division.region(last) {
            if self.loaded >> region & 1 != 0 {
                self.loaded &= !(1 << region);
                self.used = self.used.saturating_sub(self.reads[region].into());
            }
        }
    }

    /// Pages of regions that were loaded, and about how many of them were read at random.
    pub fn account(&self, file_bytes: u64) -> (u64, u64) {
        let division = Division::of(file_bytes);
        let regions = (self.loaded & division.all()).count_ones();
        (u64::from(regions).saturating_mul(division.region_pages).min(division.pages), division.estimate(self.used))
    }

    /// Whether there is nothing left to load.
    pub fn is_complete(&self, file_bytes: u64) -> bool {
        Division::of(file_bytes).all() & !self.loaded == 0
    }
}
