//! F2FS: `F2FS_IOC_DEFRAGMENT` of a file that nobody else has open.
//!
//! The kernel marks the pages of the range dirty, each under its lock, and writes them to the end of the log of cold
//! data (`f2fs_defragment_range`, fs/f2fs/file.c); the old blocks stay until the next checkpoint, as with every write
//! of F2FS. Times are left alone.
//!
//! While it marks them, nothing of the file is written out (`FI_SKIP_WRITES` in `__f2fs_write_data_pages`,
//! fs/f2fs/data.c), and an `fsync` of another program waits for nothing: after a crash, what it said was written may be
//! gone, and so may the range that was moved, since its map of blocks is written before its data. A direct read
//! passes over what is only in the page cache. So a write lease is taken first, which the kernel gives only if the
//! file is open and mapped nowhere else. While it is held nobody can synchronise the file but by `sync`, and everything
//! that was dirty is on the device by then.
//!
//! Before the lease is given back (`exclusive.rs`), a checkpoint is written. Without it, another program's `fsync` of the file would be
//! the first to write the map that names the new places, marked for recovery, and the device may make that lasting
//! before the moved data, which it has only in its cache: a crash then loses the range. (An `fsync` by this program
//! would be no better, for it is that very write.) A checkpoint is valid only once everything before it is on the media.
//!
//! `F2FS_IOC_MOVE_RANGE` and rewriting what was read are no alternatives: they put back what the file held when it was
//! copied.
//!
//! F2FS chooses the place when it writes, and cannot be asked beforehand. What is known is that its log consists of
//! segments of 2 MiB, of which the next one need not lie behind the last: what fits into a segment becomes one piece, at
//! the second attempt if the first met a segment's end, and longer data one piece more than whole segments fit in. Data in
//! no more pieces than that is left alone. A slice that lies no better afterwards is the last one.

use std::io;
use std::ops::ControlFlow;

use super::copy::lack_of_space;
use super::error::MigrateError;
use super::exclusive::{can_be_had_alone, is_undisturbed, keep_others_out, let_others_in, note_unsettled, warm};
use super::facts::{Facts, FileSystem};
use super::ioctl::{f2fs_defragment, f2fs_write_checkpoint};
use super::refusals::{self, Refusal};
use super::segments::{Left, Segment, Slice};
use super::target::{Opening, Target};
use super::{Files, Migrate, Pace, Progress};
use crate::ByteRange;

/// Rewritten in one call, in which others cannot open the file. The kernel writes out after each 2 MiB of it.
const SLICE_BYTES: u64 = 8 << 20;
/// Attempts for a slice that others open just then.
const ATTEMPTS: u32 = 16;
/// `DEFAULT_BLOCKS_PER_SEGMENT` of include/linux/f2fs_fs.h.
const LOG_SEGMENT_BYTES: u64 = 2 << 20;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct F2fsDefragment;

impl Migrate for F2fsDefragment {
    fn name(&self) -> &'static str {
        "F2FS F2FS_IOC_DEFRAGMENT"
    }

    fn check(&self, facts: &Facts) -> Option<Result<(), Refusal>> {
        (facts.system == FileSystem::F2fs).then(|| refusals::f2fs(facts))
    }

    fn opening(&self) -> Opening {
        Opening::Read
    }

    fn has_donor(&self) -> bool {
        false
    }

    fn promise(&self, target: &Target, _open: bool) -> Result<(), Refusal> {
        can_be_had_alone(target)
    }

    fn migrate(&self, files: &mut Files<'_>, segment: &Segment, pace: &mut dyn Pace) -> Result<Progress, MigrateError> {
        let mut progress = Progress::default();
        for (slice, bytes) in with_gaps(segment, SLICE_BYTES) {
            // Once more where the first attempt met the end of a log segment.
            for _ in 0..2 {
                let pieces = files.target.map(slice)?.stretch_count(slice);
                if pieces <= reachable_pieces(bytes) {
                    break;
                }
                if pace.waits() {
                    self.settle(files)?;
                }
                if let ControlFlow::Break(stop) = pace.before(bytes) {
                    progress.left = Some(Left::Stopped(stop));
                    return Ok(progress);
                }
                progress.left = self.rewrite(files, slice, bytes, &mut progress.written_bytes)?;
                if progress.left.is_some() {
                    return Ok(progress);
                }
            }
        }
        if progress.written_bytes == 0 {
            progress.left = Some(Left::NoBetterSpace { pieces: segment.pieces });
        }
        Ok(progress)
    }

    fn settle(&self, files: &mut Files<'_>) -> Result<(), MigrateError> {
        let_others_in(files, |files| {
            f2fs_write_checkpoint(files.target.file())
                .map_err(MigrateError::system(files.target.path(), "write a checkpoint of its file system"))
        })
    }
}

/// A segment in stretches of the file with at most `bytes` of data each, and how many these are: the kernel passes over the gaps
/// within (`f2fs_defragment_range`), and writes the data behind each other.
fn with_gaps(segment: &Segment, bytes: u64) -> Vec<(ByteRange, u64)> {
    let mut stretches: Vec<(ByteRange, u64)> = Vec::new();
    for Slice { range, .. } in segment.slices(bytes) {
        match stretches.last_mut() {
            Some((stretch, held)) if *held + range.len() <= bytes => {
                stretch.end = range.end;
                *held += range.len();
            }
            _ => stretches.push((range, range.len())),
        }
    }
    stretches
}

/// Pieces that data of so many bytes lies in after a move, at most and if nothing else is written meanwhile.
fn reachable_pieces(bytes: u64) -> u64 {
    if bytes <= LOG_SEGMENT_BYTES { 1 } else { bytes / LOG_SEGMENT_BYTES + 1 }
}

impl F2fsDefragment {
    /// Has a slice rewritten; why not, if so.
    fn rewrite(
        self,
        files: &mut Files<'_>,
        slice: ByteRange,
        bytes: u64,
        written_bytes: &mut u64,
    ) -> Result<Option<Left>, MigrateError> {
        let block = files.target.block_bytes();
        for _ in 0..ATTEMPTS {
            // What lies between the data is not read.
            let data: Vec<ByteRange> = files.target.map(slice)?.pieces(slice).map(|piece| piece.range).collect();
            for part in data {
                warm(&self, files, part)?;
            }
            if let Some(why) = keep_others_out(&self, files)? {
                return Ok(Some(why));
            }
            // Writes out everything that is dirty, not of the slice alone.
            let pieces = files.target.map(slice)?.stretch_count(slice);
            if files.target.size_bytes()? < slice.end {
                return Ok(Some(Left::Changed));
            }
            if !is_undisturbed(files) {
                continue;
            }
            note_unsettled(files, bytes);
            let length = slice.end.next_multiple_of(block) - slice.start;
            let rewritten = match f2fs_defragment(files.target.file(), slice.start, length) {
                Ok(rewritten) => rewritten.min(length),
                Err(error) => return failed(error, files).map(Some),
            };
            *written_bytes += rewritten;
            // Waits until everything is written: the checkpoint does not write data.
            let now = files.target.map(slice)?.stretch_count(slice);
            if !is_undisturbed(files) {
                self.settle(files)?;
            }
            let no_better = now > reachable_pieces(bytes) && now > pieces;
            return Ok(no_better.then_some(Left::NoBetterSpace { pieces: now }));
        }
        Ok(Some(Left::Open))
    }
}

fn failed(error: io::Error, files: &Files<'_>) -> Result<Left, MigrateError> {
    Ok(match error.raw_os_error() {
        // `has_not_enough_free_secs`.
        Some(libc::EAGAIN) => Left::NoSpace,
        Some(libc::EINVAL) => Left::Unsupported("F2FS updates it in place: pinned, or ipu_policy says so".to_owned()),
        Some(libc::EPERM) => Left::Unsupported("CAP_SYS_ADMIN is needed".to_owned()),
        Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EROFS) => Left::Unsupported(error.to_string()),
        _ => match lack_of_space(&error) {
            Some(left) => left,
            None => return Err(MigrateError::system(files.target.path(), "have F2FS rewrite it")(error)),
        },
    })
}
