//! The terms of the connection (INIT).

use crate::abi::init::{InitFlags, InitOut, MAJOR, MINOR, OLDEST_MINOR};
use crate::request::{Init, Shape};

/// Pages of one request: 1 MiB, which kernels since 4.20 take without a system-wide setting.
const MAX_PAGES: u16 = 256;
/// Largest read or write in bytes.
pub const MAX_TRANSFER_BYTES: u32 = MAX_PAGES as u32 * 4096;
/// Asynchronous requests the kernel keeps with the server at a time. The loop
/// driver has 128 tags; its largest request becomes two of FUSE. The kernel's
/// default is 12.
const MAX_BACKGROUND: u16 = 256;

/// What is wanted of the kernel: without `needed` there is no connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    needed: InitFlags,
    welcome: InitFlags,
    /// The Linux that has what is needed.
    linux: &'static str,
}

/// What every connection needs.
const EVERY: InitFlags =
    InitFlags::ASYNC_READ.union(InitFlags::BIG_WRITES).union(InitFlags::ASYNC_DIO).union(InitFlags::MAX_PAGES);

impl Wish {
    /// For one file below a loop device.
    pub(crate) const SINGLE_FILE: Self = Self { needed: EVERY, welcome: InitFlags::empty(), linux: "5.8" };

    /// For a POSIX file system whose server alone changes it. Not among it: the writeback cache, which reads a page before it
    /// changes a part of it; and what lets the kernel do without OPEN, by which files without names are counted.
    pub(crate) const FILE_SYSTEM: Self = Self {
        needed: EVERY
            .union(InitFlags::ATOMIC_O_TRUNC)
            .union(InitFlags::DONT_MASK)
            .union(InitFlags::POSIX_ACL)
            .union(InitFlags::PARALLEL_DIROPS)
            .union(InitFlags::HANDLE_KILLPRIV_V2)
            .union(InitFlags::SETXATTR_EXT),
        welcome: InitFlags::DO_READDIRPLUS
            .union(InitFlags::READDIRPLUS_AUTO)
            .union(InitFlags::CACHE_SYMLINKS)
            .union(InitFlags::HAS_IOCTL_DIR)
            .union(InitFlags::EXPORT_SUPPORT)
            .union(InitFlags::DIRECT_IO_ALLOW_MMAP),
        linux: "5.12",
    };

    /// The same, but for what is welcome: who lists a directory gets names alone.
    pub(crate) fn with_names_alone(self) -> Self {
        let listed = InitFlags::DO_READDIRPLUS.union(InitFlags::READDIRPLUS_AUTO);
        Self { welcome: self.welcome.difference(listed), ..self }
    }

    /// Why there is no connection.
    pub(crate) fn refusal(&self) -> String {
        format!("the kernel's FUSE is too old; Linux {} is needed", self.linux)
    }
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Agreed {
    /// Requests come through a ring.
    pub(crate) through_ring: bool,
    pub(crate) shape: Shape,
}

/// What is answered to an offer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// These are the terms.
    Agreed(InitOut, Agreed),
    /// The kernel is to ask again with this version.
    Again(InitOut),
    /// It lacks what is needed.
    TooOld,
}

/// Answers an offer. A ring is part of it if there is one and the kernel can do that.
pub(crate) fn answer(offer: &Init, wish: &Wish, has_ring: bool) -> Answer {
    let Init { major, minor, max_readahead, flags: offered } = *offer;
    if major > MAJOR {
        return Answer::Again(InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() });
    }
    if major < MAJOR || minor < OLDEST_MINOR || !offered.contains(wish.needed) {
        return Answer::TooOld;
    }
    let ring = if has_ring { InitFlags::OVER_IO_URING } else { InitFlags::empty() };
    let agreed = offered & (wish.needed | wish.welcome | ring);
    let (flags, flags2) = agreed.words();
    let terms = InitOut {
        major: MAJOR,
        minor: MINOR.min(minor),
        max_readahead,
        flags,
        flags2,
        max_background: MAX_BACKGROUND,
        congestion_threshold: MAX_BACKGROUND / 4 * 3,
        max_write: MAX_TRANSFER_BYTES,
        time_gran: 1,
        max_pages: MAX_PAGES,
        ..InitOut::default()
    };
    let shape = Shape { setxattr_is_long: agreed.contains(InitFlags::SETXATTR_EXT) };
    Answer::Agreed(terms, Agreed { through_ring: agreed.contains(InitFlags::OVER_IO_URING), shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENDED: u32 = 1 << 30;

    fn offer(major: u32, minor: u32, flags: u32, flags2: u32) -> Init {
        Init { major, minor, max_readahead: 131_072, flags: InitFlags::of(flags, flags2) }
    }

    fn init(major: u32, minor: u32, flags: u32, flags2: u32) -> Answer {
        answer(&offer(major, minor, flags, flags2), &Wish::SINGLE_FILE, true)
    }

    fn agreed(minor: u32, flags: u32, flags2: u32) -> InitOut {
        let Answer::Agreed(out, agreed) = init(7, minor, flags, flags2) else { panic!("not agreed") };
        assert_eq!(agreed.through_ring, out.flags2 != 0);
        out
    }

    #[test]
    fn negotiates() {
        let out = agreed(45, !0, 0);
        assert_eq!((out.major, out.minor, out.max_pages, out.max_background), (7, MINOR, 256, 256));
        assert_eq!(out.max_write, 1 << 20);
        // No flag that was not offered, and no second word of flags.
        assert_eq!(out.flags & !(1 | 1 << 5 | 1 << 15 | 1 << 22), 0);
        assert_eq!(out.flags2, 0);
        // The ring, where both have it.
        let out = agreed(45, !0, !0);
        assert_eq!((out.flags & EXTENDED, out.flags2), (EXTENDED, 1 << 9));
        assert_eq!(agreed(45, !EXTENDED, !0).flags2, 0);
        assert_eq!(agreed(45, !0, !(1 << 9)).flags2, 0);
        let without = answer(&offer(7, 45, !0, !0), &Wish::SINGLE_FILE, false);
        assert!(matches!(without, Answer::Agreed(InitOut { flags2: 0, .. }, Agreed { through_ring: false, .. })));
        // The kernel speaks an older minor version: no newer one is claimed.
        assert_eq!(agreed(31, !0, 0).minor, 31);
        // A newer major version is answered with ours, an older one refused.
        assert!(matches!(init(8, 0, 0, 0), Answer::Again(InitOut { major: 7, .. })));
        assert!(matches!(init(6, 0, !0, 0), Answer::TooOld));
        // Without asynchronous direct I/O every queue would be one deep.
        assert!(matches!(init(7, 45, !(1 << 15), 0), Answer::TooOld));
    }

    /// What would break promises is never agreed to; what is needed is insisted on.
    #[test]
    fn a_file_system_has_its_terms() {
        let Answer::Agreed(out, agreed) = answer(&offer(7, 45, !0, !0), &Wish::FILE_SYSTEM, false) else {
            panic!("not agreed")
        };
        assert!(agreed.shape.setxattr_is_long);
        let (writeback_cache, no_open, no_opendir, locks) = (1 << 16, 1 << 17, 1 << 24, 1 << 1 | 1 << 10);
        assert_eq!(out.flags & (writeback_cache | no_open | no_opendir | locks), 0);
        let (acl, killpriv_v2) = (1 << 20, 1 << 28);
        assert_eq!(out.flags & (acl | killpriv_v2), acl | killpriv_v2);
        for needed in [acl, killpriv_v2, 1 << 6, 1 << 29] {
            let refused = answer(&offer(7, 45, !needed, !0), &Wish::FILE_SYSTEM, false);
            assert!(matches!(refused, Answer::TooOld), "{needed:#x}");
        }
        let (listed, names_alone) = (1 << 13 | 1 << 14, Wish::FILE_SYSTEM.with_names_alone());
        assert_eq!(out.flags & listed, listed);
        let Answer::Agreed(out, _) = answer(&offer(7, 45, !0, !0), &names_alone, false) else { panic!("not agreed") };
        assert_eq!(out.flags & listed, 0);
        // A kernel before 7.36 has no second word.
        let Answer::Agreed(out, _) = answer(&offer(7, 33, !EXTENDED, !0), &Wish::FILE_SYSTEM, false) else {
            panic!("not agreed")
        };
        assert_eq!((out.flags & EXTENDED, out.flags2), (0, 0));
    }
}
