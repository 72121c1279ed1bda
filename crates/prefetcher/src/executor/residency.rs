//! Which pages of a file are in memory: cachestat(2), Linux 6.5 and newer.
//!
//! The kernel answers only who may write the file or owns it. `mincore` is no substitute: to others it calls every page resident.

use std::os::fd::{AsRawFd, OwnedFd};

use prefetch::{PAGE_BYTES, Range};

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
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of a range that are in memory; none where the kernel does not say.
pub fn resident_pages(file: &OwnedFd, range: Range) -> Option<u64> {
    // A length of 0 would ask for all that follows.
    if range.bytes() == 0 {
        return Some(0);
    }
    let asked = CachestatRange { offset: range.start_bytes, bytes: range.bytes() };
    let mut found = Cachestat::default();
    let (fd, asked, answer) = (file.as_raw_fd(), &raw const asked, &raw mut found);
    // SAFETY: the kernel reads one range and writes one answer, both of its own layout.
    let result = unsafe { libc::syscall(CACHESTAT, fd, asked, answer, 0) };
    (result == 0).then_some(found.cached)
}

/// Whether all of a range is in memory, but for a tenth; none where the kernel does not say.
pub fn is_resident(file: &OwnedFd, range: Range) -> Option<bool> {
    let pages = range.bytes().div_ceil(PAGE_BYTES);
    Some(resident_pages(file, range)? * 10 >= pages * 9)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn written_pages_are_resident_and_a_hole_is_not() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[1; 8 * PAGE_BYTES as usize]).unwrap();
        file.as_file().set_len(16 * PAGE_BYTES).unwrap();
        let file = OwnedFd::from(file.reopen().unwrap());
        let range = |from: u64, to: u64| Range { start_bytes: from * PAGE_BYTES, end_bytes: to * PAGE_BYTES };
        if resident_pages(&file, range(0, 1)).is_none() {
            println!("skipped: no cachestat on this kernel");
            return;
        }
        assert_eq!(resident_pages(&file, range(0, 8)), Some(8));
        assert_eq!(resident_pages(&file, range(8, 16)), Some(0));
        assert_eq!((is_resident(&file, range(2, 6)), is_resident(&file, range(4, 12))), (Some(true), Some(false)));
        assert_eq!(resident_pages(&file, range(3, 3)), Some(0));
    }
}
