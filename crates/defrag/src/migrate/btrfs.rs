//! Btrfs: `BTRFS_IOC_DEFRAG_RANGE`.
//!
//! The kernel marks the pages of the range dirty, with the extents locked, and writes them to new places as it
//! writes everything (`btrfs_defrag_file`, fs/btrfs/defrag.c): a program that writes meanwhile is one writer more.
//! Times are left alone. It chooses the place only when it writes, so an unnamed file asks beforehand what place
//! there is, and gives it back.

use std::ops::ControlFlow;

use super::copy::{is_lack_of_space, unsupported};
use super::donor::Offer;
use super::error::MigrateError;
use super::facts::{Facts, FileSystem};
use super::ioctl::defragment_range;
use super::refusals::{self, Refusal};
use super::segments::{Left, Segment, slices};
use super::target::Opening;
use super::{Files, Migrate, Pace, Progress};

/// Attempts for one slice when a signal interrupts it.
const ATTEMPTS: u32 = 16;
/// Rewritten in one call.
const SLICE_BYTES: u64 = 16 << 20;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct BtrfsDefragment;

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
