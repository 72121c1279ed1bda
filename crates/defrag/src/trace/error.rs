//! What can go wrong with a trace.

use std::io;
use std::path::{Path, PathBuf};

use units::Printable;

use crate::mounts::MOUNTINFO;

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A file could not be read, written or looked at.
    #[error("{path}: {what}: {error}", path = Printable::path(path))]
    File {
        /// Which.
        path: PathBuf,
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// A trace file, iolog or strace output that does not say what it should.
    #[error("{path}, line {line}: {why}", path = Printable::path(path))]
    Line {
        /// Which.
        path: PathBuf,
        /// Counted from one.
        line: u64,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// This kernel, or this user, cannot trace in this way.
    #[error("the source `{source_name}` cannot trace here: {why}; {mend}")]
    Unavailable {
        /// The source's name on the command line.
        source_name: &'static str,
        /// What was refused.
        why: String,
        /// What to do about it.
        mend: &'static str,
    },
    /// A filter that names nothing.
    #[error("{filter}: {why}")]
    Filter {
        /// As it was given.
        filter: String,
        /// What is wrong with it, and what would be right.
        why: String,
    },
}

impl TraceError {
    /// For `map_err`: `what` was to be done to `path`.
    pub(crate) fn file(path: impl AsRef<Path>, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |error| Self::File { path, what, error }
    }

    pub(crate) fn mounts() -> impl FnOnce(io::Error) -> Self {
        Self::file(MOUNTINFO, "reading the mounts")
    }
}
