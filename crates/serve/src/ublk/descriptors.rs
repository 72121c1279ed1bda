//! The requests of one queue, in memory that the driver writes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use super::abi::{IoDescriptor, descriptors_offset};

/// The descriptors of one queue, one for each tag, mapped from the character
/// device and read-only.
pub(crate) struct Descriptors {
    first: NonNull<IoDescriptor>,
    count: u16,
    bytes: usize,
}

impl Descriptors {
    /// Maps the descriptors of `queue`, which is `depth` deep.
    pub(crate) fn map(file: BorrowedFd<'_>, queue: u16, depth: u16) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let bytes = (usize::from(depth) * size_of::<IoDescriptor>()).next_multiple_of(page_bytes);
        let offset = descriptors_offset(queue, page_bytes as u64);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(address.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { first, count: depth, bytes })
    }

    /// The descriptor of a tag whose fetch has completed; `None` for a tag that
    /// the queue has not.
    pub(crate) fn get(&self, tag: u16) -> Option<IoDescriptor> {
        if tag >= self.count {
            return None;
        }
        // SAFETY: inside the mapping, whose pages are aligned; any bytes are a
        // descriptor. The driver writes before it completes the fetch and not
        // again until the tag is committed; volatile, since the compiler cannot
        // know of the driver.
        Some(unsafe { self.first.add(usize::from(tag)).read_volatile() })
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `map`, to which no reference was ever given.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}
