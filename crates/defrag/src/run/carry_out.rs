//! Moves what a plan says.

use std::time::Instant;

use super::io_class::{Idle, IoClassError};
use super::journal::{Journal, JournalError};
use super::limits::{Cancel, Limiter, Limits};
use super::pressure::io_pressure_percent;
use super::report::{FileOutcome, FileReport, Report};
use crate::ByteRange;
use crate::migrate::{FileMover, Left, MigrateError, MoveOptions, Moved, Stop};
use crate::plan::FilePlan;

/// What the user decides.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RunOptions {
    /// What holds it back.
    pub limits: Limits,
    /// Move shared blocks, too.
    pub shared: bool,
    /// ext4: move what other programs have open ([`MoveOptions::open`]).
    pub open: bool,
}

/// Why a run cannot go on. Failures of single files are in the report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// What is done can no longer be noted.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// `--io-class idle` is not to be had.
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
/// reason, and the run goes on to the next one.
pub fn carry_out(
    files: &[FilePlan],
    options: &RunOptions,
    mut journal: Option<&mut Journal>,
    cancel: &Cancel,
    progress: &mut dyn FnMut(&Event<'_>),
) -> Result<Report, RunError> {
    let begun = Instant::now();
    let _idle = options.limits.idle.then(Idle::enter).transpose()?;
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
        let mut file = OneFile { number, plan, options, report: &mut entry };
        let stopped = file.carry_out(journal.as_deref_mut(), &mut limiter, report.stopped, progress)?;
        report.stopped = report.stopped.or(stopped);
        progress(&Event::FileDone(&entry));
        report.files.push(entry);
    }
    report.seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

fn begin(plan: &FilePlan) -> FileReport {
    FileReport {
        path: plan.file.path.display().to_string(),
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
}

impl OneFile<'_> {
    fn carry_out(
        &mut self,
        mut journal: Option<&mut Journal>,
        limiter: &mut Limiter,
        stopped: Option<Stop>,
        progress: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Option<Stop>, RunError> {
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
            if stopped.is_some() {
                return Ok(None);
            }
            if let Some(stop) = limiter.over() {
                return Ok(Some(stop));
            }
            let mover = match &mut mover {
                Some(mover) => mover,
                None => {
                    let options = MoveOptions { shared: self.options.shared, open: self.options.open };
                    match FileMover::open(&self.plan.file.path, Some(&self.plan.file.id), &options) {
                        Ok(opened) => {
                            self.report.way = Some(opened.way().name().to_owned());
                            mover.insert(opened)
                        }
                        Err(error) => {
                            self.report.outcome = outcome_of(&error);
                            return Ok(None);
                        }
                    }
                }
            };
            let moved = match mover.migrate(range, limiter) {
                Ok(moved) => moved,
                Err(error) => {
                    self.report.outcome = outcome_of(&error);
                    return Ok(None);
                }
            };
            let stop = moved.left.iter().find_map(|left| match left.why {
                Left::Stopped(stop) => Some(stop),
                _ => None,
            });
            self.add(&moved, to_move.saved());
            progress(&Event::Range { range, moved: &moved });
            if stop.is_some() {
                // Not done: whoever resumes does it again.
                return Ok(stop);
            }
            if let Some(journal) = journal.as_deref_mut() {
                journal.note(self.number, number, &moved)?;
            }
        }
        self.report.outcome = FileOutcome::Done;
        Ok(None)
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
