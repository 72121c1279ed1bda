//! What file systems promise beyond POSIX. docs/crash-promises.md has this as a table.
//!
//! Where a source is missing or says nothing, nothing is promised: a false alarm is worse than a missed one.

/// The promises of a file system in its default mode of mounting.
///
/// All keep what fsync(2), fdatasync(2), sync(2) and open(2) (`O_SYNC`, `O_DSYNC`) promise: contents and size; names only by fsync
/// of their folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// What it is called in messages.
    pub name: &'static str,
    /// `fsync` of a file or folder makes its names durable, and those of the folders on the way.
    ///
    /// fsync(2) says no. The four do, by the patch "Documenting the crash-recovery guarantees of Linux file systems" (linux-fsdevel,
    /// 12 March 2019, sections "fsync(file)" of ext4, XFS, Btrfs and F2FS), whose cases are tests of fstests since (generic/321,
    /// generic/336, generic/510). For F2FS fs/f2fs/recovery.c: a new file's node is written with its name; `need_do_checkpoint` in
    /// fs/f2fs/file.c has what it cannot do so, such as several names.
    pub fsync_keeps_names: bool,
    /// After `fsync` of a file that was renamed, its old name is gone: fstests generic/322.
    pub fsync_takes_old_names: bool,
    /// Where the loss of a name is durable, the new name to which the file was moved is durable too: a file is never lost because
    /// another one took its name and was synced. fstests generic/342; Documentation/filesystems/f2fs.rst, `fsync_mode`, names XFS,
    /// ext4 and Btrfs as those that pass it, and says that F2FS's default `posix` does not.
    pub keeps_moved_files: bool,
    /// A power cut leaves of a rename the old name or the new one, never neither, and never a gap where a file was replaced.
    ///
    /// ext4 and XFS have each rename in one transaction of a journal (Documentation/filesystems/ext4/journal.rst;
    /// xfs-delayed-logging-design.rst), Btrfs in one commit or in the log with both (fs/btrfs/tree-log.c, "directory trouble cases"),
    /// F2FS inside one checkpoint. POSIX speaks of processes, not of power cuts.
    pub rename_is_atomic: bool,
    /// A power cut never leaves both names of a rename. Not Btrfs, whose log may have the new name and not the old one's loss
    /// (Bornholt and others, "Specifying and Checking File System Crash-Consistency Models", ASPLOS 2016, section 6), and not F2FS,
    /// which finds names again one by one.
    pub rename_leaves_one_name: bool,
    /// `fsync` of a file without a name (`O_TMPFILE`) writes it, so that a later link has its contents. Btrfs leaves out files
    /// without names (fs/btrfs/tree-log.c, `btrfs_log_inode`: `i_nlink` of 0).
    pub syncs_unnamed_files: bool,
    /// What was never written reads as zeroes or not at all, never as what others had there: `data=ordered` of ext4
    /// (Documentation/admin-guide/ext4.rst), unwritten extents of XFS, and Btrfs, which adds an extent to a file when it is written.
    pub hides_stale_bytes: bool,
    /// `sync` and `syncfs` make everything durable. FUSE passes neither on to who serves a file system (fs/fuse/inode.c,
    /// `fuse_sync_fs`: only for virtiofs).
    pub hears_sync: bool,
}

/// What POSIX and the manual pages promise, and nothing more.
const POSIX: Rules = Rules {
    name: "POSIX",
    fsync_keeps_names: false,
    fsync_takes_old_names: false,
    keeps_moved_files: false,
    rename_is_atomic: false,
    rename_leaves_one_name: false,
    syncs_unnamed_files: true,
    hides_stale_bytes: false,
    hears_sync: true,
};

const EXT4: Rules = Rules {
    name: "ext4",
    fsync_keeps_names: true,
    fsync_takes_old_names: true,
    keeps_moved_files: true,
    rename_is_atomic: true,
    rename_leaves_one_name: true,
    syncs_unnamed_files: true,
    hides_stale_bytes: true,
    hears_sync: true,
};

const XFS: Rules = Rules { name: "XFS", ..EXT4 };

const BTRFS: Rules = Rules { name: "Btrfs", rename_leaves_one_name: false, syncs_unnamed_files: false, ..EXT4 };

const F2FS: Rules =
    Rules { name: "F2FS", keeps_moved_files: false, rename_leaves_one_name: false, hides_stale_bytes: false, ..EXT4 };

/// `plumb fs`: a cut leaves some prefix of all calls, with everything before the last fsync in it (docs/betrfs-format.md, Durability).
const BETRFS: Rules = Rules { name: "plumb fs", hears_sync: false, ..EXT4 };

/// Those that have rules of their own, by the name that mount(8) knows them by.
const TABLE: [(&str, Rules); 5] =
    [("ext4", EXT4), ("xfs", XFS), ("btrfs", BTRFS), ("f2fs", F2FS), ("fuse.plumb", BETRFS)];

impl Rules {
    /// Of a file system by the name that mount(8) knows it by; POSIX's of all that have none of their own.
    pub fn of(file_system: &str) -> Self {
        TABLE.iter().find(|(name, _)| *name == file_system).map_or(POSIX, |(_, rules)| *rules)
    }
}
