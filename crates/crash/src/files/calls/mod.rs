//! What a program asked of a file system: the calls that change files or make them durable, in their order.

mod data;
mod path;

use serde::{Deserialize, Serialize};

pub use data::{Data, Sectors};
pub use path::FilePath;

/// Names a file while it exists; a file system may give the number of a deleted one to a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FileId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// One end of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Moment {
    /// Counts the ends of all calls: of two moments the one with the smaller number was first.
    pub order: u64,
    /// How many entries the device's log had.
    pub position: u64,
}

/// A call, its arguments resolved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// Who made it: threads are counted from 0 in the order in which they were seen.
    pub thread: u32,
    /// The system call's name.
    pub name: String,
    /// When it began: it had no effect before.
    pub entered: Moment,
    /// When it was over, or when the one who made it was killed in it.
    pub left: Moment,
    /// What it returned (an error as a negative number), `None` if it never did.
    pub result: Option<i64>,
    /// What it was to do.
    pub action: Action,
}

impl Call {
    /// Whether it did what it was to do.
    pub fn has_succeeded(&self) -> bool {
        self.result.is_some_and(|result| result >= 0)
    }
}

/// What a write takes with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Durability {
    /// The data, and the size where the write changes it: `O_DSYNC`, `RWF_DSYNC`.
    Data,
    /// All of the file: `O_SYNC`, `RWF_SYNC`.
    File,
}

/// What `fallocate` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Allocation {
    /// Contents stay, and the file grows to the range's end.
    Extend,
    /// Contents and size stay.
    KeepSize,
    /// The range reads as zeroes; the size stays.
    PunchHole,
    /// The range reads as zeroes; the file grows to its end.
    ZeroRange,
    /// The range reads as zeroes; the size stays.
    ZeroRangeKeepSize,
    /// The range is cut out.
    Collapse,
    /// A hole comes in between.
    Insert,
}

/// What a call was to do. Paths have no symbolic link in them, but may end in one where the call does not follow it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Action {
    /// A regular file was made; one without a name has no path (`O_TMPFILE`).
    Create {
        /// Where.
        path: Option<FilePath>,
        /// Which.
        file: FileId,
    },
    /// Bytes were written. Those of a call that failed are the ones it was to write.
    Write {
        /// Into which file.
        file: FileId,
        /// Where.
        offset_bytes: u64,
        /// They.
        data: Data,
        /// What the call returns after.
        durability: Option<Durability>,
    },
    /// The size was set.
    Truncate {
        /// Of which file.
        file: FileId,
        /// To this.
        size_bytes: u64,
    },
    /// Space was allocated or given back.
    Allocate {
        /// Of which file.
        file: FileId,
        /// From here.
        offset_bytes: u64,
        /// So much.
        len_bytes: u64,
        /// How.
        how: Allocation,
    },
    /// From here on the program can change the range without a call.
    Map {
        /// Of which file.
        file: FileId,
        /// From here.
        offset_bytes: u64,
        /// So much.
        len_bytes: u64,
    },
    /// A name was moved.
    Rename {
        /// From here.
        from: FilePath,
        /// To here; what had this name loses it, unless it is an exchange.
        to: FilePath,
        /// Both names are kept, and name what the other did.
        exchange: bool,
    },
    /// A name was given.
    Link {
        /// To which file.
        file: FileId,
        /// The new one.
        path: FilePath,
    },
    /// A symbolic link was made.
    Symlink {
        /// Where.
        path: FilePath,
        /// Which.
        file: FileId,
        /// What it says.
        target: FilePath,
    },
    /// A folder was made.
    MakeFolder {
        /// Where.
        path: FilePath,
        /// Which.
        file: FileId,
    },
    /// A device, pipe or socket was made.
    MakeNode {
        /// Where.
        path: FilePath,
        /// Which.
        file: FileId,
    },
    /// A name was taken: of a file, or of an empty folder.
    Unlink {
        /// This.
        path: FilePath,
    },
    /// `fsync`, `fdatasync`.
    Sync {
        /// Of which file or folder.
        file: FileId,
        /// Only what a reader of its data needs.
        data_only: bool,
    },
    /// `msync` with `MS_SYNC`.
    SyncMap {
        /// Of which file.
        file: FileId,
        /// From here.
        offset_bytes: u64,
        /// So much.
        len_bytes: u64,
    },
    /// `sync_file_range`: it promises nothing, since it neither writes metadata nor empties the device's cache
    /// (sync_file_range(2), "Warning").
    SyncRange {
        /// Of which file.
        file: FileId,
    },
    /// `sync`, `syncfs`.
    SyncAll,
    /// From here on files may change in a way that is not followed.
    Unfollowed,
}
