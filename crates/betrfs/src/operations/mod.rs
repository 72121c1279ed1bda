//! What a file system does: the POSIX operations as a trait, with no transport in it.
//!
//! A FUSE server, the tests, and the enumerator of crash states call the same trait; [`Model`](crate::Model) and the real
//! file system implement it.
//!
//! # What callers keep to
//!
//! - **Inode numbers are handles.** A number stays valid while the inode has a link or is open; afterwards every call with it
//!   fails with [`Error::Stale`]. Numbers are never used again, so there is no generation and no forget.
//! - **Open files are counted.** Each [`create`](Operations::create), [`tmpfile`](Operations::tmpfile) and
//!   [`open`](Operations::open) that succeeded is ended by one [`release`](Operations::release). An inode without links lives
//!   until the last release; after a crash, the next mount removes it. Data calls do not ask whether the file is open.
//! - **Permissions of ordinary calls are the kernel's**: mount with `default_permissions`. The trait does not check
//!   them, and it does what the kernel leaves to a file system: set-group-ID folders, the umask, and clearing
//!   set-user-ID and set-group-ID bits where `kill_privileges` says so.
//! - **Times are the caller's**: [`Caller::now`] is the time of the call. There is no clock here.
//! - **Append** is the caller's, too: an `O_APPEND` write goes to the offset that the kernel sends.
//! - **Locks** (`flock`, `fcntl`) are the kernel's.
//! - Nothing is durable before [`fsync`](Operations::fsync) or [`syncfs`](Operations::syncfs). Every other call happens whole or
//!   not at all (but for writes and copies of more than a megabyte, of which a beginning may), and after a crash the file
//!   system is as some prefix of the calls left it that contains everything synced. A server should call `syncfs` every few
//!   seconds, so that an idle file system becomes durable.
//! - Any thread may call anything at any time.

mod error;
mod types;

pub use error::{Error, Result};
pub use types::{
    Allocate, Attributes, Caller, Cookie, DirectoryEntry, InodeNumber, Kind, Name, Permissions, RenameFlags, Seek,
    SetAttributes, SetXattr, Statistics, Timestamp, XattrName,
};

/// The POSIX operations of a mounted file system.
///
/// Every call may fail with [`Error::Stale`] where an inode is not there (any more), [`Error::Io`] where the storage fails and
/// [`Error::Corrupt`] where it is damaged. Calls that take a directory fail with [`Error::NotDirectory`] where it is none; those that
/// add to the file system with [`Error::NoSpace`] where it is full, or [`Error::ReadOnly`]. The rest is said for each.
pub trait Operations: Send + Sync {
    /// The inode under a name. `.` and `..` are found; `..` of the root, and of a directory that was removed, is itself.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`].
    fn lookup(&self, parent: InodeNumber, name: Name<'_>) -> Result<Attributes>;

    /// What `stat` says.
    ///
    /// # Errors
    ///
    /// See [`Operations`].
    fn getattr(&self, inode: InodeNumber) -> Result<Attributes>;

    /// Changes what is `Some`. A change of owner clears the set-ID bits of what is no folder, as Linux does; so does a change of
    /// size where it says `kill_privileges`. The change time becomes `caller.now`, and a change of size also makes the
    /// modification time that, unless they are given.
    ///
    /// # Errors
    ///
    /// [`Error::IsDirectory`], [`Error::Invalid`] for the size of what has none; [`Error::FileTooBig`].
    fn setattr(&self, caller: &Caller<'_>, inode: InodeNumber, changes: &SetAttributes) -> Result<Attributes>;

    /// Makes a regular file and opens it: [`release`](Operations::release) it once.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`].
    fn create(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        permissions: Permissions,
    ) -> Result<Attributes>;

    /// Makes a node of any kind but a directory or a symbolic link; `device` counts for devices. It is not opened.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`]; [`Error::Invalid`] for the kinds that have a call of their own.
    fn mknod(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        kind: Kind,
        permissions: Permissions,
        device: u32,
    ) -> Result<Attributes>;

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`], [`Error::TooManyLinks`].
    fn mkdir(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        permissions: Permissions,
    ) -> Result<Attributes>;

    /// Makes a symbolic link to `target` (1 to 4,095 bytes without NUL).
    ///
    /// # Errors
    ///
    /// [`Error::Exists`], [`Error::NameTooLong`], [`Error::NotFound`] for an empty target.
    fn symlink(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>, target: &[u8]) -> Result<Attributes>;

    /// Gives an inode one more name. One without links gets its first again while it is open: the kernel lets that happen
    /// to those of `O_TMPFILE` only.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`], [`Error::NotPermitted`] for a directory, [`Error::TooManyLinks`].
    fn link(&self, caller: &Caller<'_>, inode: InodeNumber, parent: InodeNumber, name: Name<'_>) -> Result<Attributes>;

    /// Takes a name away from what is no directory.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::IsDirectory`].
    fn unlink(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::NotDirectory`], [`Error::NotEmpty`]; [`Error::Invalid`] for `.`, [`Error::NotEmpty`] for `..`.
    fn rmdir(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()>;

    /// Gives what is called `name` another name and perhaps another directory; what has that name already is replaced, kept
    /// or exchanged as `flags` say. Two names of one inode: nothing happens.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Exists`] with `NoReplace`, [`Error::NotEmpty`], [`Error::IsDirectory`],
    /// [`Error::NotDirectory`]; [`Error::Invalid`] for a directory that would come below itself; [`Error::TooManyLinks`].
    fn rename(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        new_parent: InodeNumber,
        new_name: Name<'_>,
        flags: RenameFlags,
    ) -> Result<()>;

    /// Removes what is called `name` with all that is below it, in one step: no path leads there afterwards. Open files live on as
    /// after [`unlink`](Operations::unlink). What was below loses its other names and its space by and by, through
    /// [`reap`](Operations::reap), after a crash as well. The caller's permissions are checked here, in every directory.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Access`], [`Error::NotPermitted`] (sticky directories), [`Error::Invalid`] for `.` and `..`;
    /// then nothing was removed.
    fn remove_tree(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()>;

    /// Makes a copy of what is called `name`, with all that is below it, under another name: nothing of it is seen before all of it
    /// is there, and it is as the original was at one moment, whoever changes that meanwhile. Names of one inode in it are names of
    /// one inode again. The caller must own all that is copied, unless it is root, be able to search every directory
    /// above, and may make an entry in `new_parent`; where an access list counts only owners are let through.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Exists`], [`Error::Access`], [`Error::NoSpace`], [`Error::Invalid`] for `.` and `..`; then
    /// nothing is seen of it, and what was copied goes by and by, through [`reap`](Operations::reap).
    fn clone_tree(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        new_parent: InodeNumber,
        new_name: Name<'_>,
    ) -> Result<Attributes>;

    /// Takes into use what the storage has become larger; how many bytes that is. The owner of the root directory may, and root.
    ///
    /// # Errors
    ///
    /// [`Error::NotPermitted`], [`Error::NotSupported`] where there is no storage, and see [`Operations`].
    fn grow(&self, caller: &Caller<'_>) -> Result<u64> {
        let _ = caller;
        Err(Error::NotSupported)
    }

    /// Does all that is owed to the storage: removed trees are taken apart, changes go from the log to their places. The owner of the root
    /// directory may, and root.
    ///
    /// # Errors
    ///
    /// As [`grow`](Operations::grow).
    fn quiesce(&self, caller: &Caller<'_>) -> Result<()> {
        let _ = caller;
        Err(Error::NotSupported)
    }

    /// Reads everything, and checks every checksum and rule while others go on; a line for each finding. The owner of the root directory
    /// may, and root.
    ///
    /// # Errors
    ///
    /// As [`grow`](Operations::grow).
    fn findings(&self, caller: &Caller<'_>) -> Result<Vec<String>> {
        let _ = caller;
        Err(Error::NotSupported)
    }

    /// Tells the storage what is free, a piece at a time so that others have their turn; how many bytes that is. The owner of the root
    /// directory may, and root.
    ///
    /// # Errors
    ///
    /// As [`grow`](Operations::grow).
    fn trim(&self, caller: &Caller<'_>) -> Result<u64> {
        let _ = caller;
        Err(Error::NotSupported)
    }

    /// Takes trees that were removed apart, for up to `entries` entries; whether more is left. A server calls it when it has time.
    ///
    /// # Errors
    ///
    /// See [`Operations`].
    fn reap(&self, entries: usize) -> Result<bool>;

    /// Keeps everything as it is now under a name, durably, to be looked at later; what it alone refers to keeps its space. The owner of
    /// the root directory may, and root.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`], [`Error::NotPermitted`], [`Error::NotSupported`] where there are none, and see [`Operations`].
    fn keep_snapshot(&self, caller: &Caller<'_>, name: &str) -> Result<()> {
        let _ = (caller, name);
        Err(Error::NotSupported)
    }

    /// Gives a kept snapshot up; its space returns by and by.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], and as [`keep_snapshot`](Operations::keep_snapshot).
    fn drop_snapshot(&self, caller: &Caller<'_>, name: &str) -> Result<()> {
        let _ = (caller, name);
        Err(Error::NotSupported)
    }

    /// Does up to `bytes` of work that changes owe, beside them; whether more is owed. Who never calls it leaves it to the changes.
    ///
    /// # Errors
    ///
    /// What the storage met.
    fn work(&self, bytes: u64) -> Result<bool> {
        let _ = bytes;
        Ok(false)
    }

    /// Makes a regular file without a name (`O_TMPFILE`) in a directory's file system, and opens it.
    ///
    /// # Errors
    ///
    /// See [`Operations`].
    fn tmpfile(&self, caller: &Caller<'_>, parent: InodeNumber, permissions: Permissions) -> Result<Attributes>;

    /// Counts one more user of an inode of any kind (`open`, `opendir`).
    ///
    /// # Errors
    ///
    /// See [`Operations`].
    fn open(&self, inode: InodeNumber) -> Result<()>;

    /// Counts one user less. The last one of an inode without links removes it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where nobody had opened it.
    fn release(&self, inode: InodeNumber) -> Result<()>;

    /// Bytes of a regular file from `offset_bytes` on into `buffer`: how many there were. Less than asked for only at the
    /// end. The access time follows by `relatime`'s rule.
    ///
    /// # Errors
    ///
    /// [`Error::IsDirectory`]; [`Error::Invalid`] for other kinds.
    fn read(&self, caller: &Caller<'_>, inode: InodeNumber, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes all of `data` to a regular file, which grows where it must; `kill_privileges` clears the set-ID bits. Returns
    /// the attributes after it.
    ///
    /// # Errors
    ///
    /// As [`read`](Operations::read), and [`Error::FileTooBig`], [`Error::NoSpace`]: then nothing was written.
    fn write(
        &self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        offset_bytes: u64,
        data: &[u8],
        kill_privileges: bool,
    ) -> Result<Attributes>;

    /// Changes what a range of a regular file holds, without data.
    ///
    /// # Errors
    ///
    /// As [`write`](Operations::write); [`Error::Invalid`] for an empty range, and for ranges that a mode does not take.
    fn fallocate(
        &self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        mode: Allocate,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<Attributes>;

    /// The next offset with data or in a hole, from `offset_bytes` on. The end of the file is a hole.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchAddress`] at and beyond the end, and for data where there is none any more.
    fn seek(&self, inode: InodeNumber, offset_bytes: u64, what: Seek) -> Result<u64>;

    /// Copies bytes between regular files, or within one where the ranges do not overlap; returns how many, less at the source's
    /// end.
    ///
    /// # Errors
    ///
    /// As [`write`](Operations::write); [`Error::Invalid`] for ranges that overlap.
    fn copy_file_range(
        &self,
        caller: &Caller<'_>,
        source: InodeNumber,
        source_offset_bytes: u64,
        target: InodeNumber,
        target_offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<u64>;

    /// Makes everything that was done to an inode durable, its names included: a directory's entries, a file's data. It may make
    /// more durable.
    ///
    /// # Errors
    ///
    /// See [`Operations`].
    fn fsync(&self, inode: InodeNumber) -> Result<()>;

    /// Makes everything durable.
    ///
    /// # Errors
    ///
    /// See [`Operations`].
    fn syncfs(&self) -> Result<()>;

    /// Hands entries of a directory to `entry`, from behind `after` on, `.` and `..` first, each with its attributes and the cookie
    /// from which to go on behind it. Ends where `entry` returns `false` (that one counts as not handed over), or at
    /// the end. What is there all the time comes exactly once, whatever is made and removed meanwhile, and cookies stay
    /// good across mounts.
    ///
    /// # Errors
    ///
    /// See [`Operations`].
    fn readdir(
        &self,
        inode: InodeNumber,
        after: Cookie,
        entry: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()>;

    /// The target of a symbolic link.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for other kinds.
    fn readlink(&self, inode: InodeNumber) -> Result<Vec<u8>>;

    /// The value of an extended attribute.
    ///
    /// # Errors
    ///
    /// [`Error::NoData`].
    fn getxattr(&self, inode: InodeNumber, name: XattrName<'_>) -> Result<Vec<u8>>;

    /// Gives an extended attribute a value (65,536 bytes at most). `system.posix_acl_*` are stored like others, and an
    /// access list also sets the permission bits that it stands for.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`], [`Error::NoData`] as `how` says; [`Error::TooBig`].
    fn setxattr(
        &self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        name: XattrName<'_>,
        value: &[u8],
        how: SetXattr,
    ) -> Result<()>;

    /// Names of the extended attributes, in order of their bytes.
    ///
    /// # Errors
    ///
    /// See [`Operations`].
    fn listxattr(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>>;

    /// Takes an extended attribute away.
    ///
    /// # Errors
    ///
    /// [`Error::NoData`].
    fn removexattr(&self, caller: &Caller<'_>, inode: InodeNumber, name: XattrName<'_>) -> Result<()>;

    /// What `statfs` says.
    ///
    /// # Errors
    ///
    /// See [`Operations`].
    fn statfs(&self) -> Result<Statistics>;
}
