//! Items of Btrfs's trees (`BTRFS_IOC_TREE_SEARCH_V2`).
//!
//! Source: `include/uapi/linux/btrfs.h`, `include/uapi/linux/btrfs_tree.h`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `_IOWR(0x94, 17, struct btrfs_ioctl_search_args_v2)`, without its buffer.
const BTRFS_IOC_TREE_SEARCH_V2: libc::Ioctl = 0xc070_9411_u32 as libc::Ioctl;
/// `struct btrfs_ioctl_search_header`.
const HEADER_BYTES: usize = 32;
/// For the items of one call; no item is longer than a leaf, which has so many at most.
const BUFFER_BYTES: usize = 64 << 10;
/// Types are numbers of 8 bits.
const LAST_KIND: u32 = 255;

/// `struct btrfs_ioctl_search_args_v2` with its buffer.
#[repr(C)]
struct Search {
    tree: u64,
    min_objectid: u64,
    max_objectid: u64,
    min_offset: u64,
    max_offset: u64,
    min_transid: u64,
    max_transid: u64,
    min_kind: u32,
    max_kind: u32,
    items: u32,
    unused: u32,
    unused_more: [u64; 4],
    buffer_bytes: u64,
    buffer: [u8; BUFFER_BYTES],
}

/// An item's place in its tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    pub objectid: u64,
    /// `BTRFS_*_KEY`.
    pub kind: u32,
    pub offset: u64,
}

impl Key {
    fn next(self) -> Option<Self> {
        let Self { objectid, kind, offset } = self;
        match (offset.checked_add(1), kind < LAST_KIND) {
            (Some(offset), _) => Some(Self { objectid, kind, offset }),
            (None, true) => Some(Self { objectid, kind: kind + 1, offset: 0 }),
            (None, false) => Some(Self { objectid: objectid.checked_add(1)?, kind: 0, offset: 0 }),
        }
    }
}

/// Hands every item of a tree from `first` to `last` to `take`, in order, until that fails. `tree` 0 is the one that `file` is in. Needs
/// `CAP_SYS_ADMIN`.
pub(crate) fn items(
    file: &File,
    tree: u64,
    first: Key,
    last: Key,
    mut take: impl FnMut(Key, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut search = Box::new(Search {
        tree,
        min_objectid: 0,
        max_objectid: last.objectid,
        min_offset: 0,
        max_offset: last.offset,
        min_transid: 0,
        max_transid: u64::MAX,
        min_kind: 0,
        max_kind: last.kind,
        items: 0,
        unused: 0,
        unused_more: [0; 4],
        buffer_bytes: BUFFER_BYTES as u64,
        buffer: [0; BUFFER_BYTES],
    });
    let mut next = Some(first);
    while let Some(from) = next.filter(|from| *from <= last) {
        (search.min_objectid, search.min_kind, search.min_offset) = (from.objectid, from.kind, from.offset);
        search.items = u32::MAX;
        // SAFETY: `search` is laid out as the structure of this call followed by a buffer of `buffer_bytes` bytes, all of
        // integers, and outlives the call; the file is open while it is borrowed.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), BTRFS_IOC_TREE_SEARCH_V2, std::ptr::from_mut(&mut *search)) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        let (mut rest, mut found) = (&search.buffer[..], None);
        for _ in 0..search.items {
            let Some((key, item, more)) = next_item(rest) else { break };
            take(key, item)?;
            (rest, found) = (more, Some(key));
        }
        next = found.filter(|found| *found >= from).and_then(Key::next);
    }
    Ok(())
}

/// The next item of a search: its key, its bytes, and what follows. Headers come in the machine's order.
fn next_item(bytes: &[u8]) -> Option<(Key, &[u8], &[u8])> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let word = |at: usize| Some(u64::from_ne_bytes(header.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u32::from_ne_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let key = Key { objectid: word(8)?, kind: half(24)?, offset: word(16)? };
    let (item, rest) = rest.split_at_checked(half(28)? as usize)?;
    Some((key, item, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_is_read_as_the_kernel_writes_it() {
        let mut bytes = vec![0; HEADER_BYTES];
        for (at, word) in [(0, 9_u64), (8, 256), (16, 4096)] {
            bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[24..28].copy_from_slice(&108_u32.to_ne_bytes());
        bytes[28..32].copy_from_slice(&2_u32.to_ne_bytes());
        bytes.extend([1, 2, 3]);
        let (key, item, rest) = next_item(&bytes).unwrap();
        assert_eq!((key, item, rest), (Key { objectid: 256, kind: 108, offset: 4096 }, &[1, 2][..], &[3][..]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &bytes[..];
            while let Some((_, _, more)) = next_item(rest) {
                prop_assert!(more.len() < rest.len());
                rest = more;
            }
        }

        /// Nothing lies between a key and the next.
        #[test]
        fn the_next_key_follows(objectid in prop_oneof![Just(u64::MAX), any::<u64>()], kind in 0..=LAST_KIND, last: bool) {
            let key = Key { objectid, kind, offset: if last { u64::MAX } else { 7 } };
            match key.next() {
                Some(next) => prop_assert!(next > key && (next.offset == 0 || next.offset == 8)),
                None => prop_assert_eq!(key, Key { objectid: u64::MAX, kind: LAST_KIND, offset: u64::MAX }),
            }
        }
    }
}
