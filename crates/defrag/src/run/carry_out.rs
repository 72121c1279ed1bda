//! Moves what a plan says.

use std::time::{Duration, Instant};

use super::attempts::{Attempt, layout_of};
use super::io_class::IoClassError;
use super::journal::{Journal, JournalError};
use super::limits::{Cancel, Limiter, Limits};
use super::pressure::io_pressure_percent;
use super::report::{FileOutcome, FileReport, Report};
use super::suspend::Suspension;
use crate::migrate::{FileMover, Left, MigrateError, MoveOptions, Moved, Stop};
use crate::plan::FilePlan;
use crate::priority::IdleIo;
use crate::{ByteRange, FileId, FreeSpace, KeepFree};

/// Longest that what was done is not in the journal, to a range.
const NOTE_EACH: Duration = Duration::from_secs(1);

/// What the user decides.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RunOptions {
    /// What holds it back.
    pub limits: Limits,
    /// Move shared blocks, too.
    pub shared: bool,
    /// ext4: move what other programs have open ([`MoveOptions::open`]).
    pub open: bool,
    /// Free space that is left to others ([`MoveOptions::keep_free`]).
    pub keep_free: KeepFree,
}

/// Why a run cannot go on. Failures of single files are in the report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// `--io-class idle` is not available.
    #[error(transparent)]
    IoClass(#[from] IoClassError),
}

/// What is happening, for a progress bar.
#[derive(Debug)]
pub enum Event<'a> {
    /// A file is begun.
    File {
        /// Its number in the plan, from zero.
        number: usize,
        /// What is to be done to it.
        plan: &'a FilePlan,
    },
    /// A range has been dealt with, now or by an earlier run.
    Range {
        /// Which bytes.
        range: ByteRange,
        /// What became of it.
        moved: &'a Moved,
    },
    /// A file is left behind.
    FileDone(&'a FileReport),
}

/// Carries out a plan, file by file in the order given.
///
/// What a journal says was done is not done again. A file that is refused, or fails, is noted in the report with the
/// reason, and the run goes on to the next one. Once what is done can no longer be noted in the journal, the run ends, and the
/// report says so.
pub fn carry_out(
    files: &[FilePlan],
    options: &RunOptions,
    mut journal: Option<&mut Journal>,
    cancel: &Cancel,
    progress: &mut dyn FnMut(&Event<'_>),
) -> Result<Report, RunError> {
    let begun = Instant::now();
    let _idle = options.limits.idle.then(IdleIo::enter).transpose().map_err(IoClassError)?;
    let _suspension = Suspension::watch();
    let mut limiter = Limiter::new(&options.limits, cancel);
    let mut report = Report::default();
    if options.limits.until_psi_percent.is_some() && io_pressure_percent().is_none() {
        report.notes.push(
            "the kernel does not tell how long tasks wait (no /proc/pressure/io): --until-psi has no effect".into(),
        );
    }
    for (number, plan) in files.iter().enumerate() {
        progress(&Event::File { number, plan });
        let mut entry = begin(plan);
        if report.stopped.is_none() {
            report.stopped = limiter.over();
        }
        let ended = report.stopped.is_some() || report.error.is_some();
        let mut file = OneFile { number, plan, options, report: &mut entry, attempts: &mut report.attempts };
        match file.carry_out(journal.as_deref_mut(), &mut limiter, ended, progress) {
            Ok(stopped) => report.stopped = report.stopped.or(stopped),
            Err(error) => report.error = Some(error.to_string()),
        }
        progress(&Event::FileDone(&entry));
        report.files.push(entry);
    }
    report.seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

fn begin(plan: &FilePlan) -> FileReport {
    FileReport {
        path: plan.file.path.clone(),
        id: plan.file.id,
        outcome: FileOutcome::Unfinished,
        way: None,
        ranges: plan.moves.len() as u64,
        ranges_moved: 0,
        pieces_before: 0,
        pieces_after: 0,
        requests_before: plan.requests_before,
        requests_after: plan.requests_before,
        written_bytes: 0,
        ranges_moved_before: 0,
        written_before_bytes: 0,
        left: Vec::new(),
    }
}

struct OneFile<'a> {
    number: usize,
    plan: &'a FilePlan,
    options: &'a RunOptions,
    report: &'a mut FileReport,
    attempts: &'a mut Vec<Attempt>,
}

/// Why a file is left before its end.
enum Halt {
    /// It cannot be moved; the next one is tried.
    File(MigrateError),
    /// Nothing can be noted any more.
    Journal(JournalError),
}

/// Ranges that are dealt with and not yet in the journal.
///
/// While a file's lease is held, others wait for it, and the journal's disk may take its time. A kill forgets what is here: it is looked at
/// again.
#[derive(Default)]
struct Pending {
    ranges: Vec<(usize, Moved)>,
    since: Option<Instant>,
}

impl Pending {
    fn add(&mut self, range: usize, moved: Moved) {
        self.since.get_or_insert_with(Instant::now);
        self.ranges.push((range, moved));
    }

    fn is_due(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= NOTE_EACH)
    }

    fn write(&mut self, journal: Option<&mut Journal>, file: usize) -> Result<(), JournalError> {
        self.since = None;
        let mut ranges = self.ranges.drain(..);
        match journal {
            Some(journal) => ranges.try_for_each(|(range, moved)| journal.note(file, range, &moved)),
            None => Ok(()),
        }
    }
}

impl OneFile<'_> {
    fn carry_out(
        &mut self,
        mut journal: Option<&mut Journal>,
        limiter: &mut Limiter,
        ended: bool,
        progress: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Option<Stop>, JournalError> {
        let mut pending = Pending::default();
        // The mover is gone when it returns, and others are let in.
        let moved = self.move_ranges(journal.as_deref_mut(), limiter, ended, progress, &mut pending);
        if !matches!(moved, Err(Halt::Journal(_))) {
            pending.write(journal.as_deref_mut(), self.number)?;
        }
        match moved {
            Ok(stopped) => Ok(stopped),
            Err(Halt::File(error)) => {
                // A run that resumes does not try it again.
                self.report.outcome = outcome_of(&error);
                if let Some(journal) = journal {
                    journal.note_file(self.number, &self.report.outcome)?;
                }
                Ok(None)
            }
            Err(Halt::Journal(error)) => Err(error),
        }
    }

    fn move_ranges(
        &mut self,
        mut journal: Option<&mut Journal>,
        limiter: &mut Limiter,
        ended: bool,
        progress: &mut dyn FnMut(&Event<'_>),
        pending: &mut Pending,
    ) -> Result<Option<Stop>, Halt> {
        let left = journal.as_deref().and_then(|journal| journal.outcome(self.number)).cloned();
        // Opened for the first range that is not done.
        let mut mover = None;
        for (number, to_move) in self.plan.moves.iter().enumerate() {
            let range = to_move.range;
            if let Some(moved) = journal.as_deref().and_then(|journal| journal.done(self.number, number)) {
                let ranges = self.report.ranges_moved;
                self.add(moved, to_move.saved());
                self.report.ranges_moved_before += self.report.ranges_moved - ranges;
                self.report.written_before_bytes += moved.written_bytes;
                progress(&Event::Range { range, moved });
                continue;
            }
            if left.is_some() {
                // By an earlier run, whose reason stands.
                continue;
            }
            if ended {
                return Ok(None);
            }
            if Suspension::is_asked() {
                // A failure comes up again when the next range is moved.
                let _ = mover.as_mut().map(FileMover::settle);
                Suspension::take_effect();
            }
            if let Some(stop) = limiter.over() {
                return Ok(Some(stop));
            }
            let mover = match &mut mover {
                Some(mover) => mover,
                None => mover.insert(self.open().map_err(Halt::File)?),
            };
            let moved = mover.migrate(range, limiter).map_err(Halt::File)?;
            let stop = moved.left.iter().find_map(|left| match left.why {
                Left::Stopped(stop) => Some(stop),
                _ => None,
            });
            self.add(&moved, to_move.saved());
            progress(&Event::Range { range, moved: &moved });
            let is_lasting = !moved.left.iter().any(|left| left.why.may_pass());
            if is_lasting && (!moved.left.is_empty() || moved.pieces_after > 1) {
                self.attempts.extend(attempted(mover, &self.plan.file.id, range));
            }
            if stop.is_some() {
                // Not done: whoever resumes does it again.
                return Ok(stop);
            }
            pending.add(number, moved);
            if pending.is_due() {
                mover.settle().map_err(Halt::File)?;
            }
            if !mover.keeps_others_out() {
                pending.write(journal.as_deref_mut(), self.number).map_err(Halt::Journal)?;
            }
        }
        self.report.outcome = left.unwrap_or(FileOutcome::Done);
        Ok(None)
    }

    fn open(&mut self) -> Result<FileMover, MigrateError> {
        let options =
            MoveOptions { shared: self.options.shared, open: self.options.open, keep_free: self.options.keep_free };
        let opened = FileMover::open(&self.plan.file.path, Some(&self.plan.file.id), &options)?;
        self.report.way = Some(opened.way().name().to_owned());
        Ok(opened)
    }

    fn add(&mut self, moved: &Moved, saved: u64) {
        self.report.pieces_before += moved.pieces_before;
        self.report.pieces_after += moved.pieces_after;
        self.report.written_bytes += moved.written_bytes;
        self.report.left.extend(moved.left.iter().cloned());
        if moved.left.is_empty() && (moved.pieces_after <= 1 || moved.pieces_after < moved.pieces_before) {
            self.report.ranges_moved += 1;
            let saved = saved_of(saved, moved);
            self.report.requests_after = self.report.requests_after.saturating_sub(saved).max(self.plan.requests_after);
        }
    }
}

/// What to remember of a range that did not come to lie in one piece; nothing where its place cannot be told.
fn attempted(mover: &FileMover, id: &FileId, range: ByteRange) -> Option<Attempt> {
    let layout = layout_of(&mover.target().map(range).ok()?, range);
    let space = FreeSpace::of(mover.target().file()).ok()?;
    Some(Attempt::now(*id, range, layout, space.free_bytes))
}

/// What a move saves of the `saved` requests that it was to save: where more than one piece is left, as great a share as
/// that of the borders between pieces that are gone.
fn saved_of(saved: u64, moved: &Moved) -> u64 {
    let borders = |pieces: u64| u128::from(pieces.saturating_sub(1));
    let (before, after) = (borders(moved.pieces_before), borders(moved.pieces_after));
    let share = u128::from(saved) * before.saturating_sub(after);
    share.checked_div(before).map_or(saved, |saved| u64::try_from(saved).unwrap_or(u64::MAX))
}

/// The reason without the file's name, which the report has.
fn outcome_of(error: &MigrateError) -> FileOutcome {
    match error {
        MigrateError::Refused { refusal, .. } => FileOutcome::Refused(refusal.to_string()),
        MigrateError::Extents { error, .. } => FileOutcome::Failed(error.to_string()),
        MigrateError::System { action, error, .. } => FileOutcome::Failed(format!("cannot {action}: {error}")),
    }
}
