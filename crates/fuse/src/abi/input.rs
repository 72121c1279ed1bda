//! What the kernel's requests begin with, after the header that all have.

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Declares structures of requests: plain fields, no padding, every bit pattern valid.
macro_rules! inputs {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* } = $size:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
            #[repr(C)]
            pub(crate) struct $name { $(pub(crate) $field: $type,)* }
        )*

        #[cfg(test)]
        mod tests {
            /// The sizes that the kernel's header gives.
            #[test]
            fn sizes() {
                $(assert_eq!(size_of::<super::$name>(), $size, stringify!($name));)*
            }
        }
    };
}

inputs! {
    /// READ and WRITE have the same shape.
    TransferIn {
        fh: u64,
        offset: u64,
        size: u32,
        transfer_flags: u32,
        lock_owner: u64,
        flags: u32,
        padding: u32,
    } = 40;
    ForgetIn { nlookup: u64, } = 8;
    ForgetOne { nodeid: u64, nlookup: u64, } = 16;
    BatchForgetIn { count: u32, dummy: u32, } = 8;
    GetAttrIn { getattr_flags: u32, dummy: u32, fh: u64, } = 16;
    SetAttrIn {
        valid: u32,
        padding: u32,
        fh: u64,
        size: u64,
        lock_owner: u64,
        times: [u64; 3],
        times_nsec: [u32; 3],
        mode: u32,
        unused4: u32,
        uid: u32,
        gid: u32,
        unused5: u32,
    } = 88;
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32, } = 16;
    MkdirIn { mode: u32, umask: u32, } = 8;
    RenameIn { newdir: u64, } = 8;
    Rename2In { newdir: u64, flags: u32, padding: u32, } = 16;
    LinkIn { oldnodeid: u64, } = 8;
    /// OPEN and OPENDIR.
    OpenIn { flags: u32, open_flags: u32, } = 8;
    /// CREATE and TMPFILE.
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32, } = 16;
    /// RELEASE and RELEASEDIR.
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64, } = 24;
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64, } = 24;
    /// FSYNC and FSYNCDIR.
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32, } = 16;
    /// The second half only where SETXATTR_EXT is agreed on.
    SetxattrIn { size: u32, flags: u32, setxattr_flags: u32, padding: u32, } = 16;
    /// GETXATTR and LISTXATTR.
    GetxattrIn { size: u32, padding: u32, } = 8;
    AccessIn { mask: u32, padding: u32, } = 8;
    InterruptIn { unique: u64, } = 8;
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32, } = 32;
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32, } = 32;
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32, } = 24;
    CopyFileRangeIn {
        fh_in: u64,
        off_in: u64,
        nodeid_out: u64,
        fh_out: u64,
        off_out: u64,
        len: u64,
        flags: u64,
    } = 56;
}

/// Bytes of SETXATTR's structure where SETXATTR_EXT is not agreed on.
pub(crate) const SETXATTR_SHORT_BYTES: usize = 8;
/// `GETATTR`: the handle counts.
pub(crate) const GETATTR_FH: u32 = 1 << 0;
/// `FSYNC`: data only, as fdatasync(2).
pub(crate) const FSYNC_FDATASYNC: u32 = 1 << 0;
/// `WRITE`: set-user-ID and set-group-ID go.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// `OPEN`, `CREATE`: the same.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1 << 0;
/// `SETXATTR`: the set-group-ID bit goes with the ACL.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;

bitflags! {
    /// Which attributes SETATTR sets (`FATTR_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Valid: u32 {
        const MODE = 1 << 0;
        const UID = 1 << 1;
        const GID = 1 << 2;
        const SIZE = 1 << 3;
        const ATIME = 1 << 4;
        const MTIME = 1 << 5;
        const FH = 1 << 6;
        const ATIME_NOW = 1 << 7;
        const MTIME_NOW = 1 << 8;
        const CTIME = 1 << 10;
        const KILL_SUIDGID = 1 << 11;
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
