//! What can go wrong while a file is moved.

use std::io;
use std::path::{Path, PathBuf};

use units::Printable;

use super::refusals::Refusal;
use crate::extents::FiemapError;

/// Why a file could not be moved. Its data is as it was.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// It is not to be moved, or cannot be.
    #[error("{path}: {refusal}", path = Printable::path(path))]
    Refused {
        /// Which file.
        path: PathBuf,
        /// Why.
        refusal: Refusal,
    },
    /// Its extents cannot be read.
    #[error("{path}: {error}", path = Printable::path(path))]
    Extents {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        error: FiemapError,
    },
    /// A system call failed in a way that no other run would not meet.
    #[error("{path}: cannot {action}: {error}", path = Printable::path(path))]
    System {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

impl MigrateError {
    pub(super) fn refused(path: &Path, refusal: Refusal) -> Self {
        Self::Refused { path: path.to_owned(), refusal }
    }

    /// For `map_err`.
    pub(super) fn system(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { path: path.to_owned(), action, error }
    }

    /// For `map_err`.
    pub(super) fn extents(path: &Path) -> impl FnOnce(FiemapError) -> Self {
        move |error| Self::Extents { path: path.to_owned(), error }
    }

    /// The reason, if it is a refusal.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }
}
