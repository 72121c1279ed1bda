//! What can go wrong, apart from states that are bad.

/// Why a file system cannot be read here. Nothing is said of whether it is good.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// Why states cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The file system is none that can be read without a kernel.
    #[error("its states cannot be read without a kernel: {0}")]
    Unreadable(#[from] Unreadable),
    /// A file, or a program.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// How it ended.
        source: std::io::Error,
    },
    /// What an earlier start left is damaged, or of another run.
    #[error("{0}")]
    Damaged(String),
    /// The caller's scripts cannot be run, or fail where no power was lost.
    #[error("{0}")]
    Scripts(String),
    /// A look at a state took longer than it may.
    #[error("{0}")]
    Late(String),
    /// Somebody asked to stop; the same call goes on.
    #[error("stopped")]
    Stopped,
}

pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> OfflineError {
    let what = what.into();
    move |source| OfflineError::System { what, source }
}
