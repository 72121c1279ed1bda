//! Btrfs: `BTRFS_IOC_DEFRAG_RANGE`.
//!
//! The kernel marks the pages of the range dirty, with the extents locked, and writes them to new places as it
//! writes everything (`btrfs_defrag_file`, fs/btrfs/defrag.c): a program that writes meanwhile is one writer more.
//! Times are left alone. It chooses the place only when it writes, so an unnamed file asks beforehand what place
//! there is, and gives it back.
//!
//! It works through a range in clusters of 256 KiB, and leaves an extent alone that has a cluster to itself and no
//! data after it, as nothing could be merged with it (`defrag_collect_targets`). Where that would leave the last extent
//! of a segment, a copy is shared instead (`dedupe.rs`). A file without copy-on-write (`chattr +C`) cannot share one,
//! and keeps that extent.

use std::ops::ControlFlow;

use super::copy::{is_lack_of_space, unsupported};
use super::dedupe::share_segment;
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
                return share_segment(files, segment, pace);
            }
            if segment.pieces == 2 {
                let why = "Btrfs leaves the last extent of a file without copy-on-write where it is";
                return Ok(Progress { written_bytes: 0, left: Some(Left::Unsupported(why.to_owned())) });
            }
        }
        if let Offer::Refused(why) = files.donor.offer(segment, true)? {
            return Ok(Progress { written_bytes: 0, left: Some(why) });
        }
        files.donor.release()?;
        let mut progress = Progress::default();
        for slice in slices(segment.range, SLICE_BYTES) {
            if let ControlFlow::Break(stop) = pace.before(slice.len()) {
                progress.left = Some(Left::Stopped(stop));
                return Ok(progress);
            }
            let mut attempts = 0;
            while let Err(error) = defragment_range(files.target.file(), slice.start, slice.len()) {
                attempts += 1;
                let left = match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) if attempts < ATTEMPTS => continue,
                    Some(libc::EAGAIN | libc::EINTR) => Left::Busy,
                    _ if is_lack_of_space(&error) => Left::NoSpace,
                    _ => unsupported(&error)
                        .ok_or_else(|| MigrateError::system(files.target.path(), "have Btrfs rewrite it")(error))?,
                };
                progress.left = Some(left);
                return Ok(progress);
            }
            progress.written_bytes += slice.len();
        }
        Ok(progress)
    }
}
