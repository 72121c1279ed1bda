//! Keeps other programs out of a file while it is moved, range after range.
//!
//! What has been moved is made lasting before they are let in again, since what they synchronise builds on it. To do that
//! for each range would cost a commit each; so the lease is kept from range to range, and given back when somebody waits for
//! it, after a second, before a pause, and when the file is done with.

use std::time::{Duration, Instant};

use super::error::MigrateError;
use super::ioctl::{give_lease_back, holds_lease};
use super::lease::Lease;
use super::segments::Left;
use super::{Files, Migrate};

/// Longest that others who open the file wait, and that what was moved is not lasting yet.
const SETTLE_EACH: Duration = Duration::from_secs(1);

/// Takes the lease, if it is not held already; why it is not to be had, if so.
pub(super) fn keep_others_out(way: &dyn Migrate, files: &mut Files<'_>) -> Result<Option<Left>, MigrateError> {
    let since = files.donor.unsettled;
    if is_undisturbed(files) && since.is_none_or(|since| since.elapsed() < SETTLE_EACH) {
        return Ok(None);
    }
    way.settle(files)?;
    Ok(Lease::take_or_leave(files.target.file()).map(Lease::keep).err())
}

/// Whether the lease is held and nobody waits for it.
pub(super) fn is_undisturbed(files: &Files<'_>) -> bool {
    holds_lease(files.target.file())
}

/// From now on something is moved that a crash may take back.
pub(super) fn note_unsettled(files: &mut Files<'_>) {
    files.donor.unsettled.get_or_insert_with(Instant::now);
}

/// Has `commit` make what was moved lasting, if there is something, and lets the others in, even where that failed.
pub(super) fn let_others_in(
    files: &mut Files<'_>,
    commit: impl FnOnce(&Files<'_>) -> Result<(), MigrateError>,
) -> Result<(), MigrateError> {
    let committed = if files.donor.unsettled.take().is_some() { commit(files) } else { Ok(()) };
    // There may be none.
    let _ = give_lease_back(files.target.file());
    committed
}
