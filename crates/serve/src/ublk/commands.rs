//! ublk's commands: one ring carries requests, another control commands.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::squeue::{Entry, Entry128};
use io_uring::{opcode, types};
use uring::Ring;
use zerocopy::IntoBytes;

use super::abi::{ControlCommand, IoCommand};

/// Queues an I/O command for the character device `file`.
pub(crate) fn io_command(
    ring: &mut Ring<Entry>,
    file: BorrowedFd<'_>,
    code: u32,
    command: IoCommand,
    token: u64,
) -> io::Result<()> {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(command.as_bytes());
    let entry = opcode::UringCmd16::new(types::Fd(file.as_raw_fd()), code).cmd(bytes).build().user_data(token);
    // SAFETY: with user copy the entry holds no address; the kernel takes its
    // own reference to the file, and answers a bad descriptor with an error.
    unsafe { ring.push(&entry) }
}

/// Queues a control command.
///
/// # Safety
///
/// `command.addr` must be 0 or the address of a buffer of `command.len` bytes
/// that stays valid and unborrowed until the command completes.
pub(crate) unsafe fn control_command(
    ring: &mut Ring<Entry128>,
    file: BorrowedFd<'_>,
    code: u32,
    command: ControlCommand,
    token: u64,
) -> io::Result<()> {
    let mut bytes = [0; 80];
    bytes[..size_of::<ControlCommand>()].copy_from_slice(command.as_bytes());
    let entry = opcode::UringCmd80::new(types::Fd(file.as_raw_fd()), code).cmd(bytes).build().user_data(token);
    // SAFETY: as the caller guarantees of the one address in it.
    unsafe { ring.push(&entry) }
}
