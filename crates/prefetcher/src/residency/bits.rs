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
        Some(there.load(Ordering::Acquire) & known | before & !known)
    }

    /// Whether a page is in memory.
    #[inline]
    pub fn is_set(&self, page: u64) -> Option<bool> {
        Some(self.word((page / PAGES) as usize)? >> (page % PAGES) & 1 != 0)
    }

    /// Pages of a range that are in memory.
    pub fn resident_pages(&self, range: Range) -> Option<u64> {
        let (first, past) = (range.start_bytes / PAGE_BYTES, range.end_bytes.div_ceil(PAGE_BYTES));
        let (mut page, mut count) = (first, 0);
        while page < past {
            let end = (page / PAGES + 1).saturating_mul(PAGES).min(past);
            let word = self.word(usize::try_from(page / PAGES).ok()?)? >> (page % PAGES);
            let mask = u64::MAX >> (PAGES - (end - page));
            count += u64::from((word & mask).count_ones());
            page = end;
        }
        Some(count)
    }
}
