//! Btrfs: `BTRFS_IOC_DEFRAG_RANGE`.
//!
//! The kernel marks the pages of the range dirty, with the extents locked, and writes them to new places as it
//! writes everything (`btrfs_defrag_file`, fs/btrfs/defrag.c): a program that writes meanwhile is one writer more.
//! Times are left alone.
//!
//! It chooses the place only when it writes, so an unnamed file asks beforehand what place there is. Room that this file
//! gives back could not be used before the next commit (`btrfs_pin_extent`, fs/btrfs/extent-tree.c), so that the kernel
//! may find worse elsewhere. Therefore the room is held meanwhile, and for the next segments that fit into it. Where it
//! is no single piece, or where the kernel found a place no better than the old one, the file shares a copy in that very
//! room (`dedupe.rs`): on a file system that is nearly full at most one segment of a file is written twice, and none ends
//! up worse than it was.
//!
//! It works through a range in clusters of 256 KiB, and leaves an extent alone that has a cluster to itself and no
//! data after it, as nothing could be merged with it (`defrag_collect_targets`). Where that would leave the last extent
//! of a segment, a copy is shared instead (`dedupe.rs`). A file without copy-on-write (`chattr +C`) cannot share one,
//! and keeps that extent.

use std::ops::ControlFlow;

use super::copy::{is_lack_of_space, unsupported};
use super::dedupe::{Copying, share_range, share_segment};
use super::donor::Offer;
use super::error::MigrateError;
use super::facts::{Facts, FileSystem};
use super::ioctl::{defragment_range, flag};
use super::refusals::{self, Refusal};
use super::segments::{Left, Segment, slices};
use super::target::Opening;
use super::{Files, Migrate, Pace, Progress};
use crate::ByteRange;

/// Attempts for one slice when a signal interrupts it.
const ATTEMPTS: u32 = 16;
/// Rewritten in one call; whole clusters.
const SLICE_BYTES: u64 = 16 << 20;
/// `CLUSTER_SIZE` of fs/btrfs/defrag.c.
const CLUSTER_BYTES: u64 = 256 << 10;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct BtrfsDefragment;

impl BtrfsDefragment {
    /// Whether the segment's last extent could be merged with a next one.
    fn data_follows(self, files: &Files<'_>, segment: &Segment) -> Result<bool, MigrateError> {
        let block = files.target.block_bytes();
        let start = segment.range.end.next_multiple_of(block);
        let next = ByteRange { start, end: start.saturating_add(block) };
        let map = files.target.map(next)?;
        Ok(map.pieces(next).any(|piece| piece.kind.is_plain()))
    }

    /// Has the kernel rewrite a segment; what is left to be done of it where a slice, or all of it, lies no better than
    /// before, or there is no room.
    fn rewrite(
        self,
        files: &mut Files<'_>,
        segment: &Segment,
        pace: &mut dyn Pace,
        progress: &mut Progress,
    ) -> Result<ByteRange, MigrateError> {
        for slice in slices(segment.range, SLICE_BYTES) {
            let rest = ByteRange { start: slice.start, end: segment.range.end };
            let before = files.target.map(slice)?.piece_count(slice);
            if let ControlFlow::Break(stop) = pace.before(slice.len()) {
                progress.left = Some(Left::Stopped(stop));
                return Ok(rest);
            }
            let mut attempts = 0;
            while let Err(error) = defragment_range(files.target.file(), slice.start, slice.len()) {
                attempts += 1;
                let left = match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) if attempts < ATTEMPTS => continue,
                    Some(libc::EAGAIN | libc::EINTR) => Left::Busy,
                    _ if is_lack_of_space(&error) => return Ok(rest),
                    _ => unsupported(&error)
                        .ok_or_else(|| MigrateError::system(files.target.path(), "have Btrfs rewrite it")(error))?,
                };
                progress.left = Some(left);
                return Ok(rest);
            }
            progress.written_bytes += slice.len();
            // Waits until it is written. A few pieces may be of programs that wrote meanwhile.
            let now = files.target.map(slice)?.piece_count(slice);
            if now > 1 && now >= before {
                files.donor.crowded = true;
                return Ok(rest);
            }
        }
        // Slices that are whole, and lie apart.
        if segment.range.len() > SLICE_BYTES {
            let now = files.target.map(segment.range)?.piece_count(segment.range);
            if now > 1 && now >= segment.pieces {
                files.donor.crowded = true;
                return Ok(segment.range);
            }
        }
        Ok(ByteRange { start: segment.range.end, end: segment.range.end })
    }
}

impl Migrate for BtrfsDefragment {
    fn name(&self) -> &'static str {
        "Btrfs BTRFS_IOC_DEFRAG_RANGE"
    }

    fn check(&self, facts: &Facts) -> Option<Result<(), Refusal>> {
        (facts.system == FileSystem::Btrfs).then(|| refusals::btrfs(facts))
    }

    fn opening(&self) -> Opening {
        Opening::Read
    }

    fn migrate(&self, files: &mut Files<'_>, segment: &Segment, pace: &mut dyn Pace) -> Result<Progress, MigrateError> {
        let last_cluster = segment.range.end.saturating_sub(1).saturating_sub(segment.range.start) / CLUSTER_BYTES;
        let last_cluster = segment.range.start + last_cluster * CLUSTER_BYTES;
        if last_cluster >= segment.last_start && !self.data_follows(files, segment)? {
            if files.target.facts().inode_flags & flag::NO_COW == 0 {
                return share_segment(files, segment, Copying::First, pace);
            }
            if segment.pieces == 2 {
                let why = "Btrfs leaves the last extent of a file without copy-on-write where it is";
                return Ok(Progress { written_bytes: 0, left: Some(Left::Unsupported(why.to_owned())) });
            }
        }
        // Sized by what is written: a copy of the file's end has to end where the file ends.
        let (offset, pieces) = match files.donor.hold(segment)? {
            Offer::Better { offset, pieces } => (offset, pieces),
            Offer::Refused(why) => return Ok(Progress { written_bytes: 0, left: Some(why) }),
        };
        let can_share = files.target.facts().inode_flags & flag::NO_COW == 0;
        let mut progress = Progress::default();
        let mut rest = segment.range;
        if pieces == 1 && !files.donor.crowded {
            rest = self.rewrite(files, segment, pace, &mut progress)?;
        } else if !can_share {
            progress.left = Some(Left::NoBetterSpace { pieces });
            files.donor.release()?;
        }
        if can_share && !rest.is_empty() && progress.left.is_none() {
            let shared = share_range(files, rest, offset + (rest.start - segment.range.start), Copying::First, pace)?;
            progress.written_bytes += shared.written_bytes;
            progress.left = shared.left;
        }
        Ok(progress)
    }
}
