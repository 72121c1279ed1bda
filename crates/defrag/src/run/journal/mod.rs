//! What is to be done and what has been, in a file that outlives the run.
//!
//! Text, a line each ([`lines`]). The first says what the plan was made from ([`Origin`]) and how many files it has; then come so
//! many plans of files, as [`FilePlan`] serialises; then one line for each range that was dealt with, and for each file that
//! was left with ranges that were not. The plan is written under another name and renamed when it is whole. What a kill or a
//! crash left of the last lines is cut off: what they said is looked at again.
//!
//! A run that has another origin than the journal never goes on with it: the journal is put aside as `NAME.old`, or removed
//! if all of its plan was dealt with, and another is begun. So no journal keeps later runs from their work.

mod error;
mod lines;
mod locked;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

pub use error::JournalError;
use lines::{Contents, Head, Note, Unread, VERSION};
use locked::{Locked, beside, rename_to_free};
use units::Printable;

use super::origin::Origin;
use super::report::FileOutcome;
use crate::migrate::Moved;
use crate::plan::FilePlan;

/// An open journal. It is locked as long as it is open.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    origin: Origin,
    done: BTreeMap<(u64, u64), Moved>,
    outcomes: BTreeMap<u64, FileOutcome>,
}

/// What a run does with the journal's name.
#[derive(Debug)]
pub enum Start {
    /// There is none, or no longer: [`Journal::create`] one. With what became of the one that was there.
    Begin(Option<String>),
    /// Go on with its plan.
    GoOn(Journal, Vec<FilePlan>),
}

impl Journal {
    /// Looks for the journal of a run that `wanted` describes; one of another is put out of the way.
    pub fn start(path: &Path, wanted: &Origin) -> Result<Start, JournalError> {
        let shown = Printable::path(path);
        let (journal, files) = match Self::resume(path) {
            Err(JournalError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Start::Begin(None));
            }
            Err(JournalError::Damaged { line, why, .. }) => {
                let aside = Locked::open(path)?.put_aside()?;
                let aside = Printable::path(&aside);
                let note = format!("{shown}, line {line}: {why}; it is {aside} now, and a plan of its own begun");
                return Ok(Start::Begin(Some(note)));
            }
            resumed => resumed?,
        };
        let differences = journal.origin.differences(wanted);
        let is_finished = journal.is_finished(&files);
        if !is_finished && differences.is_empty() {
            return Ok(Start::GoOn(journal, files));
        }
        let locked = Locked { path: path.to_owned(), file: journal.file };
        let why = if differences.is_empty() { "of a run".to_owned() } else { differences.join(" and ") };
        let note = if is_finished {
            locked.remove()?;
            format!("{shown} was {why} that is finished; a plan of its own replaces it")
        } else {
            let aside = locked.put_aside()?;
            format!("{shown} was {why}; it is {} now, and a plan of its own begun", Printable::path(&aside))
        };
        Ok(Start::Begin(Some(note)))
    }

    /// Begins one for a plan. There must be no file of that name, or an empty one.
    pub fn create(path: &Path, origin: &Origin, files: &[FilePlan]) -> Result<Self, JournalError> {
        let io = |error| JournalError::Io { path: path.to_owned(), error };
        if path.symlink_metadata().is_ok_and(|found| !found.is_file() || found.len() > 0) {
            return Err(JournalError::Exists { path: path.to_owned() });
        }
        let draft = beside(path, ".draft");
        let locked = Locked::draft(&draft)?;
        let write = || -> io::Result<()> {
            let head = Head { plumb_defrag_journal: VERSION, files: files.len() as u64, origin: origin.clone() };
            let mut writer = BufWriter::new(&locked.file);
            writer.write_all(&lines::line(&head)?)?;
            for plan in files {
                writer.write_all(&lines::line(plan)?)?;
            }
            writer.flush()?;
            drop(writer);
            locked.file.sync_all()
        };
        let named = write().and_then(|()| {
            if path.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == 0) {
                std::fs::remove_file(path)?;
            }
            rename_to_free(&draft, path)
        });
        match named {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                file: locked.file,
                origin: origin.clone(),
                done: BTreeMap::new(),
                outcomes: BTreeMap::new(),
            }),
            Err(error) => {
                let _ = std::fs::remove_file(&draft);
                Err(if error.kind() == io::ErrorKind::AlreadyExists {
                    JournalError::Exists { path: path.to_owned() }
                } else {
                    io(error)
                })
            }
        }
    }

    /// Opens one that an earlier run left, with that run's plan.
    pub fn resume(path: &Path) -> Result<(Self, Vec<FilePlan>), JournalError> {
        let io = |error| JournalError::Io { path: path.to_owned(), error };
        let Locked { path: _, file } = Locked::open(path)?;
        if file.metadata().map_err(io)?.len() == 0 {
            return Err(io(io::Error::new(io::ErrorKind::NotFound, "it is empty; name files or a trace to begin")));
        }
        let Contents { origin, files, done, outcomes, good_bytes } =
            lines::read(&mut BufReader::new(&file)).map_err(|unread| match unread {
                Unread::Io(error) => io(error),
                Unread::Foreign => JournalError::Foreign { path: path.to_owned() },
                Unread::Damaged { line, why } => JournalError::Damaged { path: path.to_owned(), line, why },
            })?;
        file.set_len(good_bytes).map_err(io)?;
        (&file).seek(SeekFrom::End(0)).map_err(io)?;
        Ok((Self { path: path.to_owned(), file, origin, done, outcomes }, files))
    }

    /// What its plan was made from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What became of a range, if it has been dealt with.
    pub fn done(&self, file: usize, number: usize) -> Option<&Moved> {
        self.done.get(&(file as u64, number as u64))
    }

    /// Why a file was left with ranges that were not dealt with, if it was.
    pub fn outcome(&self, file: usize) -> Option<&FileOutcome> {
        self.outcomes.get(&(file as u64))
    }

    /// Ranges dealt with.
    pub fn done_count(&self) -> usize {
        self.done.len()
    }

    /// Files left with ranges that were not.
    pub fn left_count(&self) -> usize {
        self.outcomes.len()
    }

    /// Whether all of `files`, its plan, has been dealt with: every range of a file, or the file was left for a reason that
    /// it has.
    pub fn is_finished(&self, files: &[FilePlan]) -> bool {
        let is_done = |(number, plan): (u64, &FilePlan)| {
            let ranges = self.done.range((number, 0)..=(number, u64::MAX)).count();
            ranges == plan.moves.len() || self.outcomes.contains_key(&number)
        };
        (0..).zip(files).all(is_done)
    }

    /// Notes what became of a range.
    pub(super) fn note(&mut self, file: usize, number: usize, moved: &Moved) -> Result<(), JournalError> {
        let (file, number) = (file as u64, number as u64);
        self.append(&Note::Range { file, r#move: number, moved: moved.clone() })?;
        self.done.insert((file, number), moved.clone());
        Ok(())
    }

    /// Notes that a file was left, and why.
    pub(super) fn note_file(&mut self, file: usize, outcome: &FileOutcome) -> Result<(), JournalError> {
        let file = file as u64;
        self.append(&Note::File { file, outcome: outcome.clone() })?;
        self.outcomes.insert(file, outcome.clone());
        Ok(())
    }

    fn append(&self, note: &Note) -> Result<(), JournalError> {
        // In one write, so that a kill leaves a part only where the disk is full.
        let written = lines::line(note).and_then(|line| (&self.file).write_all(&line));
        written.map_err(|error| JournalError::Io { path: self.path.clone(), error })
    }
}
