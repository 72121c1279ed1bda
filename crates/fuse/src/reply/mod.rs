//! The bodies of answers.

mod body;
mod directory;

use std::time::Duration;

use zerocopy::{Immutable, IntoBytes};

pub use self::body::Body;
pub use self::directory::Directory;
use crate::abi::output::{
    AttrOut, Attributes, CreateOut, EntryOut, FileSystemSize, IoctlOut, OpenFlags, OpenOut, SizeOut,
};

/// A node with a name, as answers say it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its number; 0 says that there is no such name, to be remembered as long as a name.
    pub node: u64,
    /// With the number unique for as long as the file system lives.
    pub generation: u64,
    /// Its attributes.
    pub attributes: Attributes,
    /// How long the kernel may remember the name, and the attributes.
    pub valid: Duration,
}

impl Entry {
    fn out(&self) -> EntryOut {
        EntryOut {
            nodeid: self.node,
            generation: self.generation,
            entry_valid: self.valid.as_secs(),
            attr_valid: self.valid.as_secs(),
            entry_valid_nsec: self.valid.subsec_nanos(),
            attr_valid_nsec: self.valid.subsec_nanos(),
            attr: self.attributes,
        }
    }
}

fn put(body: &mut Vec<u8>, value: &(impl IntoBytes + Immutable)) {
    body.extend_from_slice(value.as_bytes());
}

/// The answer to what looks up or makes a node.
pub fn entry(body: &mut Vec<u8>, entry: &Entry) {
    put(body, &entry.out());
}

/// The answer to what asks for or sets attributes, which the kernel may remember for so long.
pub fn attributes(body: &mut Vec<u8>, attributes: &Attributes, valid: Duration) {
    let (attr_valid, attr_valid_nsec) = (valid.as_secs(), valid.subsec_nanos());
    put(body, &AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr: *attributes });
}

/// The answer to what opens a file or folder.
pub fn opened(body: &mut Vec<u8>, handle: u64, flags: OpenFlags) {
    put(body, &OpenOut { fh: handle, open_flags: flags.bits(), backing_id: 0 });
}

/// The answer to what makes and opens a file.
pub fn created(body: &mut Vec<u8>, entry: &Entry, handle: u64, flags: OpenFlags) {
    let open = OpenOut { fh: handle, open_flags: flags.bits(), backing_id: 0 };
    put(body, &CreateOut { entry: entry.out(), open });
}

/// The answer to a write or copy of so many bytes.
pub fn written(body: &mut Vec<u8>, size_bytes: u32) {
    put(body, &SizeOut { size: size_bytes, padding: 0 });
}

/// The answer to what asks for an extended attribute, or for the names of all: the bytes, or with no room their number.
///
/// # Errors
///
/// `ERANGE` where they are longer than the room.
pub fn xattr(body: &mut Vec<u8>, bytes: &[u8], room_bytes: u32) -> Result<(), i32> {
    if room_bytes == 0 {
        put(body, &SizeOut { size: u32::try_from(bytes.len()).map_err(|_| libc::E2BIG)?, padding: 0 });
    } else if bytes.len() > room_bytes as usize {
        return Err(libc::ERANGE);
    } else {
        body.extend_from_slice(bytes);
    }
    Ok(())
}

/// The answer to what asks for the size of the file system.
pub fn size(body: &mut Vec<u8>, size: &FileSystemSize) {
    put(body, size);
}

/// The answer to a seek.
pub fn offset(body: &mut Vec<u8>, offset: u64) {
    put(body, &offset);
}

/// The answer to an ioctl: what the call returns, and the bytes that it gives.
pub fn ioctl(body: &mut Vec<u8>, result: i32, bytes: &[u8]) {
    put(body, &IoctlOut { result, ..IoctlOut::default() });
    body.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xattrs_fit_or_say_so() {
        let asked = |room| {
            let mut body = Vec::new();
            xattr(&mut body, b"value", room).map(|()| body)
        };
        assert_eq!(asked(0), Ok(vec![5, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(asked(5), Ok(b"value".to_vec()));
        assert_eq!(asked(4), Err(libc::ERANGE));
    }
}
