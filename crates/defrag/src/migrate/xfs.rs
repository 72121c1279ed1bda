//! XFS: `FIDEDUPERANGE` from a donor.
//!
//! See `dedupe.rs`, also for why it leaves files alone that other programs have open. It needs the feature `reflink`.

use super::dedupe::{Copying, Sharing, share_segment};
use super::error::MigrateError;
use super::exclusive::can_be_had_alone;
use super::facts::{Facts, FileSystem};
use super::lease::Lease;
use super::refusals::{self, Refusal};
use super::segments::Segment;
use super::target::{Opening, Target};
use super::{Files, Migrate, Pace, Progress};

/// See `dedupe.rs`.
const SHARING: Sharing = Sharing { copying: Copying::Slices, drops_pages: true, needs_lease: true };

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct XfsDeduplicate;

impl Migrate for XfsDeduplicate {
    fn name(&self) -> &'static str {
        "XFS FIDEDUPERANGE"
    }

    fn check(&self, facts: &Facts) -> Option<Result<(), Refusal>> {
        (facts.system == FileSystem::Xfs).then(|| refusals::xfs(facts, facts.reflink))
    }

    fn opening(&self) -> Opening {
        Opening::Read
    }

    fn promise(&self, target: &Target, open: bool) -> Result<(), Refusal> {
        // `may_dedupe_file`, fs/remap_range.c.
        if !target.is_own() && !target.is_writable() {
            let why = "XFS shares blocks with those who own the file or may write to it".to_owned();
            return Err(Refusal::NotPermitted(why));
        }
        if open { Ok(()) } else { can_be_had_alone(target) }
    }

    /// As long as the donor holds the blocks, a program that writes to the file makes new ones.
    fn donor_keeps_bytes(&self) -> u64 {
        0
    }

    fn migrate(&self, files: &mut Files<'_>, segment: &Segment, pace: &mut dyn Pace) -> Result<Progress, MigrateError> {
        // Before anything is written for a file that stays where it is.
        if !files.open
            && let Err(why) = Lease::take_or_leave(files.target.file())
        {
            return Ok(Progress { written_bytes: 0, left: Some(why) });
        }
        share_segment(files, segment, SHARING, pace)
    }
}
