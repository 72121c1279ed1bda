//! What a run did.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use units::{Printable, printable_lines};

use super::attempts::Attempt;
use crate::FileId;
use crate::migrate::{Left, LeftRange, Stop};
use crate::plan::SkippedFile;

/// How it went with a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "why")]
pub enum FileOutcome {
    /// Its ranges were dealt with.
    Done,
    /// It was left alone.
    Refused(String),
    /// Something failed; what was moved before stays moved.
    Failed(String),
    /// The run ended before it, or within it.
    Unfinished,
}

/// A file, before and after.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileReport {
    /// Its name.
    #[serde(with = "crate::path_text")]
    pub path: PathBuf,
    /// What identifies it.
    pub id: FileId,
    /// How it went.
    #[serde(flatten)]
    pub outcome: FileOutcome,
    /// The way of moving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// Ranges of the plan.
    pub ranges: u64,
    /// Of them, those that are one piece now, or as few as their holes allow.
    pub ranges_moved: u64,
    /// Pieces of the ranges before, as far as they were dealt with.
    pub pieces_before: u64,
    /// And after.
    pub pieces_after: u64,
    /// Requests of the assumed I/O to the file before.
    pub requests_before: u64,
    /// And after, as predicted: what the ranges that were moved save is taken off.
    pub requests_after: u64,
    /// Bytes of data written.
    pub written_bytes: u64,
    /// Of the ranges moved, those that an earlier run with the same journal moved.
    #[serde(default)]
    pub ranges_moved_before: u64,
    /// Of the bytes written, those that an earlier run with the same journal wrote.
    #[serde(default)]
    pub written_before_bytes: u64,
    /// What was left within the ranges, and why.
    pub left: Vec<LeftRange>,
}

/// What a run did.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Every file of the plan, in its order.
    pub files: Vec<FileReport>,
    /// Why it ended before its time, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stop>,
    /// What it could not go on for, if that was it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Files that the plan left alone for a reason of theirs, as many as it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedFile>,
    /// All files that the plan left alone, counted by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped_by_reason: BTreeMap<String, u64>,
    /// What limited it less than was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Ranges that a later run need not try again as things are.
    #[serde(skip)]
    pub attempts: Vec<Attempt>,
    /// How long it took, without earlier runs that it resumed.
    pub seconds: f64,
}

impl Report {
    fn sum(&self, of: impl Fn(&FileReport) -> u64) -> u64 {
        self.files.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Bytes of data written, by the runs that it resumed too.
    pub fn written_bytes(&self) -> u64 {
        self.sum(|file| file.written_bytes)
    }

    /// Ranges moved.
    pub fn ranges_moved(&self) -> u64 {
        self.sum(|file| file.ranges_moved)
    }

    /// Ranges and bytes of data of earlier runs with the same journal.
    pub fn before(&self) -> (u64, u64) {
        (self.sum(|file| file.ranges_moved_before), self.sum(|file| file.written_before_bytes))
    }

    /// Pieces of all ranges that were dealt with, before and after.
    pub fn pieces(&self) -> (u64, u64) {
        (self.sum(|file| file.pieces_before), self.sum(|file| file.pieces_after))
    }

    /// Requests of the assumed I/O, before and after.
    pub fn requests(&self) -> (u64, u64) {
        (self.sum(|file| file.requests_before), self.sum(|file| file.requests_after))
    }

    /// Whether everything that the plan has was done, or left for a reason that lies in the file.
    pub fn is_complete(&self) -> bool {
        self.stopped.is_none()
            && self.error.is_none()
            && !self.files.iter().any(|file| matches!(file.outcome, FileOutcome::Failed(_)))
    }
}

/// Most files that are named one by one in the text.
const MAX_NAMED: usize = 20;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((pieces_before, pieces_after), (requests_before, requests_after)) = (self.pieces(), self.requests());
        writeln!(
            f,
            "moved {} of {} ranges in {} files: {} written in {:.1} s",
            self.ranges_moved(),
            self.sum(|file| file.ranges),
            self.files.iter().filter(|file| file.ranges_moved > 0).count(),
            units::ByteSize(self.written_bytes()),
            self.seconds,
        )?;
        let (ranges_before, written_before) = self.before();
        if ranges_before > 0 {
            writeln!(
                f,
                "of these, {ranges_before} ranges were moved before, and {} written, by earlier runs with this journal",
                units::ByteSize(written_before)
            )?;
        }
        writeln!(f, "pieces of these ranges: {pieces_before} before, {pieces_after} after")?;
        writeln!(f, "requests of the assumed I/O: {requests_before} before, {requests_after} after (predicted)")?;
        if let Some(stop) = self.stopped {
            writeln!(f, "ended early: {stop}")?;
        }
        if let Some(error) = &self.error {
            writeln!(f, "ended early: {}", printable_lines(error))?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        if !self.skipped_by_reason.is_empty() {
            let counts = self.skipped_by_reason.iter().map(|(reason, files)| format!("{files} {reason}"));
            writeln!(f, "left alone: {}", counts.collect::<Vec<_>>().join(", "))?;
        }
        let mut list = List { told: 0, untold: 0 };
        // What failed must not go under in what was left for good reasons.
        for file in &self.files {
            if let FileOutcome::Failed(why) = &file.outcome {
                list.tell(f, &file.path, &format_args!("failed: {why}"))?;
            }
        }
        for file in &self.files {
            if let FileOutcome::Refused(why) = &file.outcome {
                list.tell(f, &file.path, why)?;
            }
        }
        for file in self.skipped.iter().filter(|file| !file.reason.is_in_order()) {
            list.tell(f, &file.path, &file.reason)?;
        }
        for file in &self.files {
            let mut reasons: Vec<(&Left, u64)> = Vec::new();
            for left in &file.left {
                match reasons.iter_mut().find(|(why, _)| *why == &left.why) {
                    Some((_, bytes)) => *bytes += left.range.len(),
                    None => reasons.push((&left.why, left.range.len())),
                }
            }
            for (why, bytes) in reasons {
                list.tell(f, &file.path, &format_args!("{}: {why}", units::ByteSize(bytes)))?;
            }
        }
        if list.untold > 0 {
            writeln!(f, "left: {} more; the report in JSON has them", list.untold)?;
        }
        Ok(())
    }
}

/// The lines about single files.
struct List {
    told: usize,
    untold: u64,
}

impl List {
    fn tell(&mut self, f: &mut fmt::Formatter<'_>, path: &Path, why: &dyn fmt::Display) -> fmt::Result {
        if self.told == MAX_NAMED {
            self.untold += 1;
            return Ok(());
        }
        self.told += 1;
        writeln!(f, "left: {}: {}", Printable::path(path), printable_lines(&why.to_string()))
    }
}
