//! What can be wrong with a file system.

use crate::operations::{InodeNumber, Kind};

/// A rule of the format that does not hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// The store below is damaged.
    #[error("the store: {0}")]
    Store(String),
    /// A key or a value that is none of its tree.
    #[error("tree {tree}: {what} under the key {key:02x?}")]
    Malformed {
        /// Where.
        tree: &'static str,
        /// The key.
        key: Vec<u8>,
        /// What is wrong.
        what: String,
    },
    /// The root is not a directory that lies in the tree `inodes`.
    #[error("there is no root directory")]
    NoRoot,
    /// An inode number that was never given.
    #[error("inode {}: numbers from {next} on were never given", .inode.0)]
    NumberNeverGiven {
        /// Which.
        inode: InodeNumber,
        /// The first that was not.
        next: u64,
    },
    /// A name with `/` or NUL, `.`, `..`, or of another length.
    #[error("directory {}: {name:?} cannot be a name", .parent.0)]
    BadName {
        /// Where.
        parent: InodeNumber,
        /// The name.
        name: Vec<u8>,
    },
    /// An entry that does not lie at the hash of its name.
    #[error("directory {}: {name:?} lies at the place of another name", .parent.0)]
    Misplaced {
        /// Where.
        parent: InodeNumber,
        /// The name.
        name: Vec<u8>,
        /// The key under which it lies.
        key: Vec<u8>,
    },
    /// Entries of what is no directory, or not there.
    #[error("{entries} entries of inode {}, which is no directory", .parent.0)]
    NoDirectory {
        /// Of what.
        parent: InodeNumber,
        /// How many.
        entries: u64,
    },
    /// An entry that leads to no inode, or to one that says that it lies elsewhere.
    #[error("directory {}: {name:?} leads to inode {}, which does not lie there", .parent.0, .inode.0)]
    Dangling {
        /// Where.
        parent: InodeNumber,
        /// The name.
        name: Vec<u8>,
        /// To what it leads.
        inode: InodeNumber,
    },
    /// An inode that should lie in an entry, which does not have it.
    #[error("inode {}: it is not in the entry where it should lie", .inode.0)]
    Lost {
        /// Which.
        inode: InodeNumber,
    },
    /// An entry says another kind than the inode.
    #[error("inode {}: an entry says that it is {entry:?}, and it is {is:?}", .inode.0)]
    OtherKind {
        /// Which.
        inode: InodeNumber,
        /// What the entry says.
        entry: Kind,
        /// What it is.
        is: Kind,
        /// The key of the entry.
        key: Vec<u8>,
    },
    /// The count of links is not that of names, or of directories in a directory and 2.
    #[error("inode {}: it counts {counted} links and has {has}", .inode.0)]
    Links {
        /// Which.
        inode: InodeNumber,
        /// What it says.
        counted: u32,
        /// What is right.
        has: u32,
    },
    /// The count of a directory's entries is wrong.
    #[error("directory {}: it counts {counted} entries and has {has}", .inode.0)]
    Entries {
        /// Which.
        inode: InodeNumber,
        /// What it says.
        counted: u64,
        /// What is right.
        has: u64,
    },
    /// A directory from which no way leads to the root.
    #[error("directory {}: no way leads to it from the root", .inode.0)]
    Unreachable {
        /// Which.
        inode: InodeNumber,
    },
    /// An inode without links that is not listed as an orphan.
    #[error("inode {}: it has no links and is no orphan", .inode.0)]
    NoOrphan {
        /// Which.
        inode: InodeNumber,
    },
    /// An orphan that is not there, or has links.
    #[error("inode {}: an orphan that is not there, or has links", .inode.0)]
    NotOrphaned {
        /// Which.
        inode: InodeNumber,
    },
    /// Data or extended attributes of an inode that is not there, or can have none.
    #[error("inode {}: keys in the tree {tree} without an inode that can have them", .inode.0)]
    WithoutInode {
        /// Which.
        inode: InodeNumber,
        /// Where.
        tree: &'static str,
    },
    /// Something beside an entry whose inode does not say that it is there.
    #[error("inode {}: it does not say what lies beside an entry for it", .inode.0)]
    BesideNothing {
        /// Which.
        inode: InodeNumber,
        /// The key of what lies there.
        key: Vec<u8>,
    },
    /// What an inode says to be beside an entry is not there.
    #[error("inode {}: its beginning is not beside the entry where it should lie", .inode.0)]
    NotBeside {
        /// Which.
        inode: InodeNumber,
    },
    /// Data that the inode says it does not have: behind its end, patches on one without, attributes of one without.
    #[error("inode {}: {what} that it should not have", .inode.0)]
    Unexpected {
        /// Which.
        inode: InodeNumber,
        /// What.
        what: &'static str,
    },
    /// A key that lies where its inode does not say.
    #[error("inode {}: a key of the tree {tree} lies where it does not say", .inode.0)]
    Elsewhere {
        /// Which.
        inode: InodeNumber,
        /// Where.
        tree: &'static str,
        /// The key.
        key: Vec<u8>,
    },
    /// An inode that lies where its path does not say, and is not listed as one that is to be moved.
    #[error("inode {}: it is to be moved to where its path says, and is not listed", .inode.0)]
    NotListed {
        /// Which.
        inode: InodeNumber,
    },
    /// An inode that is listed as one that is to be moved, and is not there, or lies where it should.
    #[error("inode {}: it is listed as one to be moved, and is not", .inode.0)]
    ListedForNothing {
        /// Which.
        inode: InodeNumber,
    },
    /// A symbolic link's target is not there, or has another length.
    #[error("inode {}: a symbolic link without its target", .inode.0)]
    NoTarget {
        /// Which.
        inode: InodeNumber,
    },
}
