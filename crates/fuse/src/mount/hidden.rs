//! Mounting FUSE where nobody sees it.
//!
//! The mount belongs to a descriptor and has no place in any directory tree
//! (fsmount(2), Linux 5.2): there is no folder to make or to clean up, nobody
//! stumbles into it, and it goes away with the process.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen};

/// A mounted file system.
pub struct Mount {
    root: OwnedFd,
    connection: u32,
}

impl Mount {
    /// Mounts the file system that is served through `device`, that of a [`Transport`](crate::Transport).
    ///
    /// # Errors
    ///
    /// Without `CAP_SYS_ADMIN`, and before Linux 5.8.
    pub fn new(device: BorrowedFd<'_>) -> io::Result<Self> {
        let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "source", "plumb")?;
        fsconfig_set_string(&context, "subtype", "plumb")?;
        fsconfig_set_string(&context, "fd", device.as_raw_fd().to_string())?;
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
    pub fn connection(&self) -> u32 {
        self.connection
    }

    /// A second handle, for another thread.
    ///
    /// # Errors
    ///
    /// When there are too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { root: self.root.try_clone()?, connection: self.connection })
    }

    /// Opens a file of the root folder. The server answers meanwhile: call it from another thread.
    ///
    /// # Errors
    ///
    /// What the server answers.
    pub fn open(&self, name: &str, read_only: bool) -> io::Result<File> {
        let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
        Ok(openat(&self.root, name, access | OFlags::CLOEXEC, Mode::empty())?.into())
    }
}
