//! XFS without reflink: `XFS_IOC_START_COMMIT`, a copy, `XFS_IOC_COMMIT_RANGE`.
//!
//! The kernel exchanges the ranges of file and donor if the file has not changed since the commit was started
//! (`xfs_exchange_range`, fs/xfs/xfs_exchrange.c). It knows that from the file's times and size; a store to a page
//! that a mapping may already write changes none of them. So the data is written out after the start: that
//! write-protects every page, and the next store is a fault, which changes the times. The file is opened such that
//! its times stay.
//!
//! That does not suffice: a fault updates the times before it waits for the file's locks (`__xfs_write_fault`,
//! fs/xfs/xfs_file.c), so that a store may follow the copy though the times are those of before it; 1 update of 24,000
//! by a mapping was lost so. A write lease keeps other programs out meanwhile; files that these have open are left alone.

use std::ops::ControlFlow;

use super::copy::{copy, lack_of_space, unsupported};
use super::donor::Offer;
use super::error::MigrateError;
use super::exclusive::can_be_had_alone;
use super::facts::{Facts, FileSystem};
use super::ioctl::{commit_range, start_commit};
use super::lease::Lease;
use super::refusals::{self, Refusal};
use super::resident::Resident;
use super::segments::{Left, Segment, Slice};
use super::target::{Opening, Target};
use super::{Files, Migrate, Pace, Progress};

/// Attempts for one slice: on a busy file most commits are refused.
const ATTEMPTS: u32 = 64;
/// The shorter the copy, the less often a writer comes in between.
const SLICE_BYTES: u64 = 1 << 20;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct XfsCommitRange;

impl Migrate for XfsCommitRange {
    fn name(&self) -> &'static str {
        "XFS XFS_IOC_COMMIT_RANGE"
    }

    fn check(&self, facts: &Facts) -> Option<Result<(), Refusal>> {
        (facts.system == FileSystem::Xfs).then(|| refusals::xfs(facts, facts.exchange))
    }

    fn opening(&self) -> Opening {
        Opening::XfsInvisible
    }

    fn promise(&self, target: &Target, _open: bool) -> Result<(), Refusal> {
        can_be_had_alone(target)
    }

    fn migrate(&self, files: &mut Files<'_>, segment: &Segment, pace: &mut dyn Pace) -> Result<Progress, MigrateError> {
        let offset = match files.donor.offer(segment, false)? {
            Offer::Better { offset, .. } => offset,
            Offer::Refused(why) => return Ok(Progress { written_bytes: 0, left: Some(why) }),
        };
        let path = files.target.path();
        let donor = files.donor.file().map_err(MigrateError::system(path, "open its temporary file"))?;
        let mut progress = Progress::default();
        for Slice { range: slice, place } in segment.slices(SLICE_BYTES) {
            let donor_at = offset + place;
            let mut attempts = 0;
            let resident = Resident::of(files.target.file(), slice);
            loop {
                if let ControlFlow::Break(stop) = pace.before(slice.len()) {
                    progress.left = Some(Left::Stopped(stop));
                    return Ok(progress);
                }
                let file = files.target.file();
                // Nothing is read while others are kept out.
                files.target.read_ahead(slice);
                let lease = match Lease::take_or_leave(file) {
                    Ok(lease) => lease,
                    Err(why) => {
                        progress.left = Some(why);
                        return Ok(progress);
                    }
                };
                let fresh = match start_commit(file) {
                    Ok(fresh) => fresh,
                    Err(error) => {
                        let left = unsupported(&error);
                        progress.left =
                            Some(left.ok_or_else(|| MigrateError::system(path, "start a commit to it")(error))?);
                        return Ok(progress);
                    }
                };
                file.sync_data().map_err(MigrateError::system(path, "write it out"))?;
                let left = match copy(files, slice, donor_at) {
                    Ok(true) => None,
                    Ok(false) => Some(Left::Changed),
                    Err(error) => match lack_of_space(&error) {
                        Some(left) => Some(left),
                        None => return Err(MigrateError::system(path, "copy a part of it")(error)),
                    },
                };
                if left.is_some() {
                    progress.left = left;
                    return Ok(progress);
                }
                progress.written_bytes += slice.len();
                // Somebody who opens the file has waited so long that the kernel may have let them in.
                if !lease.is_undisturbed() && attempts < ATTEMPTS {
                    attempts += 1;
                    continue;
                }
                match commit_range(donor, donor_at, file, slice.start, slice.len(), &fresh) {
                    Ok(()) => break,
                    Err(error) => match error.raw_os_error() {
                        Some(libc::EBUSY) if attempts < ATTEMPTS => attempts += 1,
                        Some(libc::EBUSY) => {
                            progress.left = Some(Left::Busy);
                            return Ok(progress);
                        }
                        _ => {
                            let left = lack_of_space(&error).or_else(|| unsupported(&error));
                            progress.left =
                                Some(left.ok_or_else(|| MigrateError::system(path, "exchange a part of it")(error))?);
                            return Ok(progress);
                        }
                    },
                }
            }
            resident.read_again(files.target.file());
        }
        Ok(progress)
    }
}
