//! What is mounted where: `/proc/self/mountinfo`, see proc_pid_mountinfo(5).

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the kernel tells them.
pub const MOUNTINFO: &str = "/proc/self/mountinfo";

/// One mount of a file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Its number, as statx(2) tells it of a file.
    pub id: u64,
    /// The superblock's device, encoded as `st_dev` is. On Btrfs `stat` gives another.
    pub kernel_device: u64,
    /// Where it is mounted.
    pub point: PathBuf,
    /// `ext4`, `xfs`, ...
    pub file_system: String,
    /// What is mounted: a device's path for the file systems of disks.
    pub source: PathBuf,
    /// Of the mount, then of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// Whether it is the file system of a disk, of which a `stat` cannot hang on a network.
    pub fn is_on_disk(&self) -> bool {
        self.source.is_absolute() && !matches!(self.file_system.as_str(), "fuse" | "overlay" | "9p" | "virtiofs")
    }
}

/// All mounts that this process sees, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub struct Mounts(Vec<Mount>);

impl Mounts {
    /// Of this moment.
    ///
    /// # Errors
    /// If [`MOUNTINFO`] cannot be read.
    pub fn now() -> io::Result<Self> {
        Ok(Self::parse(&fs::read(MOUNTINFO)?))
    }

    /// Lines that are not as the manual says are left out.
    pub fn parse(text: &[u8]) -> Self {
        Self(text.split(|&byte| byte == b'\n').filter_map(mount).collect())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.0.iter()
    }

    /// The one of this number.
    pub fn with_id(&self, id: u64) -> Option<&Mount> {
        self.0.iter().find(|mount| mount.id == id)
    }

    /// The mount on which `path`, which is absolute and without symbolic links, lies.
    pub fn of(&self, path: &Path) -> Option<&Mount> {
        // Of several mounts on one point the last hides the others: max_by_key takes the last.
        self.0
            .iter()
            .filter(|mount| path.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.components().count())
    }

    /// The mounts of a superblock that can be reached, each with the `st_dev` of its root.
    pub fn of_device(&self, kernel_device: u64) -> impl Iterator<Item = (&Mount, u64)> {
        self.0.iter().filter(move |mount| mount.kernel_device == kernel_device).filter_map(|mount| {
            let hidden = self.of(&mount.point).is_none_or(|top| !std::ptr::eq(top, mount));
            if hidden || !mount.is_on_disk() {
                return None;
            }
            Some((mount, fs::metadata(&mount.point).ok()?.dev()))
        })
    }
}

fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = std::str::from_utf8(fields.nth(1)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let kernel_device = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    let point = unescape(fields.nth(1)?);
    let own_options = fields.next()?;
    // Optional fields come next, as many as there are, up to a hyphen.
    let mut fields = fields.skip_while(|&field| field != b"-").skip(1);
    let file_system = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = unescape(fields.next()?);
    let options =
        own_options.split(|&byte| byte == b',').chain(fields.next().unwrap_or_default().split(|&byte| byte == b','));
    let options = options.filter(|option| !option.is_empty());
    let options = options.map(|option| String::from_utf8_lossy(option).into_owned()).collect();
    Some(Mount { id, kernel_device, point, file_system, source, options })
}

/// Undoes the escapes of `seq_path`, `\040` and the like.
pub fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let code = match (first, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        bytes.push(code.unwrap_or(first));
        if code.is_some() {
            rest = rest.get(3..).unwrap_or_default();
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_escapes_are_read() {
        let text =
            b"36 35 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 shared:2 - ext3 /dev/root\\134x rw,errors=continue\n\
            nonsense\n37 36 0:41 / /mnt/a\\040b/c rw - btrfs /dev/sdb rw\n";
        let mounts = Mounts::parse(text);
        let found: Vec<_> = mounts.iter().collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].kernel_device, rustix::fs::makedev(98, 0));
        assert_eq!(found[0].point, Path::new("/mnt/a b"));
        assert_eq!(found[0].file_system, "ext3");
        assert_eq!(found[0].source, Path::new("/dev/root\\x"));
        assert_eq!(mounts.of(Path::new("/mnt/a b/c/d")).unwrap().file_system, "btrfs");
        assert_eq!(mounts.of(Path::new("/mnt/a b/cd")).unwrap().file_system, "ext3");
        assert_eq!(mounts.of(Path::new("/mnt/a")), None);
    }

    #[test]
    fn a_mount_is_found_by_its_number() {
        let line =
            "44 27 7:1 /a/b /mnt/some\\040where rw,relatime shared:3 master:1 - xfs /dev/loop1 rw,inode64,noquota";
        let mounts = Mounts::parse(line.as_bytes());
        let mount = mounts.with_id(44).expect("its own");
        assert_eq!(mount.file_system, "xfs");
        assert_eq!(mount.options, ["rw", "relatime", "rw", "inode64", "noquota"]);
        assert!(mounts.with_id(4).is_none());
        for broken in ["", "44", "44 27 7:1 / /mnt rw", "44 - xfs", "x - y z"] {
            assert!(Mounts::parse(broken.as_bytes()).with_id(44).is_none(), "{broken}");
        }
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape(b"/a\\040b\\134c"), PathBuf::from("/a b\\c"));
        assert_eq!(unescape(b"/a\\04"), PathBuf::from("/a\\04"));
        assert_eq!(unescape(b"\\"), PathBuf::from("\\"));
    }

    #[test]
    fn this_machine_has_a_root() {
        let mounts = Mounts::now().unwrap();
        assert_eq!(mounts.of(Path::new("/")).unwrap().point, Path::new("/"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>) {
            Mounts::parse(&bytes);
        }
    }
}
