//! What can go wrong below the seam.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::BLOCK_BYTES;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operation {
    /// Bytes from the storage.
    Read,
    /// Bytes to the storage.
    Write,
    /// Make completed writes durable.
    Flush,
    /// The bytes are not needed any more.
    Discard,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        })
    }
}

/// Why a request failed, or a storage could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// It cannot be seen how large it is now.
    #[error("its size cannot be seen: {source}")]
    Size {
        /// Why not.
        source: io::Error,
    },
    /// There is no room for what is always written.
    #[error(
        "there is no room for its first {len_bytes} bytes, its log among them, which it takes at once: free some, or make it with a smaller log: {source}"
    )]
    Reserve {
        /// How much was asked for.
        len_bytes: u64,
        /// Why it is not there.
        source: io::Error,
    },
    /// The offset or the length is not in whole blocks.
    #[error("{operation} of {len_bytes} bytes at {offset_bytes}: not in whole blocks of {BLOCK_BYTES} bytes")]
    Misaligned {
        /// What was asked for.
        operation: Operation,
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u64,
    },
    /// The range ends behind the storage.
    #[error("{operation} of {len_bytes} bytes at {offset_bytes}: the storage ends at {capacity_bytes}")]
    OutOfRange {
        /// What was asked for.
        operation: Operation,
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u64,
        /// Where the storage ends.
        capacity_bytes: u64,
    },
    /// The device or the kernel refused.
    #[error("{operation} of {len_bytes} bytes at {offset_bytes}: {source}")]
    Io {
        /// What was asked for.
        operation: Operation,
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u64,
        /// What it said.
        source: io::Error,
    },
    /// A file cannot be used.
    #[error("{}: {what}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        what: String,
        /// What the kernel said.
        source: Option<io::Error>,
    },
    /// Another process has it open.
    #[error("{}: in use by another process; close that one first", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The kernel has no io_uring for this process.
    #[error("io_uring: {source}; FileEngine::Auto or FileEngine::Calls does without")]
    Uring {
        /// What it said.
        source: io::Error,
    },
    /// The queue has nothing outstanding, or what serves it has ended.
    #[error("the queue completes nothing more")]
    Closed,
}
