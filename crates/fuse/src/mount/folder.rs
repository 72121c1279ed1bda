//! A file system mounted in a folder, for everybody to see.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_remount, move_mount, unmount,
};

use super::error::MountError;
use super::fusermount;
use super::options::MountOptions;
use crate::agreement::MAX_TRANSFER_BYTES;
use crate::channel::Channel;

/// The type that `mount` shows is `fuse.` and this.
const SUBTYPE: &str = "plumb";

/// Attributes of a mount in the words of mount(2).
const FLAGS: [(MountAttrFlags, MountFlags); 6] = [
    (MountAttrFlags::MOUNT_ATTR_NOSUID, MountFlags::NOSUID),
    (MountAttrFlags::MOUNT_ATTR_NODEV, MountFlags::NODEV),
    (MountAttrFlags::MOUNT_ATTR_NOEXEC, MountFlags::NOEXEC),
    (MountAttrFlags::MOUNT_ATTR_NODIRATIME, MountFlags::NODIRATIME),
    (MountAttrFlags::MOUNT_ATTR_NOATIME, MountFlags::NOATIME),
    (MountAttrFlags::MOUNT_ATTR_STRICTATIME, MountFlags::STRICTATIME),
];

/// A mount in a folder.
#[derive(Debug)]
pub struct FolderMount {
    folder: PathBuf,
    by_fusermount: bool,
}

impl FolderMount {
    /// Mounts in `folder`. The descriptor is that of the connection, for [`Server::connect`](crate::Server::connect). Who
    /// may not mount by himself has `fusermount3` do it.
    ///
    /// # Errors
    ///
    /// When `/dev/fuse` is missing, the folder is none, or the mount is refused.
    pub fn new(folder: &Path, options: &MountOptions) -> Result<(Self, OwnedFd), MountError> {
        let refused = |source| MountError::Refused { folder: folder.to_owned(), source };
        let place = fs::canonicalize(folder).map_err(refused)?;
        if !place.is_dir() {
            return Err(refused(io::ErrorKind::NotADirectory.into()));
        }
        if rustix::process::geteuid().is_root() {
            let channel = Channel::open(true)?;
            mount(&channel, &place, options).map_err(refused)?;
            return Ok((Self { folder: place, by_fusermount: false }, channel.into()));
        }
        let device = fusermount::mount(&place, &options.words(SUBTYPE))?;
        Ok((Self { folder: place, by_fusermount: true }, device))
    }

    /// Gives what is mounted in `folder` other options: whether it is read-only, and what concerns times, devices and programs.
    ///
    /// # Errors
    ///
    /// Who is not root may not, and nothing may be mounted there.
    pub fn change(folder: &Path, options: &MountOptions) -> Result<(), MountError> {
        let mut flags = MountFlags::empty();
        flags.set(MountFlags::RDONLY, options.read_only);
        for (attribute, flag) in FLAGS {
            flags.set(flag, options.attributes.contains(attribute));
        }
        mount_remount(folder, flags, "")
            .map_err(|error| MountError::Refused { folder: folder.to_owned(), source: error.into() })
    }

    /// The folder, from the root.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether root mounted it, by the kernel's own calls.
    pub fn is_by_root(&self) -> bool {
        !self.by_fusermount
    }

    /// The connection's number, its folder in fusectl.
    ///
    /// # Errors
    ///
    /// When the folder cannot be looked at.
    pub fn connection(&self) -> io::Result<u32> {
        // Not synchronised: the server would have to answer, and this is the server.
        let status = statx(CWD, &self.folder, AtFlags::STATX_DONT_SYNC, StatxFlags::empty())?;
        // An anonymous device has major number 0, so its minor is the whole of it.
        Ok(status.stx_dev_minor)
    }

    /// Sets how far ahead of who reads in sequence the kernel reads; it begins with 128 KiB, which is less than one request.
    ///
    /// # Errors
    ///
    /// Only root may.
    pub fn read_ahead(&self, bytes: u64) -> io::Result<()> {
        let path = format!("/sys/class/bdi/0:{}/read_ahead_kb", self.connection()?);
        fs::write(path, (bytes / 1024).to_string())
    }

    /// Unmounts, from now on or once nobody uses it any more (`lazily`): then nobody new can.
    ///
    /// # Errors
    ///
    /// When it is in use, or not mounted any more.
    pub fn unmount(&self, lazily: bool) -> io::Result<()> {
        if self.by_fusermount {
            return fusermount::unmount(&self.folder, lazily);
        }
        let how = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        Ok(unmount(&self.folder, how | UnmountFlags::NOFOLLOW)?)
    }
}

/// By the kernel's own calls (fsopen(2) and its like, Linux 5.8).
fn mount(channel: &Channel, folder: &Path, options: &MountOptions) -> io::Result<()> {
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let device = channel.as_raw_fd().to_string();
    let max_read = MAX_TRANSFER_BYTES.to_string();
    let (user, group) =
        (rustix::process::getuid().as_raw().to_string(), rustix::process::getgid().as_raw().to_string());
    let settings = [
        ("source", options.source.as_str()),
        ("subtype", SUBTYPE),
        ("fd", &device),
        ("rootmode", "40000"),
        ("user_id", &user),
        ("group_id", &group),
        ("max_read", &max_read),
    ];
    for (name, value) in settings {
        fsconfig_set_string(&context, name, value)?;
    }
    // Everybody, as of any file system that root mounts: the kernel judges by owners and permissions.
    let flags = ["default_permissions", "allow_other"].into_iter().chain(options.flags.iter().copied());
    for flag in flags.chain(options.read_only.then_some("ro")) {
        fsconfig_set_flag(&context, flag)?;
    }
    fsconfig_create(&context)?;
    let read_only = if options.read_only { MountAttrFlags::MOUNT_ATTR_RDONLY } else { MountAttrFlags::empty() };
    let mounted = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, options.attributes | read_only)?;
    Ok(move_mount(&mounted, "", CWD, folder, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}
