//! Their names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Tools;

/// What is made on a device and mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// Nothing: programs get the device.
    #[default]
    None,
    /// ext4 (`mkfs.ext4`).
    Ext4,
    /// XFS (`mkfs.xfs`).
    Xfs,
    /// Btrfs (`mkfs.btrfs`), zoned on a zoned device.
    Btrfs,
    /// F2FS (`mkfs.f2fs`), zoned on a zoned device.
    F2fs,
    /// Plumb's own on its Bε-tree (`plumb fs`), which a process serves through FUSE.
    Betrfs,
    /// zonefs, on zoned devices only; its super block is written without `mkzonefs`.
    Zonefs,
}

impl FileSystem {
    /// Every choice, with its name.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::None, "none"),
        (Self::Ext4, "ext4"),
        (Self::Xfs, "xfs"),
        (Self::Btrfs, "btrfs"),
        (Self::F2fs, "f2fs"),
        (Self::Betrfs, "betrfs"),
        (Self::Zonefs, "zonefs"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(one, _)| *one == self).map_or("unknown", |(_, name)| name)
    }

    /// Its name to `mount`; nothing for [`FileSystem::None`].
    pub fn mount_type(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Betrfs => Some("fuse.plumb"),
            _ => Some(self.name()),
        }
    }

    /// What `/proc/filesystems` has for it; nothing for [`FileSystem::None`].
    pub fn kernel_type(self) -> Option<&'static str> {
        if self.is_served() { Some("fuse") } else { self.mount_type() }
    }

    /// Whether a process of Plumb serves it: `mount -t` finds that by a helper, and once it is unmounted the process writes what is
    /// left, and has the device until then.
    pub fn is_served(self) -> bool {
        self == Self::Betrfs
    }

    /// Whether it can lie in a file of another: one that is served, in a file of the kernel's.
    pub fn can_lie_in_a_file_of(self, lower: Self) -> bool {
        self.is_served() && !lower.is_served() && Tools::of(lower).is_some()
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is none of a file system.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{given}` is not one of {choices}")]
pub struct UnknownFileSystem {
    /// What was given.
    pub given: String,
    /// What there is.
    pub choices: String,
}

impl FromStr for FileSystem {
    type Err = UnknownFileSystem;

    fn from_str(given: &str) -> Result<Self, UnknownFileSystem> {
        Self::ALL.iter().find(|(_, name)| *name == given).map(|(one, _)| *one).ok_or_else(|| {
            let choices: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
            UnknownFileSystem { given: given.to_owned(), choices: choices.join(", ") }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for (file_system, name) in FileSystem::ALL {
            assert_eq!((name.parse(), file_system.to_string()), (Ok(file_system), name.to_owned()));
        }
        let error = "zfs".parse::<FileSystem>().unwrap_err().to_string();
        assert_eq!(error, "`zfs` is not one of none, ext4, xfs, btrfs, f2fs, betrfs, zonefs");
    }
}
