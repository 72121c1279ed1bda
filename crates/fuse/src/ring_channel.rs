//! The connection to the kernel through an io_uring (Linux 6.14,
//! Documentation/filesystems/fuse/fuse-io-uring.rst, `fs/fuse/dev_uring.c`).
//!
//! A request comes as the completion of a command, and one command answers it
//! and fetches the next: many requests cost one system call, where `/dev/fuse`
//! takes two for each. Forgets and interrupts, and what comes before the ring is
//! ready, still come through `/dev/fuse`.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use io_uring::squeue::Entry128;
use io_uring::{opcode, types};
use uring::{Completed, Ring};
use zerocopy::IntoBytes;

use crate::abi::OutHeader;
use crate::abi::ring::{RingCommand, ring_command};
use crate::request::{ParseError, Parts, Shape};
use crate::ring_buffers::{IOVECS, RingBuffers};

/// Requests that the loop driver has under way at most (its tags), the least
/// that a processor gets, and the most memory for all of them together.
const ENTRIES_WANTED: usize = 128;
const ENTRIES_PER_QUEUE_MIN: usize = 16;
const MEMORY_MAX_BYTES: usize = 256 << 20;

/// The system's switch; only connections that are set up while it is on get a ring.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// How often, and how far apart, the switch is asked for while another server has it.
const TRIES: usize = 50;
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// The switch of FUSE's rings, on. It goes back off with this, if it was off.
#[derive(Debug)]
pub(crate) struct Enabled {
    /// Locked, so that no other server turns off what this one needs.
    switch: File,
    was_off: bool,
}

impl Enabled {
    /// Turns the switch on; `None` where there is none, or none for this user.
    pub(crate) fn new() -> Option<Self> {
        let switch = OpenOptions::new().read(true).write(true).open(SWITCH).ok()?;
        for _ in 0..TRIES {
            match switch.try_lock() {
                Ok(()) => {
                    let was_off = fs::read_to_string(SWITCH).ok()?.trim() != "Y";
                    if was_off {
                        fs::write(SWITCH, "Y").ok()?;
                    }
                    return Some(Self { switch, was_off });
                }
                Err(TryLockError::WouldBlock) => thread::sleep(TRY_AGAIN),
                Err(TryLockError::Error(_)) => return None,
            }
        }
        None
    }
}

impl Drop for Enabled {
    fn drop(&mut self) {
        if self.was_off {
            let _ = fs::write(SWITCH, "N");
        }
        let _ = self.switch.unlock();
    }
}

/// A ring with memory for its requests.
pub(crate) struct RingChannel {
    /// Before the memory that its commands use, and so closed before it.
    ring: Ring<Entry128>,
    buffers: RingBuffers,
    entries_per_queue: usize,
    /// The queue of the first entry.
    first_queue: usize,
    /// What had completed before anybody asked.
    early: VecDeque<Completed>,
}

/// A command has completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fetched {
    /// This entry holds a request.
    Request(u32),
    /// The connection is gone: unmounted, or aborted.
    Ended,
}

impl RingChannel {
    /// A ring for requests whose data has `payload_bytes` at most; `None` where
    /// the processors are so many that their queues would take too much memory.
    pub(crate) fn new(payload_bytes: usize) -> io::Result<Option<Self>> {
        let Some((queues, entries_per_queue)) = shape(&possible()?, payload_bytes) else { return Ok(None) };
        Self::with(queues * entries_per_queue, 0, entries_per_queue, payload_bytes).map(Some)
    }

    /// A ring of one request at a time, of the processor `queue`: for a thread that waits for nothing else.
    pub(crate) fn of_queue(queue: usize, payload_bytes: usize) -> io::Result<Self> {
        Self::with(1, queue, 1, payload_bytes)
    }

    fn with(entries: usize, first_queue: usize, entries_per_queue: usize, payload_bytes: usize) -> io::Result<Self> {
        let buffers = RingBuffers::map(entries, payload_bytes)?;
        let ring = Ring::new(entries as u32)?;
        Ok(Self { ring, buffers, entries_per_queue, first_queue, early: VecDeque::new() })
    }

    /// Offers every entry to the connection of `device`, whose INIT has been
    /// answered. To be called from the thread that will serve.
    pub(crate) fn register(&mut self, device: BorrowedFd<'_>) -> io::Result<()> {
        for index in 0..self.buffers.entries() {
            self.push(device, ring_command::REGISTER, index, 0)?;
        }
        self.ring.submit()?;
        // Refusals are there at once; requests may be.
        while let Some(completed) = self.ring.completed() {
            if completed.result < 0 {
                return Err(io::Error::from_raw_os_error(-completed.result));
            }
            self.early.push_back(completed);
        }
        Ok(())
    }

    fn push(&mut self, device: BorrowedFd<'_>, code: u32, index: usize, commit_id: u64) -> io::Result<()> {
        let queue = (self.first_queue + index / self.entries_per_queue) as u16;
        let command = RingCommand { flags: 0, commit_id, queue, padding: [0; 3] };
        let mut bytes = [0; 80];
        bytes[..size_of::<RingCommand>()].copy_from_slice(command.as_bytes());
        let build = opcode::UringCmd80::new(types::Fd(device.as_raw_fd()), code).cmd(bytes);
        let mut entry = build.addr(Some(self.buffers.iovecs_address(index))).build().user_data(index as u64);
        // SAFETY: an entry is laid out as the kernel's `struct io_uring_sqe`
        // (include/uapi/linux/io_uring.h), whose `len`, at byte 24, is a u32; the
        // io-uring crate sets it for no command of a driver.
        unsafe { (&raw mut entry).byte_add(24).cast::<u32>().write(IOVECS) };
        // SAFETY: the iovecs and what they point at are valid as long as the ring,
        // which is dropped first; the kernel takes its own reference to the file.
        unsafe { self.ring.push(&entry) }
    }

    /// The next completion, if one is there. Looks at shared memory only.
    pub(crate) fn next(&mut self) -> io::Result<Option<Fetched>> {
        let Some(completed) = self.early.pop_front().or_else(|| self.ring.completed()) else { return Ok(None) };
        match completed.result {
            0 if self.buffers.received(completed.token as usize) => Ok(Some(Fetched::Request(completed.token as u32))),
            0 => Err(io::Error::other(format!("ring entry {} was completed twice", completed.token))),
            errno if [libc::ENOTCONN, libc::ECONNABORTED, libc::ECANCELED, libc::ENODEV].contains(&-errno) => {
                Ok(Some(Fetched::Ended))
            }
            errno => Err(io::Error::from_raw_os_error(-errno)),
        }
    }

    /// The request in an entry.
    pub(crate) fn parts(&self, index: u32, shape: Shape) -> Result<Parts<'_>, ParseError> {
        self.buffers.arrived(index as usize, shape).ok_or(ParseError::Short { bytes: 0 })
    }

    /// Queues the answer to the request in an entry, and the fetch of the next.
    pub(crate) fn reply(
        &mut self,
        device: BorrowedFd<'_>,
        index: u32,
        header: OutHeader,
        body: &[u8],
    ) -> io::Result<()> {
        if !self.buffers.answer(index as usize, header, body) {
            return Err(io::Error::other(format!("ring entry {index} has no request for {} bytes", body.len())));
        }
        self.push(device, ring_command::COMMIT_AND_FETCH, index as usize, header.unique)
    }

    /// Gives the kernel the answers that are queued.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.ring.submit()
    }

    /// The same, and sleeps until a completion is there.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        if self.early.is_empty() { self.ring.wait() } else { self.ring.submit() }
    }

    /// Whether a completion is there.
    pub(crate) fn is_ready(&mut self) -> bool {
        !self.early.is_empty() || self.ring.is_ready()
    }
}

impl AsFd for RingChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

/// The processors that could ever come, as the kernel lists them.
fn possible() -> io::Result<String> {
    fs::read_to_string("/sys/devices/system/cpu/possible")
}

/// How many queues the kernel has: one for each processor that could ever come.
pub(crate) fn queues() -> Option<usize> {
    count(&possible().ok()?)
}

/// How many processors a list has.
fn count(possible: &str) -> Option<usize> {
    let mut queues = 0;
    for range in possible.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        queues = last.checked_sub(first)?.checked_add(queues + 1)?;
    }
    Some(queues)
}

/// Queues and entries of each, for the processors that `possible` lists.
fn shape(possible: &str, payload_bytes: usize) -> Option<(usize, usize)> {
    let queues = count(possible)?;
    let entries = ENTRIES_WANTED.div_ceil(queues).max(ENTRIES_PER_QUEUE_MIN);
    (queues * entries * payload_bytes <= MEMORY_MAX_BYTES).then_some((queues, entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_processor_has_a_queue() {
        const MIB: usize = 1 << 20;
        assert_eq!(shape("0\n", MIB), Some((1, 128)));
        assert_eq!(shape("0-1\n", MIB), Some((2, 64)));
        assert_eq!(shape("0-3,8-11\n", MIB), Some((8, 16)));
        assert_eq!(shape("0-15\n", MIB), Some((16, 16)));
        // Half a gigabyte.
        assert_eq!(shape("0-31\n", MIB), None);
        for strange in ["", "x", "3-1", "0-", "0-18446744073709551615,0"] {
            assert!(shape(strange, MIB).is_none(), "{strange}");
        }
    }
}
