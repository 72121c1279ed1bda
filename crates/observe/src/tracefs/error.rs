//! Why tracepoints cannot be used.

use std::path::PathBuf;

use units::Printable;

use crate::FileError;

/// Why tracepoints cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// This kernel, or this user, has no tracefs or not what is needed of it.
    #[error("{0}")]
    Unavailable(String),
    /// One of its files.
    #[error(transparent)]
    File(#[from] FileError),
    /// A tracepoint's format that does not say what it should.
    #[error("{path}: {why}", path = Printable::path(path))]
    Format {
        /// Which.
        path: PathBuf,
        /// What is missing.
        why: &'static str,
    },
}
