//! What can go wrong with a trace.

use std::io;
use std::path::{Path, PathBuf};

use observe::FileError;
use observe::cgroups::CgroupError;
use observe::mounts::MOUNTINFO;
use observe::processes::ProcessError;
use observe::tracefs::TracefsError;
use units::Printable;

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
    #[error("the source `{source_name}` cannot trace here: {why}; {remedy}")]
    Unavailable {
        /// The source's name on the command line.
        source_name: &'static str,
        /// What was refused.
        why: String,
        /// What to do about it.
        remedy: &'static str,
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

impl From<FileError> for TraceError {
    fn from(FileError { path, what, error }: FileError) -> Self {
        Self::File { path, what, error }
    }
}

impl From<TracefsError> for TraceError {
    fn from(error: TracefsError) -> Self {
        match error {
            TracefsError::Unavailable(why) => Self::Unavailable {
                source_name: "tracefs",
                why,
                remedy: "run it as root on Linux 6.14 or later with tracefs mounted \
                       (`mount -t tracefs none /sys/kernel/tracing`)",
            },
            TracefsError::File(error) => error.into(),
            TracefsError::Format { path, why } => Self::Line { path, line: 1, why: why.into() },
        }
    }
}

impl From<ProcessError> for TraceError {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::Missing(process) => {
                Self::Filter { filter: format!("process {process}"), why: "there is no such process".into() }
            }
            ProcessError::File(error) => error.into(),
        }
    }
}

impl From<CgroupError> for TraceError {
    fn from(CgroupError { path, why }: CgroupError) -> Self {
        Self::Filter { filter: format!("control group {}", Printable::path(&path)), why }
    }
}
