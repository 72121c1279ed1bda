//! Why a run under a real kernel in virtual time cannot be, or what went wrong.

use linux::LinuxError;
use ssd::command_log::CommandLogError;

/// Why a run under a real kernel cannot be, or what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum LinuxHostError {
    /// An option that only the model has.
    #[error("`{option}` has no meaning under host = \"linux\": {reason}")]
    Option {
        /// Its dotted path, or the job's option.
        option: String,
        /// Why, and the remedy.
        reason: String,
    },
    /// An option that only a real kernel has.
    #[error("`{option}` needs host = \"linux\": the model has no {what}")]
    ModelOption {
        /// Its dotted path.
        option: String,
        /// What the model lacks.
        what: &'static str,
    },
    /// A setting of the guest that does not go with another.
    #[error("`{option}`: {reason}")]
    Setting {
        /// Its dotted path.
        option: String,
        /// Why, and the remedy.
        reason: String,
    },
    /// There is no fio.
    #[error("host = \"linux\" runs the real fio, and `{program} --version` failed: {reason}; install the package fio")]
    NoFio {
        /// What was run.
        program: String,
        /// What came of it.
        reason: String,
    },
    /// fio refused the job or failed.
    #[error("fio ended with status {status} under Linux {kernel}: {message}")]
    Fio {
        /// Its exit status.
        status: u8,
        /// The kernel's release.
        kernel: String,
        /// Its own words.
        message: String,
    },
    /// fio's result cannot be read.
    #[error("fio's result cannot be read: {message}")]
    Result {
        /// What is wrong with it.
        message: String,
    },
    /// The command log cannot be read.
    #[error(transparent)]
    Log(#[from] CommandLogError),
    /// Files for the guest cannot be made or read.
    #[error("cannot {what}: {source}")]
    File {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The kernel, or the guest.
    #[error(transparent)]
    Guest(#[from] LinuxError),
}

impl LinuxHostError {
    pub(crate) fn file(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::File { what, source }
    }
}
