//! Requests for the names of a folder.

use fuse::reply;

use super::names::entry_of;
use super::{Answer, Served};
use crate::operations::{Cookie, InodeNumber};

impl Served<'_> {
    pub(super) fn read_directory(
        &self,
        inode: InodeNumber,
        cookie: u64,
        room_bytes: u32,
        plus: bool,
        body: &mut Vec<u8>,
    ) -> Answer {
        let mut directory = reply::Directory::new(body, room_bytes);
        self.done(self.operations.readdir(inode, Cookie(cookie), &mut |found| {
            let (kind, next) = (found.attributes.kind.mode_bits() >> 12, found.next.0);
            if !plus {
                return directory.push(found.attributes.inode.0, kind, found.name, next);
            }
            let mut entry = entry_of(&found.attributes);
            // These two are no names of their own, and are not looked up.
            if matches!(found.name, b"." | b"..") {
                entry.node = 0;
            }
            directory.push_plus(&entry, kind, found.name, next)
        }))
    }
}
