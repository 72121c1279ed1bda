//! What a server tells the kernel without being asked.

use std::io;

use zerocopy::IntoBytes;

use crate::abi::OutHeader;
use crate::abi::output::{InvalidateEntryOut, InvalidateInodeOut};
use crate::channel::Channel;

/// Codes of notices (`enum fuse_notify_code`), which stand where answers have an error.
const INVALIDATE_INODE: i32 = 2;
const INVALIDATE_ENTRY: i32 = 3;

/// Tells the kernel what it remembers and is so no more.
pub struct Notices {
    channel: Channel,
}

impl Notices {
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel }
    }

    /// A folder has no such name any more, or another node has it. The kernel takes the folder's lock meanwhile, which it may hold
    /// while it waits for an answer: somebody else must be there to give that.
    ///
    /// # Errors
    ///
    /// What the kernel says, but for that it did not remember the name.
    pub fn forget_name(&self, folder: u64, name: &[u8]) -> io::Result<()> {
        // A name is 255 bytes at most.
        let out = InvalidateEntryOut { parent: folder, namelen: name.len() as u32, flags: 0 };
        let mut body = out.as_bytes().to_vec();
        body.extend_from_slice(name);
        body.push(0);
        self.tell(INVALIDATE_ENTRY, &body)
    }

    /// A node's attributes are others; what it holds is as it was.
    ///
    /// # Errors
    ///
    /// What the kernel says, but for that it did not remember the node.
    pub fn forget_attributes(&self, node: u64) -> io::Result<()> {
        self.tell(INVALIDATE_INODE, InvalidateInodeOut { ino: node, off: -1, len: 0 }.as_bytes())
    }

    fn tell(&self, code: i32, body: &[u8]) -> io::Result<()> {
        let header = OutHeader { len: (size_of::<OutHeader>() + body.len()) as u32, error: code, unique: 0 };
        self.channel.reply(header.as_bytes(), body).map(drop)
    }
}
