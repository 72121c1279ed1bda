//! Requests that the device really gets for traced accesses, beside the prediction.
//!
//! Each range is read once, past the page cache, while the tracepoint `block:block_rq_issue`
//! is listened to: the requests for data that this thread causes at the file system's
//! devices are counted (those for metadata, which the kernel marks as such, are not). The
//! number predicted from the extents ([`requests`](crate::extents::requests)) has to be the
//! same. Reads change nothing; run it before and after.
//!
//! Requests are counted at the disks. What lies between them and the file system (device mapper, md, the stripes and mirrors
//! of Btrfs) splits them once more by rules of its own, which are not predicted: there the two numbers are
//! shown and not compared. A scheduler merges more than is predicted, which is for a queue without one: fewer requests
//! are as predicted there.

mod counter;
mod devices;
mod report;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use counter::Counter;
use devices::Disks;
use observe::tracefs::TracefsError;
pub use report::{Verified, VerifiedFile};
use units::Printable;

use crate::ByteRange;
use crate::access::TraceError;
use crate::extents::{self, Direction, ExtentKind, FiemapError, QueueError, RequestLimits, WriteBack};

/// Direct reads begin and end at multiples of this: the largest logical block of usual disks.
const ALIGN_BYTES: u64 = 4096;
/// Requests between two looks at the events, so that the kernel's buffers do not run over.
const REQUESTS_AT_ONCE: u64 = 4096;

/// Why it cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The requests cannot be listened to.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The extents cannot be read.
    #[error(transparent)]
    Extents(#[from] FiemapError),
    /// The limits of the queue cannot be read.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The file cannot be opened or read past the page cache.
    #[error("{path}: {what}: {error}", path = Printable::path(path))]
    File {
        /// Which.
        path: PathBuf,
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// The file lies on no block device that could be listened to.
    #[error("{path} lies on no block device; a file system on one is needed", path = Printable::path(path))]
    NoDevice {
        /// Which.
        path: PathBuf,
    },
}

impl From<TracefsError> for VerifyError {
    fn from(error: TracefsError) -> Self {
        TraceError::from(error).into()
    }
}

/// What is to be read of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    /// Where it is.
    pub path: PathBuf,
    /// Each is read once, by itself.
    pub ranges: Vec<ByteRange>,
}

/// Reads all of it and counts. `progress` is told how many files are done, and says whether
/// to go on.
///
/// # Errors
/// [`VerifyError::Trace`] where requests cannot be listened to (see the source `tracefs`), and
/// the others for a file that cannot be read.
pub fn replay(files: &[Replay], progress: &mut dyn FnMut(usize) -> bool) -> Result<Verified, VerifyError> {
    let mut verified = Verified::default();
    for (done, replay) in files.iter().enumerate() {
        if !progress(done) {
            break;
        }
        verified.files.push(one(replay)?);
    }
    Ok(verified)
}

/// One file's reads, each at most as long as is predicted exactly.
fn one(replay: &Replay) -> Result<VerifiedFile, VerifyError> {
    let path = replay.path.as_path();
    let failed = |what| move |error| VerifyError::File { path: path.to_owned(), what, error };
    // The limits and extents first: reading them makes requests too.
    let limits = extents::limits_of(path)?;
    let plain = File::open(path).map_err(failed("opening it"))?;
    let size_bytes = plain.metadata().map_err(failed("looking at it"))?.len();
    let map = extents::read_map(&plain, size_bytes, WriteBack::First)?;
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_DIRECT).open(path);
    let file = file.map_err(failed("opening it past the page cache"))?;
    let disks = Disks::of(path).ok_or_else(|| VerifyError::NoDevice { path: path.to_owned() })?;
    let mut counter = Counter::start(path, &disks)?;

    let mut result = VerifiedFile {
        path: path.to_owned(),
        layers: disks.layers,
        scheduler: disks.scheduler,
        ..VerifiedFile::default()
    };
    let mut memory = Aligned::new(limits.certain_bytes());
    let mut collected = 0;
    for range in &replay.ranges {
        let Some(range) = aligned(*range).intersection(&ByteRange { start: 0, end: size_bytes }) else { continue };
        // What is compressed is read through the page cache, whatever was asked for.
        if map.bytes_of(range, ExtentKind::Encoded) + map.bytes_of(range, ExtentKind::Inline) > 0 {
            result.left_out += 1;
            continue;
        }
        result.accesses += 1;
        for part in parts(range, &limits) {
            result.predicted += extents::requests(&map, part, &limits, Direction::Read);
            result.bytes += memory.read(&file, part).map_err(failed("reading it past the page cache"))?;
            if result.predicted - collected >= REQUESTS_AT_ONCE {
                counter.collect()?;
                collected = result.predicted;
            }
        }
    }
    counter.finish(&mut result)?;
    Ok(result)
}

fn aligned(range: ByteRange) -> ByteRange {
    let end = range.end.checked_next_multiple_of(ALIGN_BYTES).unwrap_or(range.end);
    ByteRange { start: range.start - range.start % ALIGN_BYTES, end }
}

/// The range in reads that are no longer than what is predicted exactly.
fn parts(range: ByteRange, limits: &RequestLimits) -> impl Iterator<Item = ByteRange> + use<> {
    let length = (limits.certain_bytes() - limits.certain_bytes() % ALIGN_BYTES).max(ALIGN_BYTES);
    let count = range.len().div_ceil(length);
    (0..count).filter_map(move |part| {
        let start = range.start.checked_add(part.checked_mul(length)?)?;
        Some(ByteRange { start, end: start.saturating_add(length).min(range.end) })
    })
}

/// Memory for direct reads.
struct Aligned {
    bytes: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Aligned {
    fn new(length: u64) -> Self {
        let align = ALIGN_BYTES as usize;
        let length = usize::try_from(length).unwrap_or(align).next_multiple_of(align);
        // Written to, so that every page is there: into memory that is not, Btrfs reads through the page cache, with
        // readahead (`btrfs_direct_read`, fs/btrfs/direct-io.c).
        let bytes = vec![0xff; length + align];
        let begin = bytes.as_ptr().align_offset(align);
        Self { bytes, begin, length }
    }

    /// Reads the range, with its last block in full: how many bytes of it there were.
    fn read(&mut self, file: &File, range: ByteRange) -> io::Result<u64> {
        let wanted = usize::try_from(aligned(range).len()).unwrap_or(self.length).min(self.length);
        let end = self.begin + wanted;
        let memory = self.bytes.get_mut(self.begin..end).ok_or_else(|| io::Error::other("no memory"))?;
        Ok(file.read_at(memory, range.start)? as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_the_range(start in 0u64..1 << 30, length in 1u64..8 << 20, max_segments in 1u32..300, kib in 4u64..3000) {
            let limits = RequestLimits { max_bytes: kib << 10, max_segments };
            let range = aligned(ByteRange { start, end: start + length });
            let list: Vec<_> = parts(range, &limits).collect();
            prop_assert_eq!(list[0].start, range.start);
            prop_assert_eq!(list[list.len() - 1].end, range.end);
            prop_assert!(list.windows(2).all(|pair| pair[0].end == pair[1].start));
            prop_assert!(list.iter().all(|part| part.start % ALIGN_BYTES == 0 && part.len() <= limits.certain_bytes().max(ALIGN_BYTES)));
        }
    }
}
