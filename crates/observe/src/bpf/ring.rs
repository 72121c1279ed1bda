//! A ring of records that programs in the kernel write and one process reads (`kernel/bpf/ringbuf.c`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use super::sys::RawMap;

/// Bits of a record's length: it is being written; it was given up.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// Before each record: its length, and where it is.
const HEADER_BYTES: usize = 8;

/// The ring, mapped: how far it was read, how far it was written, and its bytes twice over so that no record is in two parts.
pub struct Ring {
    raw: RawMap,
    read: Mapping,
    written: Mapping,
    page_bytes: usize,
    bytes: usize,
}

struct Mapping {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: the memory belongs to the value, and all of it that changes is read and written as atomic numbers.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(map: BorrowedFd<'_>, bytes: usize, access: ProtFlags, offset: u64) -> io::Result<Self> {
        // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, map, offset)? };
        Ok(Self { at: at.cast(), bytes })
    }

    /// The position at its beginning.
    fn position(&self) -> &AtomicU64 {
        // SAFETY: a mapping has a page at least, and is aligned to it.
        unsafe { &*self.at.cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        let _ = unsafe { rustix::mm::munmap(self.at.cast(), self.bytes) };
    }
}

impl Ring {
    /// One of so many bytes: a power of two, and whole pages.
    ///
    /// # Errors
    /// What bpf(2) refuses; `EPERM` without `CAP_BPF`, `EINVAL` before Linux 5.8.
    pub fn create(bytes: u32) -> io::Result<Self> {
        let raw = RawMap::ring(bytes)?;
        let page_bytes = rustix::param::page_size();
        let read = Mapping::new(raw.as_fd(), page_bytes, ProtFlags::READ | ProtFlags::WRITE, 0)?;
        let bytes = bytes as usize;
        let written = Mapping::new(raw.as_fd(), page_bytes + 2 * bytes, ProtFlags::READ, page_bytes as u64)?;
        Ok(Self { raw, read, written, page_bytes, bytes })
    }

    /// Gives each record that is there to `each`, with its bytes in whole words, and makes room: how many there were, at most `most`.
    pub fn take(&mut self, most: usize, each: &mut dyn FnMut(&[u64])) -> usize {
        let mut words = Vec::new();
        let mut taken = 0;
        let mut at = self.read.position().load(Ordering::Acquire);
        while taken < most && at < self.written.position().load(Ordering::Acquire) {
            let from = self.page_bytes + (at as usize & (self.bytes - 1));
            // SAFETY: within the first of the two copies, and aligned to eight bytes as all records are.
            let length = unsafe { &*self.written.at.add(from).cast::<AtomicU32>() }.load(Ordering::Acquire);
            if length & BUSY != 0 {
                break;
            }
            let bytes = (length & !DISCARDED) as usize;
            if length & DISCARDED == 0 && bytes <= self.bytes {
                words.clear();
                words.extend((0..bytes.div_ceil(8)).map(|word| {
                    let place = from + HEADER_BYTES + 8 * word;
                    // SAFETY: a record is not longer than the ring, so that it ends within the second copy.
                    unsafe { &*self.written.at.add(place).cast::<AtomicU64>() }.load(Ordering::Relaxed)
                }));
                each(&words);
                taken += 1;
            }
            at += (HEADER_BYTES + bytes).next_multiple_of(8) as u64;
            self.read.position().store(at, Ordering::Release);
        }
        taken
    }
}

/// For instructions that name it, and for waiting until there is something.
impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw.as_fd()
    }
}
