//! What the system says of a file and of the file system that it is on.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags};

use super::error::MigrateError;
use super::ioctl;

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
        let system = FileSystem::named(&mount.system);
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

struct Mount {
    system: String,
    options: Vec<String>,
}

/// The mount that a file was opened through (proc_pid_mountinfo(5)).
fn mount_of(file: &File) -> io::Result<Mount> {
    let status = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    let own = fs::read_to_string("/proc/self/mountinfo")?;
    own.lines()
        .find_map(|line| parse_mount(line, status.stx_mnt_id))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not there"))
}

/// A line of mountinfo, if it is of the mount asked for.
fn parse_mount(line: &str, id: u64) -> Option<Mount> {
    if line.split(' ').next()?.parse::<u64>().ok()? != id {
        return None;
    }
    let (place, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let system = kind.next()?.to_owned();
    let of_system = kind.nth(1).unwrap_or_default();
    let options = place.split(' ').nth(5)?.split(',').chain(of_system.split(','));
    Some(Mount { system, options: options.filter(|option| !option.is_empty()).map(str::to_owned).collect() })
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
    swaps
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .any(|name| fs::metadata(unescape(name)).is_ok_and(|found| found.dev() == device && found.ino() == inode))
}

/// A name with the octal escapes of `seq_path` undone.
fn unescape(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(value) if byte == b'\\' => {
                out.push(value);
                at += 4;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_from_its_line() {
        let line =
            "44 27 7:1 /a/b /mnt/some\\040where rw,relatime shared:3 master:1 - xfs /dev/loop1 rw,inode64,noquota";
        let mount = parse_mount(line, 44).expect("its own");
        assert_eq!(mount.system, "xfs");
        assert_eq!(mount.options, ["rw", "relatime", "rw", "inode64", "noquota"]);
        assert!(parse_mount(line, 4).is_none());
        for broken in ["", "44", "44 27 7:1 / /mnt rw", "44 - xfs", "x - y z"] {
            assert!(parse_mount(broken, 44).is_none(), "{broken}");
        }
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape("/a\\040b\\134c"), PathBuf::from("/a b\\c"));
        assert_eq!(unescape("/a\\04"), PathBuf::from("/a\\04"));
        assert_eq!(unescape("\\"), PathBuf::from("\\"));
    }
}
