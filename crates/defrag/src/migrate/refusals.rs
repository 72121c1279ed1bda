//! Which files are left alone, and why.

use std::fmt;

use super::facts::{Facts, FileSystem};
use super::ioctl::flag;

/// Why a file is not moved at all. Nothing of it was changed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Refusal {
    /// A folder, a device, a pipe.
    NotRegular,
    /// The name is another file's by now.
    AnotherFile,
    /// The kernel swaps to it, at the places it had when swapping began.
    SwapFile,
    /// `chattr +i`.
    Immutable,
    /// `chattr +a`.
    AppendOnly,
    /// fs-verity: nothing can open it for writing.
    Verity,
    /// Encrypted by the file system.
    Encrypted,
    /// A program that runs from it.
    Running,
    /// The file system, or the mount, is read-only.
    ReadOnly,
    /// ext4 with `data=journal`, or `chattr +j`.
    DataJournal,
    /// ext4 with the feature `fast_commit`.
    FastCommit,
    /// ext4's options cannot be read.
    UnknownOptions,
    /// ext4, mapped by indirect blocks.
    BlockMapped,
    /// ext4, within its inode.
    InlineData,
    /// XFS without `reflink` and without `exchange`.
    NoReflink,
    /// XFS, on the realtime device.
    Realtime,
    /// Btrfs mounted with `compress`, or `chattr +c`; F2FS: the latter.
    Compressed,
    /// F2FS mounted with `checkpoint=disable`.
    NoCheckpoints,
    /// Another file system.
    FileSystem(String),
    /// It cannot be opened.
    Open(String),
    /// No temporary file can be made beside it.
    Donor(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NotRegular => "not a regular file",
            Self::AnotherFile => "another file has this name by now; scan again",
            Self::SwapFile => "in use as swap space; `swapoff` first",
            Self::Immutable => "immutable; `chattr -i` first",
            Self::AppendOnly => "append-only; `chattr -a` first",
            Self::Verity => "protected by fs-verity",
            Self::Encrypted => "encrypted by the file system, which does not move such files",
            Self::Running => "a running program; ext4 moves it only when nothing runs it",
            Self::ReadOnly => "on a read-only mount",
            Self::DataJournal => "its data is journalled (data=journal), and ext4 does not move such files",
            Self::FastCommit => {
                "ext4 with fast_commit, whose journal may not recover from a crash; `tune2fs -O ^fast_commit` first"
            }
            Self::UnknownOptions => {
                "whether ext4 uses fast_commit or data=journal is not known: no /proc/fs/ext4/…/options"
            }
            Self::BlockMapped => "mapped by indirect blocks, not extents; `chattr +e` converts it",
            Self::InlineData => "kept within its inode; there is nothing to move",
            Self::NoReflink => {
                "XFS without reflink (and without exchange): no safe way to move it; `xfs_fsr` moves whole files"
            }
            Self::Realtime => "on XFS's realtime device, whose blocks cannot be shared",
            Self::Compressed => "its file system compresses what is rewritten here, which makes more pieces, not fewer",
            Self::NoCheckpoints => "F2FS with checkpoint=disable keeps what is moved at both places; mount it without",
            Self::FileSystem(name) => {
                return write!(f, "on {name}; only ext4, XFS, Btrfs and F2FS have a safe way of moving");
            }
            Self::Open(why) => return write!(f, "cannot be opened: {why}"),
            Self::Donor(why) => return write!(f, "no temporary file can be made beside it: {why}"),
        };
        f.pad(text)
    }
}

/// What holds for every file system.
pub(super) fn common(facts: &Facts) -> Result<(), Refusal> {
    let flagged = |flags: u32| facts.inode_flags & flags != 0;
    match &facts.system {
        FileSystem::Other(name) => return Err(Refusal::FileSystem(name.clone())),
        FileSystem::Ext4 | FileSystem::Xfs | FileSystem::Btrfs | FileSystem::F2fs => {}
    }
    if facts.swap {
        return Err(Refusal::SwapFile);
    }
    if flagged(flag::IMMUTABLE) {
        return Err(Refusal::Immutable);
    }
    if flagged(flag::APPEND) {
        return Err(Refusal::AppendOnly);
    }
    if flagged(flag::VERITY) {
        return Err(Refusal::Verity);
    }
    if flagged(flag::ENCRYPTED) {
        return Err(Refusal::Encrypted);
    }
    if facts.has_option("ro") {
        return Err(Refusal::ReadOnly);
    }
    Ok(())
}

/// What holds for `EXT4_IOC_MOVE_EXT`.
///
/// `data=journal` is refused by the kernel (`mext_check_validity`, fs/ext4/move_extent.c). On file systems with
/// `fast_commit`, some three of ten crashes left a journal that would not mount, with nothing but the donor's
/// creation and removal (Linux 6.18).
pub(super) fn ext4(facts: &Facts) -> Result<(), Refusal> {
    let flagged = |flags: u32| facts.inode_flags & flags != 0;
    if facts.has_option("data=journal") || flagged(flag::JOURNAL_DATA) {
        return Err(Refusal::DataJournal);
    }
    if facts.has_option("fc_debug_force") || facts.has_option("fast_commit") {
        return Err(Refusal::FastCommit);
    }
    if !facts.options_complete {
        return Err(Refusal::UnknownOptions);
    }
    if flagged(flag::INLINE_DATA) {
        return Err(Refusal::InlineData);
    }
    if !flagged(flag::EXTENTS) {
        return Err(Refusal::BlockMapped);
    }
    Ok(())
}

/// What holds for XFS, by the feature that the way of moving needs.
pub(super) fn xfs(facts: &Facts, feature: bool) -> Result<(), Refusal> {
    match (facts.realtime, feature) {
        (true, _) => Err(Refusal::Realtime),
        (false, false) => Err(Refusal::NoReflink),
        (false, true) => Ok(()),
    }
}

/// What holds for Btrfs.
pub(super) fn btrfs(facts: &Facts) -> Result<(), Refusal> {
    let compresses = ["compress", "compress-force"].iter().any(|key| facts.has_option_key(key));
    if compresses || facts.inode_flags & flag::COMPRESSED != 0 { Err(Refusal::Compressed) } else { Ok(()) }
}

/// What holds for F2FS. Files that it updates in place (pinned ones) are refused by the kernel.
pub(super) fn f2fs(facts: &Facts) -> Result<(), Refusal> {
    let without = facts.options.iter().any(|option| option.starts_with("checkpoint=disable"));
    match (facts.inode_flags & flag::COMPRESSED != 0, without) {
        (true, _) => Err(Refusal::Compressed),
        (false, true) => Err(Refusal::NoCheckpoints),
        (false, false) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(system: FileSystem) -> Facts {
        Facts {
            system,
            options: vec!["rw".to_owned(), "relatime".to_owned()],
            options_complete: true,
            inode_flags: flag::EXTENTS,
            swap: false,
            reflink: true,
            exchange: false,
            realtime: false,
        }
    }

    #[test]
    fn plain_files_are_not_refused() {
        for system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::F2fs] {
            assert_eq!(common(&facts(system)), Ok(()));
        }
        assert_eq!(ext4(&facts(FileSystem::Ext4)), Ok(()));
        assert_eq!(xfs(&facts(FileSystem::Xfs), true), Ok(()));
        assert_eq!(btrfs(&facts(FileSystem::Btrfs)), Ok(()));
        assert_eq!(f2fs(&facts(FileSystem::F2fs)), Ok(()));
    }

    #[test]
    fn each_reason_is_found() {
        let with = |change: &dyn Fn(&mut Facts)| {
            let mut facts = facts(FileSystem::Ext4);
            change(&mut facts);
            facts
        };
        let option = |name: &str| with(&|facts| facts.options.push(name.to_owned()));
        let flag = |bits: u32| with(&|facts| facts.inode_flags |= bits);
        let other = FileSystem::named("tmpfs");
        assert_eq!(common(&facts(other)), Err(Refusal::FileSystem("tmpfs".to_owned())));
        assert_eq!(common(&with(&|facts| facts.swap = true)), Err(Refusal::SwapFile));
        assert_eq!(common(&flag(flag::IMMUTABLE)), Err(Refusal::Immutable));
        assert_eq!(common(&flag(flag::APPEND)), Err(Refusal::AppendOnly));
        assert_eq!(common(&flag(flag::VERITY)), Err(Refusal::Verity));
        assert_eq!(common(&flag(flag::ENCRYPTED)), Err(Refusal::Encrypted));
        assert_eq!(common(&option("ro")), Err(Refusal::ReadOnly));
        assert_eq!(ext4(&option("data=journal")), Err(Refusal::DataJournal));
        assert_eq!(ext4(&flag(flag::JOURNAL_DATA)), Err(Refusal::DataJournal));
        assert_eq!(ext4(&option("fc_debug_force")), Err(Refusal::FastCommit));
        assert_eq!(ext4(&with(&|facts| facts.options_complete = false)), Err(Refusal::UnknownOptions));
        assert_eq!(ext4(&flag(flag::INLINE_DATA)), Err(Refusal::InlineData));
        assert_eq!(ext4(&with(&|facts| facts.inode_flags = 0)), Err(Refusal::BlockMapped));
        assert_eq!(xfs(&facts(FileSystem::Xfs), false), Err(Refusal::NoReflink));
        assert_eq!(xfs(&with(&|facts| facts.realtime = true), true), Err(Refusal::Realtime));
        assert_eq!(btrfs(&option("compress=zstd:3")), Err(Refusal::Compressed));
        assert_eq!(btrfs(&flag(flag::COMPRESSED)), Err(Refusal::Compressed));
        assert_eq!(f2fs(&flag(flag::COMPRESSED)), Err(Refusal::Compressed));
        assert_eq!(f2fs(&option("checkpoint=disable")), Err(Refusal::NoCheckpoints));
        assert_eq!(f2fs(&option("checkpoint=disable:10%")), Err(Refusal::NoCheckpoints));
        assert_eq!(f2fs(&option("checkpoint_merge")), Ok(()));
    }
}
