//! Moves ranges of one file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::donor::Donor;
use super::error::MigrateError;
use super::refusals::{self, Refusal};
use super::segments::{Left, LeftRange, cut};
use super::target::Target;
use super::{Files, Migrate, Pace, WAYS};
use crate::{ByteRange, FileId};

/// Most that is given new room at once; the room that a run needs beside the files.
const LONGEST_SEGMENT_BYTES: u64 = 256 << 20;

/// What the user decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MoveOptions {
    /// Move blocks that reflinks or snapshots share, too. The file gets its own copy, which takes up room.
    pub shared: bool,
    /// ext4: move what other programs have open, too. What these synchronise while a range is moved, some milliseconds,
    /// a crash at that moment may take back.
    pub open: bool,
}

/// What became of a range.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Moved {
    /// Pieces on the device before.
    pub pieces_before: u64,
    /// And after.
    pub pieces_after: u64,
    /// Bytes of data written for it.
    pub written_bytes: u64,
    /// What was left, and why; holes aside.
    pub left: Vec<LeftRange>,
}

/// A file that can be moved, with the way of moving it.
pub struct FileMover {
    target: Target,
    way: &'static dyn Migrate,
    donor: Donor,
    options: MoveOptions,
}

impl FileMover {
    /// Opens a file, with the way of moving that its file system has.
    ///
    /// [`MigrateError::Refused`] says why it is to be left alone. With an `id`, that of the file must be the same.
    pub fn open(path: &Path, id: Option<&FileId>, options: &MoveOptions) -> Result<Self, MigrateError> {
        let target = Target::open(path, id)?;
        let way = choose(&target)?;
        Self::with(target, way, options)
    }

    /// The same, by a way of moving that the caller chose; whether it suits the file is not asked.
    pub fn open_with(path: &Path, way: &'static dyn Migrate, options: &MoveOptions) -> Result<Self, MigrateError> {
        Self::with(Target::open(path, None)?, way, options)
    }

    fn with(mut target: Target, way: &'static dyn Migrate, options: &MoveOptions) -> Result<Self, MigrateError> {
        target.reopen(way.opening())?;
        let donor = Donor::beside(&target, way.donor_keeps_bytes());
        Ok(Self { target, way, donor, options: *options })
    }

    /// The way of moving.
    pub fn way(&self) -> &'static dyn Migrate {
        self.way
    }

    /// The file.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Moves what of `range` lies in several pieces, each unbroken run of data to a place of its own.
    ///
    /// It looks at the file as it is now, whatever an earlier scan saw. When it returns, the data lies at its new
    /// place, and the old place is given back once the mover is dropped, at the latest.
    pub fn migrate(&mut self, range: ByteRange, pace: &mut dyn Pace) -> Result<Moved, MigrateError> {
        let block = self.target.block_bytes();
        let before = self.target.map(range)?;
        let parts = cut(&before, range, block, self.options.shared, LONGEST_SEGMENT_BYTES);
        let mut moved = Moved {
            pieces_before: before.piece_count(range),
            pieces_after: before.piece_count(range),
            written_bytes: 0,
            left: parts.left,
        };
        for segment in &parts.segments {
            let mut files = Files { target: &self.target, donor: &mut self.donor, open: self.options.open };
            let progress = self.way.migrate(&mut files, segment, pace)?;
            moved.written_bytes += progress.written_bytes;
            if let Some(why) = progress.left {
                let stopped = matches!(why, Left::Stopped(_));
                moved.left.push(LeftRange { range: segment.range, why });
                if stopped {
                    break;
                }
            }
        }
        if moved.written_bytes > 0 {
            moved.pieces_after = self.target.map(range)?.piece_count(range);
        }
        moved.left.sort_by_key(|left| left.range);
        Ok(moved)
    }
}

impl Drop for FileMover {
    fn drop(&mut self) {
        // What a failure leaves unsettled the file system will commit by itself, within seconds, F2FS within a minute.
        let _ = self.way.settle(&mut Files { target: &self.target, donor: &mut self.donor, open: self.options.open });
    }
}

/// The way of moving a file, or why there is none.
fn choose(target: &Target) -> Result<&'static dyn Migrate, MigrateError> {
    let facts = target.facts();
    let refused = |refusal| MigrateError::refused(target.path(), refusal);
    refusals::common(facts).map_err(refused)?;
    let mut last = None;
    for way in WAYS {
        match way.check(facts) {
            Some(Ok(())) => return Ok(*way),
            Some(Err(refusal)) => last = Some(refusal),
            None => {}
        }
    }
    Err(refused(last.unwrap_or_else(|| Refusal::FileSystem(format!("{:?}", facts.system)))))
}

/// Why a file would be left alone, if it would; looks only.
pub fn refusal(path: &Path, id: Option<&FileId>) -> Result<Option<Refusal>, MigrateError> {
    match Target::open(path, id).and_then(|target| choose(&target)) {
        Ok(_) => Ok(None),
        Err(MigrateError::Refused { refusal, .. }) => Ok(Some(refusal)),
        Err(error) => Err(error),
    }
}
