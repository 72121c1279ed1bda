//! The file systems that are tried: how each is made and checked.

use std::path::Path;
use std::process::{Command, Stdio};

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

    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Ext4 => &["mkfs.ext4", "e2fsck", "debugfs", "filefrag", "sha256sum", "losetup"],
            Self::Xfs => &["mkfs.xfs", "xfs_repair", "filefrag", "sha256sum", "losetup"],
            Self::XfsExchange => &["mkfs.xfs", "xfs_repair", "xfs_db", "filefrag", "sha256sum", "losetup"],
            Self::Btrfs => &["mkfs.btrfs", "btrfs", "filefrag", "sha256sum", "losetup"],
            Self::F2fs => &["mkfs.f2fs", "fsck.f2fs", "filefrag", "sha256sum", "losetup"],
        }
    }

    /// Makes the file system on a device or in a file.
    pub fn make(self, place: &Path, more: &[&str]) {
        let mut command = match self {
            // Everything now, so that no background task writes later.
            Self::Ext4 => {
                let mut command = Command::new("mkfs.ext4");
                command.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
                command
            }
            Self::Xfs => {
                let mut command = Command::new("mkfs.xfs");
                command.args(["-q", "-f"]);
                small_xfs(&mut command);
                command
            }
            Self::XfsExchange => {
                let mut command = Command::new("mkfs.xfs");
                command.args(["-q", "-f", "-m", "reflink=0"]);
                small_xfs(&mut command);
                command
            }
            Self::Btrfs => {
                let mut command = Command::new("mkfs.btrfs");
                command.args(["-q", "-f"]);
                command
            }
            Self::F2fs => {
                let mut command = Command::new("mkfs.f2fs");
                command.args(["-q", "-f"]);
                command
            }
        };
        made(command.args(more).arg(place));
        if self == Self::XfsExchange {
            set_exchange(place, true);
        }
    }

    /// Looks for faults without mending any; what was found, if anything.
    pub fn check(self, place: &Path) -> Result<(), String> {
        if self == Self::XfsExchange {
            // The file system is not mounted, and no exchange is under way.
            set_exchange(place, false);
        }
        let mut command = match self {
            Self::Ext4 => Command::new("e2fsck"),
            Self::Xfs | Self::XfsExchange => Command::new("xfs_repair"),
            Self::Btrfs => Command::new("btrfs"),
            Self::F2fs => Command::new("fsck.f2fs"),
        };
        match self {
            Self::Ext4 => command.args(["-f", "-n"]),
            Self::Xfs | Self::XfsExchange => command.arg("-n"),
            // Without a look at what is mounted: others' loop devices may be gone before it has asked about them.
            Self::Btrfs => command.args(["check", "--readonly", "--force"]),
            Self::F2fs => command.args(["-f", "--dry-run"]),
        };
        let output = command.arg(place).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // F2FS's checker says what it found and succeeds.
        if output.status.success() && !text(&output.stdout).contains("[Fail]") {
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
