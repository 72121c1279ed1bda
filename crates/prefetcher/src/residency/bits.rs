//! A bit for each page of a file, kept by programs in the kernel, read without a call.
//!
//! The programs see pages come and go from the moment on that they are told of the file, and know nothing of those that were there
//! before. So an entry has two words: which pages are there, and of which it is known. Of the others the reader asks the kernel once,
//! after the programs have begun: a page that has neither come nor gone since is as it was then. Whatever the order of all this, no
//! page is called what it was not.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use observe::bpf::Mapped;
use prefetch::{PAGE_BYTES, Range};

use super::cachestat;
use crate::mutants::{Mutant, mutated};

/// Words of an entry, for 64 pages: those that are there, and those of which something has been seen.
pub const WORDS: usize = 2;

/// Pages of an entry.
pub const PAGES: u64 = 64;

/// What is in memory of one file.
pub struct Bits {
    mapped: Mapped<WORDS>,
    /// What the kernel said, for pages of which nothing has been seen.
    before: Vec<u64>,
}

impl Bits {
    /// Of a file whose array, of so many entries, programs fill already.
    ///
    /// # Errors
    /// Where the array cannot be mapped, or the kernel does not say what is in memory.
    pub fn new(array: BorrowedFd<'_>, entries: u32, file: BorrowedFd<'_>) -> io::Result<Self> {
        let mapped = Mapped::new(array, entries as usize)?;
        let before = cachestat::each_page(file, u64::from(entries) * PAGES)
            .ok_or_else(|| io::Error::from(io::ErrorKind::PermissionDenied))?;
        Ok(Self { mapped, before })
    }

    /// 64 pages, the lowest bit the first; none behind what the array was made for.
    #[inline]
    pub fn word(&self, entry: usize) -> Option<u64> {
        let ([there, known], before) = (self.mapped.entries().get(entry)?, self.before.get(entry)?);
        // What a program writes first is read last.
        let known = known.load(Ordering::Acquire);
        Some(merged(there.load(Ordering::Acquire), known, *before))
    }

    /// Whether a page is in memory.
    #[inline]
    pub fn is_set(&self, page: u64) -> Option<bool> {
        Some(self.word((page / PAGES) as usize)? >> (page % PAGES) & 1 != 0)
    }

    /// Pages of a range that are in memory.
    pub fn resident_pages(&self, range: Range) -> Option<u64> {
        count(range, |entry| self.word(entry))
    }
}

/// Which pages are there: as was seen, and where nothing was, as they were before.
#[inline]
fn merged(there: u64, known: u64, before: u64) -> u64 {
    let known = if mutated(Mutant::BeforeForgotten) { u64::MAX } else { known };
    let before_of = if mutated(Mutant::BeforeStays) { u64::MAX } else { !known };
    there & known | before & before_of
}

/// Pages of a range that are set in words of 64.
fn count(range: Range, word: impl Fn(usize) -> Option<u64>) -> Option<u64> {
    let (first, past) = (range.start_bytes / PAGE_BYTES, range.end_bytes.div_ceil(PAGE_BYTES));
    let (mut page, mut count) = (first, 0);
    while page < past {
        let end = (page / PAGES + 1).saturating_mul(PAGES).min(past);
        let bits = word(usize::try_from(page / PAGES).ok()?)? >> (page % PAGES);
        let mask = if mutated(Mutant::EdgesWhole) { u64::MAX } else { u64::MAX >> (PAGES - (end - page)) };
        count += u64::from((bits & mask).count_ones());
        page = end;
    }
    Some(count)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    pub(crate) fn what_was_seen_counts_and_what_was_before_where_nothing_was() {
        // Came, left, never seen; each with and without having been there before.
        let (there, known, before) = (0b11_00_00, 0b11_11_00, 0b10_10_10);
        assert_eq!(merged(there, known, before), 0b11_00_10);
        assert_eq!(merged(0b01, 0b00, 0b00), 0, "half written: the program that saw it writes what is known last");
    }

    #[test]
    pub(crate) fn pages_of_a_range_are_counted_to_its_ends() {
        let words = [u64::MAX, 0x5555_5555_5555_5555, 1 << 63];
        let is_set = |page: u64| words[(page / 64) as usize] >> (page % 64) & 1 != 0;
        let word = |entry: usize| words.get(entry).copied();
        for (first, past) in [(0, 192), (0, 0), (63, 65), (5, 70), (64, 128), (100, 101), (191, 192)] {
            let range = Range { start_bytes: first * PAGE_BYTES, end_bytes: past * PAGE_BYTES };
            let expected = (first..past).filter(|page| is_set(*page)).count() as u64;
            assert_eq!(count(range, word), Some(expected), "{first} to {past}");
        }
        let bytes = Range { start_bytes: 1, end_bytes: 2 };
        assert_eq!(count(bytes, word), Some(1), "a page is there whole");
        assert_eq!(count(Range { start_bytes: 0, end_bytes: 193 * PAGE_BYTES }, word), None, "beyond what is known");
    }
}
