//! What operations take and return.

use super::{Error, Result};

/// Longest name of an entry and of an extended attribute.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// An inode's number. The root's is 1, as in FUSE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InodeNumber(pub u64);

impl InodeNumber {
    /// The root directory.
    pub const ROOT: Self = Self(1);
}

/// Where a directory is read on: behind the entry that came with it. It fits a signed 64-bit offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cookie(pub u64);

impl Cookie {
    /// Before the first entry.
    pub const START: Self = Self(0);
    /// Behind `.`.
    pub const SELF: Self = Self(1);
    /// Behind `..`.
    pub const PARENT: Self = Self(2);
}

/// A point in time, since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp {
    /// Seconds, before 1970 negative.
    pub seconds: i64,
    /// Nanoseconds after that, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// The name of an entry: 1 to 255 bytes without `/` and NUL. As an argument it may be `.` or `..`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for an empty one, [`Error::NameTooLong`], [`Error::Invalid`] for `/` and NUL.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        match bytes.len() {
            0 => Err(Error::NotFound),
            1..=NAME_BYTES_MAX if bytes.iter().any(|byte| matches!(byte, 0 | b'/')) => Err(Error::Invalid),
            1..=NAME_BYTES_MAX => Ok(Self(bytes)),
            _ => Err(Error::NameTooLong),
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether it is `.` or `..`.
    pub fn is_dots(self) -> bool {
        matches!(self.0, b"." | b"..")
    }
}

/// The name of an extended attribute, with its namespace (`user.`): 1 to 255 bytes without NUL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct XattrName<'a>(&'a [u8]);

impl<'a> XattrName<'a> {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] for one that is empty or too long, as Linux has it; [`Error::Invalid`] for NUL.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        match bytes.len() {
            1..=NAME_BYTES_MAX if bytes.contains(&0) => Err(Error::Invalid),
            1..=NAME_BYTES_MAX => Ok(Self(bytes)),
            _ => Err(Error::Range),
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// What an inode is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl Kind {
    /// The type bits of `st_mode`; shifted right by 12 they are the `d_type` of an entry.
    pub const fn mode_bits(self) -> u32 {
        match self {
            Self::Fifo => 0o010_000,
            Self::CharacterDevice => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::File => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// The kind that `st_mode` names.
    pub const fn of_mode(mode: u32) -> Option<Self> {
        Some(match mode & 0o170_000 {
            0o010_000 => Self::Fifo,
            0o020_000 => Self::CharacterDevice,
            0o040_000 => Self::Directory,
            0o060_000 => Self::BlockDevice,
            0o100_000 => Self::File,
            0o120_000 => Self::Symlink,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }
}

/// Permission, set-ID and sticky bits: the lowest 12 of `st_mode`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Permissions(u16);

impl Permissions {
    /// Set-user-ID.
    pub const SET_USER_ID: u16 = 0o4000;
    /// Set-group-ID.
    pub const SET_GROUP_ID: u16 = 0o2000;

    /// The lowest 12 bits of a mode.
    pub const fn of_mode(mode: u32) -> Self {
        Self((mode & 0o7777) as u16)
    }

    /// The bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Without some bits.
    #[must_use]
    pub const fn without(self, bits: u16) -> Self {
        Self(self.0 & !bits)
    }

    /// With some bits more.
    #[must_use]
    pub const fn with(self, bits: u16) -> Self {
        Self((self.0 | bits) & 0o7777)
    }
}

/// Who calls, and when.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The other groups, where they are known.
    pub groups: &'a [u32],
    /// Bits that what he makes does not get. It does not count where the directory has a default access list.
    pub umask: u16,
    /// The time of the call. It should not go back; nothing breaks where it does.
    pub now: Timestamp,
}

impl Caller<'_> {
    /// Whether he is in a group.
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// What `stat` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Number.
    pub inode: InodeNumber,
    /// Kind.
    pub kind: Kind,
    /// Permission, set-ID and sticky bits.
    pub permissions: Permissions,
    /// Names that it has; a directory: 2 and one for each directory in it.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Of a device, as FUSE has it (`new_encode_dev`).
    pub device: u32,
    /// Bytes; of a symbolic link its target's.
    pub size_bytes: u64,
    /// Space in units of 512 bytes. Holes count where they are not known to be holes; never more than the size needs.
    pub blocks: u64,
    /// Last read.
    pub accessed: Timestamp,
    /// Last change of the contents.
    pub modified: Timestamp,
    /// Last change of anything.
    pub changed: Timestamp,
    /// When it was made.
    pub created: Timestamp,
}

impl Attributes {
    /// `st_mode`.
    pub fn mode(&self) -> u32 {
        self.kind.mode_bits() | u32::from(self.permissions.bits())
    }
}

/// What to change of an inode. A caller that means "now" says its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttributes {
    /// Permission, set-ID and sticky bits.
    pub permissions: Option<Permissions>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size: what is beyond goes, what is new is a hole.
    pub size_bytes: Option<u64>,
    /// Last read.
    pub accessed: Option<Timestamp>,
    /// Last change of the contents.
    pub modified: Option<Timestamp>,
    /// Last change of anything, where it is not the time of the call.
    pub changed: Option<Timestamp>,
    /// A change of size clears the set-ID bits.
    pub kill_privileges: bool,
}

/// What `rename` does with what has the new name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RenameFlags {
    /// It is replaced.
    #[default]
    Replace,
    /// Its being there is an error (`RENAME_NOREPLACE`).
    NoReplace,
    /// It must be there, and gets the old name (`RENAME_EXCHANGE`).
    Exchange,
}

/// What `fallocate` does with the range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocate {
    /// Mode 0: the file reaches at least to its end. Space is looked for, not kept.
    Extend,
    /// `KEEP_SIZE`: the same, and the size stays.
    KeepSize,
    /// `PUNCH_HOLE` (with `KEEP_SIZE`): it becomes a hole.
    PunchHole,
    /// `ZERO_RANGE`: it reads as zeroes, and the file reaches at least to its end.
    ZeroRange,
    /// `ZERO_RANGE` with `KEEP_SIZE`.
    ZeroRangeKeepSize,
    /// `COLLAPSE_RANGE`: it goes, and what is behind moves up. Whole blocks of 4,096 bytes, and not up to the end.
    CollapseRange,
    /// `INSERT_RANGE`: a hole comes before what is there. Whole blocks of 4,096 bytes, and inside the file.
    InsertRange,
}

/// What `seek` looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// `SEEK_DATA`.
    Data,
    /// `SEEK_HOLE`.
    Hole,
}

/// Whether an extended attribute must be new.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SetXattr {
    /// It may be there.
    #[default]
    Either,
    /// `XATTR_CREATE`.
    Create,
    /// `XATTR_REPLACE`.
    Replace,
}

/// An entry of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryEntry<'a> {
    /// Its name, `.` and `..` included.
    pub name: &'a [u8],
    /// What it names.
    pub attributes: Attributes,
    /// From here on the directory is read on behind it.
    pub next: Cookie,
}

/// What `statfs` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Unit of the following counts.
    pub block_bytes: u32,
    /// All.
    pub blocks: u64,
    /// Not in use.
    pub free_blocks: u64,
    /// Not in use and for everybody.
    pub available_blocks: u64,
    /// Inodes that there may be.
    pub inodes: u64,
    /// Inodes that there may be in addition.
    pub free_inodes: u64,
    /// Longest name.
    pub name_bytes_max: u32,
}
