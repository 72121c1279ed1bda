//! The file systems that are tried: how each is made and checked.

use std::path::Path;
use std::process::{Command, Stdio};

use file_systems::{FileSystem, Tools};

use super::{made, ran};

/// The file systems that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Ext4,
    Xfs,
    /// Without reflink, with exchange.
    XfsExchange,
    Btrfs,
    F2fs,
}

impl System {
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs | Self::XfsExchange => "xfs",
            Self::Btrfs => "btrfs",
            Self::F2fs => "f2fs",
        }
    }

    fn tools(self) -> Tools {
        let file_system = match self {
            Self::Ext4 => FileSystem::Ext4,
            Self::Xfs | Self::XfsExchange => FileSystem::Xfs,
            Self::Btrfs => FileSystem::Btrfs,
            Self::F2fs => FileSystem::F2fs,
        };
        Tools::of(file_system).unwrap()
    }

    pub fn programs(self) -> Vec<&'static str> {
        let tools = self.tools();
        let own = match self {
            Self::Ext4 => Some("debugfs"),
            Self::XfsExchange => Some("xfs_db"),
            Self::Xfs | Self::Btrfs | Self::F2fs => None,
        };
        let shared = [tools.make.program, tools.check.program, "filefrag", "sha256sum", "losetup"];
        shared.into_iter().chain(own).collect()
    }

    /// Makes the file system on a device or in a file.
    pub fn make(self, place: &Path, more: &[&str]) {
        let mut command = self.tools().maker(Path::new("plumb"));
        if matches!(self, Self::Xfs | Self::XfsExchange) {
            small_xfs(&mut command);
        }
        if self == Self::XfsExchange {
            command.args(["-m", "reflink=0"]);
        }
        made(command.args(more).arg(place));
        if self == Self::XfsExchange {
            set_exchange(place, true);
        }
    }

    /// Looks for faults and repairs none; what was found, if anything.
    pub fn check(self, place: &Path) -> Result<(), String> {
        if self == Self::XfsExchange {
            // The file system is not mounted, and no exchange is under way.
            set_exchange(place, false);
        }
        let tools = self.tools();
        let mut command = tools.checker(Path::new("plumb"));
        let output = command.arg(place).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !tools.is_fault(output.status.success(), &text(&output.stdout)) {
            return Ok(());
        }
        Err(format!("{command:?}: {}\n{}{}", output.status, text(&output.stdout), text(&output.stderr)))
    }
}

/// Allows less than 300 MiB, as xfsprogs' own tests have it.
fn small_xfs(command: &mut Command) {
    command.env("TEST_DIR", "1").env("TEST_DEV", "1").env("QA_CHECK_FS", "1");
}

/// Sets or clears the feature that xfsprogs before 6.10 do not know: bit 6 of the incompatible ones
/// (`XFS_SB_FEAT_INCOMPAT_EXCHRANGE`, fs/xfs/libxfs/xfs_format.h), in the superblock alone, with its checksum.
fn set_exchange(place: &Path, on: bool) {
    let show = ran(Command::new("xfs_db").args(["-r", "-c", "sb 0", "-c", "print features_incompat"]).arg(place));
    let old = show.trim().rsplit("0x").next().and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap();
    let write = format!("write -d features_incompat {:#x}", if on { old | 1 << 6 } else { old & !(1 << 6) });
    ran(Command::new("xfs_db").args(["-x", "-c", "sb 0", "-c", &write]).arg(place));
}
