//! What a program of this crate may fail with.

use std::io;
use std::path::{Path, PathBuf};

use units::ByteSize;

/// Why a program did not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The options cannot be kept together.
    #[error("{0}")]
    Options(String),
    /// A call failed.
    #[error("{what} {}: {error}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file of the set, or its folder, is gone.
    #[error("{what} {}: it, or its folder, was removed by somebody else", path.display())]
    Gone {
        /// What was being done.
        what: &'static str,
        /// With which file.
        path: PathBuf,
    },
    /// A preparation stands where this one would.
    #[error("{} is there already; --fresh removes it first", .0.display())]
    Occupied(PathBuf),
    /// Something else stands there.
    #[error("{} is there, and nothing that `plumb app` has prepared: it is not removed", .0.display())]
    NotOurs(PathBuf),
    /// The folder for the files is not there.
    #[error("{} is not a folder that is there; make it first, or name another one with --folder", .0.display())]
    NoFolder(PathBuf),
    /// Nothing was prepared, or a run has used it up.
    #[error("{} {why}; prepare it with --prepare and the same options", path.display())]
    NotPrepared {
        /// The folder.
        path: PathBuf,
        /// What it is instead.
        why: &'static str,
    },
    /// The preparation was one of other files.
    #[error("{} was prepared otherwise: {differences}", path.display())]
    Different {
        /// The prepared folder.
        path: PathBuf,
        /// Options and what they were and are.
        differences: String,
    },
    /// The file system is too small.
    #[error("the files need {needed}, and {} has {free} free; ask for fewer or smaller ones", folder.display())]
    NoRoom {
        /// Of all files of the preparation.
        needed: ByteSize,
        /// Of the file system, for this user.
        free: ByteSize,
        /// Where.
        folder: PathBuf,
    },
    /// A thread of a set with too few files found none to use.
    #[error("no file of {set} is left to {what}; ask for more with --files")]
    Exhausted {
        /// The set.
        set: &'static str,
        /// What was to be done with one.
        what: &'static str,
    },
    /// The system gives no more threads.
    #[error("cannot start thread {number} of {of}: {error}")]
    Thread {
        /// Which one, from 1.
        number: usize,
        /// How many there were to be.
        of: usize,
        /// What the system said.
        error: io::Error,
    },
    /// A thread died of a fault of this program.
    #[error("a thread died of a fault of this program")]
    Died,
}

impl AppError {
    /// The error of a call that was about `path`.
    pub fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { what, path: path.to_owned(), error }
    }
}
