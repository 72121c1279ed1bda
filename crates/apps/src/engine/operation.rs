//! The kinds of operations that are counted and timed.

/// A kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A new file is opened.
    Create,
    /// A file that is there is opened.
    Open,
    /// One read, or the reads of a whole file.
    Read,
    /// One write, or the writes of a whole file.
    Write,
    /// One write behind the end.
    Append,
    /// `fsync`.
    Fsync,
    /// `close`.
    Close,
    /// `unlink`.
    Delete,
    /// `rename`.
    Rename,
    /// `stat`.
    Stat,
    /// Work of the processor; no I/O.
    Compress,
}

impl Operation {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 11] = [
        Self::Create,
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Append,
        Self::Fsync,
        Self::Close,
        Self::Delete,
        Self::Rename,
        Self::Stat,
        Self::Compress,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Append => "append",
            Self::Fsync => "fsync",
            Self::Close => "close",
            Self::Delete => "delete",
            Self::Rename => "rename",
            Self::Stat => "stat",
            Self::Compress => "compress",
        }
    }

    /// Whether it counts as an operation; work of the processor does not.
    pub fn is_io(self) -> bool {
        self != Self::Compress
    }

    /// Whether its bytes came from a file.
    pub fn reads(self) -> bool {
        self == Self::Read
    }

    /// Whether its bytes went into a file.
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Append)
    }
}
