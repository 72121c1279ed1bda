//! When a file that is read at random is worth one pass over all of it.
//!
//! It is the ski rental problem (Karlin et al., Algorithmica 1988): reads are rent, the pass is the purchase, and nobody knows how
//! many reads will come. Who buys when the rent paid equals the price pays at most twice what perfect foresight would, and no
//! deterministic rule does better. Only a page's first read costs something, so what counts is how many different pages were read:
//! estimated from a fixed sample of the pages (spatial sampling by hash, as in SHARDS, Waldspurger et al., FAST 2015), in a table of
//! bits.

use crate::access::{Access, PAGE_BYTES};
use crate::mutant::{Mutant, mutated};
use crate::plan::Plan;
use crate::policy::Host;

const WORDS: usize = 32;
/// The most pages of a file that are in the sample.
const SAMPLED_PAGES: u64 = 64 * WORDS as u64;

/// What was read of a file at random.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Bulk {
    /// A bit a sampled page; two that share one count once, which delays the pass.
    seen: [u64; WORDS],
    /// Different pages of the sample.
    distinct: u32,
    /// Whether the pass was begun.
    begun: u32,
}

impl Bulk {
    /// Nothing was read.
    pub const NEW: Self = Self { seen: [0; WORDS], distinct: 0, begun: 0 };

    /// Counts a read that no reader's window covers; whether a pass over the file is due.
    pub fn pays(&mut self, access: &Access, file_bytes: u64, host: &Host) -> bool {
        if self.begun != 0 {
            return false;
        }
        if mutated(Mutant::PassAtOnce) {
            return true;
        }
        // One page of 2^shift is in the sample.
        let shift = 64 - (file_bytes.div_ceil(PAGE_BYTES) / SAMPLED_PAGES).leading_zeros();
        let hash = (access.offset_bytes / PAGE_BYTES).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        if shift > 0 && hash >> (64 - shift) != 0 {
            return false;
        }
        let (word, bit) = (hash as usize / 64 % WORDS, 1u64 << (hash % 64));
        if self.seen[word] & bit != 0 && !mutated(Mutant::RereadsPay) {
            return false;
        }
        self.seen[word] |= bit;
        self.distinct = self.distinct.saturating_add(1);
        let reads = u64::from(self.distinct).saturating_mul(1 << shift.min(40));
        reads.saturating_mul(host.latency_ns) >= host.pass_ns(file_bytes)
    }

    /// The pass is under way.
    pub fn begin(&mut self) {
        self.begun = 1;
    }

    /// The pass was not carried out, if `plan` was one.
    pub fn dropped(&mut self, plan: &Plan) {
        if !plan.is_window() {
            self.begun = 0;
        }
    }
}
