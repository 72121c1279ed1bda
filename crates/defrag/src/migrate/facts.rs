//! What the system says of a file and of the file system that it is on.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use observe::mounts::{Mount, Mounts, unescape};
use rustix::fs::{AtFlags, StatxFlags};

use super::error::MigrateError;
use super::ioctl;
use super::modes::Modes;

/// Where ext4's superblock is, and its features in it.
const EXT4_SUPERBLOCK: u64 = 1024;
const EXT4_FEATURES: u64 = 0x5c;

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
    /// Names of the superblock's features, as `modes` has them; `None` where they cannot be read. For ext4 that needs the
    /// right to read its device: without, what the options do not show is left to the kernel.
    pub features: Option<Vec<String>>,
    /// The file's blocks are memory (`STATX_ATTR_DAX`).
    pub direct_access: bool,
    /// ext4: the journal is on the file system's own device, as far as the kernel tells.
    pub journal_inside: bool,
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
    /// XFS: `chattr +f` of xfs_io(8), not to be defragmented.
    pub no_defrag: bool,
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
        let modes = Modes::of(&system);
        let named = |words: &[u64]| modes.map(|modes| modes.named(words));
        let (mut options_complete, mut journal_inside, mut features) = (true, true, None);
        let (mut geometry, mut extended) = (0, 0);
        let mut options = mount.options;
        match system {
            FileSystem::Ext4 => {
                match ext4_options(status.dev()) {
                    Some(more) => options.extend(more),
                    None => options_complete = false,
                }
                journal_inside = ext4_journal_inside(status.dev()).unwrap_or(true);
                features = ext4_features(&mount.source, status.dev()).ok().and_then(|words| named(&words));
            }
            FileSystem::Xfs => {
                geometry =
                    ioctl::xfs_geometry_flags(file).map_err(MigrateError::system(path, "ask for XFS's features"))?;
                extended = ioctl::extended_flags(file).map_err(MigrateError::system(path, "read its flags"))?;
                features = named(&[u64::from(geometry)]);
            }
            FileSystem::Btrfs => {
                let words =
                    ioctl::btrfs_features(file).map_err(MigrateError::system(path, "ask for Btrfs's features"))?;
                features = named(&words);
            }
            FileSystem::F2fs => features = f2fs_features(status.dev()),
            FileSystem::Other(_) => {}
        }
        Ok(Self {
            system,
            options,
            options_complete,
            features,
            direct_access: is_direct_access(file),
            journal_inside,
            inode_flags: ioctl::inode_flags(file).unwrap_or(0),
            swap: is_swap(status.dev(), status.ino()),
            reflink: geometry & ioctl::GEOMETRY_REFLINK != 0,
            exchange: geometry & ioctl::GEOMETRY_EXCHANGE != 0,
            realtime: extended & ioctl::XFLAG_REALTIME != 0,
            no_defrag: extended & ioctl::XFLAG_NODEFRAG != 0,
        })
    }
}

/// The mount that a file was opened through (proc_pid_mountinfo(5)).
fn mount_of(file: &File) -> io::Result<Mount> {
    let status = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    let mounts = Mounts::now()?;
    mounts.with_id(status.stx_mnt_id).cloned().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not there"))
}

/// The kernel's name of a block device, as folders in sysfs and procfs have it.
fn device_name(device: u64) -> Option<OsString> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    link.file_name().map(OsStr::to_owned)
}

/// Every option of an ext4 file system, also those that are defaults of its superblock, and `fc_debug_force` where
/// it has fast commits (`ext4_seq_options_show`, fs/ext4/super.c).
fn ext4_options(device: u64) -> Option<Vec<String>> {
    let place = Path::new("/proc/fs/ext4").join(device_name(device)?).join("options");
    Some(each_option(&fs::read_to_string(place).ok()?))
}

/// The options of a list of lines. A line is one, except where quotas have files of their names: the kernel ends a line with
/// several then, a comma before each (`ext4_show_quota_options`). Commas of values are escaped (`seq_show_option`).
fn each_option(lines: &str) -> Vec<String> {
    let options = lines.lines().flat_map(|line| line.split(','));
    options.filter(|option| !option.is_empty()).map(str::to_owned).collect()
}

/// Whether an ext4 file system has a journal among its own blocks: the kernel calls it by the device and the inode
/// (`jbd2_journal_init_inode`, fs/jbd2/journal.c), and one on another device by that device alone.
fn ext4_journal_inside(device: u64) -> Option<bool> {
    let begin = format!("{}-", device_name(device)?.to_string_lossy());
    let names = fs::read_dir("/proc/fs/jbd2").ok()?.flatten().map(|entry| entry.file_name());
    let is_inode = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    Some(names.into_iter().any(|name| name.to_string_lossy().strip_prefix(&begin).is_some_and(is_inode)))
}

/// `s_feature_compat`, `s_feature_incompat` and `s_feature_ro_compat` of `struct ext4_super_block`, fs/ext4/ext4.h.
fn ext4_features(source: &Path, device: u64) -> io::Result<[u64; 3]> {
    let source = File::open(source)?;
    if source.metadata()?.rdev() != device {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut bytes = [0; 12];
    source.read_exact_at(&mut bytes, EXT4_SUPERBLOCK + EXT4_FEATURES)?;
    let (words, _) = bytes.as_chunks::<4>();
    let mut found = words.iter().map(|word| u64::from(u32::from_le_bytes(*word)));
    Ok(std::array::from_fn(|_| found.next().unwrap_or(0)))
}

/// The names in `/sys/fs/f2fs/DEVICE/features`.
fn f2fs_features(device: u64) -> Option<Vec<String>> {
    let place = Path::new("/sys/fs/f2fs").join(device_name(device)?).join("features");
    let text = fs::read_to_string(place).ok()?;
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    Some(names.map(str::to_owned).collect())
}

fn is_direct_access(file: &File) -> bool {
    /// `STATX_ATTR_DAX` of include/uapi/linux/stat.h.
    const DAX: u64 = 0x20_0000;
    let status = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    status.is_ok_and(|status| status.stx_attributes.bits() & DAX != 0)
}

/// Whether a file is among `/proc/swaps`. The kernel refuses to move one as well.
fn is_swap(device: u64, inode: u64) -> bool {
    let Ok(swaps) = fs::read_to_string("/proc/swaps") else { return false };
    swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).any(|name| {
        fs::metadata(unescape(name.as_bytes())).is_ok_and(|found| found.dev() == device && found.ino() == inode)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_share_a_line_are_told_apart() {
        let lines = "rw\nbsddf\ndata=ordered,jqfmt=vfsv1,usrjquota=aquota.user\n";
        assert_eq!(each_option(lines), ["rw", "bsddf", "data=ordered", "jqfmt=vfsv1", "usrjquota=aquota.user"]);
    }
}
