//! Why a cell cannot be measured.

use std::io;
use std::path::{Path, PathBuf};

use crate::extents::{FiemapError, QueueError};

/// Why a cell cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The cell asks for what cannot be.
    #[error("{message}")]
    Spec {
        /// What, and the remedy.
        message: String,
    },
    /// A file or folder.
    #[error("cannot {what} {path}: {error}", path = path.display())]
    File {
        /// What was to be done.
        what: &'static str,
        /// To which.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// A program is missing.
    #[error("cannot start {program}: {error}; install it (Debian's package {package})")]
    Missing {
        /// Which.
        program: String,
        /// Where it is from.
        package: &'static str,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// A program failed.
    #[error("{program} ended with {status}: {said}")]
    Program {
        /// Which, with its arguments.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its last words.
        said: String,
    },
    /// A program said something that is not understood.
    #[error("{program} said what is not understood: {why}")]
    Answer {
        /// Which.
        program: String,
        /// What is wrong.
        why: String,
    },
    /// The file system has no such tool.
    #[error("{tool} is no tool for {system}; take it out of the sweep there")]
    NoTool {
        /// Which.
        tool: &'static str,
        /// The file system's name.
        system: String,
    },
    /// The file system's device cannot be watched.
    #[error("{path} lies on no block device whose requests are counted", path = path.display())]
    NoDevice {
        /// The folder.
        path: PathBuf,
    },
    /// The tool left files alone that it was to move.
    #[error("plumb defrag run left {path} alone: {why}")]
    Refused {
        /// Which.
        path: String,
        /// Its words.
        why: String,
    },
    /// The extents cannot be read.
    #[error("{path}: {error}", path = path.display())]
    Extents {
        /// Of which file.
        path: PathBuf,
        /// Why.
        #[source]
        error: FiemapError,
    },
    /// The limits of the queue cannot be read.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl StudyError {
    pub(super) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { what, path, error }
    }
}
