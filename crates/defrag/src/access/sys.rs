//! File handles and the ioctl about inodes: open_by_handle_at(2), ioctl_xfs_bulkstat(2).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::ioctl::{self, Updater, opcode};

/// Longest handle (`MAX_HANDLE_SZ` of `linux/exportfs.h`).
const MAX_HANDLE_BYTES: usize = 128;

/// `struct file_handle` with the longest handle behind it.
#[repr(C, align(8))]
#[derive(Clone)]
pub struct Handle {
    handle_bytes: u32,
    handle_type: i32,
    bytes: [u8; MAX_HANDLE_BYTES],
}

impl Handle {
    /// Of the folder itself.
    pub fn of(folder: &File) -> io::Result<Self> {
        let mut handle = Self { handle_bytes: MAX_HANDLE_BYTES as u32, handle_type: 0, bytes: [0; MAX_HANDLE_BYTES] };
        let mut mount_id = 0;
        // SAFETY: the path is a string with its end; `handle` has the layout of `struct
        // file_handle` with `handle_bytes` bytes behind the two numbers, and the kernel
        // writes no more than these.
        let result = unsafe {
            libc::name_to_handle_at(
                folder.as_raw_fd(),
                c"".as_ptr(),
                (&raw mut handle).cast(),
                &raw mut mount_id,
                libc::AT_EMPTY_PATH,
            )
        };
        if result == 0 { Ok(handle) } else { Err(io::Error::last_os_error()) }
    }

    /// Its type (`enum fid_type` of `linux/exportfs.h`).
    pub fn kind(&self) -> i32 {
        self.handle_type
    }

    /// Its bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let length = (self.handle_bytes as usize).min(MAX_HANDLE_BYTES);
        self.bytes.get_mut(..length).unwrap_or_default()
    }

    /// The file that it stands for, without access to its contents (`O_PATH`).
    pub fn open(&mut self, mount: &File) -> io::Result<File> {
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        // SAFETY: as in `of`; the kernel only reads the handle.
        let result = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut *self).cast(), flags) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor, and nobody else has it.
        Ok(File::from(unsafe { OwnedFd::from_raw_fd(result) }))
    }
}

/// `struct xfs_bulkstat_req` of `xfs/xfs_fs.h` for one inode: the header and as much of
/// `struct xfs_bulkstat` as is there.
#[repr(C, align(8))]
struct Bulkstat {
    ino: u64,
    flags: u32,
    icount: u32,
    ocount: u32,
    agno: u32,
    reserved: [u64; 5],
    found_ino: u64,
    skipped: [u64; 7],
    found_generation: u32,
    rest: [u8; 124],
}

const _: () = assert!(size_of::<Bulkstat>() == 64 + 192);

/// The generation of an inode of XFS by its number, without opening it; `None` if there
/// is no such inode (`XFS_IOC_BULKSTAT`).
pub fn xfs_generation(mount: &File, inode: u64) -> io::Result<Option<u32>> {
    // The number counts the header alone.
    const BULKSTAT: ioctl::Opcode = opcode::read::<[u64; 8]>(b'X', 127);
    let mut request = Bulkstat {
        ino: inode,
        flags: 0,
        icount: 1,
        ocount: 0,
        agno: 0,
        reserved: [0; 5],
        found_ino: 0,
        skipped: [0; 7],
        found_generation: 0,
        rest: [0; 124],
    };
    // SAFETY: the structure has room for the one record asked for (its size is asserted
    // above), and any bits are valid in it.
    unsafe { ioctl::ioctl(mount, Updater::<BULKSTAT, Bulkstat>::new(&mut request))? };
    Ok((request.ocount == 1 && request.found_ino == inode).then_some(request.found_generation))
}
