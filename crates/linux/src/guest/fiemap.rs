//! Where a file lies on its device (`Documentation/filesystems/fiemap.rst`).

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`.
const FIEMAP: libc::c_ulong = 0xc020_660b;
/// `struct fiemap` without its extents, and a `struct fiemap_extent`.
const HEADER_WORDS: usize = 4;
const EXTENT_WORDS: usize = 7;
/// Extents asked for at a time.
const EXTENTS: usize = 128;
/// Calls for one file: a file of more pieces is mapped in part.
const CALLS_MAX: usize = 64;
/// `FIEMAP_EXTENT_LAST`; `UNKNOWN`, `DELALLOC`, `ENCODED`, `NOT_ALIGNED` and `DATA_INLINE`, which have no place.
const LAST: u32 = 1;
const NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200;

/// A piece of a file.
pub(super) struct Extent {
    /// Where in the file.
    pub(super) offset_bytes: u64,
    /// Where on the device.
    pub(super) place_bytes: Range<u64>,
}

/// The pieces of a file that have a place.
pub(super) fn extents(file: &File) -> std::io::Result<Vec<Extent>> {
    let mut found = Vec::new();
    let mut start = 0;
    for _ in 0..CALLS_MAX {
        let mut words = [0_u64; HEADER_WORDS + EXTENTS * EXTENT_WORDS];
        words[0] = start;
        words[1] = u64::MAX - start;
        // fm_extent_count follows fm_flags and fm_mapped_extents; a reserved word follows it.
        words[3] = EXTENTS as u64;
        // SAFETY: the kernel writes the header and at most as many extents as `words` has room for.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, words.as_mut_ptr()) };
        if result < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let mapped = (words[2] >> 32) as usize;
        for extent in words[HEADER_WORDS..].chunks(EXTENT_WORDS).take(mapped.min(EXTENTS)) {
            let (offset_bytes, place, len, flags) = (extent[0], extent[1], extent[2], extent[5] as u32);
            start = offset_bytes + len;
            if flags & NO_PLACE == 0 {
                found.push(Extent { offset_bytes, place_bytes: place..place + len });
            }
            if flags & LAST != 0 {
                return Ok(found);
            }
        }
        if mapped == 0 {
            break;
        }
    }
    Ok(found)
}
