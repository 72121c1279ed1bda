//! `EXT4_IOC_MOVE_EXT` as it is, for layouts and for mutants.
//!
//! Source: `struct move_extent` of fs/ext4/ext4.h.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// In blocks.
#[repr(C)]
struct MoveExtent {
    reserved: u32,
    donor_fd: u32,
    orig_start: u64,
    donor_start: u64,
    len: u64,
    moved_len: u64,
}

/// `_IOWR('f', 15, struct move_extent)`.
const EXT4_IOC_MOVE_EXT: libc::Ioctl = 0xc028_660f_u32 as libc::Ioctl;

/// Gives `blocks` of `file` from `first` on those of `donor` from `donor_first` on; how many were given.
pub fn move_extents(file: &File, donor: &File, first: u64, donor_first: u64, blocks: u64) -> io::Result<u64> {
    let mut range = MoveExtent {
        reserved: 0,
        donor_fd: donor.as_raw_fd().try_into().unwrap(),
        orig_start: first,
        donor_start: donor_first,
        len: blocks,
        moved_len: 0,
    };
    // SAFETY: both descriptors are open for the time of the call; the structure is the kernel's, and it reads and writes
    // nothing beyond it.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), EXT4_IOC_MOVE_EXT, &raw mut range) };
    if done == 0 { Ok(range.moved_len) } else { Err(io::Error::last_os_error()) }
}
