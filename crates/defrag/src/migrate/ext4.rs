//! ext4: `EXT4_IOC_MOVE_EXT`.
//!
//! The kernel exchanges the blocks of file and donor and copies the data through the page cache, within one journal
//! transaction a piece and with both inodes locked (`ext4_move_extents`, fs/ext4/move_extent.c). Times are left
//! alone. A dirty page in the range is `EBUSY`. Everything dirty was written when the extents were read just before; a
//! program that writes on needs an `fdatasync` and another attempt, maybe several. (An `fdatasync` each time would
//! commit the journal for every range.) An attempt that ends so may have moved a part, which is well: both copies hold the same.
//!
//! The range is dropped from the page cache beforehand: where one folio holds several pieces, the first piece that is
//! moved pins it to the transaction, and for each further one the kernel forces a commit. With 8 KiB pieces in 64 KiB
//! folios that was seen to write 2.7 times the data; without, the kernel reads single pages, and writes the data once.

use std::io;
use std::ops::ControlFlow;

use super::copy::{is_lack_of_space, unsupported};
use super::donor::Offer;
use super::error::MigrateError;
use super::facts::{Facts, FileSystem};
use super::refusals::{self, Refusal};
use super::segments::{Left, Segment, slices};
use super::target::Opening;
use super::{Files, Migrate, Pace, Progress, ioctl};

/// Attempts for one slice before its writers are left alone.
const ATTEMPTS: u32 = 16;
/// Moved in one call.
const SLICE_BYTES: u64 = 4 << 20;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Ext4MoveExtents;

impl Migrate for Ext4MoveExtents {
    fn name(&self) -> &'static str {
        "ext4 EXT4_IOC_MOVE_EXT"
    }

    fn check(&self, facts: &Facts) -> Option<Result<(), Refusal>> {
        (facts.system == FileSystem::Ext4).then(|| refusals::ext4(facts))
    }

    fn opening(&self) -> Opening {
        Opening::Write
    }

    fn migrate(&self, files: &mut Files<'_>, segment: &Segment, pace: &mut dyn Pace) -> Result<Progress, MigrateError> {
        let offset = match files.donor.offer(segment, true)? {
            Offer::Better { offset } => offset,
            Offer::Refused(why) => return Ok(Progress { written_bytes: 0, left: Some(why) }),
        };
        let path = files.target.path();
        let block = files.target.block_bytes();
        let donor = files.donor.file().map_err(MigrateError::system(path, "open its temporary file"))?;
        let mut written_bytes = 0;
        let sync = || files.target.file().sync_data().map_err(MigrateError::system(path, "write it out"));
        for slice in slices(segment.range, SLICE_BYTES) {
            if let ControlFlow::Break(stop) = pace.before(slice.len()) {
                return Ok(Progress { written_bytes, left: Some(Left::Stopped(stop)) });
            }
            files.target.forget(slice);
            let first = slice.start / block;
            let donor_first = (offset + (slice.start - segment.range.start)) / block;
            let blocks = slice.end.div_ceil(block) - first;
            let (mut done, mut attempts) = (0, 0);
            while done < blocks {
                let (moved, result) =
                    ioctl::move_extents(files.target.file(), donor, first + done, donor_first + done, blocks - done);
                done += moved;
                written_bytes += moved * block;
                let left = match result {
                    Ok(()) if moved > 0 => continue,
                    // The end of the file is nearer than it was.
                    Ok(()) => Left::Changed,
                    Err(error) => match error.raw_os_error() {
                        Some(libc::EBUSY | libc::EAGAIN | libc::EINTR) if attempts < ATTEMPTS => {
                            attempts += 1;
                            sync()?;
                            continue;
                        }
                        Some(libc::EBUSY | libc::EAGAIN | libc::EINTR) => Left::Busy,
                        Some(libc::ENODATA) => Left::Changed,
                        _ => failed(error, files)?,
                    },
                };
                return Ok(Progress { written_bytes, left: Some(left) });
            }
        }
        Ok(Progress { written_bytes, left: None })
    }
}

fn failed(error: io::Error, files: &Files<'_>) -> Result<Left, MigrateError> {
    if is_lack_of_space(&error) {
        return Ok(Left::NoSpace);
    }
    unsupported(&error).ok_or_else(|| MigrateError::system(files.target.path(), "move its extents")(error))
}
