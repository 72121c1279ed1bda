//! How many pages of a range are in memory: cachestat(2), Linux 6.5 and newer.
//!
//! The kernel answers only who may write the file or owns it. `mincore` is no substitute: to others it calls every page resident.

use std::os::fd::{AsRawFd, BorrowedFd};

use prefetch::{PAGE_BYTES, Range};

use super::{Residency, halving};

/// `__NR_cachestat`, the same on all architectures.
const CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`.
#[repr(C)]
struct CachestatRange {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat`.
#[repr(C)]
#[derive(Default)]
struct Answer {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of a range that are in memory; none where the kernel does not say.
pub fn resident_pages(file: BorrowedFd<'_>, range: Range) -> Option<u64> {
    // A length of 0 would ask for all that follows.
    if range.bytes() == 0 {
        return Some(0);
    }
    let asked = CachestatRange { offset: range.start_bytes, bytes: range.bytes() };
    let mut found = Answer::default();
    let (fd, asked, answer) = (file.as_raw_fd(), &raw const asked, &raw mut found);
    // SAFETY: the kernel reads one range and writes one answer, both of its own layout.
    let result = unsafe { libc::syscall(CACHESTAT, fd, asked, answer, 0) };
    (result == 0).then_some(found.cached)
}

/// Whether this kernel has the call: without a file it says which error it is.
pub fn is_there() -> bool {
    // SAFETY: with a descriptor that nobody has the kernel reads nothing.
    let result = unsafe { libc::syscall(CACHESTAT, -1, 0, 0, 0) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

/// The call as a source.
pub struct Cachestat;

impl Residency for Cachestat {
    fn resident_pages(&self, file: BorrowedFd<'_>, range: Range) -> Option<u64> {
        resident_pages(file, range)
    }
}

/// Most questions of [`each_page`]: a file of which every other page is in memory would take one for each page.
const MOST_QUESTIONS: u64 = 1 << 16;

/// A bit for each of the file's first pages; none where the kernel does not say, or it would take too long. Each bit was true at some
/// moment of the call.
pub fn each_page(file: BorrowedFd<'_>, pages: u64) -> Option<Vec<u64>> {
    let mut bits = vec![0_u64; usize::try_from(pages.div_ceil(64)).ok()?];
    let ask = |first: u64, past: u64| {
        let range = Range { start_bytes: first * PAGE_BYTES, end_bytes: past * PAGE_BYTES };
        Some(halving::Answer { there: resident_pages(file, range)?, all: past - first })
    };
    halving::there(pages, MOST_QUESTIONS, ask, |first, past| {
        (first..past).for_each(|page| bits[(page / 64) as usize] |= 1 << (page % 64));
    })?;
    Some(bits)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn written_pages_are_resident_and_a_hole_is_not() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[1; 8 * PAGE_BYTES as usize]).unwrap();
        file.as_file().set_len(16 * PAGE_BYTES).unwrap();
        let file = file.as_file().as_fd();
        let range = |from: u64, to: u64| Range { start_bytes: from * PAGE_BYTES, end_bytes: to * PAGE_BYTES };
        if resident_pages(file, range(0, 1)).is_none() {
            println!("skipped: no cachestat on this kernel");
            return;
        }
        assert_eq!(resident_pages(file, range(0, 8)), Some(8));
        assert_eq!(resident_pages(file, range(8, 16)), Some(0));
        let is_resident = |range| Cachestat.is_resident(file, range);
        assert_eq!((is_resident(range(2, 6)), is_resident(range(4, 12))), (Some(true), Some(false)));
        assert_eq!(resident_pages(file, range(3, 3)), Some(0));
        assert_eq!(each_page(file, 16), Some(vec![0xff]));
        assert_eq!(each_page(file, 5), Some(vec![0x1f]));
        assert_eq!(each_page(file, 0), Some(vec![]));
    }
}
