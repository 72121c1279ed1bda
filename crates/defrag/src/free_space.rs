//! How much programs can still write to a file system, and what of it a run leaves.

use std::fs::{self, File};
use std::io;
use std::str::FromStr;

use units::ByteSize;

use crate::extents::btrfs_uuid;

/// `f_type` of Btrfs, `include/uapi/linux/magic.h`.
const BTRFS: u32 = 0x9123_683e;
/// What is kept free unless the user says otherwise: so much in a hundred of the file system's size, and no more than that.
const DEFAULT_PERCENT: u64 = 5;
const DEFAULT_MOST_BYTES: u64 = 1 << 30;

/// Free space that a run leaves to other programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeepFree {
    /// 5 % of the file system, 1 GiB at most.
    #[default]
    Usual,
    /// In per cent of the file system's size.
    Percent(u8),
    /// So many.
    Bytes(u64),
}

impl KeepFree {
    /// In a file system of `size_bytes`.
    pub fn bytes(self, size_bytes: u64) -> u64 {
        let percent = |percent: u64| size_bytes / 100 * percent;
        match self {
            Self::Usual => percent(DEFAULT_PERCENT).min(DEFAULT_MOST_BYTES),
            Self::Percent(share) => percent(u64::from(share)),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Neither a size nor a share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no amount of free space; give a size such as 2GiB, or a share such as 10%")]
pub struct ParseKeepFreeError {
    text: String,
}

impl FromStr for KeepFree {
    type Err = ParseKeepFreeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseKeepFreeError { text: text.to_owned() };
        match text.trim().strip_suffix('%') {
            Some(percent) => {
                let percent = percent.trim().parse().ok().filter(|percent| *percent <= 100);
                percent.map(Self::Percent).ok_or_else(wrong)
            }
            None => text.parse::<ByteSize>().map(|size| Self::Bytes(size.0)).map_err(|_| wrong()),
        }
    }
}

/// A file system's size and what is left of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeSpace {
    /// All of it.
    pub size_bytes: u64,
    /// What programs without privileges can still write: without the blocks that ext4 reserves for root. Of a folder that hands a
    /// project down, within that project's quota; of a file no quota counts.
    pub free_bytes: u64,
}

impl FreeSpace {
    /// Of the file system that `file` is on.
    ///
    /// What Btrfs has promised to data that is not written yet, and what was freed since the last commit and cannot be used
    /// before the next, `statfs` counts as free (`btrfs_statfs`, fs/btrfs/super.c); here it is not.
    pub fn of(file: &File) -> io::Result<Self> {
        let space = rustix::fs::fstatvfs(file)?;
        let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
        let is_btrfs = rustix::fs::fstatfs(file)?.f_type as u32 == BTRFS;
        let promised_bytes = if is_btrfs { btrfs_promised_bytes(file).unwrap_or(0) } else { 0 };
        Ok(Self { size_bytes: bytes(space.f_blocks), free_bytes: bytes(space.f_bavail).saturating_sub(promised_bytes) })
    }
}

/// Bytes of data that Btrfs holds back beside what is used (Documentation/ABI/testing/sysfs-fs-btrfs).
fn btrfs_promised_bytes(file: &File) -> Option<u64> {
    let folder = format!("/sys/fs/btrfs/{}/allocation/data", btrfs_uuid(file).ok()?);
    let read = |name: &str| fs::read_to_string(format!("{folder}/{name}")).ok()?.trim().parse::<u64>().ok();
    ["bytes_pinned", "bytes_reserved", "bytes_may_use"].into_iter().map(read).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_shares_are_read() {
        assert_eq!("10%".parse(), Ok(KeepFree::Percent(10)));
        assert_eq!("2GiB".parse(), Ok(KeepFree::Bytes(2 << 30)));
        assert_eq!("0".parse(), Ok(KeepFree::Bytes(0)));
        for wrong in ["101%", "-1", "a lot", "%", ""] {
            assert!(wrong.parse::<KeepFree>().is_err(), "{wrong}");
        }
        assert_eq!(KeepFree::Usual.bytes(1 << 40), 1 << 30);
        assert_eq!(KeepFree::Usual.bytes(1000), 50);
        assert_eq!(KeepFree::Percent(20).bytes(1000), 200);
    }

    #[test]
    fn a_file_system_has_room() {
        let file = tempfile::tempfile().unwrap();
        let space = FreeSpace::of(&file).unwrap();
        assert!(space.free_bytes <= space.size_bytes && space.size_bytes > 0);
    }
}
