//! Btrfs's own items: which allocated extents a file refers to, and how its trees are kept.
//!
//! Source: `include/uapi/linux/btrfs.h`, `include/uapi/linux/btrfs_tree.h`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use super::backing::{Backing, Reference};
use super::fiemap::MAX_EXTENTS;
use super::map::ExtentMap;
use crate::ByteRange;
use crate::btrfs_items::{Key, items};

const EXTENT_DATA_KEY: u32 = 108;
/// `struct btrfs_file_extent_item` of an extent outside of the tree.
const ITEM_BYTES: usize = 53;
const REGULAR: u8 = 1;
const PREALLOCATED: u8 = 2;
/// `_IOR(0x94, 31, struct btrfs_ioctl_fs_info_args)`, of 1,024 bytes.
const BTRFS_IOC_FS_INFO: libc::Ioctl = 0x8400_941f_u32 as libc::Ioctl;
const FS_INFO_BYTES: usize = 1024;
const FS_INFO_UUID: usize = 16;
const FS_INFO_NODE_BYTES: usize = 32;
/// `_IOWR(0x94, 20, struct btrfs_ioctl_space_args)`, without its slots.
const BTRFS_IOC_SPACE_INFO: libc::Ioctl = 0xc010_9414_u32 as libc::Ioctl;
const SPACE_SLOTS: usize = 32;
/// `BTRFS_BLOCK_GROUP_*`: metadata, and the profiles with several copies.
const METADATA: u64 = 4;
const COPIES: [(u64, u64); 5] = [(1 << 4, 2), (1 << 5, 2), (1 << 6, 2), (1 << 9, 3), (1 << 10, 4)];
/// How a file system keeps its trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetadataLayout {
    /// Of a node or a leaf.
    pub node_bytes: u64,
    /// Times that each is written.
    pub copies: u64,
}

/// That of the Btrfs that `file` is on.
pub fn metadata_layout(file: &File) -> io::Result<MetadataLayout> {
    let info = file_system_info(file)?;
    let node_bytes = info.get(FS_INFO_NODE_BYTES..FS_INFO_NODE_BYTES + 4).and_then(|bytes| bytes.try_into().ok());
    // What `space_args` begins with, and slots of flags, size and use.
    let mut spaces = [0_u64; 2 + 3 * SPACE_SLOTS];
    spaces[0] = SPACE_SLOTS as u64;
    // SAFETY: the call reads and writes two integers and as many slots of three as the first one says, which `spaces` has room for;
    // the file is open while it is borrowed.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), BTRFS_IOC_SPACE_INFO, spaces.as_mut_ptr()) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let slots = spaces.get(2..).unwrap_or_default().chunks_exact(3).filter_map(|slot| slot.first());
    let flags = slots.filter(|flags| *flags & METADATA != 0).fold(0, |all, flags| all | flags);
    let copies = COPIES.iter().filter(|(profile, _)| flags & profile != 0).map(|(_, copies)| *copies).max();
    Ok(MetadataLayout {
        node_bytes: node_bytes.map_or(0, |bytes| u64::from(u32::from_ne_bytes(bytes))),
        copies: copies.unwrap_or(1),
    })
}

/// The UUID of the Btrfs that `file` is on, as sysfs writes it.
pub(crate) fn btrfs_uuid(file: &File) -> io::Result<String> {
    let mut text = String::new();
    for (at, byte) in file_system_info(file)?.iter().skip(FS_INFO_UUID).take(16).enumerate() {
        text += if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
        text += &format!("{byte:02x}");
    }
    Ok(text)
}

fn file_system_info(file: &File) -> io::Result<[u8; FS_INFO_BYTES]> {
    let mut info = [0_u8; FS_INFO_BYTES];
    // SAFETY: the call writes a structure of 1,024 bytes of integers, as its number says; the file is open while it is borrowed.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), BTRFS_IOC_FS_INFO, info.as_mut_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(info) }
}

/// The extents behind a file on Btrfs: as its items have them, or an estimate from `map` where they cannot be read.
pub fn backing_of(file: &File, map: &ExtentMap) -> Backing {
    match references(file, map.size_bytes()) {
        Ok(references) => Backing::exact(references),
        Err(_) => Backing::estimated(map),
    }
}

/// The file extent items of a file in the tree of its subvolume. Needs `CAP_SYS_ADMIN`.
fn references(file: &File, size_bytes: u64) -> io::Result<Vec<Reference>> {
    let inode = file.metadata()?.ino();
    let key = |offset| Key { objectid: inode, kind: EXTENT_DATA_KEY, offset };
    let mut found = Vec::new();
    items(file, 0, key(0), key(u64::MAX), |key, item| {
        found.extend(reference(key.offset, item, size_bytes));
        if found.len() > MAX_EXTENTS { Err(io::Error::other("more extents than a map holds")) } else { Ok(()) }
    })?;
    Ok(found)
}

/// A file extent item as a reference; none for holes and what is kept in the tree.
fn reference(offset: u64, item: &[u8], size_bytes: u64) -> Option<Reference> {
    let kind = *item.get(20)?;
    if item.len() < ITEM_BYTES || !(kind == REGULAR || kind == PREALLOCATED) {
        return None;
    }
    let (extent, length) = (number(item, 21)?, number(item, 45)?);
    let is_compressed = *item.get(16)? != 0;
    // A hole has no extent. The last block is allocated whole, and moved as far as the file goes.
    let range = ByteRange { start: offset, end: offset.saturating_add(length).min(size_bytes) };
    let movable = kind == REGULAR && !is_compressed;
    // What lies beyond the end of the file is never moved.
    let range = if range.is_empty() { ByteRange::new(offset, length)? } else { range };
    (extent != 0).then_some(Reference { range, extent, movable: movable && offset < size_bytes })
}

/// Items are kept in little endian.
fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn item(kind: u8, compression: u8, extent: u64, length: u64) -> Vec<u8> {
        let mut item = vec![0; ITEM_BYTES];
        (item[16], item[20]) = (compression, kind);
        item[21..29].copy_from_slice(&extent.to_le_bytes());
        item[45..53].copy_from_slice(&length.to_le_bytes());
        item
    }

    #[test]
    fn items_are_read_as_the_kernel_writes_them() {
        let range = |start, end| ByteRange { start, end };
        let of = |offset, item: &[u8]| reference(offset, item, 10_000);
        let data = Reference { range: range(4096, 8192), extent: 77, movable: true };
        assert_eq!(of(4096, &item(REGULAR, 0, 77, 4096)), Some(data));
        assert_eq!(of(8192, &item(REGULAR, 0, 77, 4096)).unwrap().range, range(8192, 10_000));
        assert!(!of(0, &item(PREALLOCATED, 0, 77, 4096)).unwrap().movable);
        assert!(!of(0, &item(REGULAR, 1, 77, 4096)).unwrap().movable);
        assert!(!of(12_288, &item(PREALLOCATED, 0, 77, 4096)).unwrap().movable);
        assert_eq!(of(0, &item(REGULAR, 0, 0, 4096)), None);
        assert_eq!(of(0, &item(0, 0, 77, 4096)), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(item in prop::collection::vec(any::<u8>(), 0..80), offset: u64, size: u64) {
            reference(offset, &item, size);
        }
    }
}
