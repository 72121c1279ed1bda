//! Moves ranges of one file.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::donor::Donor;
use super::error::MigrateError;
use super::exclusive::Exclusive;
use super::facts::Facts;
use super::refusals::{self, Refusal};
use super::segments::{Left, LeftRange, cut};
use super::target::Target;
use super::{Files, Migrate, Pace, Stop, WAYS};
use crate::{ByteRange, FileId, KeepFree};

/// Most that is given new room at once; the room that a run needs beside the files.
pub(crate) const LONGEST_SEGMENT_BYTES: u64 = 256 << 20;

/// How long what was asked about a file system is taken to hold.
const JUDGE_EACH: Duration = Duration::from_secs(1);

/// What the user decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MoveOptions {
    /// Move blocks that reflinks or snapshots share, too. The file gets its own copy, which takes up room.
    pub shared: bool,
    /// ext4, and XFS with reflinks: move what other programs have open, too. On ext4, what these synchronise while a range is
    /// moved, some milliseconds, a crash at that moment may take back; on XFS, what they read by a mapping meanwhile may be
    /// zeros.
    pub open: bool,
    /// Free space that is left to others: nothing is begun that would need some of it.
    pub keep_free: KeepFree,
}

/// What became of a range.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Moved {
    /// Stretches of the device that it lay in before; what lies side by side there is one, also across a hole.
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
    exclusive: Exclusive,
    options: MoveOptions,
    /// When it was last asked whether the file may be moved; `None` if that is not asked.
    judged: Option<Instant>,
}

impl FileMover {
    /// Opens a file, with the way of moving that its file system has.
    ///
    /// [`MigrateError::Refused`] says why it is to be left alone. With an `id`, that of the file must be the same.
    pub fn open(path: &Path, id: Option<&FileId>, options: &MoveOptions) -> Result<Self, MigrateError> {
        let target = Target::open(path, id)?;
        let way = choose(&target)?;
        let mut mover = Self::with(target, way, options)?;
        mover.judged = Some(Instant::now());
        Ok(mover)
    }

    /// The same, by a way of moving that the caller chose; whether it suits the file is not asked.
    pub fn open_with(path: &Path, way: &'static dyn Migrate, options: &MoveOptions) -> Result<Self, MigrateError> {
        Self::with(Target::open(path, None)?, way, options)
    }

    fn with(mut target: Target, way: &'static dyn Migrate, options: &MoveOptions) -> Result<Self, MigrateError> {
        target.reopen(way.opening())?;
        let donor = Donor::beside(&target, way.donor_keeps_bytes(), options.keep_free);
        Ok(Self { target, way, donor, exclusive: Exclusive::new(), options: *options, judged: None })
    }

    /// The way of moving.
    pub fn way(&self) -> &'static dyn Migrate {
        self.way
    }

    /// The file.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Makes what was moved lasting, and lets others who wait for the file in.
    pub fn settle(&mut self) -> Result<(), MigrateError> {
        let Self { target, way, donor, exclusive, options, .. } = self;
        way.settle(&mut Files { target, donor, exclusive, open: options.open })
    }

    /// Whether others who open the file wait until it is settled.
    pub(crate) fn keeps_others_out(&self) -> bool {
        self.exclusive.is_held()
    }

    /// Refuses a file that may no longer be moved: its file system may have been mounted with other options since.
    fn judge(&mut self) -> Result<(), MigrateError> {
        if self.judged.is_none_or(|judged| judged.elapsed() < JUDGE_EACH) {
            return Ok(());
        }
        self.judged = Some(Instant::now());
        let facts = Facts::of(self.target.file(), self.target.path())?;
        let way = self.way.check(&facts).unwrap_or(Ok(()));
        refusals::common(&facts).and(way).map_err(|refusal| MigrateError::refused(self.target.path(), refusal))
    }

    /// Whether a copy of `bytes` leaves enough free space, if need be once everything is free that was moved away.
    fn has_room(&mut self, bytes: u64) -> Result<bool, MigrateError> {
        if self.donor.leaves_enough(&self.target, bytes)? {
            return Ok(true);
        }
        self.donor.release()?;
        if self.donor.leaves_enough(&self.target, bytes)? {
            return Ok(true);
        }
        self.donor.commit_stale()?;
        self.donor.leaves_enough(&self.target, bytes)
    }

    /// Moves what of `range` lies in several pieces, the data on both sides of a hole together.
    ///
    /// It looks at the file as it is now, whatever an earlier scan saw. When it returns, the data lies at its new
    /// place, and the old place is given back once the mover is dropped, at the latest.
    pub fn migrate(&mut self, range: ByteRange, pace: &mut dyn Pace) -> Result<Moved, MigrateError> {
        self.judge()?;
        let block = self.target.block_bytes();
        let before = self.target.map(range)?;
        let parts = cut(&before, range, block, self.options.shared, LONGEST_SEGMENT_BYTES);
        let mut moved = Moved {
            pieces_before: before.stretch_count(range),
            pieces_after: before.stretch_count(range),
            written_bytes: 0,
            left: parts.left,
        };
        for segment in &parts.segments {
            if !self.has_room(segment.bytes())? {
                moved.left.push(LeftRange { range: segment.range, why: Left::Stopped(Stop::KeepFree) });
                break;
            }
            let Self { target, donor, exclusive, options, .. } = self;
            let mut files = Files { target, donor, exclusive, open: options.open };
            let progress = self.way.migrate(&mut files, segment, pace)?;
            self.donor.note_stale(progress.written_bytes);
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
            moved.pieces_after = self.target.map(range)?.stretch_count(range);
        }
        moved.left.sort_by_key(|left| left.range);
        Ok(moved)
    }
}

impl Drop for FileMover {
    fn drop(&mut self) {
        // What a failure leaves unsettled the file system will commit by itself, within seconds, F2FS within a minute.
        let _ = self.settle();
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

/// Why a file would be left alone, if it would; looks only. `open` is [`MoveOptions::open`].
///
/// The caller must not have the file open, as whoever has it open would be told apart from others by nothing.
pub fn refusal(path: &Path, id: Option<&FileId>, open: bool) -> Result<Option<Refusal>, MigrateError> {
    match promised(path, id, open) {
        Ok(()) => Ok(None),
        Err(MigrateError::Refused { refusal, .. }) => Ok(Some(refusal)),
        Err(error) => Err(error),
    }
}

fn promised(path: &Path, id: Option<&FileId>, open: bool) -> Result<(), MigrateError> {
    let mut target = Target::open(path, id)?;
    let way = choose(&target)?;
    target.reopen(way.opening())?;
    if way.has_donor() && !target.can_have_donor() {
        let why = "its folder may not be written to".to_owned();
        return Err(MigrateError::refused(path, Refusal::Donor(why)));
    }
    way.promise(&target, open).map_err(|refusal| MigrateError::refused(path, refusal))
}
