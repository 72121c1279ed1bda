//! What the kernel asks.

use super::{Forgets, SetAttributes};
use crate::abi::input::FallocateMode;

/// What the kernel asks. The node of the request is the one it is about, or the folder that names are in. Names have
/// no zero in them, and are given without their end.
#[derive(Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// The node of this name in the folder; the answer is [`reply::entry`](crate::reply::entry), as of everything that
    /// makes a node. Each such answer is one lookup, until [`Forget`](Self::Forget).
    Lookup {
        /// A name.
        name: &'a [u8],
    },
    /// So many lookups of nodes are forgotten. No answer is taken.
    Forget(Forgets<'a>),
    /// The node's attributes; the answer is [`reply::attributes`](crate::reply::attributes).
    GetAttr {
        /// Of the open file that was asked, if one was.
        handle: Option<u64>,
    },
    /// Attributes are to be set; the answer is that of [`GetAttr`](Self::GetAttr).
    SetAttr(SetAttributes),
    /// What a symbolic link says; the answer is its bytes.
    ReadLink,
    /// A symbolic link is to be made.
    Symlink {
        /// Its name.
        name: &'a [u8],
        /// What it says.
        target: &'a [u8],
    },
    /// A file, device, socket or fifo is to be made.
    MakeNode {
        /// Its name.
        name: &'a [u8],
        /// Type and permissions, the umask not applied.
        mode: u32,
        /// The device, in the form of the kernel's `new_encode_dev`.
        rdev: u32,
        /// The umask of the caller.
        umask: u32,
    },
    /// A folder is to be made.
    MakeDirectory {
        /// Its name.
        name: &'a [u8],
        /// Permissions, the umask not applied.
        mode: u32,
        /// The umask of the caller.
        umask: u32,
    },
    /// A name of something that is no folder goes.
    Unlink {
        /// The name.
        name: &'a [u8],
    },
    /// An empty folder goes.
    RemoveDirectory {
        /// Its name.
        name: &'a [u8],
    },
    /// A name moves.
    Rename {
        /// The name.
        name: &'a [u8],
        /// The folder it moves to.
        new_parent: u64,
        /// The name there.
        new_name: &'a [u8],
        /// `RENAME_NOREPLACE`, `RENAME_EXCHANGE`, `RENAME_WHITEOUT` of renameat2(2).
        flags: u32,
    },
    /// A node gets another name in the folder.
    Link {
        /// The node.
        node: u64,
        /// The new name.
        new_name: &'a [u8],
    },
    /// The node is opened; the answer is [`reply::opened`](crate::reply::opened).
    Open {
        /// Of open(2).
        flags: u32,
        /// Set-user-ID and set-group-ID go, if this truncates.
        kill_privileges: bool,
    },
    /// A file is made and opened; the answer is [`reply::created`](crate::reply::created).
    Create {
        /// Its name.
        name: &'a [u8],
        /// Type and permissions, the umask not applied.
        mode: u32,
        /// The umask of the caller.
        umask: u32,
        /// Of open(2).
        flags: u32,
        /// Set-user-ID and set-group-ID go, if this truncates.
        kill_privileges: bool,
    },
    /// A file without a name is made in the file system of the folder, and opened; answered as [`Create`](Self::Create).
    TemporaryFile {
        /// Type and permissions, the umask not applied.
        mode: u32,
        /// The umask of the caller.
        umask: u32,
        /// Of open(2).
        flags: u32,
    },
    /// Data is wanted, as much of it as there is.
    Read {
        /// Of the open file.
        handle: u64,
        /// From here on, in bytes.
        offset: u64,
        /// At most [`MAX_TRANSFER_BYTES`](crate::MAX_TRANSFER_BYTES).
        length: u32,
        /// Those of open(2), as they are now.
        flags: u32,
    },
    /// Data is to be written; the answer is [`Body::written`](crate::Body::written).
    Write {
        /// Of the open file.
        handle: u64,
        /// From here on, in bytes.
        offset: u64,
        /// All of it, or nothing.
        data: &'a [u8],
        /// Those of open(2), as they are now.
        flags: u32,
        /// Set-user-ID and set-group-ID go.
        kill_privileges: bool,
    },
    /// What was written is to last.
    Fsync {
        /// Of the open file.
        handle: u64,
        /// As fdatasync(2).
        data_only: bool,
    },
    /// Room is taken or given back (fallocate(2)).
    Fallocate {
        /// Of the open file.
        handle: u64,
        /// From here on, in bytes.
        offset: u64,
        /// So many bytes.
        length: u64,
        /// What is to be done.
        mode: FallocateMode,
    },
    /// Where data or a hole begins next (lseek(2)); the answer is eight bytes.
    Seek {
        /// Of the open file.
        handle: u64,
        /// From here on, in bytes.
        offset: u64,
        /// `SEEK_DATA` or `SEEK_HOLE`.
        whence: u32,
    },
    /// Data is to be copied within the file system; answered as [`Write`](Self::Write).
    CopyRange {
        /// Of the open file that is read.
        handle: u64,
        /// From here on, in bytes.
        offset: u64,
        /// The node that is written.
        to_node: u64,
        /// Of the open file that is written.
        to_handle: u64,
        /// From here on there, in bytes.
        to_offset: u64,
        /// So many bytes, or fewer.
        length: u64,
    },
    /// What the file system has room for; the answer is [`reply::size`](crate::reply::size).
    StatFs,
    /// An extended attribute is to be set.
    SetXattr {
        /// Its name, with the namespace.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
        /// `XATTR_CREATE`, `XATTR_REPLACE` of setxattr(2).
        flags: u32,
        /// The set-group-ID bit goes with this access ACL.
        kill_set_group_id: bool,
    },
    /// An extended attribute's value; the answer is [`reply::xattr`](crate::reply::xattr).
    GetXattr {
        /// Its name, with the namespace.
        name: &'a [u8],
        /// Room for it; with none its size is wanted.
        room_bytes: u32,
    },
    /// The names of all extended attributes, each with a zero behind it; answered as [`GetXattr`](Self::GetXattr).
    ListXattr {
        /// Room for them; with none their size is wanted.
        room_bytes: u32,
    },
    /// An extended attribute goes.
    RemoveXattr {
        /// Its name, with the namespace.
        name: &'a [u8],
    },
    /// `close(2)` of one of several descriptors.
    Flush {
        /// Of the open file.
        handle: u64,
    },
    /// The last descriptor of one [`Open`](Self::Open) is closed.
    Release {
        /// Of the open file.
        handle: u64,
        /// Those of open(2), as they were last.
        flags: u32,
    },
    /// The folder is opened; answered as [`Open`](Self::Open).
    OpenDirectory {
        /// Of open(2).
        flags: u32,
    },
    /// Names of the folder; the answer is [`reply::Directory`](crate::reply::Directory).
    ReadDirectory {
        /// Of the open folder.
        handle: u64,
        /// Behind the name with this cookie; 0 is the beginning.
        cookie: u64,
        /// Room for them.
        room_bytes: u32,
        /// With attributes; each name counts as a [`Lookup`](Self::Lookup).
        plus: bool,
    },
    /// The last descriptor of one [`OpenDirectory`](Self::OpenDirectory) is closed.
    ReleaseDirectory {
        /// Of the open folder.
        handle: u64,
    },
    /// The names of the folder are to last.
    FsyncDirectory {
        /// Of the open folder.
        handle: u64,
        /// As fdatasync(2).
        data_only: bool,
    },
    /// Whether the caller may do this (access(2)). Not asked where the kernel judges permissions.
    Access {
        /// `R_OK`, `W_OK`, `X_OK`.
        mask: u32,
    },
    /// ioctl(2) of an open file or folder; the answer is [`reply::ioctl`](crate::reply::ioctl).
    Ioctl {
        /// Of the open file.
        handle: u64,
        /// The command.
        command: u32,
        /// The argument as a number.
        argument: u64,
        /// What the command's number says that it takes.
        data: &'a [u8],
        /// Room for what it gives.
        room_bytes: u32,
    },
    /// Everything written so far is to last.
    SyncFs,
    /// A request under way need not be finished, since its caller has a signal. No answer is taken.
    Interrupt {
        /// The request.
        unique: u64,
    },
    /// The file system is unmounted.
    Destroy,
    /// Known to be unused here, or unknown. ENOSYS makes the kernel stop asking for most of these.
    Unsupported,
}

impl Operation<'_> {
    /// Whether an answer is taken.
    pub fn is_answered(&self) -> bool {
        !matches!(self, Self::Forget(_) | Self::Interrupt { .. })
    }
}
