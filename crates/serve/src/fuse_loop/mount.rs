//! Mounting FUSE where nobody sees it.
//!
//! The mount belongs to a descriptor and has no place in any directory tree
//! (fsmount(2), Linux 5.2): there is no folder to make or to clean up, nobody
//! stumbles into it, and it goes away with the process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen};

use super::channel::Channel;

/// A mounted file system of one file.
pub(crate) struct Mount {
    root: OwnedFd,
    connection: u32,
}

impl Mount {
    /// Mounts the file system that is served through `channel`.
    pub(crate) fn new(channel: &Channel) -> io::Result<Self> {
        let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "source", "plumb")?;
        fsconfig_set_string(&context, "subtype", "plumb")?;
        fsconfig_set_string(&context, "fd", channel.as_fd().as_raw_fd().to_string())?;
        fsconfig_set_string(&context, "rootmode", "40500")?;
        fsconfig_set_string(&context, "user_id", "0")?;
        fsconfig_set_string(&context, "group_id", "0")?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC
            | MountAttrFlags::MOUNT_ATTR_NOATIME;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        // Not synchronised: the server would have to answer, and this is the server.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let status = statx(&root, "", flags, StatxFlags::empty())?;
        // An anonymous device has major number 0, so its minor is the whole of it.
        Ok(Self { root, connection: status.stx_dev_minor })
    }

    /// The connection's number, its folder in fusectl.
    pub(crate) fn connection(&self) -> u32 {
        self.connection
    }

    /// A second handle, for another thread.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { root: self.root.try_clone()?, connection: self.connection })
    }

    /// Opens the file. The server answers meanwhile: call it from another thread.
    pub(crate) fn open(&self, name: &str, read_only: bool) -> io::Result<File> {
        let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
        Ok(openat(&self.root, name, access | OFlags::CLOEXEC, Mode::empty())?.into())
    }
}

/// The control files of one connection (`fusectl`, Documentation/filesystems/fuse.rst).
pub(crate) struct ConnectionControl {
    root: OwnedFd,
    number: u32,
    abort: File,
    /// Each can be read once: the kernel keeps what the first read said, and takes
    /// no seek. They are opened beforehand, since opening needs memory.
    waiting: Vec<File>,
}

/// Readings that are had without opening a file: two before an abort, one after it.
const READINGS: usize = 3;

impl ConnectionControl {
    /// Opens the files of connection `number`, in a mount of its own.
    pub(crate) fn open(number: u32) -> io::Result<Self> {
        let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let abort = open_control(&root, number, "abort", OFlags::WRONLY)?;
        let mut control = Self { root, number, abort, waiting: Vec::with_capacity(READINGS) };
        control.refill()?;
        Ok(control)
    }

    /// Fails everything that is outstanding and everything to come. Needs no
    /// memory and waits for nobody.
    pub(crate) fn abort(&self) -> io::Result<()> {
        (&self.abort).write_all(b"1")
    }

    /// Requests that the server has not answered. [`READINGS`] times after a
    /// [`refill`](Self::refill) this needs no memory.
    pub(crate) fn waiting(&mut self) -> io::Result<u64> {
        if self.waiting.is_empty() {
            self.refill()?;
        }
        let Some(mut file) = self.waiting.pop() else { return Ok(0) };
        let mut text = [0; 24];
        let length = file.read(&mut text)?;
        let number = std::str::from_utf8(text.get(..length).unwrap_or_default()).ok();
        number.and_then(|text| text.trim().parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Opens files for the next readings; best when nobody waits.
    pub(crate) fn refill(&mut self) -> io::Result<()> {
        while self.waiting.len() < READINGS {
            self.waiting.push(open_control(&self.root, self.number, "waiting", OFlags::RDONLY)?);
        }
        Ok(())
    }
}

fn open_control(root: &OwnedFd, number: u32, file: &str, access: OFlags) -> io::Result<File> {
    Ok(openat(root, format!("{number}/{file}"), access | OFlags::CLOEXEC, Mode::empty())?.into())
}
