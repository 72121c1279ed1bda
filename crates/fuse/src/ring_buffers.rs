//! The memory that requests and answers pass through when FUSE speaks through
//! an io_uring.
//!
//! The kernel writes an entry before it completes the command that fetches, and
//! reads it while the command that answers is submitted; in between the entry is
//! the server's. [`RingBuffers`] keeps the account, and gives references only to
//! what is the server's.

use std::io;
use std::ptr::NonNull;

use zerocopy::{FromBytes, IntoBytes};

use crate::abi::ring::{RingEntryInOut, RingHeaders};
use crate::abi::{InHeader, OutHeader};
use crate::request::{Parts, Shape};

/// Headers and the two iovecs that tell the kernel of an entry share a page.
const HEAD_BYTES: usize = 4096;
/// Where in that page the iovecs are.
const IOVECS_AT: usize = 2048;
/// What the kernel wants told: headers, payload (`FUSE_URING_IOV_SEGS`).
pub(crate) const IOVECS: u32 = 2;

/// Headers and payloads of a number of entries, in one mapping.
pub(crate) struct RingBuffers {
    first: NonNull<u8>,
    payload_bytes: usize,
    /// Whose each entry is: `true` for the server's.
    ours: Vec<bool>,
}

// SAFETY: the mapping is this value's alone, and no thread's in particular.
unsafe impl Send for RingBuffers {}

impl RingBuffers {
    /// Maps `entries` entries, all of them the kernel's, with room for
    /// `payload_bytes` each. The memory is there from the beginning.
    pub(crate) fn map(entries: usize, payload_bytes: usize) -> io::Result<Self> {
        let payload_bytes = payload_bytes.next_multiple_of(HEAD_BYTES);
        let bytes = entries.checked_mul(HEAD_BYTES + payload_bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(address.cast()).ok_or(io::ErrorKind::InvalidData)?;
        let buffers = Self { first, payload_bytes, ours: vec![false; entries] };
        for index in 0..entries {
            let head = buffers.head(index);
            let iovecs = [
                libc::iovec { iov_base: head.as_ptr().cast(), iov_len: size_of::<RingHeaders>() },
                libc::iovec { iov_base: buffers.payload_of(index).as_ptr().cast(), iov_len: payload_bytes },
            ];
            // SAFETY: inside the entry's first page, where `IOVECS_AT` is aligned,
            // and nothing refers to it yet.
            unsafe { head.add(IOVECS_AT).cast::<[libc::iovec; 2]>().write(iovecs) };
        }
        Ok(buffers)
    }

    /// How many entries there are.
    pub(crate) fn entries(&self) -> usize {
        self.ours.len()
    }

    /// Where the kernel finds the two iovecs of an entry. Valid as long as this is.
    pub(crate) fn iovecs_address(&self, index: usize) -> u64 {
        assert!(index < self.entries(), "an entry of this ring");
        // SAFETY: inside the entry's first page.
        unsafe { self.head(index).add(IOVECS_AT) }.as_ptr() as u64
    }

    /// The first byte of an entry.
    fn head(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.ours.len(), "an entry of this ring");
        // SAFETY: inside the mapping, by the assertion.
        unsafe { self.first.add(index * (HEAD_BYTES + self.payload_bytes)) }
    }

    fn payload_of(&self, index: usize) -> NonNull<u8> {
        // SAFETY: the payload follows the entry's first page in the mapping.
        unsafe { self.head(index).add(HEAD_BYTES) }
    }

    /// The kernel has completed a fetch: the entry is the server's. Says whether
    /// it was the kernel's.
    pub(crate) fn received(&mut self, index: usize) -> bool {
        self.ours.get_mut(index).is_some_and(|ours| !std::mem::replace(ours, true))
    }

    /// What has arrived in an entry; `None` for one that is the kernel's, or
    /// whose payload is longer than there is room for.
    pub(crate) fn arrived(&self, index: usize, shape: Shape) -> Option<Parts<'_>> {
        self.ours.get(index).filter(|ours| **ours)?;
        // SAFETY: the entry is the server's until it is answered, for which the
        // caller must give up this reference; the mapping is aligned and longer.
        let bytes = unsafe { std::slice::from_raw_parts(self.head(index).as_ptr(), HEAD_BYTES + self.payload_bytes) };
        let (head, payload) = bytes.split_at_checked(HEAD_BYTES)?;
        let (headers, _) = RingHeaders::ref_from_prefix(head).ok()?;
        let (header, _) = InHeader::read_from_prefix(&headers.in_out).ok()?;
        let payload = payload.get(..headers.entry.payload_size as usize)?;
        Some(Parts { header, own: &headers.operation, rest: payload, shape })
    }

    /// Puts an answer into an entry, which is the kernel's from here on. Says
    /// whether there was room and the entry was the server's.
    pub(crate) fn answer(&mut self, index: usize, header: OutHeader, body: &[u8]) -> bool {
        if body.len() > self.payload_bytes || !self.ours.get(index).is_some_and(|ours| *ours) {
            return false;
        }
        // SAFETY: as in `arrived`, and nobody else has a reference while `self` is
        // borrowed exclusively.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.head(index).as_ptr(), HEAD_BYTES + self.payload_bytes) };
        let Some((head, payload)) = bytes.split_at_mut_checked(HEAD_BYTES) else { return false };
        let Ok((headers, _)) = RingHeaders::mut_from_prefix(head) else { return false };
        let header_bytes = header.as_bytes();
        headers.in_out[..header_bytes.len()].copy_from_slice(header_bytes);
        headers.entry = RingEntryInOut { payload_size: body.len() as u32, ..headers.entry };
        payload[..body.len()].copy_from_slice(body);
        if let Some(ours) = self.ours.get_mut(index) {
            *ours = false;
        }
        true
    }
}

impl Drop for RingBuffers {
    fn drop(&mut self) {
        let bytes = self.ours.len() * (HEAD_BYTES + self.payload_bytes);
        // SAFETY: the mapping made by `map`; its owner closes the ring before, so
        // that the kernel has no more use for it either.
        unsafe { libc::munmap(self.first.as_ptr().cast(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_one_owner() {
        let mut buffers = RingBuffers::map(3, 5000).unwrap();
        assert_eq!((buffers.entries(), buffers.payload_bytes), (3, 8192));
        let answer = OutHeader { len: 16, error: 0, unique: 7 };
        // The kernel's: neither read nor answered.
        assert!(buffers.arrived(1, Shape::default()).is_none() && !buffers.answer(1, answer, b""));
        assert!(buffers.received(1));
        assert!(!buffers.received(1), "completed twice");
        assert_eq!(buffers.arrived(1, Shape::default()).unwrap().rest, b"");
        assert!(buffers.answer(1, answer, b"body"));
        assert!(buffers.arrived(1, Shape::default()).is_none() && !buffers.answer(1, answer, b""), "answered twice");
        // Nothing outside.
        assert!(
            !buffers.received(3) && buffers.arrived(3, Shape::default()).is_none() && !buffers.answer(3, answer, b"")
        );
        // What does not fit is not written.
        assert!(buffers.received(2) && !buffers.answer(2, answer, &[0; 8193]) && buffers.answer(2, answer, &[1; 8192]));
    }

    /// What this test writes as the kernel would is read, and an answer is where
    /// the kernel looks for it.
    #[test]
    fn both_sides_see_the_same() {
        let mut buffers = RingBuffers::map(2, 4096).unwrap();
        let headers: *mut RingHeaders = buffers.head(1).as_ptr().cast();
        let header = InHeader { len: 45, opcode: 16, unique: 99, ..InHeader::default() };
        // SAFETY: the entry is the kernel's, which this test plays.
        unsafe {
            (&mut (*headers).in_out)[..40].copy_from_slice(header.as_bytes());
            (*headers).operation[0] = 5;
            (*headers).entry.payload_size = 3;
            buffers.payload_of(1).cast::<[u8; 3]>().write(*b"abc");
        }
        assert!(buffers.received(1));
        let arrived = buffers.arrived(1, Shape::default()).unwrap();
        assert_eq!((arrived.header.unique, arrived.own[0], arrived.rest), (99, 5, b"abc".as_slice()));
        assert!(buffers.answer(1, OutHeader { len: 18, error: -5, unique: 99 }, b"xy"));
        // SAFETY: as above.
        let (out, size, body) = unsafe {
            let out = OutHeader::read_from_prefix(&(*headers).in_out).unwrap().0;
            (out, (*headers).entry.payload_size, buffers.payload_of(1).cast::<[u8; 2]>().read())
        };
        assert_eq!((out.len, out.error, out.unique, size, &body), (18, -5, 99, 2, b"xy"));
        // A length that the kernel never sends.
        // SAFETY: as above.
        unsafe { (*headers).entry.payload_size = 4097 };
        assert!(buffers.received(1) && buffers.arrived(1, Shape::default()).is_none());
    }
}
