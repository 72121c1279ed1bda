//! Why a run cannot be on this machine, or what went wrong.

/// Why a run cannot be on this machine, or what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum LiveHostError {
    /// There is nothing to mount.
    #[error("host = \"live\" cannot make {file_system}: write ext4, xfs, btrfs, f2fs or betrfs")]
    FileSystem {
        /// What the spec asks for.
        file_system: file_systems::FileSystem,
    },
    /// This machine does not let it.
    #[error("host = \"live\" cannot be here: {why}; host = \"linux\" needs no privileges")]
    Unavailable {
        /// What is missing.
        why: String,
    },
    /// A program that sets the device up failed.
    #[error("{program}: {said}")]
    Program {
        /// Which, with its arguments.
        program: String,
        /// Its words.
        said: String,
    },
    /// The server of a modelled device failed.
    #[error("the server of {device}: {said}")]
    Server {
        /// The device.
        device: String,
        /// Its words.
        said: String,
    },
    /// A file of the run.
    #[error("cannot {what}: {source}")]
    File {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl LiveHostError {
    pub(crate) fn file(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::File { what, source }
    }
}
