//! The names of a folder, as many as there is room for.

use zerocopy::IntoBytes;

use super::Entry;
use crate::abi::output::Dirent;

/// Builds the answer to [`ReadDirectory`](crate::Operation::ReadDirectory).
pub struct Directory<'a> {
    body: &'a mut Vec<u8>,
    room_bytes: usize,
}

impl<'a> Directory<'a> {
    /// An answer without names, for so much room.
    pub fn new(body: &'a mut Vec<u8>, room_bytes: u32) -> Self {
        Self { body, room_bytes: room_bytes as usize }
    }

    /// Adds a name; `false` when there is no room for it. `kind` are the type bits of the mode, shifted right by 12;
    /// behind the name the folder is read on with `cookie`.
    pub fn push(&mut self, ino: u64, kind: u32, name: &[u8], cookie: u64) -> bool {
        self.add(&[], ino, kind, name, cookie)
    }

    /// Adds a name with attributes, which is a lookup unless the entry's node is 0.
    pub fn push_plus(&mut self, entry: &Entry, kind: u32, name: &[u8], cookie: u64) -> bool {
        self.add(entry.out().as_bytes(), entry.attributes.ino, kind, name, cookie)
    }

    fn add(&mut self, before: &[u8], ino: u64, kind: u32, name: &[u8], cookie: u64) -> bool {
        let bytes = (before.len() + size_of::<Dirent>() + name.len()).next_multiple_of(8);
        let end = self.body.len() + bytes;
        if end > self.room_bytes {
            return false;
        }
        self.body.extend_from_slice(before);
        let dirent = Dirent { ino, off: cookie, namelen: name.len() as u32, kind };
        self.body.extend_from_slice(dirent.as_bytes());
        self.body.extend_from_slice(name);
        self.body.resize(end, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::abi::output::{Attributes, EntryOut};

    #[test]
    fn names_fill_the_room_and_no_more() {
        let mut body = Vec::new();
        let mut directory = Directory::new(&mut body, 70);
        assert!(directory.push(5, 8, b"a", 1) && directory.push(6, 4, b"eight by", 2));
        assert!(!directory.push(7, 8, b"c", 3), "64 of 70 bytes are used");
        assert_eq!(body.len(), 64);
    }

    #[test]
    fn attributes_come_before_the_name() {
        let mut body = Vec::new();
        let attributes = Attributes { ino: 9, ..Attributes::default() };
        let entry = Entry { node: 9, generation: 0, attributes, valid: Duration::from_secs(1) };
        assert!(Directory::new(&mut body, 4096).push_plus(&entry, 8, b"name", 3));
        assert_eq!(body.len(), size_of::<EntryOut>() + 32);
        assert_eq!(&body[size_of::<EntryOut>() + 24..][..4], b"name");
    }
}
