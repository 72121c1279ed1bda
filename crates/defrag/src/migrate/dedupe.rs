//! `FIDEDUPERANGE` from a donor.
//!
//! The donor is given contiguous room and a copy. The kernel then compares the two with both files locked, and has
//! the file share the donor's blocks if they are equal (`vfs_dedupe_file_range_one`, fs/remap_range.c;
//! `xfs_file_remap_range`, fs/xfs/xfs_file.c; `btrfs_remap_file_range`, fs/btrfs/reflink.c). A program that wrote in
//! between makes them differ, and nothing is changed. Times are left alone. When the donor lets go, the file is the
//! blocks' only owner.
//!
//! XFS empties the page cache where it maps the new blocks (`xfs_flush_unmap_range`, fs/xfs/xfs_bmap_util.c), and where a
//! large folio reaches beyond, `truncate_inode_partial_folio` (mm/truncate.c) fills that part of it with zeros first. A
//! fault on a folio that is up to date takes no lock that keeps it out (`filemap_fault`, mm/filemap.c): a program
//! that reads by a mapping may see the zeros, and the data again a moment later. So there nobody else has the file open
//! during the call.

use std::ops::ControlFlow;

use super::copy::{copy, lack_of_space, unsupported};
use super::donor::Offer;
use super::error::MigrateError;
use super::ioctl::{Deduplicated, deduplicate};
use super::lease::Lease;
use super::resident::Resident;
use super::segments::{Left, Segment, Slice};
use super::{Files, Pace, Progress};
use crate::ByteRange;

/// Attempts for one slice before its writers are left alone.
const ATTEMPTS: u32 = 16;
/// Compared in one call, with the file locked.
const SLICE_BYTES: u64 = 4 << 20;

/// When the copy is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Copying {
    /// Each slice just before it is shared, so that few programs write to it in between.
    Slices,
    /// All of it before any is shared.
    First,
}

/// How a file system shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sharing {
    /// When the copy is made.
    pub copying: Copying,
    /// Whether the call drops the file's pages; what was in memory before is read again.
    pub drops_pages: bool,
    /// Whether others may see zeros during the call: then nobody else may have the file open, unless the user allows it.
    pub needs_lease: bool,
}

/// Moves a segment. The donor is empty afterwards: as long as it holds the blocks too, a program that writes to the
/// file is given new ones elsewhere.
pub(super) fn share_segment(
    files: &mut Files<'_>,
    segment: &Segment,
    sharing: Sharing,
    pace: &mut dyn Pace,
) -> Result<Progress, MigrateError> {
    let offset = match files.donor.offer(segment, false)? {
        Offer::Better { offset, .. } => offset,
        Offer::Refused(why) => return Ok(Progress { written_bytes: 0, left: Some(why) }),
    };
    share_from(files, segment, segment.range.start, offset, sharing, pace)
}

/// The same for what of the segment begins at `from`, where one of its slices does, or later. The donor has room for all of it
/// at `offset`.
pub(super) fn share_from(
    files: &mut Files<'_>,
    segment: &Segment,
    from: u64,
    offset: u64,
    sharing: Sharing,
    pace: &mut dyn Pace,
) -> Result<Progress, MigrateError> {
    let mut progress = Progress::default();
    let all: Vec<Slice> = segment.slices(SLICE_BYTES).filter(|slice| slice.range.start >= from).collect();
    let mut ready = all.len();
    if sharing.copying == Copying::First {
        ready = 0;
        for slice in &all {
            progress.left = match pace.before(slice.range.len()) {
                ControlFlow::Break(stop) => Some(Left::Stopped(stop)),
                ControlFlow::Continue(()) => {
                    copied(files, slice.range, offset + slice.place, &mut progress.written_bytes)?
                }
            };
            if progress.left.is_some() {
                break;
            }
            ready += 1;
        }
        if let Err(error) = files.donor.file().and_then(|donor| donor.sync_data()) {
            let left = lack_of_space(&error);
            let system = MigrateError::system(files.target.path(), "write a copy of it");
            ready = 0;
            progress.left = Some(left.ok_or_else(|| system(error))?);
        }
    }
    for Slice { range: slice, place } in all.into_iter().take(ready) {
        if sharing.copying == Copying::Slices
            && let ControlFlow::Break(stop) = pace.before(slice.len())
        {
            progress.left = Some(Left::Stopped(stop));
            break;
        }
        let resident = if sharing.drops_pages { Resident::of(files.target.file(), slice) } else { Resident::default() };
        let left = share(files, slice, offset + place, sharing, &mut progress.written_bytes)?;
        resident.read_again(files.target.file());
        if left.is_some() {
            // Why the copy ended early, if it did, is told first.
            progress.left = progress.left.or(left);
            break;
        }
    }
    files.donor.forget(ByteRange { start: offset, end: offset + segment.bytes() });
    files.donor.release()?;
    Ok(progress)
}

/// Copies a part of the file to `offset` of the donor; why not, if so.
fn copied(
    files: &Files<'_>,
    part: ByteRange,
    offset: u64,
    written_bytes: &mut u64,
) -> Result<Option<Left>, MigrateError> {
    match copy(files, part, offset) {
        Ok(true) => {
            *written_bytes += part.len();
            Ok(None)
        }
        Ok(false) => Ok(Some(Left::Changed)),
        Err(error) => {
            let system = MigrateError::system(files.target.path(), "copy a part of it");
            lack_of_space(&error).map(Some).ok_or_else(|| system(error))
        }
    }
}

/// Has the file share a copy of a slice, which is made before or now.
fn share(
    files: &Files<'_>,
    slice: ByteRange,
    offset: u64,
    sharing: Sharing,
    written_bytes: &mut u64,
) -> Result<Option<Left>, MigrateError> {
    let path = files.target.path();
    let (mut at, mut attempts) = (slice.start, 0);
    let mut is_copied = sharing.copying == Copying::First;
    while at < slice.end {
        let rest = ByteRange { start: at, end: slice.end };
        if !is_copied {
            let left = copied(files, rest, offset + (at - slice.start), written_bytes)?;
            if left.is_some() {
                return Ok(left);
            }
        }
        is_copied = false;
        let mut differs = false;
        while at < slice.end && !differs {
            let (from, length) = (offset + (at - slice.start), slice.end - at);
            // Only for the call: what is copied before it is compared by it.
            let lease = match sharing.needs_lease && !files.open {
                true => Some(Lease::take_or_leave(files.target.file())),
                false => None,
            };
            let _alone = match lease.transpose() {
                Ok(lease) => lease,
                Err(why) => return Ok(Some(why)),
            };
            let shared = files.donor.file().and_then(|donor| deduplicate(donor, from, files.target.file(), at, length));
            match shared {
                Ok(Deduplicated::Bytes(bytes)) if bytes > 0 => at += bytes,
                Ok(_) => differs = true,
                Err(error) => {
                    if let Some(left) = lack_of_space(&error) {
                        return Ok(Some(left));
                    }
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
