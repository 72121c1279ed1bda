//! What lies where on a state's device: files, and the file system's own places that are known.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::crash::LostFile;
use crate::guest::fiemap;
use file_systems::FileSystem;

/// Files that are looked at; a program with more has the first of them named.
const FILES_MAX: usize = 20_000;

/// A range of the device and what is there.
struct Place {
    range: Range<u64>,
    what: What,
}

enum What {
    /// A file below the mount, from this offset on, and its number.
    File(PathBuf, u64, u64),
    /// Something of the file system's.
    Own(&'static str),
}

/// What is known of a device.
pub(super) struct Places(Vec<Place>);

impl Places {
    /// Of the file system on `node`, mounted at `folder`.
    pub(super) fn of(file_system: FileSystem, node: &Path, folder: &Path) -> Self {
        let mut places = own_places(file_system, node).unwrap_or_default();
        // What Btrfs says is in a space of addresses of its own.
        if file_system != FileSystem::Btrfs {
            let mut left = FILES_MAX;
            walk(folder, folder, &mut left, &mut places);
        }
        Self(places)
    }

    /// What is in this range, in words; nothing where it is not known.
    pub(super) fn name(&self, range: &Range<u64>) -> Option<String> {
        let place = self.0.iter().find(|place| place.range.start < range.end && range.start < place.range.end)?;
        Some(match &place.what {
            What::Own(name) => (*name).to_owned(),
            What::File(path, offset_bytes, _) => {
                let from = range.start.max(place.range.start);
                let at = offset_bytes + (from - place.range.start);
                let len = range.end.min(place.range.end) - from;
                format!(
                    "{} of {}, bytes {at} to {}",
                    if len < range.end - range.start { "a part" } else { "data" },
                    path.display(),
                    at + len
                )
            }
        })
    }
}

impl Places {
    /// The file whose bytes are in this range.
    pub(super) fn file(&self, range: &Range<u64>) -> Option<LostFile> {
        let is_there = |place: &&Place| place.range.start < range.end && range.start < place.range.end;
        self.0.iter().filter(is_there).find_map(|place| {
            let What::File(path, offset_bytes, inode) = &place.what else { return None };
            let from = range.start.max(place.range.start);
            let from_bytes = offset_bytes + (from - place.range.start);
            let to_bytes = from_bytes + (range.end.min(place.range.end) - from);
            Some(LostFile { path: path.display().to_string(), inode: *inode, from_bytes, to_bytes })
        })
    }
}

fn walk(folder: &Path, root: &Path, left: &mut usize, places: &mut Vec<Place>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        if about.is_symlink() || !(about.is_dir() || about.is_file()) {
            continue;
        }
        let named = path.strip_prefix(root).unwrap_or(&path).to_owned();
        if let Ok(extents) = File::open(&path).and_then(|file| fiemap::extents(&file)) {
            places.extend(extents.into_iter().map(|extent| Place {
                range: extent.place_bytes,
                what: What::File(named.clone(), extent.offset_bytes, about.ino()),
            }));
        }
        if about.is_dir() {
            walk(&path, root, left, places);
        }
    }
}

/// The super block and the journal, by what the super block says.
fn own_places(file_system: FileSystem, node: &Path) -> Option<Vec<Place>> {
    let device = File::open(node).ok()?;
    let mut block = [0; 4096];
    device.read_exact_at(&mut block, 0).ok()?;
    let own = |range, name| Place { range, what: What::Own(name) };
    match file_system {
        FileSystem::Ext4 => {
            let mut places = vec![own(1024..2048, "ext4's super block")];
            places.extend(ext4_journal(&block[1024..])?.into_iter().map(|range| own(range, "ext4's journal")));
            Some(places)
        }
        FileSystem::Xfs => Some(vec![own(0..512, "XFS's super block"), own(xfs_log(&block)?, "XFS's log")]),
        FileSystem::Btrfs => {
            let copies = [64 << 10, 64 << 20].map(|start| own(start..start + 4096, "Btrfs's super block"));
            Some(copies.into())
        }
        FileSystem::F2fs => Some(vec![own(0..8192, "F2FS's super block")]),
        FileSystem::None | FileSystem::Betrfs | FileSystem::Zonefs => None,
    }
}

/// The copy of the journal's extents that ext4's super block has (`s_jnl_blocks`, `fs/ext4/ext4.h`; the extents in the form of
/// `fs/ext4/ext4_extents.h`).
fn ext4_journal(block: &[u8]) -> Option<Vec<Range<u64>>> {
    const BLOCKS: usize = 0x10c;
    let block_bytes = 1024_u64 << u32_le(block, 0x18)?.min(6);
    let (magic, count, depth) = (u16_le(block, BLOCKS)?, u16_le(block, BLOCKS + 2)?, u16_le(block, BLOCKS + 6)?);
    if magic != 0xf30a || depth != 0 {
        return None;
    }
    let extent = |number: usize| {
        let at = BLOCKS + 12 + number * 12;
        let len = u64::from(u16_le(block, at + 4)?) * block_bytes;
        let start = (u64::from(u16_le(block, at + 6)?) << 32 | u64::from(u32_le(block, at + 8)?)) * block_bytes;
        Some(start..start + len)
    };
    (0..usize::from(count.min(4))).map(extent).collect()
}

/// Where XFS's log lies (`struct xfs_dsb`, `fs/xfs/libxfs/xfs_format.h`).
fn xfs_log(block: &[u8]) -> Option<Range<u64>> {
    let block_bytes = u64::from(u32_be(block, 4)?);
    let start = u64::from(u32_be(block, 48)?) << 32 | u64::from(u32_be(block, 52)?);
    let (group_blocks, log_blocks) = (u64::from(u32_be(block, 84)?), u64::from(u32_be(block, 96)?));
    let group_bits = u32::from(*block.get(124)?).min(63);
    let linear = (start >> group_bits) * group_blocks + (start & ((1 << group_bits) - 1));
    Some(linear * block_bytes..(linear + log_blocks) * block_bytes)
}

fn u16_le(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_le(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn u32_be(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}
