//! The results folder of one experiment: what is done survives an interruption.
//!
//! ```text
//! results/NAME-HASH/
//!   spec.toml            the document after overrides
//!   runs/KEY.json        one finished run each; presence means "done"
//!   runs.csv, .parquet   one row a run, job and direction
//!   latency.parquet      histogram bins
//!   counters.csv         device and block layer counters
//!   fio/*.json           fio json+ of each run of a fio job
//!   report.html
//! ```

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{RunResult, Table, csv, parquet};

/// A results folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
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
    #[error("{path} is not a run of this version of Plumb ({message}); delete it and run again", path = path.display())]
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
        Self::plain(&folder.join("runs"))?;
        Self::plain(folder)
    }

    /// Opens or makes a folder for files alone, without runs.
    pub fn plain(folder: &Path) -> Result<Self, ResultError> {
        fs::create_dir_all(folder).map_err(|source| ResultError::Write { path: folder.to_owned(), source })?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Opens a folder that a run made.
    pub fn open(folder: &Path) -> Result<Self, ResultError> {
        let spec = folder.join("spec.toml");
        fs::metadata(&spec).map_err(|source| ResultError::Read { path: spec, source })?;
        Ok(Self { folder: folder.to_owned() })
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

    /// Keeps a table as CSV.
    pub fn write_csv(&self, name: &str, table: &Table) -> Result<PathBuf, ResultError> {
        let mut bytes = Vec::new();
        csv::write(table, &mut bytes).map_err(|source| ResultError::Write { path: self.folder.join(name), source })?;
        self.write(name, &bytes)
    }

    /// Keeps a table as Parquet.
    pub fn write_parquet(&self, name: &str, table: &Table) -> Result<PathBuf, ResultError> {
        let mut bytes = Vec::new();
        parquet::write(table, &mut bytes)
            .map_err(|error| ResultError::Write { path: self.folder.join(name), source: io::Error::other(error) })?;
        self.write(name, &bytes)
    }

    /// Keeps a finished run.
    pub fn put(&self, run: &RunResult) -> Result<(), ResultError> {
        let name = run_name(&run.key);
        let bytes = serde_json::to_vec(run)
            .map_err(|error| ResultError::Damaged { path: self.folder.join(&name), message: error.to_string() })?;
        self.write(&name, &bytes).map(drop)
    }

    /// The finished run of this key, if there is one.
    pub fn get(&self, key: &str) -> Result<Option<RunResult>, ResultError> {
        let path = self.folder.join(run_name(key));
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ResultError::Read { path, source }),
        };
        let run: RunResult = serde_json::from_slice(&bytes)
            .map_err(|error| ResultError::Damaged { path: path.clone(), message: error.to_string() })?;
        if run.key != key {
            return Err(ResultError::Damaged { path, message: format!("it holds run {}", run.key) });
        }
        Ok(Some(run))
    }

    /// Forgets every finished run.
    pub fn clear(&self) -> Result<(), ResultError> {
        let runs = self.folder.join("runs");
        let fail = |source| ResultError::Write { path: runs.clone(), source };
        fs::remove_dir_all(&runs).map_err(fail)?;
        fs::create_dir_all(&runs).map_err(fail)
    }

    /// A file of this folder as text.
    pub fn read_text(&self, name: &str) -> Result<String, ResultError> {
        let path = self.folder.join(name);
        fs::read_to_string(&path).map_err(|source| ResultError::Read { path, source })
    }
}

/// Writes a file whole or not at all, whatever interrupts it, and the folders above it.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ResultError> {
    let fail = |source| ResultError::Write { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(fail)?;
    }
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    let written = fs::File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    });
    if let Err(source) = written {
        // A full disk must not stay full of our leftovers.
        let _ = fs::remove_file(&partial);
        return Err(fail(source));
    }
    Ok(())
}

fn run_name(key: &str) -> String {
    format!("runs/{key}.json")
}
