//! What a program did to a file, and the bounds within which something may be planned for it.

/// The unit of the page cache; accounts are kept and ranges are planned in whole pages.
pub const PAGE_BYTES: u64 = 4096;

/// One read of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First byte.
    pub offset_bytes: u64,
    /// Bytes read. A read of nothing is no access.
    pub length_bytes: u64,
    /// Who reads: any number that differs between threads (or descriptors), so that theirs are not mixed.
    pub lane: u32,
}

/// Bounds of what may be planned for one file, at the moment of an access.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the file; no range goes beyond.
    pub file_bytes: u64,
    /// Most bytes in one window: what the device takes in while it answers one request, and not more than the memory that may be
    /// used, see [`Limits::window_bytes`].
    pub window_bytes: u64,
    /// Most bytes of the file that may be loaded ahead and not read yet, over all of its streams.
    pub ahead_bytes: u64,
    /// Whether forward readers that leave nothing out are given windows: not where the kernel's own are as large.
    pub forward: bool,
    /// Whether the file's readers share one window, for a device that answers many at once. Each has one of its own where every request
    /// costs a way of its own, of an arm or through a network.
    pub shared: bool,
    /// Whether what a reader leaves behind will be read by others: it is not lost then.
    pub kept: bool,
}

/// What answers a small request in less answers many at once: flash. A disk has its arm to move, and what is far away is waited for.
const AT_ONCE_NS: u64 = 1_000_000;

impl Limits {
    /// Whether readers of a file [share](Self::shared) a window where a small request takes so long.
    pub const fn is_shared(latency_ns: u64) -> bool {
        latency_ns < AT_ONCE_NS
    }

    /// The window for a device: its bandwidth-delay product twice (one window is read while the next is on its way), within
    /// `memory_bytes`, in whole pages.
    pub const fn window_bytes(bandwidth_bytes_per_second: u64, latency_ns: u64, memory_bytes: u64) -> u64 {
        let product = bandwidth_bytes_per_second as u128 * latency_ns as u128 / 1_000_000_000;
        let twice = if product > (u64::MAX / 4) as u128 { u64::MAX / 2 } else { product as u64 * 2 };
        let least = if twice < crate::BASE_WINDOW_BYTES { crate::BASE_WINDOW_BYTES } else { twice };
        let bounded = if least < memory_bytes { least } else { memory_bytes };
        bounded / PAGE_BYTES * PAGE_BYTES
    }
}
