//! ext4: `EXT4_IOC_MOVE_EXT`.
//!
//! The kernel exchanges the blocks of file and donor and copies the data through the page cache, within one journal
//! transaction a piece and with both inodes locked (`ext4_move_extents`, fs/ext4/move_extent.c). Times are left
//! alone. A dirty page in the range is `EBUSY`. Everything dirty was written when the extents were read just before; a
//! program that writes on needs an `fdatasync` and another attempt, maybe several. (An `fdatasync` each time would
//! commit the journal for every range.) An attempt that ends so may have moved a part, which is well: both copies hold the same.
//!
//! The kernel does not note that an `fdatasync` has to commit that transaction (`i_datasync_tid`, which
//! `ext4_swap_extents` of fs/ext4/extents.c leaves alone): what a program writes to the moved blocks and synchronises is
//! at the new place, and a crash before the next commit gives the file the old place back. So a write lease keeps other
//! programs out, and the journal is committed before it is given back (`exclusive.rs`). Files that are open elsewhere are
//! left alone, or, where the user wants that, moved with a commit after each slice.
//!
//! The range is dropped from the page cache beforehand, with what else lies in its folios ([`Target::forget`]): where one folio holds
//! several pieces, the first piece that is moved pins it to the transaction, and for each further one the kernel forces a
//! commit. With 8 KiB pieces in 64 KiB folios that was seen to write 2.7 times the data, and 3.2 times where data and holes shared
//! folios; without, the data is in single pages, and written once. They are read before others are kept out: the call would read
//! one after the other.

use std::io;
use std::ops::ControlFlow;
use std::time::Instant;

use super::copy::{lack_of_space, unsupported};
use super::donor::Offer;
use super::error::MigrateError;
use super::exclusive::{
    can_be_had_alone, is_undisturbed, keep_others_out, keep_others_out_if_possible, let_others_in, note_unsettled, warm,
};
use super::facts::{Facts, FileSystem};
use super::refusals::{self, Refusal};
use super::segments::{Left, Segment, Slice};
use super::target::{Opening, Target};
use super::{Files, Migrate, Pace, Progress, ioctl};
use crate::ByteRange;

/// Attempts for one slice before its writers are left alone.
const ATTEMPTS: u32 = 16;
/// For which the pace is asked; it is moved in several calls (`stride.rs`).
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

    fn promise(&self, target: &Target, open: bool) -> Result<(), Refusal> {
        if open { Ok(()) } else { can_be_had_alone(target) }
    }

    fn migrate(&self, files: &mut Files<'_>, segment: &Segment, pace: &mut dyn Pace) -> Result<Progress, MigrateError> {
        if let Some(why) = self.obstacle(files)? {
            return Ok(Progress { written_bytes: 0, left: Some(why) });
        }
        let offset = match files.donor.offer(segment, true)? {
            Offer::Better { offset, .. } => offset,
            Offer::Refused(why) => return Ok(Progress { written_bytes: 0, left: Some(why) }),
        };
        let mut written_bytes = 0;
        for Slice { range: slice, place } in segment.slices(SLICE_BYTES) {
            if pace.waits() {
                self.settle(files)?;
            }
            if let ControlFlow::Break(stop) = pace.before(slice.len()) {
                return Ok(Progress { written_bytes, left: Some(Left::Stopped(stop)) });
            }
            files.target.forget(slice);
            let mut at = slice.start;
            while at < slice.end {
                let part = ByteRange { start: at, end: slice.end.min(at + self.stride_bytes(files)) };
                let donor_at = offset + place + (at - slice.start);
                let left = self.move_part(files, part, donor_at, pace, &mut written_bytes)?;
                if left.is_some() {
                    return Ok(Progress { written_bytes, left });
                }
                at = part.end;
            }
            if !is_undisturbed(files) {
                self.settle(files)?;
            }
        }
        Ok(Progress { written_bytes, left: None })
    }

    fn settle(&self, files: &mut Files<'_>) -> Result<(), MigrateError> {
        let_others_in(files, |files| files.donor.commit())
    }
}

impl Ext4MoveExtents {
    /// Why nothing may be moved, if so.
    fn obstacle(self, files: &mut Files<'_>) -> Result<Option<Left>, MigrateError> {
        if files.open {
            keep_others_out_if_possible(&self, files)?;
            return Ok(None);
        }
        keep_others_out(&self, files)
    }

    /// What one call moves, in whole blocks.
    fn stride_bytes(self, files: &Files<'_>) -> u64 {
        let block = files.target.block_bytes();
        (files.exclusive.stride.bytes() / block * block).max(block)
    }

    /// Moves a part of a slice in one call, and lets others in if they wait; why not, if so.
    fn move_part(
        self,
        files: &mut Files<'_>,
        part: ByteRange,
        donor_at: u64,
        pace: &mut dyn Pace,
        written_bytes: &mut u64,
    ) -> Result<Option<Left>, MigrateError> {
        if pace.interrupts() {
            self.settle(files)?;
            if let ControlFlow::Break(stop) = pace.before(0) {
                return Ok(Some(Left::Stopped(stop)));
            }
        }
        warm(&self, files, part)?;
        if let Some(why) = self.obstacle(files)? {
            return Ok(Some(why));
        }
        let alone = is_undisturbed(files);
        note_unsettled(files, part.len());
        let begun = Instant::now();
        let left = move_slice(files, part, donor_at, written_bytes)?;
        files.exclusive.stride.took(part.len(), begun);
        if left.is_some() || alone && !is_undisturbed(files) {
            self.settle(files)?;
        }
        Ok(left)
    }
}

/// Gives a slice the donor's blocks from an offset on.
fn move_slice(
    files: &Files<'_>,
    slice: ByteRange,
    offset: u64,
    written_bytes: &mut u64,
) -> Result<Option<Left>, MigrateError> {
    let path = files.target.path();
    let block = files.target.block_bytes();
    let donor = files.donor.file().map_err(MigrateError::system(path, "open its temporary file"))?;
    let (first, donor_first) = (slice.start / block, offset / block);
    let blocks = slice.end.div_ceil(block) - first;
    let (mut done, mut attempts) = (0, 0);
    while done < blocks {
        let (moved, result) =
            ioctl::move_extents(files.target.file(), donor, first + done, donor_first + done, blocks - done);
        // The last block may be the file's last in part.
        let before = (done * block).min(slice.len());
        done += moved;
        *written_bytes += (done * block).min(slice.len()) - before;
        match result {
            Ok(()) if moved > 0 => {}
            // The end of the file is nearer than it was.
            Ok(()) => return Ok(Some(Left::Changed)),
            Err(error) => match error.raw_os_error() {
                Some(libc::EBUSY | libc::EAGAIN | libc::EINTR) if attempts < ATTEMPTS => {
                    attempts += 1;
                    files.target.file().sync_data().map_err(MigrateError::system(path, "write it out"))?;
                }
                Some(libc::EBUSY | libc::EAGAIN | libc::EINTR) => return Ok(Some(Left::Busy)),
                Some(libc::ENODATA) => return Ok(Some(Left::Changed)),
                _ => return failed(error, files).map(Some),
            },
        }
    }
    Ok(None)
}

fn failed(error: io::Error, files: &Files<'_>) -> Result<Left, MigrateError> {
    let left = lack_of_space(&error).or_else(|| unsupported(&error));
    left.ok_or_else(|| MigrateError::system(files.target.path(), "move its extents")(error))
}
