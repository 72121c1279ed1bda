//! Measurements on disk: fio's JSON, Plumb's, a run record or a results folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::fio_json::{self, FioJsonProblem, Stream};
use crate::results::RunResult;

/// What ran side by side in one measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Where it comes from, for messages.
    pub origin: String,
    /// Its streams, in the order of the result.
    pub streams: Vec<Stream>,
}

/// Why a path holds no measurement.
#[derive(Debug, thiserror::Error)]
pub enum MeasurementError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It holds no result of fio.
    #[error("{origin}: {problem}")]
    Result {
        /// The file.
        origin: String,
        /// What is wrong with it.
        problem: FioJsonProblem,
    },
    /// A folder with no fio result, or with several.
    #[error("{} holds {found} fio results in its folder `fio`; name one of the files", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// How many there are.
        found: usize,
    },
    /// A run of a trace, which has no fio result.
    #[error("{origin} is a run of a trace; interference needs runs of fio jobs")]
    Trace {
        /// The file.
        origin: String,
    },
}

impl Measurement {
    /// The measurement in `path`: fio's JSON, a run record of Plumb
    /// (`runs/KEY.json`), or a results folder with one run.
    ///
    /// # Errors
    /// When it is none of these; the error names the file.
    pub fn read(path: &Path) -> Result<Self, MeasurementError> {
        let path = if path.is_dir() { single_result(path)? } else { path.to_owned() };
        let bytes = fs::read(&path).map_err(|source| MeasurementError::Read { path: path.clone(), source })?;
        Self::parse(&path.display().to_string(), &bytes)
    }

    /// The measurement in `bytes`; `origin` is what messages call it.
    ///
    /// # Errors
    /// As [`Measurement::read`].
    pub fn parse(origin: &str, bytes: &[u8]) -> Result<Self, MeasurementError> {
        let record: Option<RunResult> = serde_json::from_slice(bytes).ok();
        let parsed = match record {
            Some(RunResult { fio_json: Some(fio), .. }) => fio_json::parse(fio.as_bytes()),
            Some(_) => return Err(MeasurementError::Trace { origin: origin.to_owned() }),
            None => fio_json::parse(bytes),
        };
        match parsed {
            Ok(streams) => Ok(Self { origin: origin.to_owned(), streams }),
            Err(problem) => Err(MeasurementError::Result { origin: origin.to_owned(), problem }),
        }
    }
}

/// The only fio result of a results folder.
fn single_result(folder: &Path) -> Result<PathBuf, MeasurementError> {
    let path = folder.join("fio");
    let fail = |source| MeasurementError::Read { path: path.clone(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(&path).map_err(fail)? {
        let entry = entry.map_err(fail)?.path();
        if entry.extension().is_some_and(|extension| extension == "json") {
            found.push(entry);
        }
    }
    match found.pop() {
        Some(only) if found.is_empty() => Ok(only),
        last => {
            let found = found.len() + usize::from(last.is_some());
            Err(MeasurementError::Folder { path: folder.to_owned(), found })
        }
    }
}
