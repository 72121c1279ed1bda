//! Why an operation failed, as an errno says it.

/// The result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed. Whatever it is, nothing of the operation happened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `EPERM`.
    #[error("the operation is not permitted")]
    NotPermitted,
    /// `ENOENT`.
    #[error("there is no entry with this name")]
    NotFound,
    /// `EIO`: the storage failed.
    #[error("input/output error: {0}")]
    Io(String),
    /// `ENXIO`.
    #[error("there is no such offset")]
    NoSuchAddress,
    /// `E2BIG`.
    #[error("the value is too large")]
    TooBig,
    /// `EACCES`.
    #[error("permission denied")]
    Access,
    /// `EBUSY`.
    #[error("it is in use")]
    Busy,
    /// `EEXIST`.
    #[error("there is an entry with this name")]
    Exists,
    /// `ENOTDIR`.
    #[error("it is no directory")]
    NotDirectory,
    /// `EISDIR`.
    #[error("it is a directory")]
    IsDirectory,
    /// `EINVAL`.
    #[error("an argument is not valid")]
    Invalid,
    /// `EFBIG`.
    #[error("the file would be too large")]
    FileTooBig,
    /// `ENOSPC`.
    #[error("no space is left: remove something, which always works")]
    NoSpace,
    /// `EROFS`.
    #[error("it is mounted read-only")]
    ReadOnly,
    /// `EMLINK`.
    #[error("too many links")]
    TooManyLinks,
    /// `ERANGE`.
    #[error("the result is too long")]
    Range,
    /// `ENAMETOOLONG`.
    #[error("the name is too long")]
    NameTooLong,
    /// `ENOTEMPTY`.
    #[error("the directory is not empty")]
    NotEmpty,
    /// `ENODATA`.
    #[error("there is no such attribute")]
    NoData,
    /// `EOPNOTSUPP`.
    #[error("this is not supported")]
    NotSupported,
    /// `ESTALE`: an inode number that is not there (any more).
    #[error("there is no such inode")]
    Stale,
    /// `EUCLEAN`: what is stored contradicts itself.
    #[error("the file system is damaged ({0}): run plumb fs fsck")]
    Corrupt(String),
}

impl Error {
    /// The number that Linux gives it.
    pub const fn errno(&self) -> i32 {
        match self {
            Self::NotPermitted => 1,
            Self::NotFound => 2,
            Self::Io(_) => 5,
            Self::NoSuchAddress => 6,
            Self::TooBig => 7,
            Self::Access => 13,
            Self::Busy => 16,
            Self::Exists => 17,
            Self::NotDirectory => 20,
            Self::IsDirectory => 21,
            Self::Invalid => 22,
            Self::FileTooBig => 27,
            Self::NoSpace => 28,
            Self::ReadOnly => 30,
            Self::TooManyLinks => 31,
            Self::Range => 34,
            Self::NameTooLong => 36,
            Self::NotEmpty => 39,
            Self::NoData => 61,
            Self::NotSupported => 95,
            Self::Stale => 116,
            Self::Corrupt(_) => 117,
        }
    }
}
