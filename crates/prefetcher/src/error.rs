//! What can go wrong before the program runs.

use std::path::{Path, PathBuf};

use units::Printable;

/// Why a command was not started, or not with the library.
#[derive(Debug, thiserror::Error)]
pub enum PrefetcherError {
    /// A file cannot be used.
    #[error("{what} {}: {source}", Printable::path(path))]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// There is no such program.
    #[error("{}: no such program in the folders of PATH", Printable::path(.0))]
    NotFound(PathBuf),
    /// The kernel refuses something else.
    #[error("cannot {what}: {source}")]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// There is no place for the library that programs can load it from.
    #[error(
        "no folder for the preload library: {0}; set XDG_RUNTIME_DIR or XDG_CACHE_HOME to one from which programs may be run"
    )]
    NoFolder(String),
    /// A profile or a pattern is wrong.
    #[error("{0}")]
    Settings(String),
}

impl PrefetcherError {
    /// Something that was tried with a file.
    pub fn file(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }

    /// Something else that was tried.
    pub fn kernel<E: Into<std::io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Kernel { what, source: source.into() }
    }
}
