//! `FIDEDUPERANGE` from a donor.
//!
//! The donor is given contiguous room and a copy. The kernel then compares the two with both files locked, and has
//! the file share the donor's blocks if they are equal (`vfs_dedupe_file_range_one`, fs/remap_range.c;
//! `xfs_file_remap_range`, fs/xfs/xfs_file.c; `btrfs_remap_file_range`, fs/btrfs/reflink.c). A program that wrote in
//! between makes them differ, and nothing is changed. Times are left alone. When the donor lets go, the file is the
//! blocks' only owner.

use std::ops::ControlFlow;

use super::copy::{copy, is_lack_of_space, unsupported};
use super::donor::Offer;
use super::error::MigrateError;
use super::ioctl::{Deduplicated, deduplicate};
use super::segments::{Left, Segment, slices};
use super::{Files, Pace, Progress};
use crate::ByteRange;

/// Attempts for one slice before its writers are left alone.
const ATTEMPTS: u32 = 16;
/// Compared in one call, with the file locked.
const SLICE_BYTES: u64 = 4 << 20;

/// Moves a segment. The donor is empty afterwards: as long as it holds the blocks too, a program that writes to the
/// file is given new ones elsewhere.
pub(super) fn share_segment(
    files: &mut Files<'_>,
    segment: &Segment,
    pace: &mut dyn Pace,
) -> Result<Progress, MigrateError> {
    let offset = match files.donor.offer(segment, false)? {
        Offer::Better { offset } => offset,
        Offer::Refused(why) => return Ok(Progress { written_bytes: 0, left: Some(why) }),
    };
    let mut progress = Progress::default();
    for slice in slices(segment.range, SLICE_BYTES) {
        if let ControlFlow::Break(stop) = pace.before(slice.len()) {
            progress.left = Some(Left::Stopped(stop));
            break;
        }
        progress.left = share(files, slice, offset + (slice.start - segment.range.start), &mut progress)?;
        if progress.left.is_some() {
            break;
        }
    }
    files.donor.forget(ByteRange { start: offset, end: offset + segment.range.len() });
    files.donor.release()?;
    Ok(progress)
}

/// Copies a slice and has the file share the copy.
fn share(
    files: &Files<'_>,
    slice: ByteRange,
    offset: u64,
    progress: &mut Progress,
) -> Result<Option<Left>, MigrateError> {
    let path = files.target.path();
    let (mut at, mut attempts) = (slice.start, 0);
    while at < slice.end {
        let rest = ByteRange { start: at, end: slice.end };
        let donor_at = offset + (at - slice.start);
        match copy(files, rest, donor_at) {
            Ok(true) => progress.written_bytes += rest.len(),
            Ok(false) => return Ok(Some(Left::Changed)),
            Err(error) if is_lack_of_space(&error) => return Ok(Some(Left::NoSpace)),
            Err(error) => return Err(MigrateError::system(path, "copy a part of it")(error)),
        }
        let mut differs = false;
        while at < slice.end && !differs {
            let (from, length) = (offset + (at - slice.start), slice.end - at);
            let shared = files.donor.file().and_then(|donor| deduplicate(donor, from, files.target.file(), at, length));
            match shared {
                Ok(Deduplicated::Bytes(bytes)) if bytes > 0 => at += bytes,
                Ok(_) => differs = true,
                Err(error) if is_lack_of_space(&error) => return Ok(Some(Left::NoSpace)),
                Err(error) => {
                    // The end of the file has to be that of the donor.
                    let size = files.target.size_bytes()?;
                    let moved_end = !slice.end.is_multiple_of(files.target.block_bytes()) && size != slice.end;
                    if moved_end || size < slice.end {
                        return Ok(Some(Left::Changed));
                    }
                    let left = unsupported(&error);
                    return left.map(Some).ok_or_else(|| MigrateError::system(path, "share a copy of it")(error));
                }
            }
        }
        if differs {
            attempts += 1;
            if attempts > ATTEMPTS {
                return Ok(Some(Left::Busy));
            }
        }
    }
    Ok(None)
}
