//! What can go wrong with a file that is read or written.

use std::io;
use std::path::{Path, PathBuf};

use units::Printable;

/// A file could not be read, written or looked at.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {what}: {error}", path = Printable::path(path))]
pub struct FileError {
    /// Which.
    pub path: PathBuf,
    /// What was to be done.
    pub what: &'static str,
    /// What the system said.
    pub error: io::Error,
}

impl FileError {
    /// For `map_err`: `what` was to be done to `path`.
    pub(crate) fn of(path: impl AsRef<Path>, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |error| Self { path, what, error }
    }
}
