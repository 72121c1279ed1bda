//! How much one request to load takes: the larger of a device's readahead window and its largest request (`force_page_cache_ra` of
//! mm/readahead.c loads no more and says nothing).

use std::fs;
use std::os::fd::BorrowedFd;

use super::folios;

/// As the kernel is without a word of anybody (`VM_READAHEAD_PAGES`).
const DEFAULT_BYTES: u64 = 128 << 10;

/// How a device is read ahead.
#[derive(Clone, Copy)]
pub struct Windows {
    /// Bytes that one call loads at most.
    pub clamp_bytes: u64,
    /// The largest window that the kernel itself has ahead of a reader.
    pub kernel_bytes: u64,
    /// It is known to answer many requests at once: no arm has to move.
    pub at_once: bool,
    /// What the kernel reads ahead comes in large folios, and what is asked for does not.
    pub large_folios: bool,
}

/// The windows of the device of this number, on which this file lies.
pub fn windows(dev: u64, file: BorrowedFd<'_>) -> Windows {
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let kib = |path: String| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    // A partition's queue is that of its disk; file systems of several devices have only a backing device of their own.
    let device = format!("/sys/dev/block/{major}:{minor}");
    let queue = |name: &str| kib(format!("{device}/queue/{name}")).or_else(|| kib(format!("{device}/../queue/{name}")));
    let window = queue("read_ahead_kb").or_else(|| kib(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb")));
    let largest = window.max(queue("max_sectors_kb"));
    let bytes = |kib: Option<u64>| kib.map_or(DEFAULT_BYTES, |kib| kib.saturating_mul(1024));
    let at_once = queue("rotational") == Some(0);
    let large_folios = folios::are_large(file);
    // Readers from the beginning to the end are left to the kernel, however small its window: page by page the same would take longer.
    let kernel_bytes = if large_folios { u64::MAX } else { bytes(window) };
    Windows { at_once, clamp_bytes: bytes(largest).max(64 << 10), kernel_bytes, large_folios }
}
