//! The terms of a connection (INIT).

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Major version of the protocol; another one cannot be spoken.
pub(crate) const MAJOR: u32 = 7;
/// The newest minor version whose replies are spoken here.
pub(crate) const MINOR: u32 = 39;
/// The oldest minor version whose kernel has what is relied on (`max_pages`, 4.20).
pub(crate) const OLDEST_MINOR: u32 = 28;

bitflags! {
    /// What both sides can do: `flags`, and above bit 31 `flags2`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct InitFlags: u64 {
        const ASYNC_READ = 1 << 0;
        /// O_TRUNC comes with OPEN, and no SETATTR after it.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// `..` of a directory that is not in the kernel's memory can be looked up (NFS).
        const EXPORT_SUPPORT = 1 << 4;
        const BIG_WRITES = 1 << 5;
        /// The umask comes with the request: a default ACL takes its place.
        const DONT_MASK = 1 << 6;
        const HAS_IOCTL_DIR = 1 << 11;
        const DO_READDIRPLUS = 1 << 13;
        /// The kernel asks for attributes with names only where somebody uses them.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Direct I/O may be asynchronous: without it the loop device's queue depth is 1.
        const ASYNC_DIO = 1 << 15;
        const PARALLEL_DIROPS = 1 << 18;
        const POSIX_ACL = 1 << 20;
        const MAX_PAGES = 1 << 22;
        const CACHE_SYMLINKS = 1 << 23;
        /// The server takes away set-user-ID and capabilities where the kernel says so: no GETXATTR before each write.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        const SETXATTR_EXT = 1 << 29;
        /// There is a second word of flags.
        const EXTENDED = 1 << 30;
        /// Files opened past the page cache can be mapped shared.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Requests may come through an io_uring (7.42).
        const OVER_IO_URING = 1 << 41;
    }
}

impl InitFlags {
    /// Of both words, the second of which counts only if the first says so.
    pub(crate) fn of(flags: u32, flags2: u32) -> Self {
        let first = Self::from_bits_truncate(u64::from(flags));
        if first.contains(Self::EXTENDED) { first | Self::from_bits_truncate(u64::from(flags2) << 32) } else { first }
    }

    /// The two words.
    pub(crate) fn words(self) -> (u32, u32) {
        let second = (self.bits() >> 32) as u32;
        let first = if second == 0 { self - Self::EXTENDED } else { self | Self::EXTENDED };
        (first.bits() as u32, second)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_words() {
        assert_eq!(size_of::<InitOut>(), 64);
        let both = InitFlags::ASYNC_READ | InitFlags::OVER_IO_URING;
        assert_eq!(both.words(), (1 | 1 << 30, 1 << 9));
        assert_eq!(InitFlags::of(1 | 1 << 30, 1 << 9), both | InitFlags::EXTENDED);
        assert_eq!(InitFlags::of(1, 1 << 9), InitFlags::ASYNC_READ);
        assert_eq!((InitFlags::ASYNC_READ | InitFlags::EXTENDED).words(), (1, 0));
    }
}
