//! What is answered, after the header that all answers have.

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

bitflags! {
    /// How an opened file behaves (`FOPEN_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenFlags: u32 {
        /// Past the page cache.
        const DIRECT_IO = 1 << 0;
        /// What the page cache holds from earlier is still right.
        const KEEP_CACHE = 1 << 1;
        /// The kernel may keep the names of a directory.
        const CACHE_DIR = 1 << 3;
        /// `close(2)` needs no FLUSH.
        const NOFLUSH = 1 << 5;
        /// Several direct writes at a time.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
    }
}

/// Attributes of a node.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Attributes {
    /// Its number in the file system.
    pub ino: u64,
    /// In bytes.
    pub size: u64,
    /// In units of 512 bytes.
    pub blocks: u64,
    /// Access, modification and change, in seconds (the bits of an `i64`).
    pub times: [u64; 3],
    /// The nanoseconds of the same.
    pub times_nsec: [u32; 3],
    /// Type and permissions.
    pub mode: u32,
    /// Names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Of a device file, in the form of the kernel's `new_encode_dev`.
    pub rdev: u32,
    /// Best unit of reads and writes.
    pub blksize: u32,
    /// None is used.
    pub flags: u32,
}

/// Answer to LOOKUP and whatever makes a node.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct EntryOut {
    pub(crate) nodeid: u64,
    pub(crate) generation: u64,
    pub(crate) entry_valid: u64,
    pub(crate) attr_valid: u64,
    pub(crate) entry_valid_nsec: u32,
    pub(crate) attr_valid_nsec: u32,
    pub(crate) attr: Attributes,
}

/// Answer to GETATTR and SETATTR.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct AttrOut {
    pub(crate) attr_valid: u64,
    pub(crate) attr_valid_nsec: u32,
    pub(crate) dummy: u32,
    pub(crate) attr: Attributes,
}

/// Answer to OPEN.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct OpenOut {
    pub(crate) fh: u64,
    pub(crate) open_flags: u32,
    pub(crate) backing_id: i32,
}

/// Answer to CREATE and TMPFILE.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct CreateOut {
    pub(crate) entry: EntryOut,
    pub(crate) open: OpenOut,
}

/// Answer to WRITE and COPY_FILE_RANGE, and of GETXATTR and LISTXATTR with no room.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct SizeOut {
    pub(crate) size: u32,
    pub(crate) padding: u32,
}

/// What a file system has room for (the answer to STATFS).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct FileSystemSize {
    /// In units of `frsize`.
    pub blocks: u64,
    /// Free ones.
    pub bfree: u64,
    /// Those of them that anybody may have.
    pub bavail: u64,
    /// Nodes that there can be.
    pub files: u64,
    /// Those of them that are free.
    pub ffree: u64,
    /// Best unit of transfers, in bytes.
    pub bsize: u32,
    /// Longest name, in bytes.
    pub namelen: u32,
    /// Bytes of a block.
    pub frsize: u32,
    /// Zeroes.
    pub spare: [u32; 7],
}

/// Answer to IOCTL.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct IoctlOut {
    pub(crate) result: i32,
    pub(crate) flags: u32,
    pub(crate) in_iovs: u32,
    pub(crate) out_iovs: u32,
}

/// A notice that a node's attributes, and from `off` on what it holds, are not to be remembered.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct InvalidateInodeOut {
    pub(crate) ino: u64,
    /// Negative: only the attributes.
    pub(crate) off: i64,
    pub(crate) len: i64,
}

/// A notice that a name is not to be remembered; the name follows, and a zero.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct InvalidateEntryOut {
    pub(crate) parent: u64,
    pub(crate) namelen: u32,
    pub(crate) flags: u32,
}

/// One name of a directory; the name follows, and zeroes up to the next multiple of eight bytes.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Dirent {
    pub(crate) ino: u64,
    pub(crate) off: u64,
    pub(crate) namelen: u32,
    pub(crate) kind: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes that the kernel's header gives.
    #[test]
    fn sizes() {
        assert_eq!((size_of::<Attributes>(), size_of::<EntryOut>(), size_of::<AttrOut>()), (88, 128, 104));
        assert_eq!((size_of::<CreateOut>(), size_of::<FileSystemSize>(), size_of::<Dirent>()), (144, 80, 24));
        assert_eq!((size_of::<OpenOut>(), size_of::<SizeOut>(), size_of::<IoctlOut>()), (16, 8, 16));
        assert_eq!((size_of::<InvalidateInodeOut>(), size_of::<InvalidateEntryOut>()), (24, 16));
    }
}
