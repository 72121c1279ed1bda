//! The table: what makes, bounds and checks each.

use std::path::Path;
use std::process::Command;

use crate::FileSystem;

/// A program and its words.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name.
    pub program: &'static str,
    /// The Debian package that holds it.
    pub package: &'static str,
    /// Words before the device.
    pub arguments: &'static [&'static str],
}

/// The program that Plumb itself is.
const OWN: &str = "plumb";

impl Tool {
    /// Whether it is Plumb itself, which no package has.
    pub fn is_own(&self) -> bool {
        self.program == OWN
    }

    /// Where it is: `plumb` where it is Plumb itself, and for the search path to find otherwise.
    pub fn path<'a>(&self, plumb: &'a Path) -> &'a Path {
        if self.is_own() { plumb } else { Path::new(self.program) }
    }
}

/// What a file system is made, bounded and checked with.
#[derive(Clone, Copy, Debug)]
pub struct Tools {
    /// Makes it.
    pub make: Tool,
    /// Further words of that with which everything is made now, so that no background task writes later.
    pub at_once: &'static [&'static str],
    /// Further ones for a device without zones: they leave the discard of the whole device out. A fresh one
    /// needs none, and it would touch every page of the model's tables (see `docs/linux.md`, Limits).
    pub conventional: &'static [&'static str],
    /// Further ones for a device with zones.
    pub zoned: &'static [&'static str],
    /// How it is told to take a part of the device only.
    size: Size,
    /// Looks for faults and repairs none. It fails where it finds one, or says [`Tools::fault`].
    pub check: Tool,
    /// What the checker says of a fault that it does not fail for.
    pub fault: Option<&'static str>,
}

/// How a number of bytes is said to mkfs.
#[derive(Clone, Copy, Debug)]
enum Size {
    /// An option before the device, with the bytes behind it.
    Before(&'static str, &'static str),
    /// A number of units behind the device.
    Behind(u64, &'static str),
}

impl Tools {
    /// Of a file system that is made by a program.
    pub fn of(file_system: FileSystem) -> Option<Self> {
        let tool = |program, package, arguments| Tool { program, package, arguments };
        let tools = match file_system {
            FileSystem::None | FileSystem::Zonefs => return None,
            FileSystem::Ext4 => Self {
                make: tool("mkfs.ext4", "e2fsprogs", &["-q", "-F"]),
                at_once: &["-E", "lazy_itable_init=0,lazy_journal_init=0"],
                conventional: &["-E", "nodiscard"],
                zoned: &[],
                size: Size::Behind(1024, "k"),
                check: tool("e2fsck", "e2fsprogs", &["-f", "-n"]),
                fault: None,
            },
            FileSystem::Xfs => Self {
                make: tool("mkfs.xfs", "xfsprogs", &["-q", "-f"]),
                at_once: &[],
                conventional: &["-K"],
                zoned: &[],
                size: Size::Before("-d", "size="),
                // Its cache would be sized by the memory of the machine, and touched whole.
                check: tool("xfs_repair", "xfsprogs", &["-n", "-P", "-o", "bhash=1024"]),
                fault: None,
            },
            FileSystem::Btrfs => Self {
                make: tool("mkfs.btrfs", "btrfs-progs", &["-q", "-f"]),
                at_once: &[],
                conventional: &["-K"],
                zoned: &["-O", "zoned", "-d", "single", "-m", "single"],
                size: Size::Before("-b", ""),
                // Without a look at what is mounted: others' loop devices may be gone before it has asked about them.
                check: tool("btrfs", "btrfs-progs", &["check", "--readonly", "--force"]),
                fault: None,
            },
            FileSystem::F2fs => Self {
                make: tool("mkfs.f2fs", "f2fs-tools", &["-q", "-f"]),
                at_once: &[],
                conventional: &["-t", "0"],
                zoned: &["-m"],
                size: Size::Behind(512, ""),
                check: tool("fsck.f2fs", "f2fs-tools", &["-f", "--dry-run"]),
                // It says what it found, and succeeds.
                fault: Some("[Fail]"),
            },
            FileSystem::Betrfs => Self {
                make: tool(OWN, "", &["fs", "mkfs"]),
                at_once: &[],
                conventional: &[],
                zoned: &[],
                size: Size::Before("--size", ""),
                check: tool(OWN, "", &["fs", "fsck"]),
                fault: None,
            },
        };
        Some(tools)
    }

    /// Words of mkfs before and behind the device that bound the file system to `bytes`.
    pub fn size_words(&self, bytes: u64) -> (Vec<String>, Vec<String>) {
        match self.size {
            Size::Before(option, name) => (vec![option.to_owned(), format!("{name}{bytes}")], Vec::new()),
            Size::Behind(unit, suffix) => (Vec::new(), vec![format!("{}{suffix}", bytes / unit)]),
        }
    }

    /// The command that makes it all at once, for which further words and the device are missing; `plumb` is this program.
    pub fn maker(&self, plumb: &Path) -> Command {
        let mut command = Command::new(self.make.path(plumb));
        command.args(self.make.arguments).args(self.at_once);
        command
    }

    /// The command that looks for faults, for which the device is missing; `plumb` is this program.
    pub fn checker(&self, plumb: &Path) -> Command {
        let mut command = Command::new(self.check.path(plumb));
        command.args(self.check.arguments);
        command
    }

    /// Whether a checker that ended well (`success`), having said this, has found a fault.
    pub fn is_fault(&self, success: bool, said: &str) -> bool {
        !success || self.fault.is_some_and(|fault| said.contains(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_system_has_tools_or_is_made_without() {
        for (file_system, name) in FileSystem::ALL {
            let Some(tools) = Tools::of(file_system) else {
                assert!(matches!(file_system, FileSystem::None | FileSystem::Zonefs), "{name}");
                continue;
            };
            assert!(tools.make.program.ends_with(name) || tools.make.is_own() && file_system.is_served(), "{name}");
            assert_eq!(tools.make.package, tools.check.package, "{name}");
            let (before, behind) = tools.size_words(1 << 30);
            assert_eq!(before.len() + behind.len(), if before.is_empty() { 1 } else { 2 }, "{name}");
        }
    }

    #[test]
    fn a_checker_that_succeeds_may_have_found_a_fault() {
        let f2fs = Tools::of(FileSystem::F2fs).unwrap();
        assert!(f2fs.is_fault(true, "[FSCK] valid_block_count [Fail]") && !f2fs.is_fault(true, "[Ok..]"));
        assert!(f2fs.is_fault(false, "") && !Tools::of(FileSystem::Xfs).unwrap().is_fault(true, "[Fail]"));
    }
}
