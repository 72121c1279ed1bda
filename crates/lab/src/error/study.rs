//! Why a cell of the study cannot be run, or what went wrong.

use linux::LinuxError;

use super::{LinuxHostError, LiveHostError};

/// Why a cell of the study cannot be run, or what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum StudyHostError {
    /// The spec asks for what cannot be.
    #[error("{message}")]
    Unfit {
        /// What, and the remedy.
        message: String,
    },
    /// The cell's process failed.
    #[error("the cell failed: {said}")]
    Failed {
        /// Its words.
        said: String,
    },
    /// What the cell's process left cannot be read.
    #[error("what the cell left cannot be read: {why}")]
    Answer {
        /// What is wrong with it.
        why: String,
    },
    /// A file of the run.
    #[error("cannot {what}: {source}")]
    File {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The loop device of this machine.
    #[error(transparent)]
    Live(#[from] LiveHostError),
    /// The guest's settings.
    #[error(transparent)]
    Host(#[from] LinuxHostError),
    /// The kernel, or the guest.
    #[error(transparent)]
    Guest(#[from] LinuxError),
}

impl StudyHostError {
    pub(crate) fn file(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::File { what, source }
    }
}
