//! Why a journal cannot be used.

use std::io;
use std::path::PathBuf;

use units::Printable;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error("journal {path}: {error}", path = Printable::path(path))]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// It is something else.
    #[error("{path} is no journal of a run, and is left as it is; name another file", path = Printable::path(path))]
    Foreign {
        /// Which.
        path: PathBuf,
    },
    /// It is one that cannot be gone on with.
    #[error("journal {path}, line {line}: {why}; remove it, or name the files or the trace again to begin from the start", path = Printable::path(path))]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Counted from one.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// Without files and a trace, a run goes on with what the journal is of, and not with other options.
    #[error("journal {path} is {}; name the files or the trace again to begin from the start", differences.join(" and "), path = Printable::path(path))]
    Other {
        /// Which.
        path: PathBuf,
        /// What the journal's run was.
        differences: Vec<String>,
    },
    /// Another run has it.
    #[error("journal {path}: another run uses it; wait for its end, or name another one", path = Printable::path(path))]
    Busy {
        /// Which.
        path: PathBuf,
    },
    /// It is there already.
    #[error("journal {path}: already there; resume it, remove it, or name another one", path = Printable::path(path))]
    Exists {
        /// Which.
        path: PathBuf,
    },
}
