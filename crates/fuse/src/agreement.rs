//! The terms of the connection (INIT).

use crate::abi::{InitFlags, InitFlags2, InitOut, MAJOR, MINOR, OLDEST_MINOR};
use crate::request::Init;

/// Pages of one request: 1 MiB, which kernels since 4.20 take without a system-wide setting.
const MAX_PAGES: u16 = 256;
/// Largest read or write in bytes.
pub const MAX_TRANSFER_BYTES: u32 = MAX_PAGES as u32 * 4096;
/// Asynchronous requests the kernel keeps with the server at a time. The loop
/// driver has 128 tags; its largest request becomes two of FUSE. The kernel's
/// default is 12.
const MAX_BACKGROUND: u16 = 256;

/// What is answered to an offer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// These are the terms; requests come through a ring, or not.
    Agreed(InitOut, bool),
    /// The kernel is to ask again with this version.
    Again(InitOut),
    /// It lacks what is needed.
    TooOld,
}

/// Answers an offer. A ring is part of it if there is one and the kernel can do that.
pub(crate) fn answer(offer: &Init, has_ring: bool) -> Answer {
    let Init { major, minor, max_readahead, flags, flags2 } = *offer;
    if major > MAJOR {
        return Answer::Again(InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() });
    }
    let wanted = InitFlags::ASYNC_READ | InitFlags::BIG_WRITES | InitFlags::ASYNC_DIO | InitFlags::MAX_PAGES;
    let through_ring = has_ring
        && InitFlags::from_bits_truncate(flags).contains(InitFlags::EXTENDED)
        && InitFlags2::from_bits_truncate(flags2).contains(InitFlags2::OVER_IO_URING);
    let flags = InitFlags::from_bits_truncate(flags) & wanted;
    if major < MAJOR || minor < OLDEST_MINOR || flags != wanted {
        return Answer::TooOld;
    }
    let terms = InitOut {
        major: MAJOR,
        minor: MINOR.min(minor),
        max_readahead,
        flags: (if through_ring { flags | InitFlags::EXTENDED } else { flags }).bits(),
        flags2: if through_ring { InitFlags2::OVER_IO_URING.bits() } else { 0 },
        max_background: MAX_BACKGROUND,
        congestion_threshold: MAX_BACKGROUND / 4 * 3,
        max_write: MAX_TRANSFER_BYTES,
        time_gran: 1,
        max_pages: MAX_PAGES,
        ..InitOut::default()
    };
    Answer::Agreed(terms, through_ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(major: u32, minor: u32, flags: u32, flags2: u32) -> Answer {
        answer(&Init { major, minor, max_readahead: 131_072, flags, flags2 }, true)
    }

    fn agreed(minor: u32, flags: u32, flags2: u32) -> InitOut {
        let Answer::Agreed(out, through_ring) = init(7, minor, flags, flags2) else { panic!("not agreed") };
        assert_eq!(through_ring, out.flags2 != 0);
        out
    }

    #[test]
    fn negotiates() {
        let out = agreed(45, !0, 0);
        assert_eq!((out.major, out.minor, out.max_pages, out.max_background), (7, 36, 256, 256));
        assert_eq!(out.max_write, 1 << 20);
        // No flag that was not offered, and no second word of flags.
        assert_eq!(out.flags & !(1 | 1 << 5 | 1 << 15 | 1 << 22), 0);
        assert_eq!(out.flags2, 0);
        // The ring, where both have it.
        let out = agreed(45, !0, !0);
        assert_eq!((out.flags & 1 << 30, out.flags2), (1 << 30, 1 << 9));
        assert_eq!(agreed(45, !(1 << 30), !0).flags2, 0);
        assert_eq!(agreed(45, !0, !(1 << 9)).flags2, 0);
        let without = Init { major: 7, minor: 45, max_readahead: 131_072, flags: !0, flags2: !0 };
        assert!(matches!(answer(&without, false), Answer::Agreed(InitOut { flags2: 0, .. }, false)));
        // The kernel speaks an older minor version: no newer one is claimed.
        assert_eq!(agreed(31, !0, 0).minor, 31);
        // A newer major version is answered with ours, an older one refused.
        assert!(matches!(init(8, 0, 0, 0), Answer::Again(InitOut { major: 7, .. })));
        assert!(matches!(init(6, 0, !0, 0), Answer::TooOld));
        // Without asynchronous direct I/O every queue would be one deep.
        assert!(matches!(init(7, 45, !(1 << 15), 0), Answer::TooOld));
    }
}
