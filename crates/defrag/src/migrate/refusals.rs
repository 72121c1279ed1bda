//! Which files are left alone, and why.

use std::fmt;

use super::facts::{Facts, FileSystem};
use super::ioctl::flag;
use super::modes;

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
    /// ext4 without a journal, or with one that is not used (`norecovery`).
    NoJournal,
    /// ext4 with its journal on another device.
    JournalElsewhere,
    /// The file's blocks are memory.
    DirectAccess,
    /// A feature or an option of the file system that is not safe to move with.
    Mode {
        /// Which.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// A feature or an option of which nothing is known.
    UnknownMode(String),
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
    /// XFS, not to be defragmented: `chattr +f` of xfs_io(8).
    NoDefrag,
    /// Btrfs mounted with `compress`, or `chattr +c`; F2FS: the latter.
    Compressed,
    /// F2FS mounted with `checkpoint=disable`.
    NoCheckpoints,
    /// Another file system.
    FileSystem(String),
    /// Another program has it open, which the way of moving does not allow.
    OpenElsewhere,
    /// This user may not have it moved so.
    NotPermitted(String),
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
            Self::NoJournal => {
                "ext4 without a journal, where a crash loses what was moved; `tune2fs -j` gives an unmounted one a journal"
            }
            Self::JournalElsewhere => "ext4 with its journal on another device, where moving is untried",
            Self::DirectAccess => "its blocks are memory (DAX), where moving is untried",
            Self::Mode { name, why } => return write!(f, "its file system has `{name}`: {why}"),
            Self::UnknownMode(name) => {
                return write!(
                    f,
                    "its file system has `{name}`, of which is not known whether what is moved survives a crash"
                );
            }
            Self::UnknownOptions => {
                "whether ext4 uses fast_commit or data=journal is not known: no /proc/fs/ext4/…/options"
            }
            Self::BlockMapped => "mapped by indirect blocks, not extents; `chattr +e` converts it",
            Self::InlineData => "kept within its inode; there is nothing to move",
            Self::NoReflink => {
                "XFS without reflink (and without exchange): no safe way to move it; `xfs_fsr` moves whole files"
            }
            Self::NoDefrag => "marked as not to be defragmented; `xfs_io -c 'chattr -f'` first",
            Self::Realtime => "on XFS's realtime device, whose blocks cannot be shared",
            Self::Compressed => "its file system compresses what is rewritten here, which makes more pieces, not fewer",
            Self::NoCheckpoints => "F2FS with checkpoint=disable keeps what is moved at both places; mount it without",
            Self::FileSystem(name) => {
                return write!(f, "on {name}; only ext4, XFS, Btrfs and F2FS have a safe way of moving");
            }
            Self::OpenElsewhere => {
                "open in another program; run again when none has it open (ext4, XFS: or with --open-files)"
            }
            Self::NotPermitted(why) => return write!(f, "not permitted: {why}"),
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
    if facts.direct_access {
        return Err(Refusal::DirectAccess);
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
    // `data=` is printed only of a journal that is in use; without one, nothing orders the new map and the data.
    if !facts.has_option_key("data") {
        return Err(Refusal::NoJournal);
    }
    if !facts.journal_inside {
        return Err(Refusal::JournalElsewhere);
    }
    modes::judge(facts)?;
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
    if facts.no_defrag {
        return Err(Refusal::NoDefrag);
    }
    match (facts.realtime, feature) {
        (true, _) => Err(Refusal::Realtime),
        (false, false) => Err(Refusal::NoReflink),
        (false, true) => modes::judge(facts),
    }
}

/// What holds for Btrfs.
pub(super) fn btrfs(facts: &Facts) -> Result<(), Refusal> {
    let compresses = ["compress", "compress-force"].iter().any(|key| facts.has_option_key(key));
    if compresses || facts.inode_flags & flag::COMPRESSED != 0 {
        return Err(Refusal::Compressed);
    }
    modes::judge(facts)
}

/// What holds for F2FS. Files that it updates in place (pinned ones) are refused by the kernel.
pub(super) fn f2fs(facts: &Facts) -> Result<(), Refusal> {
    let without = facts.options.iter().any(|option| option.starts_with("checkpoint=disable"));
    match (facts.inode_flags & flag::COMPRESSED != 0, without) {
        (true, _) => Err(Refusal::Compressed),
        (false, true) => Err(Refusal::NoCheckpoints),
        (false, false) => modes::judge(facts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(system: FileSystem) -> Facts {
        let journal = (system == FileSystem::Ext4).then_some("data=ordered");
        Facts {
            system,
            options: ["rw", "relatime"].into_iter().chain(journal).map(str::to_owned).collect(),
            options_complete: true,
            features: None,
            direct_access: false,
            journal_inside: true,
            inode_flags: flag::EXTENTS,
            swap: false,
            reflink: true,
            exchange: false,
            realtime: false,
            no_defrag: false,
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
        let of = |system: FileSystem, change: &dyn Fn(&mut Facts)| {
            let mut facts = facts(system);
            change(&mut facts);
            facts
        };
        let with = |change: &dyn Fn(&mut Facts)| of(FileSystem::Ext4, change);
        let on = |system: FileSystem, name: &str| of(system, &|facts| facts.options.push(name.to_owned()));
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
        assert_eq!(
            ext4(&with(&|facts| facts.options.retain(|option| option != "data=ordered"))),
            Err(Refusal::NoJournal)
        );
        assert_eq!(ext4(&with(&|facts| facts.journal_inside = false)), Err(Refusal::JournalElsewhere));
        assert_eq!(common(&with(&|facts| facts.direct_access = true)), Err(Refusal::DirectAccess));
        for name in ["journal_async_commit", "nobarrier", "barrier=0", "dax", "bigalloc"] {
            let feature = with(&|facts| facts.features = Some(vec![name.to_owned()]));
            let set = if name == "bigalloc" { feature } else { option(name) };
            assert!(matches!(ext4(&set), Err(Refusal::Mode { name: told, .. }) if told == name), "{name}");
        }
        for unknown in ["data=sideways", "swiftness", "noatimes"] {
            assert_eq!(ext4(&option(unknown)), Err(Refusal::UnknownMode(unknown.to_owned())));
        }
        let unknown = with(&|facts| facts.features = Some(vec!["feature 1:30".to_owned()]));
        assert_eq!(ext4(&unknown), Err(Refusal::UnknownMode("feature 1:30".to_owned())));
        assert_eq!(ext4(&flag(flag::INLINE_DATA)), Err(Refusal::InlineData));
        assert_eq!(ext4(&with(&|facts| facts.inode_flags = 0)), Err(Refusal::BlockMapped));
        assert_eq!(xfs(&facts(FileSystem::Xfs), false), Err(Refusal::NoReflink));
        assert_eq!(xfs(&with(&|facts| facts.realtime = true), true), Err(Refusal::Realtime));
        assert_eq!(xfs(&with(&|facts| facts.no_defrag = true), true), Err(Refusal::NoDefrag));
        assert_eq!(btrfs(&on(FileSystem::Btrfs, "compress=zstd:3")), Err(Refusal::Compressed));
        assert_eq!(btrfs(&flag(flag::COMPRESSED)), Err(Refusal::Compressed));
        assert_eq!(f2fs(&flag(flag::COMPRESSED)), Err(Refusal::Compressed));
        assert_eq!(f2fs(&on(FileSystem::F2fs, "checkpoint=disable")), Err(Refusal::NoCheckpoints));
        assert_eq!(f2fs(&on(FileSystem::F2fs, "checkpoint=disable:10%")), Err(Refusal::NoCheckpoints));
        assert_eq!(f2fs(&on(FileSystem::F2fs, "checkpoint_merge")), Ok(()));
    }
}
