//! Moves ranges of files so that each becomes one piece, by means of the file system that are safe: no crash and no
//! program that writes meanwhile loses a byte.
//!
//! ```no_run
//! use defrag::ByteRange;
//! use defrag::migrate::{FileMover, MoveOptions, Unlimited};
//!
//! let mut mover = FileMover::open("/srv/photos.db".as_ref(), None, &MoveOptions::default())?;
//! let moved = mover.migrate(ByteRange { start: 0, end: 1 << 20 }, &mut Unlimited)?;
//! println!("{} pieces, now {}", moved.pieces_before, moved.pieces_after);
//! # Ok::<(), defrag::migrate::MigrateError>(())
//! ```
//!
//! Each way of moving is a file behind [`Migrate`]: [`Ext4MoveExtents`], [`XfsDeduplicate`], [`XfsCommitRange`],
//! [`BtrfsDefragment`], [`F2fsDefragment`]. What the published tool does, to punch a hole and write the data back, is none of them: a
//! crash in between leaves zeros, and a writer in between loses what it wrote.

mod btrfs;
mod copy;
mod dedupe;
mod donor;
mod error;
mod exclusive;
mod ext4;
mod f2fs;
mod facts;
mod ioctl;
mod lease;
mod modes;
mod mover;
mod pace;
mod refusals;
mod resident;
mod segments;
mod stride;
mod target;
mod xfs;
mod xfs_commit;

pub use btrfs::BtrfsDefragment;
pub use donor::{Donor, Offer};
pub use error::MigrateError;
pub use exclusive::Exclusive;
pub use ext4::Ext4MoveExtents;
pub use f2fs::F2fsDefragment;
pub use facts::{Facts, FileSystem};
pub(crate) use ioctl::{generation, move_extents};
pub use modes::{Mode, Modes, Verdict, modes_text};
pub(crate) use mover::LONGEST_SEGMENT_BYTES;
pub use mover::{FileMover, MoveOptions, Moved, refusal};
pub use pace::{Pace, Stop, Unlimited};
pub use refusals::Refusal;
pub(crate) use segments::can_join;
pub use segments::{Cut, Left, LeftRange, Segment, Slice, cut};
pub use target::{Opening, Target};
pub use xfs::XfsDeduplicate;
pub use xfs_commit::XfsCommitRange;

/// Every way of moving, the preferred one of a file system first.
const WAYS: &[&dyn Migrate] = &[&Ext4MoveExtents, &XfsDeduplicate, &XfsCommitRange, &BtrfsDefragment, &F2fsDefragment];

/// The two files of a move.
#[derive(Debug)]
pub struct Files<'a> {
    /// What is moved.
    pub target: &'a Target,
    /// Whose blocks it gets.
    pub donor: &'a mut Donor,
    /// Whether it is moved although other programs have it open.
    pub open: bool,
    /// How it is had to oneself.
    pub exclusive: &'a mut Exclusive,
}

/// What became of a segment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Bytes of data written, attempts that came to nothing included.
    pub written_bytes: u64,
    /// Why not all of it was moved, if so.
    pub left: Option<Left>,
}

/// A way of moving.
///
/// Whatever happens, in the middle of a call too, the file's bytes, size, times and attributes are what its writers
/// made of them.
pub trait Migrate: Sync {
    /// The file system and its call.
    fn name(&self) -> &'static str;

    /// Whether the file can be moved so; `None` on other file systems.
    fn check(&self, facts: &Facts) -> Option<Result<(), Refusal>>;

    /// How the file has to be open.
    fn opening(&self) -> Opening;

    /// Whether the file can be moved so by this user and now; looks only. `open` is [`MoveOptions::open`].
    fn promise(&self, _target: &Target, _open: bool) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether it gives the file the blocks of a donor.
    fn has_donor(&self) -> bool {
        true
    }

    /// What the donor may hold before it lets go, beside the segment itself.
    fn donor_keeps_bytes(&self) -> u64 {
        64 << 20
    }

    /// Makes what was moved last as a crash would leave it; at the latest when the file is done with.
    fn settle(&self, _files: &mut Files<'_>) -> Result<(), MigrateError> {
        Ok(())
    }

    /// Moves a segment, in slices, each after `pace` agrees. Nothing is changed unless the donor's place is better.
    fn migrate(&self, files: &mut Files<'_>, segment: &Segment, pace: &mut dyn Pace) -> Result<Progress, MigrateError>;
}
