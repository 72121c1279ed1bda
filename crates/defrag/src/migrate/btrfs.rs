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
//! of a segment, a copy is shared instead (`dedupe.rs`), and so it is where a segment has holes, since the kernel would
//! choose a place for each side of a hole. The copy of a file without copy-on-write (`chattr +C`) is without as well.

use std::ops::ControlFlow;

use super::copy::{lack_of_space, unsupported};
use super::dedupe::{Copying, Sharing, share_from, share_segment};
use super::donor::Offer;
use super::error::MigrateError;
use super::facts::{Facts, FileSystem};
use super::ioctl::defragment_range;
use super::refusals::{self, Refusal};
use super::segments::{Left, Segment, slices};
use super::target::{Opening, Target};
use super::{Files, Migrate, Pace, Progress};
use crate::ByteRange;
use crate::extents::ExtentMap;

/// Attempts for one slice that come to nothing, as when signals interrupt each; then a copy is shared.
const ATTEMPTS: u32 = 4;
/// Rewritten in one call; whole clusters.
const SLICE_BYTES: u64 = 16 << 20;
/// `CLUSTER_SIZE` of fs/btrfs/defrag.c.
const CLUSTER_BYTES: u64 = 256 << 10;

/// What is written to an extent of which a part is shared already goes elsewhere (`can_nocow_file_extent`, fs/btrfs/inode.c), and not
/// into the room that was found. Pages stay, and are never zeros.
const SHARING: Sharing = Sharing { copying: Copying::First, drops_pages: false, needs_lease: false };

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

    /// Has the kernel rewrite a slice; up to where it did, and why no further, if there is a reason.
    ///
    /// A signal has it end early and say that all went well (`btrfs_defrag_file` returns how much was done). It works from the
    /// front to the end: so where the end lies where it lay, it is told again.
    fn rewrite_slice(
        self,
        files: &Files<'_>,
        slice: ByteRange,
        pace: &mut dyn Pace,
    ) -> Result<(u64, Option<Left>), MigrateError> {
        let before = files.target.map(slice)?;
        let (mut from, mut attempts) = (slice.start, 0);
        loop {
            match defragment_range(files.target.file(), from, slice.end - from) {
                Ok(()) => {}
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {}
                Err(error) => {
                    let system = MigrateError::system(files.target.path(), "have Btrfs rewrite it");
                    return match lack_of_space(&error).or_else(|| unsupported(&error)) {
                        Some(left) => Ok((from, Some(left))),
                        None => Err(system(error)),
                    };
                }
            }
            // Waits until it is written.
            let now = files.target.map(slice)?;
            let unmoved = unmoved_from(&before, &now, slice);
            let rest = ByteRange { start: unmoved, end: slice.end };
            // One extent is left alone where nothing could be merged with it.
            if before.piece_count(rest) <= 1 {
                return Ok((slice.end, None));
            }
            if pace.interrupts()
                && let ControlFlow::Break(stop) = pace.before(0)
            {
                return Ok((unmoved, Some(Left::Stopped(stop))));
            }
            attempts = if unmoved > from { 0 } else { attempts + 1 };
            if attempts == ATTEMPTS {
                return Ok((unmoved, Some(Left::Busy)));
            }
            from = unmoved;
        }
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
            let (unmoved, left) = self.rewrite_slice(files, slice, pace)?;
            progress.written_bytes += unmoved - slice.start;
            if left.is_some() {
                progress.left = left;
                return Ok(ByteRange { start: unmoved, end: segment.range.end });
            }
            // A few pieces may be of programs that wrote meanwhile.
            let now = files.target.map(slice)?.piece_count(slice);
            if now > 1 && now >= before {
                files.donor.crowded = true;
                return Ok(rest);
            }
        }
        // Slices that are whole, and lie apart.
        if segment.range.len() > SLICE_BYTES {
            let now = files.target.map(segment.range)?.stretch_count(segment.range);
            if now > 1 && now >= segment.pieces {
                files.donor.crowded = true;
                return Ok(segment.range);
            }
        }
        Ok(ByteRange { start: segment.range.end, end: segment.range.end })
    }
}

/// From where on everything up to the end of `slice` lies where it lay before.
fn unmoved_from(before: &ExtentMap, now: &ExtentMap, slice: ByteRange) -> u64 {
    let places = |map: &ExtentMap| map.pieces(slice).map(|piece| (piece.range, piece.physical)).collect::<Vec<_>>();
    let (before, now) = (places(before), places(now));
    let mut from = slice.end;
    for ((old, old_place), (new, new_place)) in before.iter().rev().zip(now.iter().rev()) {
        let ends_alike =
            old.end == new.end && old_place.saturating_add(old.len()) == new_place.saturating_add(new.len());
        if !ends_alike {
            break;
        }
        from = old.start.max(new.start);
        if old.start != new.start {
            break;
        }
    }
    from
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

    fn promise(&self, target: &Target, _open: bool) -> Result<(), Refusal> {
        // `btrfs_ioctl_defrag`, fs/btrfs/ioctl.c.
        if target.is_writable() {
            return Ok(());
        }
        Err(Refusal::NotPermitted("Btrfs rewrites files for those who may write to them".to_owned()))
    }

    fn migrate(&self, files: &mut Files<'_>, segment: &Segment, pace: &mut dyn Pace) -> Result<Progress, MigrateError> {
        // The kernel would choose a place for each side of a hole by itself.
        if segment.parts.len() > 1 {
            return share_segment(files, segment, SHARING, pace);
        }
        let last_cluster = segment.range.end.saturating_sub(1).saturating_sub(segment.range.start) / CLUSTER_BYTES;
        let last_cluster = segment.range.start + last_cluster * CLUSTER_BYTES;
        if last_cluster >= segment.last_start && !self.data_follows(files, segment)? {
            return share_segment(files, segment, SHARING, pace);
        }
        // Sized by what is written: a copy of the file's end has to end where the file ends.
        let (offset, pieces) = match files.donor.hold(segment)? {
            Offer::Better { offset, pieces } => (offset, pieces),
            Offer::Refused(why) => return Ok(Progress { written_bytes: 0, left: Some(why) }),
        };
        let mut progress = Progress::default();
        let mut rest = segment.range;
        // What the kernel writes is beside what is held.
        if pieces == 1 && !files.donor.crowded && files.donor.leaves_enough(files.target, segment.bytes())? {
            rest = self.rewrite(files, segment, pace, &mut progress)?;
        }
        if !rest.is_empty() && matches!(progress.left, None | Some(Left::NoSpace | Left::Quota | Left::Busy)) {
            let shared = share_from(files, segment, rest.start, offset, SHARING, pace)?;
            progress.written_bytes += shared.written_bytes;
            progress.left = shared.left;
        }
        Ok(progress)
    }
}
