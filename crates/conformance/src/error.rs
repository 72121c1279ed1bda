//! What can go wrong before a guest's verdict is known.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// A rig that could not be built, or a guest that did not finish.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something of the host is not there; the check is skipped, not failed.
    #[error("{what} ({remedy})")]
    Missing {
        /// What was not available.
        what: String,
        /// What gets it.
        remedy: String,
    },
    /// A file of the rig cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program of the host failed.
    #[error("{program} failed ({status}): {output}")]
    Program {
        /// Its name.
        program: String,
        /// Its exit status.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// The guest did not come to its end.
    #[error("the guest {ending}; the transcript is in {transcript}\n{tail}")]
    Guest {
        /// How it ended.
        ending: Ending,
        /// The folder with console, kernel log and outputs, kept.
        transcript: PathBuf,
        /// The last lines of what was going on.
        tail: String,
    },
    /// An answer of a program cannot be read.
    #[error("{what}: {why}")]
    Answer {
        /// Whose answer.
        what: String,
        /// What is wrong with it.
        why: String,
    },
}

/// How a guest ended that did not reach the end of its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The time limit passed.
    TimedOut(Duration),
    /// QEMU ended before the script did: a panic, an oops or a hung task (both panic here).
    Died,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::TimedOut(limit) => write!(f, "did not finish within {} s", limit.as_secs()),
            Ending::Died => f.write_str("died"),
        }
    }
}

impl Error {
    /// Whether the host lacks something, so that a check should be skipped with this reason.
    pub fn is_missing(&self) -> bool {
        matches!(self, Error::Missing { .. })
    }

    pub(crate) fn missing(what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Missing { what: what.into(), remedy: remedy.into() }
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
        let path = path.to_path_buf();
        move |source| Error::File { path, source }
    }

    pub(crate) fn answer(what: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Answer { what: what.into(), why: why.into() }
    }
}
