//! The results folder of one experiment: what is done survives an interruption.
//!
//! ```text
//! results/NAME-HASH/
//!   spec.toml            the document after overrides
//!   runs/                finished runs (see `records`); what is there is done
//!   runs.csv, .parquet   one row a run, job and direction
//!   latency.parquet      histogram bins
//!   counters.csv         device and block layer counters
//!   fio/*.json           fio json+ of each run of a fio job
//!   report.html
//! ```

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::file::{Partial, hash_of, remove_abandoned};
use super::records::Records;
use super::{RunResult, Table, csv, fio_log, log};

/// Where finished runs are kept.
const RUNS: &str = "runs";
/// Where the outputs of fio jobs are.
const FIO: &str = "fio";

/// A results folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    records: Arc<Mutex<Records>>,
}

/// Why results cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// A file cannot be written.
    #[error("cannot write {path}: {source}; free some space or choose another folder with --out", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what Plumb wrote.
    #[error("{path} is not what this version of Plumb wrote ({message}); run again with --fresh", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Folders of different experiments.
    #[error("{path} holds another experiment than {first}; merge shards of one spec, seed and version", path = path.display(), first = first.display())]
    OtherExperiment {
        /// The folder that differs.
        path: PathBuf,
        /// The first folder.
        first: PathBuf,
    },
}

impl Store {
    /// Opens or makes the folder.
    pub fn create(folder: &Path) -> Result<Self, ResultError> {
        let runs = folder.join(RUNS);
        fs::create_dir_all(&runs).map_err(|source| ResultError::Write { path: runs.clone(), source })?;
        for begun in [folder, &runs, &folder.join(FIO)] {
            remove_abandoned(begun);
        }
        Self::of(folder)
    }

    /// Opens or makes a folder for files alone, without runs.
    pub fn plain(folder: &Path) -> Result<Self, ResultError> {
        fs::create_dir_all(folder).map_err(|source| ResultError::Write { path: folder.to_owned(), source })?;
        Self::of(folder)
    }

    /// Opens a folder that a run made.
    pub fn open(folder: &Path) -> Result<Self, ResultError> {
        let spec = folder.join("spec.toml");
        fs::metadata(&spec).map_err(|source| ResultError::Read { path: spec, source })?;
        Self::of(folder)
    }

    fn of(folder: &Path) -> Result<Self, ResultError> {
        let records = Arc::new(Mutex::new(Records::open(&folder.join(RUNS))?));
        Ok(Self { folder: folder.to_owned(), records })
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps `bytes` as `name`: whole or not at all, whatever interrupts it.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, ResultError> {
        let path = self.folder.join(name);
        write_whole(&path, bytes)?;
        Ok(path)
    }

    /// Keeps `bytes` as `name`; its name and hash.
    pub fn write_output(&self, name: &str, bytes: &[u8]) -> Result<(String, String), ResultError> {
        let hash = write_hashed(&self.folder.join(name), bytes, true)?;
        Ok((name.to_owned(), hash))
    }

    /// Whether the file `name` is what [`Store::write_output`] wrote.
    pub fn is_output(&self, name: &str, hash: &str) -> bool {
        hash_of(&self.folder.join(name)).as_deref() == Some(hash)
    }

    /// Keeps what fio would have left of a run: its json+ output, and its logs.
    ///
    /// There are many of these files, and all of them can be made again: they
    /// do not wait for the disk.
    pub fn write_fio(&self, run: &RunResult) -> Result<Vec<(String, String)>, ResultError> {
        let mut files: Vec<(String, &str)> = Vec::new();
        let stem = format!("{FIO}/point{}-repeat{}", run.point, run.repeat);
        files.extend(run.fio_json.as_deref().map(|json| (format!("{stem}.json"), json)));
        let logs: Vec<_> = run.jobs.iter().map(|job| (fio_log::file_part(&job.name), fio_log::logs(job))).collect();
        for (number, (job, logs)) in logs.iter().enumerate() {
            // Numbered, as fio numbers them: names may be alike.
            let name = |log: &fio_log::FioLog| format!("{stem}-{job}_{}.{}.log", log.kind, number + 1);
            files.extend(logs.iter().map(|log| (name(log), log.text.as_str())));
        }
        let write = |(name, text): (String, &str)| {
            let hash = write_hashed(&self.folder.join(&name), text.as_bytes(), false)?;
            Ok((name, hash))
        };
        files.into_iter().map(write).collect()
    }

    /// Keeps a table as CSV.
    pub fn write_csv(&self, name: &str, table: &Table) -> Result<PathBuf, ResultError> {
        let mut bytes = Vec::new();
        csv::write_header(&table.columns, &mut bytes)
            .and_then(|()| csv::write_rows(table, &mut bytes))
            .map_err(|source| ResultError::Write { path: self.folder.join(name), source })?;
        self.write(name, &bytes)
    }

    /// Keeps a finished run: whole or not at all, whatever interrupts it.
    pub fn put(&self, run: RunResult) -> Result<(), ResultError> {
        let run = run.bare();
        let path = || self.folder.join(RUNS);
        // Not under the lock: this is most of the work.
        let frame = log::frame(&run).map_err(|source| ResultError::Write { path: path(), source })?;
        self.records().put(&run.key, &frame)
    }

    /// Takes over the run of this key where `other` has it and this one has
    /// not; whether it is here now.
    pub fn adopt(&self, key: &str, other: &Self) -> Result<bool, ResultError> {
        if self.contains(key) {
            return Ok(true);
        }
        let Some(frame) = other.records().frame_of(key)? else { return Ok(false) };
        self.records().put(key, &frame)?;
        Ok(true)
    }

    /// Whether the run of this key is finished and whole.
    pub fn contains(&self, key: &str) -> bool {
        self.records().contains(key)
    }

    /// The finished run of this key, if there is one; its place in a sweep is
    /// for the caller to know.
    pub fn get(&self, key: &str) -> Result<Option<RunResult>, ResultError> {
        self.records().get(key)
    }

    /// What was found cut short or damaged among the runs, one line each: those
    /// runs are not here.
    pub fn damage(&self) -> Vec<String> {
        self.records().damage().to_vec()
    }

    /// Returns when the disk has every run that was kept.
    pub fn sync(&self) -> Result<(), ResultError> {
        self.records().sync()
    }

    /// Puts all runs into one file, those of `keys` in this order.
    pub fn settle(&self, keys: &[&str]) -> Result<(), ResultError> {
        self.records().settle(keys)
    }

    /// Forgets every finished run.
    pub fn clear(&self) -> Result<(), ResultError> {
        let runs = self.folder.join(RUNS);
        let fail = |source| ResultError::Write { path: runs.clone(), source };
        fs::remove_dir_all(&runs).map_err(fail)?;
        fs::create_dir_all(&runs).map_err(fail)?;
        *self.records() = Records::open(&runs)?;
        Ok(())
    }

    /// A file of this folder as text.
    pub fn read_text(&self, name: &str) -> Result<String, ResultError> {
        let path = self.folder.join(name);
        fs::read_to_string(&path).map_err(|source| ResultError::Read { path, source })
    }
}

/// Writes a file whole or not at all, whatever interrupts it, and the folders above it.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ResultError> {
    write_hashed(path, bytes, true).map(drop)
}

fn write_hashed(path: &Path, bytes: &[u8], sync: bool) -> Result<String, ResultError> {
    let mut file = Partial::create(path)?;
    file.write_all(bytes).map_err(|source| ResultError::Write { path: path.to_owned(), source })?;
    file.keep(sync)
}
