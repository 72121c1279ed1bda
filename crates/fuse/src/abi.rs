//! The part of the FUSE protocol that is spoken here: that of a file system of one file.
//!
//! Layouts and numbers: Linux `include/uapi/linux/fuse.h`, protocol 7.44. Every
//! field is in the machine's own byte order.

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Major version of the protocol; another one cannot be spoken.
pub(crate) const MAJOR: u32 = 7;
/// The newest minor version whose replies are spoken here.
pub(crate) const MINOR: u32 = 36;
/// The oldest minor version whose kernel has what is relied on (`max_pages`, 4.20).
pub(crate) const OLDEST_MINOR: u32 = 28;

/// Node of the root directory.
pub(crate) const ROOT_NODE: u64 = 1;

/// Every request begins with this.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct InHeader {
    pub(crate) len: u32,
    pub(crate) opcode: u32,
    pub(crate) unique: u64,
    pub(crate) nodeid: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) pid: u32,
    pub(crate) total_extlen: u16,
    pub(crate) padding: u16,
}

/// Every reply begins with this.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct OutHeader {
    pub(crate) len: u32,
    /// Zero, or a negated error number.
    pub(crate) error: i32,
    pub(crate) unique: u64,
}

/// Operation codes (`enum fuse_opcode`).
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const LSEEK: u32 = 46;
}

bitflags! {
    /// What both sides can do (INIT, `flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct InitFlags: u32 {
        const ASYNC_READ = 1 << 0;
        const BIG_WRITES = 1 << 5;
        /// Direct I/O may be asynchronous: without it the loop device's queue depth is 1.
        const ASYNC_DIO = 1 << 15;
        const MAX_PAGES = 1 << 22;
        /// There is a second word of flags.
        const EXTENDED = 1 << 30;
    }
}

bitflags! {
    /// What both sides can do (INIT, `flags2`: bits 32 and up).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct InitFlags2: u32 {
        /// Requests may come through an io_uring (7.42).
        const OVER_IO_URING = 1 << (41 - 32);
    }
}

bitflags! {
    /// How an opened file behaves (`FOPEN_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct OpenFlags: u32 {
        const DIRECT_IO = 1 << 0;
        const PARALLEL_DIRECT_WRITES = 1 << 6;
    }
}

bitflags! {
    /// What FALLOCATE is to do (`linux/falloc.h`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FallocateMode: u32 {
        /// The file becomes no longer.
        const KEEP_SIZE = 1 << 0;
        /// The room is given back, and reads as zeroes.
        const PUNCH_HOLE = 1 << 1;
        /// The range reads as zeroes.
        const ZERO_RANGE = 1 << 4;
        const _ = !0;
    }
}

/// The kernel's half of INIT; newer kernels append `flags2` (7.36) and fields that
/// are not needed.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct InitIn {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) max_readahead: u32,
    pub(crate) flags: u32,
}

/// The server's half of INIT.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct InitOut {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) max_readahead: u32,
    pub(crate) flags: u32,
    pub(crate) max_background: u16,
    pub(crate) congestion_threshold: u16,
    pub(crate) max_write: u32,
    pub(crate) time_gran: u32,
    pub(crate) max_pages: u16,
    pub(crate) map_alignment: u16,
    pub(crate) flags2: u32,
    pub(crate) max_stack_depth: u32,
    pub(crate) unused: [u32; 6],
}

/// Attributes of a node.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Attr {
    pub(crate) ino: u64,
    pub(crate) size: u64,
    /// In units of 512 bytes.
    pub(crate) blocks: u64,
    pub(crate) times: [u64; 3],
    pub(crate) times_nsec: [u32; 3],
    pub(crate) mode: u32,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u32,
    pub(crate) blksize: u32,
    pub(crate) flags: u32,
}

/// Answer to LOOKUP.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct EntryOut {
    pub(crate) nodeid: u64,
    pub(crate) generation: u64,
    pub(crate) entry_valid: u64,
    pub(crate) attr_valid: u64,
    pub(crate) entry_valid_nsec: u32,
    pub(crate) attr_valid_nsec: u32,
    pub(crate) attr: Attr,
}

/// Answer to GETATTR.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct AttrOut {
    pub(crate) attr_valid: u64,
    pub(crate) attr_valid_nsec: u32,
    pub(crate) dummy: u32,
    pub(crate) attr: Attr,
}

/// Answer to OPEN.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct OpenOut {
    pub(crate) fh: u64,
    pub(crate) open_flags: u32,
    pub(crate) backing_id: i32,
}

/// READ and WRITE have the same shape.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct TransferIn {
    pub(crate) fh: u64,
    pub(crate) offset: u64,
    pub(crate) size: u32,
    /// `read_flags` or `write_flags`.
    pub(crate) transfer_flags: u32,
    pub(crate) lock_owner: u64,
    pub(crate) flags: u32,
    pub(crate) padding: u32,
}

/// Answer to WRITE.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct WriteOut {
    pub(crate) size: u32,
    pub(crate) padding: u32,
}

/// Answer to STATFS.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct StatfsOut {
    pub(crate) blocks: u64,
    pub(crate) bfree: u64,
    pub(crate) bavail: u64,
    pub(crate) files: u64,
    pub(crate) ffree: u64,
    pub(crate) bsize: u32,
    pub(crate) namelen: u32,
    pub(crate) frsize: u32,
    pub(crate) padding: u32,
    pub(crate) spare: [u32; 6],
}

/// FALLOCATE.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct FallocateIn {
    pub(crate) fh: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) mode: u32,
    pub(crate) padding: u32,
}

/// LSEEK.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct LseekIn {
    pub(crate) fh: u64,
    pub(crate) offset: u64,
    pub(crate) whence: u32,
    pub(crate) padding: u32,
}

/// Commands for a ring (`enum fuse_uring_cmd`).
pub(crate) mod ring_command {
    pub(crate) const REGISTER: u32 = 1;
    pub(crate) const COMMIT_AND_FETCH: u32 = 2;
}

/// What a command for a ring says besides its code (`struct fuse_uring_cmd_req`).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RingCommand {
    pub(crate) flags: u64,
    /// The request that is answered.
    pub(crate) commit_id: u64,
    pub(crate) queue: u16,
    pub(crate) padding: [u16; 3],
}

/// The headers of a ring's entry (`struct fuse_uring_req_header`).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RingHeaders {
    /// An [`InHeader`], and for the answer an [`OutHeader`].
    pub(crate) in_out: [u8; 128],
    /// The operation's header, if it has one.
    pub(crate) operation: [u8; 128],
    pub(crate) entry: RingEntryInOut,
}

/// The last of the headers (`struct fuse_uring_ent_in_out`).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RingEntryInOut {
    pub(crate) flags: u64,
    pub(crate) commit_id: u64,
    /// Of a request what its header does not hold, of an answer all but its header.
    pub(crate) payload_size: u32,
    pub(crate) padding: u32,
    pub(crate) reserved: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes that the kernel's header gives.
    #[test]
    fn sizes() {
        assert_eq!(size_of::<InHeader>(), 40);
        assert_eq!(size_of::<OutHeader>(), 16);
        assert_eq!(size_of::<InitOut>(), 64);
        assert_eq!(size_of::<Attr>(), 88);
        assert_eq!(size_of::<EntryOut>(), 128);
        assert_eq!(size_of::<AttrOut>(), 104);
        assert_eq!(size_of::<TransferIn>(), 40);
        assert_eq!(size_of::<StatfsOut>(), 80);
        assert_eq!(size_of::<FallocateIn>(), 32);
        assert_eq!(size_of::<LseekIn>(), 24);
        assert_eq!(size_of::<RingCommand>(), 24);
        assert_eq!(size_of::<RingHeaders>(), 288);
    }
}
