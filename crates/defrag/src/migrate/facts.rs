//! What the system says of a file and of the file system that it is on.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags};

use super::error::MigrateError;
use super::ioctl;
use crate::mounts::{Mount, Mounts, unescape};

/// A file system, as far as moving goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileSystem {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// F2FS.
    F2fs,
    /// Another, by the name that mounts have.
    Other(String),
}

impl FileSystem {
    /// By the name of `/proc/filesystems`.
    pub fn named(name: &str) -> Self {
        match name {
            "ext4" => Self::Ext4,
            "xfs" => Self::Xfs,
            "btrfs" => Self::Btrfs,
            "f2fs" => Self::F2fs,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// What the refusals are decided from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// On what it is.
    pub system: FileSystem,
    /// Options of the mount and of the file system, `rw`, `data=ordered` and so on.
    pub options: Vec<String>,
    /// Whether `options` has everything, also what is set only in the superblock; for ext4.
    pub options_complete: bool,
    /// `FS_*_FL` of the inode, `include/uapi/linux/fs.h`; zero where the file system has none.
    pub inode_flags: u32,
    /// Whether the kernel swaps to it.
    pub swap: bool,
    /// XFS: blocks can be shared.
    pub reflink: bool,
    /// XFS: ranges can be exchanged.
    pub exchange: bool,
    /// XFS: the data lies on the realtime device.
    pub realtime: bool,
}

impl Facts {
    /// Whether an option is set.
    pub fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|option| option == name)
    }

    /// Whether an option is set to anything.
    pub fn has_option_key(&self, key: &str) -> bool {
        self.options.iter().any(|option| option.split('=').next() == Some(key))
    }

    /// Asks the kernel about an open file.
    pub(crate) fn of(file: &File, path: &Path) -> Result<Self, MigrateError> {
        let status = file.metadata().map_err(MigrateError::system(path, "look at it"))?;
        let mount = mount_of(file).map_err(MigrateError::system(path, "find its mount in /proc/self/mountinfo"))?;
        let system = FileSystem::named(&mount.file_system);
        let mut options = mount.options;
        let mut options_complete = true;
        if system == FileSystem::Ext4 {
            match ext4_options(status.dev()) {
                Some(more) => options.extend(more),
                None => options_complete = false,
            }
        }
        let (mut geometry, mut extended) = (0, 0);
        if system == FileSystem::Xfs {
            geometry = ioctl::xfs_geometry_flags(file).map_err(MigrateError::system(path, "ask for XFS's features"))?;
            extended = ioctl::extended_flags(file).map_err(MigrateError::system(path, "read its flags"))?;
        }
        Ok(Self {
            system,
            options,
            options_complete,
            inode_flags: ioctl::inode_flags(file).unwrap_or(0),
            swap: is_swap(status.dev(), status.ino()),
            reflink: geometry & ioctl::GEOMETRY_REFLINK != 0,
            exchange: geometry & ioctl::GEOMETRY_EXCHANGE != 0,
            realtime: extended & ioctl::XFLAG_REALTIME != 0,
        })
    }
}

/// The mount that a file was opened through (proc_pid_mountinfo(5)).
fn mount_of(file: &File) -> io::Result<Mount> {
    let status = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    let mounts = Mounts::now()?;
    mounts.with_id(status.stx_mnt_id).cloned().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not there"))
}

/// Every option of an ext4 file system, also those that are defaults of its superblock, and `fc_debug_force` where
/// it has fast commits (`ext4_seq_options_show`, fs/ext4/super.c).
fn ext4_options(device: u64) -> Option<Vec<String>> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let place = PathBuf::from("/proc/fs/ext4").join(link.file_name()?).join("options");
    Some(fs::read_to_string(place).ok()?.lines().map(str::to_owned).collect())
}

/// Whether a file is among `/proc/swaps`. The kernel refuses to move one as well.
fn is_swap(device: u64, inode: u64) -> bool {
    let Ok(swaps) = fs::read_to_string("/proc/swaps") else { return false };
    swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).any(|name| {
        fs::metadata(unescape(name.as_bytes())).is_ok_and(|found| found.dev() == device && found.ino() == inode)
    })
}
