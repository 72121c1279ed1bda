//! cachemap(2) of the kernel `cachemap` (`crates/linux/kernel/cachemap`): each page of a range, and what is missing is read ahead
//! without a limit by the same call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use prefetch::{PAGE_BYTES, Range};

use super::Residency;

/// Its number, which no stock kernel has given to anything.
const CACHEMAP: libc::c_long = 500;

/// `CACHEMAP_PREFETCH`: what is missing is read ahead.
const PREFETCH: u32 = 1;

/// `CACHEMAP_SHADOW`: the answer is that of the record of readahead.
const SHADOW: u32 = 2;

/// `struct cachestat_range`.
#[repr(C)]
struct CachestatRange {
    offset: u64,
    bytes: u64,
}

/// The call, asked for the cache itself or for the record of readahead.
pub struct Cachemap {
    shadow: bool,
}

impl Cachemap {
    /// None where this kernel has not that.
    pub fn new(shadow: bool) -> Option<Self> {
        // Nobody has this descriptor, and what is asked for is looked at before it.
        let error = cachemap(-1, Range { start_bytes: 0, end_bytes: PAGE_BYTES }, &mut [], flags(shadow)).err()?;
        (error.raw_os_error() == Some(libc::EBADF)).then_some(Self { shadow })
    }

    /// The bits of a range, page 0 of it the lowest, and how many are set.
    ///
    /// # Errors
    /// `EPERM` for a file of somebody else that may not be written, and what else the kernel refuses.
    pub fn map(&self, file: BorrowedFd<'_>, range: Range) -> io::Result<(Vec<u64>, u64)> {
        let first = range.start_bytes / PAGE_BYTES;
        let pages = range.end_bytes.div_ceil(PAGE_BYTES).saturating_sub(first);
        let mut bits = vec![0; usize::try_from(pages.div_ceil(64)).map_err(io::Error::other)?];
        let count = cachemap(file.as_raw_fd(), range, &mut bits, flags(self.shadow))?;
        Ok((bits, count))
    }
}

fn flags(shadow: bool) -> u32 {
    if shadow { SHADOW } else { 0 }
}

fn cachemap(file: i32, range: Range, bits: &mut [u64], flags: u32) -> io::Result<u64> {
    // A length of 0 would ask for all that follows.
    if range.bytes() == 0 {
        return Ok(0);
    }
    let asked = CachestatRange { offset: range.start_bytes, bytes: range.bytes() };
    let map = if bits.is_empty() { std::ptr::null_mut() } else { bits.as_mut_ptr() };
    // SAFETY: the kernel reads one range of its own layout, and writes at most the bytes that the slice has.
    let result = unsafe { libc::syscall(CACHEMAP, file, &raw const asked, map, size_of_val(bits), flags) };
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Residency for Cachemap {
    fn resident_pages(&self, file: BorrowedFd<'_>, range: Range) -> Option<u64> {
        cachemap(file.as_raw_fd(), range, &mut [], flags(self.shadow)).ok()
    }

    fn most_bytes(&self, _: u64) -> u64 {
        u64::MAX
    }

    fn load(&self, file: BorrowedFd<'_>, range: Range) -> io::Result<u64> {
        let before = cachemap(file.as_raw_fd(), range, &mut [], PREFETCH | flags(self.shadow))?;
        Ok(range.bytes().saturating_sub(before * PAGE_BYTES))
    }
}
