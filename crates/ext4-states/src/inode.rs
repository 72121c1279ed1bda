//! One file of an ext4: its kind, its size, and where its contents are.
//!
//! After Documentation/filesystems/ext4 (inodes.rst, ifork.rst, inlinedata.rst, attributes.rst).

use std::time::Duration;

use crate::error::Unreadable;
use crate::layout::{Blocks, u16_at, u32_at};

const EXTENT_MAGIC: u16 = 0xf30a;
const DEPTH_MAX: u16 = 5;
const EXTENTS_FLAG: u32 = 0x8_0000;
const INLINE_DATA_FLAG: u32 = 0x1000_0000;
/// An extent with more blocks than this is unwritten; it has as many as are above.
const WRITTEN_BLOCKS_MAX: u32 = 0x8000;
/// Where the map of blocks is, or what fits in its place.
const MAP: std::ops::Range<usize> = 0x28..0x28 + 60;
/// Fields that every inode has.
const OLD_BYTES: usize = 128;
/// Where the time of the last write goes on, in an inode with fields behind the old ones.
const MODIFIED_EXTRA: usize = 0x88;
const ATTRIBUTES_MAGIC: u32 = 0xea02_0000;
const ATTRIBUTE_BYTES: usize = 16;
/// Attributes of the file system itself.
const SYSTEM_ATTRIBUTE: u8 = 7;
/// Blocks of a file; more is damage.
const BLOCKS_MAX: usize = 1 << 18;

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    Folder,
    File,
    Symlink,
    Other,
}

/// A block of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapped {
    /// Its number in the file.
    pub(crate) within: u32,
    /// Its number on the device.
    pub(crate) block: u32,
    /// It is the file's only, and reads as zeroes.
    pub(crate) is_unwritten: bool,
}

/// Where contents are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Contents {
    /// In these blocks; elsewhere is a hole.
    Blocks(Vec<Mapped>),
    /// In the inode. The first bytes are where the map would be, and of a folder the number of the one above.
    Inline(Vec<u8>),
}

/// Whose a file is, who may do what, and when it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attributes {
    /// Permissions, with those of setuid and its like.
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Since 1970.
    pub(crate) modified: Duration,
}

/// What is read of an inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    pub(crate) kind: Type,
    pub(crate) attributes: Attributes,
    pub(crate) size_bytes: u64,
    pub(crate) contents: Contents,
}

impl Inode {
    /// Reads the bytes of inode `number`; the file system has so many blocks.
    pub(crate) fn read(inode: &[u8], number: u32, blocks: &impl Blocks, count: u32) -> Result<Self, Unreadable> {
        let damaged = || Unreadable(format!("file {number} is damaged, or its map is of a kind that is not read here"));
        let kind = match u16_at(inode, 0) >> 12 {
            0x4 => Type::Folder,
            0x8 => Type::File,
            0xa => Type::Symlink,
            _ => Type::Other,
        };
        let size_bytes = u64::from(u32_at(inode, 0x4)) | u64::from(u32_at(inode, 0x6c)) << 32;
        let flags = u32_at(inode, 0x20);
        let map = inode.get(MAP).ok_or_else(damaged)?;
        let contents = if flags & INLINE_DATA_FLAG != 0 {
            Contents::Inline([map, inline_rest(inode).unwrap_or_default()].concat())
        } else if flags & EXTENTS_FLAG != 0 {
            Contents::Blocks(extents(map, blocks, count).ok_or_else(damaged)?)
        } else if kind == Type::Symlink && size_bytes < MAP.len() as u64 {
            Contents::Inline(map.to_vec())
        } else if kind == Type::Other {
            Contents::Blocks(Vec::new())
        } else {
            return Err(damaged());
        };
        Ok(Self { kind, attributes: attributes(inode), size_bytes, contents })
    }
}

/// Numbers of users and groups lie in two halves, times in seconds of 34 bits and nanoseconds of 30.
fn attributes(inode: &[u8]) -> Attributes {
    let both = |low: usize, high: usize| u32::from(u16_at(inode, low)) | u32::from(u16_at(inode, high)) << 16;
    let has_extra = inode.len() > OLD_BYTES && usize::from(u16_at(inode, OLD_BYTES)) >= MODIFIED_EXTRA + 4 - OLD_BYTES;
    let extra = if has_extra { u32_at(inode, MODIFIED_EXTRA) } else { 0 };
    let seconds = u64::from(u32_at(inode, 0x10)) | u64::from(extra & 3) << 32;
    Attributes {
        mode: u32::from(u16_at(inode, 0)) & 0o7777,
        user: both(0x2, 0x78),
        group: both(0x18, 0x7a),
        modified: Duration::new(seconds, (extra >> 2).min(999_999_999)),
    }
}

/// The value of `system.data`, which an inode without a map has behind its fields.
fn inline_rest(inode: &[u8]) -> Option<&[u8]> {
    let begin = OLD_BYTES + usize::from(u16_at(inode, OLD_BYTES));
    let attributes = inode.get(begin..).filter(|it| u32_at(it, 0) == ATTRIBUTES_MAGIC)?.get(4..)?;
    let mut at = 0;
    while let Some(entry) = attributes.get(at..at + ATTRIBUTE_BYTES).filter(|entry| u32_at(entry, 0) != 0) {
        let (name_len, index) = (usize::from(*entry.first()?), *entry.get(1)?);
        let name = attributes.get(at + ATTRIBUTE_BYTES..at + ATTRIBUTE_BYTES + name_len)?;
        if index == SYSTEM_ATTRIBUTE && name == b"data" {
            let (offset, len) = (usize::from(u16_at(entry, 2)), u32_at(entry, 8) as usize);
            return attributes.get(offset..offset.checked_add(len)?);
        }
        at += ATTRIBUTE_BYTES + name_len.next_multiple_of(4);
    }
    None
}

/// The blocks in a tree of extents, in the file's order.
fn extents(map: &[u8], blocks: &impl Blocks, count: u32) -> Option<Vec<Mapped>> {
    let mut found = Vec::new();
    let mut open = vec![(map, DEPTH_MAX)];
    while let Some((node, depth_max)) = open.pop() {
        let (entries, depth) = (u16_at(node, 2), u16_at(node, 6));
        if u16_at(node, 0) != EXTENT_MAGIC || depth > depth_max {
            return None;
        }
        let entries = node.get(12..).unwrap_or_default().chunks_exact(12).take(usize::from(entries));
        if depth > 0 {
            // Last in, first out.
            for entry in entries.rev() {
                open.push((blocks.block(u32_at(entry, 4)), depth - 1));
            }
        } else {
            for entry in entries {
                let len = u32::from(u16_at(entry, 4));
                let is_unwritten = len > WRITTEN_BLOCKS_MAX;
                let len = if is_unwritten { len - WRITTEN_BLOCKS_MAX } else { len };
                let (within, first) = (u32_at(entry, 0), u32_at(entry, 8));
                let end = u64::from(first) + u64::from(len);
                if found.len() + len as usize > BLOCKS_MAX || end > u64::from(count) {
                    return None;
                }
                let places = (within..=u32::MAX).zip(first..first + len);
                found.extend(places.map(|(within, block)| Mapped { within, block, is_unwritten }));
            }
        }
        if open.len() > BLOCKS_MAX {
            return None;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Zeroes;

    impl Blocks for Zeroes {
        fn block_bytes(&self) -> usize {
            1024
        }

        fn block(&self, _number: u32) -> &[u8] {
            &[0; 1024]
        }
    }

    /// An inode with an extent of two written blocks and one of three that are not, behind a hole.
    fn preallocated() -> Vec<u8> {
        let mut inode = vec![0; 256];
        inode[0..2].copy_from_slice(&0x81a4_u16.to_le_bytes());
        inode[4..8].copy_from_slice(&9000_u32.to_le_bytes());
        inode[0x20..0x24].copy_from_slice(&EXTENTS_FLAG.to_le_bytes());
        let words: [u16; 18] = [EXTENT_MAGIC, 2, 4, 0, 0, 0, 0, 0, 2, 0, 100, 0, 4, 0, 0x8003, 0, 200, 0];
        for (to, word) in inode[MAP].chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        inode
    }

    #[test]
    fn unwritten_blocks_are_told_from_written_ones() {
        let read = Inode::read(&preallocated(), 12, &Zeroes, 1000).unwrap();
        assert_eq!((read.kind, read.size_bytes), (Type::File, 9000));
        let Contents::Blocks(blocks) = read.contents else { panic!("{read:?}") };
        let of = |within, block, is_unwritten| Mapped { within, block, is_unwritten };
        let expected = [of(0, 100, false), of(1, 101, false), of(4, 200, true), of(5, 201, true), of(6, 202, true)];
        assert_eq!(blocks, expected);
        assert!(Inode::read(&preallocated(), 12, &Zeroes, 201).is_err(), "behind the end");
    }

    #[test]
    fn owners_and_times_are_whole() {
        let mut inode = preallocated();
        inode[0x2..0x4].copy_from_slice(&65534_u16.to_le_bytes());
        inode[0x78..0x7a].copy_from_slice(&1_u16.to_le_bytes());
        inode[0x7a..0x7c].copy_from_slice(&2_u16.to_le_bytes());
        inode[0x10..0x14].copy_from_slice(&7_u32.to_le_bytes());
        inode[0x88..0x8c].copy_from_slice(&(5 << 2 | 1_u32).to_le_bytes());
        let of = |inode: &[u8]| Inode::read(inode, 12, &Zeroes, 1000).unwrap().attributes;
        let short = Attributes { mode: 0o644, user: 131_070, group: 131_072, modified: Duration::from_secs(7) };
        assert_eq!(of(&inode), short, "it says that it has no further fields");
        inode[128..130].copy_from_slice(&32_u16.to_le_bytes());
        assert_eq!(of(&inode), Attributes { modified: Duration::new(7 + (1 << 32), 5), ..short });
    }

    #[test]
    fn what_fits_is_in_the_inode() {
        let mut inode = vec![0; 256];
        inode[0..2].copy_from_slice(&0x81a4_u16.to_le_bytes());
        inode[4..8].copy_from_slice(&64_u32.to_le_bytes());
        inode[0x20..0x24].copy_from_slice(&INLINE_DATA_FLAG.to_le_bytes());
        inode[MAP].fill(b'a');
        inode[128..130].copy_from_slice(&32_u16.to_le_bytes());
        inode[160..164].copy_from_slice(&ATTRIBUTES_MAGIC.to_le_bytes());
        // "data" of 4 bytes, 60 after the first entry.
        inode[164..180].copy_from_slice(&[4, 7, 60, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        inode[180..184].copy_from_slice(b"data");
        inode[224..228].copy_from_slice(b"bcde");
        let read = Inode::read(&inode, 12, &Zeroes, 1000).unwrap();
        assert_eq!(read.contents, Contents::Inline([&[b'a'; 60][..], b"bcde"].concat()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            mut inode in proptest::collection::vec(any::<u8>(), 0..300),
            flags in prop_oneof![Just(EXTENTS_FLAG), Just(INLINE_DATA_FLAG), Just(0)],
            is_tree in any::<bool>(),
        ) {
            if let Some(place) = inode.get_mut(0x20..0x24) {
                place.copy_from_slice(&flags.to_le_bytes());
            }
            if let Some(place) = inode.get_mut(0x28..0x2a).filter(|_| is_tree) {
                place.copy_from_slice(&EXTENT_MAGIC.to_le_bytes());
            }
            if let Ok(Inode { contents: Contents::Blocks(blocks), .. }) = Inode::read(&inode, 12, &Zeroes, 1 << 20) {
                prop_assert!(blocks.iter().all(|mapped| mapped.block < 1 << 20));
            }
        }
    }
}
