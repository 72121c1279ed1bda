//! When parts of a file that is read at random are worth loading.
//!
//! It is the ski rental problem (Karlin et al., Algorithmica 1988) with two currencies: reads are rent, loading the rest of a region is the
//! purchase, and nobody knows how many reads will come. Two ratios say how far it is paid: in **time**, what reads at random have cost, all
//! threads together, to what the pass takes; in **bytes**, what was read to what would be loaded beside it. It is bought where the product
//! of both is at least 1, and the reads have cost as much as the pass. So what
//! costs ten times the bytes that were read takes at most a tenth of the time that the reads took, and what takes as long as they did at
//! most as many bytes: whoever ends just then has lost little of one, or of the other. By time alone, as it stood here before, a file
//! was loaded when two of a hundred pages were read, for thirty and more times the bytes.
//!
//! Only a page's first read costs something, so what counts is how many different pages were read: [`Coverage`] estimates it from a sample
//! of them (spatial sampling, as in SHARDS, Waldspurger et al., FAST 2015). What readers pass counts for bytes, and only reads at random
//! are rent.

use crate::access::{Access, PAGE_BYTES};
use crate::coverage::{Coverage, Division, REGIONS};
use crate::mutant::{Mutant, mutated};
use crate::plan::{Plan, Range};
use crate::policy::Host;

/// Rent is counted in these parts of a read.
const PARTS: u64 = 256;

/// New pages of the sample between two looks whether something pays.
const LOOKED_AT: u32 = 8;

/// What was read of a file at random.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// Pages that were read, or are being loaded for a reader.
    coverage: Coverage,
    /// What the sampled pages have cost that were read at random, in [`PARTS`] of a read.
    rent: u64,
    /// Of the sampled pages, those that were read at random, by region: one scan is one sign, whatever it passes.
    by_region: [u16; REGIONS],
    /// A bit for each region that was loaded.
    loaded: u32,
    /// Different pages of the sample in regions that were loaded.
    used: u32,
    /// [`Coverage::distinct`] at the last look.
    looked_at: u32,
    /// Whether all of the file would pay.
    wanted: u32,
    /// Different pages of the sample that were read after they were loaded.
    gained: u32,
}

impl Default for Bulk {
    fn default() -> Self {
        Self::NEW
    }
}

/// What a look came to.
enum Due {
    Nothing,
    /// The region that is read most.
    Most,
    /// All that is missing.
    All,
}

impl Bulk {
    /// Nothing was read.
    pub const NEW: Self = Self {
        coverage: Coverage::NEW,
        rent: 0,
        by_region: [0; REGIONS],
        loaded: 0,
        used: 0,
        looked_at: 0,
        wanted: 0,
        gained: 0,
    };

    /// Whether an access has anything to count.
    #[inline]
    pub fn samples(access: &Access, file_bytes: u64) -> bool {
        Coverage::samples(access, file_bytes)
    }

    /// Whether all of the file would be worth loading: what is loaded of it in vain for one reader, another will read.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted != 0
    }

    /// A reader that leaves nothing out has passed a part of the file.
    #[inline(never)]
    pub fn passed(&mut self, range: Range, file_bytes: u64) {
        if mutated(Mutant::ReadersUncounted) {
            return;
        }
        let division = Division::of(file_bytes);
        let new = self.coverage.read(range.start_bytes, range.end_bytes, &division);
        if self.loaded >> division.region(range.start_bytes) & 1 != 0 {
            self.gain(new);
        }
    }

    /// Of what was loaded, so many pages of the sample were read for the first time.
    fn gain(&mut self, new: u32) {
        self.used = self.used.saturating_add(new);
        self.gained = self.gained.saturating_add(new);
    }

    /// Counts a read that no reader's window covers; the regions that are to be loaded now, if any.
    #[inline]
    pub fn pays(&mut self, access: &Access, file_bytes: u64, host: &Host) -> Option<Plan> {
        if !Self::samples(access, file_bytes) {
            return None;
        }
        let division = Division::of(file_bytes);
        match self.counted(access, &division, host) {
            Due::Nothing => None,
            due => self.take(&due, &division, file_bytes),
        }
    }

    /// Counts such a read where nothing is loaded for it: whether the file [is wanted](Self::is_wanted) is known then.
    #[inline]
    pub fn count(&mut self, access: &Access, file_bytes: u64, host: &Host) {
        if Self::samples(access, file_bytes) {
            let _ = self.counted(access, &Division::of(file_bytes), host);
        }
    }

    #[inline(never)]
    fn counted(&mut self, access: &Access, division: &Division, host: &Host) -> Due {
        let end_bytes = access.offset_bytes.saturating_add(access.length_bytes);
        let new = self.coverage.read(access.offset_bytes, end_bytes, division);
        if new == 0 {
            return Due::Nothing;
        }
        let pages = end_bytes.div_ceil(PAGE_BYTES).saturating_sub(access.offset_bytes / PAGE_BYTES).max(1);
        self.rent = self.rent.saturating_add(u64::from(new).saturating_mul(PARTS) / pages);
        let region = division.region(access.offset_bytes);
        self.by_region[region] = self.by_region[region].saturating_add(1);
        if self.loaded >> region & 1 != 0 {
            self.gain(new);
        }
        if self.coverage.distinct().wrapping_sub(self.looked_at) < LOOKED_AT {
            return Due::Nothing;
        }
        self.looked_at = self.coverage.distinct();
        self.look(division, host)
    }

    /// What pays now.
    fn look(&mut self, division: &Division, host: &Host) -> Due {
        let missing = division.all() & !self.loaded;
        let (mut strata, mut reads) = (0, 0);
        for region in (0..REGIONS).filter(|region| missing >> region & 1 != 0) {
            strata += division.strata_of(region);
            reads += u64::from(self.coverage.reads(region));
        }
        // Of a file that does not fit, the first part would be gone before the last is there.
        let missing_bytes = u64::from(missing.count_ones()).saturating_mul(division.region_pages() * PAGE_BYTES);
        let fits = missing_bytes.min(division.pages.saturating_mul(PAGE_BYTES)) <= host.free_bytes;
        let fits = fits || mutated(Mutant::BudgetIgnored);
        let all = fits && self.is_worth(strata, reads, host);
        // A file of which all was loaded is wanted, too.
        self.wanted = u32::from(all || fits && missing == 0);
        if all {
            return Due::All;
        }
        let Some(most) = self.most_read(missing).filter(|_| fits) else { return Due::Nothing };
        let reads = u64::from(self.by_region[most]);
        // One of many may have been read most by chance: less by what such a count errs.
        let sure = reads.saturating_sub(reads.isqrt());
        if self.is_worth(division.strata_of(most), sure, host) { Due::Most } else { Due::Nothing }
    }

    /// Whether loading pays of which so many pages of the sample, and of them so many that were read.
    fn is_worth(&self, strata: u64, reads: u64, host: &Host) -> bool {
        if mutated(Mutant::PassAtOnce) {
            return strata > 0;
        }
        let (unread, distinct) = (strata.saturating_sub(reads), u64::from(self.coverage.distinct()).max(1));
        if unread == 0 {
            return false;
        }
        let rent_ns = host.latency_ns.saturating_mul(self.rent) / PARTS / distinct;
        let paid = reads.saturating_mul(rent_ns);
        let price = unread.saturating_mul(host.pass_ns(PAGE_BYTES).max(1));
        let bytes = mutated(Mutant::PassUnbounded) || paid.saturating_mul(reads) >= price.saturating_mul(unread);
        paid >= price && bytes
    }

    /// Of several equal ones the first: they are neighbours.
    fn most_read(&self, missing: u32) -> Option<usize> {
        (0..REGIONS).rev().filter(|region| missing >> region & 1 != 0).max_by_key(|region| self.by_region[*region])
    }

    /// Takes the region that was read most for loaded, and where all are due, those behind it; the rest is due at the next look.
    #[inline(never)]
    fn take(&mut self, due: &Due, division: &Division, file_bytes: u64) -> Option<Plan> {
        let missing = division.all() & !self.loaded;
        let most = self.most_read(missing)?;
        let count = match due {
            Due::All => (most..REGIONS).take_while(|region| missing >> region & 1 != 0).count(),
            Due::Most | Due::Nothing => 1,
        };
        for region in most..most + count {
            self.loaded |= 1 << region;
            self.used = self.used.saturating_add(self.coverage.reads(region));
        }
        let region_bytes = division.region_pages() * PAGE_BYTES;
        let start_bytes = most as u64 * region_bytes;
        let end_bytes = start_bytes.saturating_add((count as u64).saturating_mul(region_bytes)).min(file_bytes);
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
                self.used = self.used.saturating_sub(self.coverage.reads(region));
            }
        }
    }

    /// Pages of regions that were loaded, and about how many of them were read.
    pub fn account(&self, file_bytes: u64) -> (u64, u64) {
        let division = Division::of(file_bytes);
        let regions = (self.loaded & division.all()).count_ones();
        (u64::from(regions).saturating_mul(division.region_pages()).min(division.pages), division.estimate(self.used))
    }

    /// Bytes of regions that may be on their way from the device at once: what was read of them since they were loaded, and one request of
    /// `least_bytes`. Readers wait behind what is on its way, and gain by what is there.
    pub fn under_way_bytes(&self, least_bytes: u64, file_bytes: u64) -> u64 {
        if mutated(Mutant::PassesPush) {
            return u64::MAX;
        }
        Division::of(file_bytes).estimate(self.gained).saturating_mul(PAGE_BYTES).saturating_add(least_bytes)
    }

    /// Whether anything was read at random.
    pub fn is_random(&self) -> bool {
        self.rent > 0
    }

    /// Whether there is nothing left to load.
    pub fn is_complete(&self, file_bytes: u64) -> bool {
        Division::of(file_bytes).all() & !self.loaded == 0
    }
}
