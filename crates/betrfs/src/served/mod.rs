//! A file system served through FUSE: from requests of the kernel to [`Operations`], and back.
//!
//! Nodes are inode numbers, and handles carry nothing: whoever has a file open has counted it by [`Operations::open`]. The
//! kernel is the only one who changes anything, so that it may remember names and attributes, and that there are none.

mod caller;
mod computing;
mod convert;
mod data;
mod directory;
mod names;
mod whole_trees;
mod xattrs;

use std::sync::Mutex;
use std::time::Duration;

use fuse::{Handler, Notices, Operation, Request, reply};

use crate::operations::{Attributes, Error, InodeNumber, Kind, Operations, Timestamp};
pub use computing::{Computing, Moved};
pub use whole_trees::{
    MountedFindings, check_mounted, clone_mounted_tree, drop_mounted_snapshot, grow_mounted, keep_mounted_snapshot,
    quiesce_mounted, remove_mounted_tree, trim_mounted,
};

/// How long the kernel may remember what only it changes.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// How long it may remember an inode with several names: when a whole tree goes, inodes in it lose a name behind its back.
const LINKED_REMEMBERED: Duration = Duration::from_secs(1);

/// How long the kernel may remember attributes.
fn remembered(attributes: &Attributes) -> Duration {
    let is_linked = attributes.links > 1 && attributes.kind != Kind::Directory;
    if is_linked { LINKED_REMEMBERED } else { REMEMBERED }
}

/// The result of a request: an error number.
type Answer = Result<(), i32>;

/// Answers the requests of a mount by a file system.
pub struct Served<'a> {
    operations: &'a dyn Operations,
    clock: &'a (dyn Fn() -> Timestamp + Sync),
    /// What went wrong below, which callers see as a bare number.
    complaint: &'a (dyn Fn(&Error) + Sync),
    /// Where the kernel hears of what changes without a system call for it.
    notices: Option<&'a Notices>,
    /// Held while a whole tree is changed.
    whole_tree: Mutex<()>,
}

impl<'a> Served<'a> {
    /// Serves `operations`. `clock` says the time of a call; `complaint` hears of storage that fails or is damaged; through
    /// `notices` the kernel hears of names that are gone with a whole tree.
    pub fn new(
        operations: &'a dyn Operations,
        clock: &'a (dyn Fn() -> Timestamp + Sync),
        complaint: &'a (dyn Fn(&Error) + Sync),
        notices: Option<&'a Notices>,
    ) -> Self {
        Self { operations, clock, complaint, notices, whole_tree: Mutex::new(()) }
    }

    /// The number of an error.
    fn errno(&self, error: &Error) -> i32 {
        if matches!(error, Error::Io(_) | Error::Corrupt(_)) {
            (self.complaint)(error);
        }
        error.errno()
    }

    /// The number of an error, if it is one.
    fn done<T>(&self, result: Result<T, Error>) -> Result<T, i32> {
        result.map_err(|error| self.errno(&error))
    }
}

impl Handler for Served<'_> {
    fn answer(&self, request: &Request<'_>, body: &mut Vec<u8>) -> Answer {
        let inode = InodeNumber(request.node);
        match request.operation {
            Operation::GetAttr { .. } => {
                let attributes = self.done(self.operations.getattr(inode))?;
                reply::attributes(body, &convert::attributes(&attributes), remembered(&attributes));
                Ok(())
            }
            Operation::SetAttr(changes) => self.set_attributes(request, inode, &changes, body),
            Operation::Lookup { .. }
            | Operation::ReadLink
            | Operation::Symlink { .. }
            | Operation::MakeNode { .. }
            | Operation::MakeDirectory { .. }
            | Operation::Unlink { .. }
            | Operation::RemoveDirectory { .. }
            | Operation::Rename { .. }
            | Operation::Link { .. } => self.of_names(request, body),
            Operation::Open { .. }
            | Operation::Create { .. }
            | Operation::TemporaryFile { .. }
            | Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Fsync { .. }
            | Operation::Fallocate { .. }
            | Operation::Seek { .. }
            | Operation::CopyRange { .. }
            | Operation::Release { .. } => self.of_data(request, body),
            Operation::OpenDirectory { .. } => {
                self.done(self.operations.open(inode))?;
                reply::opened(body, 0, fuse::OpenFlags::empty());
                Ok(())
            }
            Operation::ReadDirectory { cookie, room_bytes, plus, .. } => {
                self.read_directory(inode, cookie, room_bytes, plus, body)
            }
            Operation::ReleaseDirectory { .. } => self.done(self.operations.release(inode)),
            Operation::FsyncDirectory { .. } => self.done(self.operations.fsync(inode)),
            Operation::SetXattr { .. }
            | Operation::GetXattr { .. }
            | Operation::ListXattr { .. }
            | Operation::RemoveXattr { .. } => self.of_xattrs(request, body),
            Operation::StatFs => {
                reply::size(body, &convert::statistics(&self.done(self.operations.statfs())?));
                Ok(())
            }
            Operation::SyncFs => self.done(self.operations.syncfs()),
            // Numbers are never used again, and what is under way is finished.
            Operation::Forget(_) | Operation::Interrupt { .. } | Operation::Flush { .. } | Operation::Destroy => Ok(()),
            Operation::Ioctl { command, data, .. } => self.ioctl(request, inode, command, data, body),
            // The kernel judges permissions by itself, and asks no more.
            Operation::Access { .. } | Operation::Unsupported => Err(ENOSYS),
        }
    }
}

/// Error numbers that no operation has.
const ENOTTY: i32 = 25;
const ENOSYS: i32 = 38;
