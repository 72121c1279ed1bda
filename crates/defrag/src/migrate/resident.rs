//! What of a file is in the page cache, so that it is there after a move, too.
//!
//! XFS drops the pages of a range whose blocks it shares or exchanges (`xfs_flush_unmap_range`, fs/xfs/xfs_bmap_util.c). Programs
//! that had the range in memory would wait for the device until they have read it again; so the kernel is asked to. A byte
//! is read from the device once all the same: for the copy where it was not in memory, and after it where it was.

use std::fs::File;
use std::num::NonZeroU64;

use rustix::fs::Advice;

use super::ioctl::cached_pages;
use super::segments::slices;
use crate::ByteRange;
use crate::priority::Urgent;

/// Noted and asked for as one; the kernel reads no more for one request than readahead and the device's largest request are
/// (`force_page_cache_ra`, mm/readahead.c), 128 KiB by default.
const CHUNK_BYTES: u64 = 128 << 10;

/// Parts of a file that are in memory for the most part.
#[derive(Debug, Default)]
pub(super) struct Resident(Vec<ByteRange>);

impl Resident {
    /// Those of `range`, in chunks of which half is in memory at least. None where the kernel does not tell (before Linux 6.5).
    pub(super) fn of(file: &File, range: ByteRange) -> Self {
        let page_bytes = rustix::param::page_size() as u64;
        let is_resident = |chunk: &ByteRange| {
            let pages = chunk.end.div_ceil(page_bytes) - chunk.start / page_bytes;
            cached_pages(file, chunk.start, chunk.len()).is_ok_and(|cached| cached.all > 0 && cached.all * 2 >= pages)
        };
        Self(slices(range, CHUNK_BYTES).filter(is_resident).collect())
    }

    /// Has the kernel read them again, without waiting for it.
    pub(super) fn read_again(&self, file: &File) {
        // Whoever wants such a page meanwhile waits for this thread's request.
        let _urgent = (!self.0.is_empty()).then(Urgent::now);
        for chunk in &self.0 {
            // What is not read now will be when it is needed.
            let _ = rustix::fs::fadvise(file, chunk.start, NonZeroU64::new(chunk.len()), Advice::WillNeed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn chunks_that_are_in_memory_for_the_most_part_are_noted() {
        // What was just written is in memory, and what was not is nowhere.
        let file = tempfile::tempfile().unwrap();
        file.set_len(10 * CHUNK_BYTES).unwrap();
        let write = |start: u64, bytes: u64| file.write_all_at(&vec![1; bytes as usize], start).unwrap();
        write(CHUNK_BYTES, CHUNK_BYTES);
        write(3 * CHUNK_BYTES, CHUNK_BYTES / 2);
        write(5 * CHUNK_BYTES, CHUNK_BYTES / 4);
        if cached_pages(&file, 0, 10 * CHUNK_BYTES).is_err() {
            return println!("skipped: this kernel does not say what is in memory (cachestat)");
        }
        let whole = ByteRange { start: 0, end: 10 * CHUNK_BYTES };
        let noted = Resident::of(&file, whole).0;
        let chunk = |number: u64| ByteRange { start: number * CHUNK_BYTES, end: (number + 1) * CHUNK_BYTES };
        assert_eq!(noted, [chunk(1), chunk(3)]);
        let within = ByteRange { start: CHUNK_BYTES + 5000, end: 3 * CHUNK_BYTES };
        let first = ByteRange { start: within.start, end: within.start + CHUNK_BYTES };
        assert_eq!(Resident::of(&file, within).0, [first]);
        assert!(Resident::of(&file, ByteRange { start: 7, end: 7 }).0.is_empty());
    }
}
