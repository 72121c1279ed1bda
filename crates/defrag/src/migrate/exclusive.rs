//! Keeps other programs out of a file while it is moved, range after range.
//!
//! What has been moved is made lasting before they are let in again, since what they synchronise builds on it. To do that
//! for each range would cost a commit each; so the lease is kept from range to range, and given back when somebody waits for
//! it, after a second, before a pause, and when the file is done with.

use std::fs::File;
use std::time::{Duration, Instant};

use super::error::MigrateError;
use super::ioctl::{give_lease_back, holds_lease};
use super::lease::Lease;
use super::refusals::Refusal;
use super::segments::Left;
use super::stride::Stride;
use super::target::Target;
use super::{Files, Migrate};
use crate::ByteRange;
use crate::priority::Urgent;

/// Longest that others who open the file wait, and that what was moved is not lasting yet.
const SETTLE_EACH: Duration = Duration::from_secs(1);
/// The same in bytes, at most: to make them lasting takes time, too, and on a slow disk they are fewer, see [`Stride`].
const SETTLE_EACH_BYTES: u64 = 16 << 20;
/// Most that is moved in one call, see [`Stride`].
const MOST_BYTES: u64 = 256 << 10;

/// A file that is moved although others have it open: how long they are taken to have it open still, and are not waited for again.
const OPEN_FOR: Duration = Duration::from_secs(1);

/// How a file is had to oneself.
#[derive(Debug)]
pub struct Exclusive {
    /// Since when there is something that a crash may take back.
    unsettled: Option<Instant>,
    unsettled_bytes: u64,
    /// When others were last waited for to close the file, in vain.
    found_open: Option<Instant>,
    /// While the lease is held: others wait for this thread, whatever class it is of.
    urgent: Option<Urgent>,
    /// What the next call moves.
    pub(super) stride: Stride,
    /// What is moved until it is made lasting.
    committed: Stride,
}

impl Exclusive {
    pub(super) fn new() -> Self {
        Self {
            unsettled: None,
            unsettled_bytes: 0,
            found_open: None,
            urgent: None,
            stride: Stride::up_to(MOST_BYTES),
            committed: Stride::committed_up_to(SETTLE_EACH_BYTES),
        }
    }

    /// Whether the lease was taken, and not yet given back.
    pub(super) fn is_held(&self) -> bool {
        self.urgent.is_some()
    }

    fn is_due(&self) -> bool {
        self.unsettled_bytes >= self.committed.bytes()
            || self.unsettled.is_some_and(|since| since.elapsed() >= SETTLE_EACH)
    }
}

/// Takes the lease, if it is not held already; why it is not available, if so.
pub(super) fn keep_others_out(way: &dyn Migrate, files: &mut Files<'_>) -> Result<Option<Left>, MigrateError> {
    take(way, files, |file| Lease::take_or_leave(file))
}

/// The same for a file that is moved all the same: others are waited for once in a while only.
pub(super) fn keep_others_out_if_possible(
    way: &dyn Migrate,
    files: &mut Files<'_>,
) -> Result<Option<Left>, MigrateError> {
    if files.exclusive.found_open.is_some_and(|found| found.elapsed() < OPEN_FOR) {
        return take(way, files, |file| Lease::take_at_once(file));
    }
    let why = keep_others_out(way, files)?;
    files.exclusive.found_open = why.is_some().then(Instant::now);
    Ok(why)
}

fn take(
    way: &dyn Migrate,
    files: &mut Files<'_>,
    take: impl for<'a> Fn(&'a File) -> Result<Lease<'a>, Left>,
) -> Result<Option<Left>, MigrateError> {
    if is_undisturbed(files) && !files.exclusive.is_due() {
        return Ok(None);
    }
    way.settle(files)?;
    match take(files.target.file()) {
        Ok(lease) => {
            files.exclusive.urgent = Some(lease.keep());
            Ok(None)
        }
        Err(why) => Ok(Some(why)),
    }
}

/// Whether the lease is available just now; it is given back at once.
pub(super) fn can_be_had_alone(target: &Target) -> Result<(), Refusal> {
    match Lease::take_or_leave(target.file()) {
        Ok(_) => Ok(()),
        Err(Left::Open) => Err(Refusal::OpenElsewhere),
        Err(why) => Err(Refusal::NotPermitted(why.to_string())),
    }
}

/// Whether the lease is held and nobody waits for it.
pub(super) fn is_undisturbed(files: &Files<'_>) -> bool {
    holds_lease(files.target.file())
}

/// From now on something is moved that a crash may take back.
pub(super) fn note_unsettled(files: &mut Files<'_>, bytes: u64) {
    files.exclusive.unsettled.get_or_insert_with(Instant::now);
    files.exclusive.unsettled_bytes += bytes;
}

/// Has `commit` make what was moved lasting, if there is something, and lets the others in, even where that failed.
pub(super) fn let_others_in(
    files: &mut Files<'_>,
    commit: impl FnOnce(&Files<'_>) -> Result<(), MigrateError>,
) -> Result<(), MigrateError> {
    let bytes = std::mem::take(&mut files.exclusive.unsettled_bytes);
    let committed = if files.exclusive.unsettled.take().is_some() {
        let begun = Instant::now();
        let committed = commit(files);
        files.exclusive.committed.took(bytes, begun);
        committed
    } else {
        Ok(())
    };
    // There may be none.
    let _ = give_lease_back(files.target.file());
    files.exclusive.urgent = None;
    committed
}

/// Has a range in memory, in small pieces, so that nothing is read while others are kept out, page by page; and lets them in if
/// they come meanwhile.
pub(super) fn warm(way: &dyn Migrate, files: &mut Files<'_>, range: ByteRange) -> Result<(), MigrateError> {
    let mut at = range.start;
    while at < range.end {
        let part = ByteRange { start: at, end: range.end.min(at + MOST_BYTES) };
        let held = is_undisturbed(files);
        files.target.read_ahead(part);
        if held && !is_undisturbed(files) {
            way.settle(files)?;
        }
        at = part.end;
    }
    Ok(())
}
