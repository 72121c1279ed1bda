//! The unnamed file whose blocks a file is given.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};

use super::error::MigrateError;
use super::refusals::Refusal;
use super::segments::{Left, Segment};
use super::target::Target;
use crate::ByteRange;
use crate::extents::{WriteBack, read_map_range};

/// What space the file system offers for a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Offer {
    /// In fewer pieces than the segment lies in now, at this offset of the donor.
    Better {
        /// Congruent with the segment's start as to pages.
        offset: u64,
    },
    /// Not worth it, or not there.
    Refused(Left),
}

/// One file with no name (`O_TMPFILE`) for all segments of a file: a crash leaves none behind, as a file without
/// names is removed by recovery.
///
/// Each segment has a range of its own in it, so that the space follows on from the last one's, and what it gets in
/// exchange is let go of together.
#[derive(Debug)]
pub struct Donor {
    file: File,
    path: PathBuf,
    end: u64,
    keep_bytes: u64,
}

impl Donor {
    /// Makes one in the folder of the file, which lets go of what it holds after `keep_bytes`.
    pub(super) fn beside(target: &Target, keep_bytes: u64) -> Result<Self, MigrateError> {
        let refused = |why: String| MigrateError::refused(target.path(), Refusal::Donor(why));
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let opened = rustix::fs::open(target.folder(), flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(opened.map_err(|errno| refused(io::Error::from(errno).to_string()))?);
        let status = file.metadata().map_err(|error| refused(error.to_string()))?;
        if status.dev() != target.device() {
            return Err(refused("its folder is on another file system".to_owned()));
        }
        Ok(Self { file, path: target.path().to_owned(), end: 0, keep_bytes })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Allocates room for a segment, and says whether it is better than where the segment lies.
    ///
    /// With `sized` the donor's size covers it at once; without, the size follows what is written, as is needed for
    /// a donor that must end where the file ends.
    pub fn offer(&mut self, segment: &Segment, sized: bool) -> Result<Offer, MigrateError> {
        if self.end >= self.keep_bytes {
            self.release()?;
        }
        let mode = if sized { FallocateFlags::empty() } else { FallocateFlags::KEEP_SIZE };
        // A file system asks for the same offset within a page.
        const PAGE: u64 = 4096;
        let mut offset = self.end.next_multiple_of(PAGE) + segment.range.start % PAGE;
        let length = segment.range.len();
        // The handler of a signal, such as that of Ctrl-C, interrupts it.
        let allocate = |offset| rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, mode, offset, length));
        let mut done = allocate(offset);
        if is_full(done) && self.end > 0 {
            // What it holds may be what is missing.
            self.file.set_len(0).map_err(MigrateError::system(&self.path, "empty its temporary file"))?;
            offset = segment.range.start % PAGE;
            done = allocate(offset);
        }
        if is_full(done) {
            self.release()?;
            return Ok(Offer::Refused(Left::NoSpace));
        }
        done.map_err(|errno| MigrateError::system(&self.path, "allocate room for a copy")(errno.into()))?;
        self.end = offset.saturating_add(length);
        let range = ByteRange { start: offset, end: self.end };
        let map =
            read_map_range(&self.file, range, u64::MAX, WriteBack::No).map_err(MigrateError::extents(&self.path))?;
        let pieces = map.pieces(range).count() as u64;
        if pieces == 0 || pieces >= segment.pieces {
            self.release()?;
            return Ok(Offer::Refused(Left::NoBetterSpace { pieces }));
        }
        Ok(Offer::Better { offset })
    }

    /// Gives back everything that it holds.
    pub fn release(&mut self) -> Result<(), MigrateError> {
        self.end = 0;
        self.file.set_len(0).map_err(MigrateError::system(&self.path, "empty its temporary file"))
    }

    /// Lets the page cache forget what was copied: nobody reads the donor.
    pub fn forget(&self, range: ByteRange) {
        let length = std::num::NonZeroU64::new(range.len());
        let _ = rustix::fs::fadvise(&self.file, range.start, length, Advice::DontNeed);
    }
}

fn is_full(done: rustix::io::Result<()>) -> bool {
    use rustix::io::Errno;
    matches!(done, Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
}
