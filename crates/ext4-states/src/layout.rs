//! Where things are in an ext4: what never moves while it is mounted, and the numbers of files, which no other reader tells.
//!
//! After Documentation/filesystems/ext4 (super.rst, group_descr.rst, inodes.rst, ifork.rst, directory.rst).

use std::collections::BTreeMap;

use crate::disk::BLOCK_BYTES;
use crate::error::Unreadable;

/// Blocks as somebody sees them.
pub(crate) trait Blocks {
    /// The bytes of a block; zeroes behind the end.
    fn block(&self, number: u32) -> &[u8; BLOCK_BYTES];
}

const SUPER_BYTES: usize = 1024;
const MAGIC: u16 = 0xef53;
/// Journal device, meta block groups, inline data, encryption: not read here.
const REFUSED_INCOMPATIBLE: u32 = 0x8 | 0x10 | 0x8000 | 0x1_0000;
const INCOMPATIBLE_64BIT: u32 = 0x80;
const INCOMPATIBLE_RECOVER: u32 = 0x4;
const EXTENT_MAGIC: u16 = 0xf30a;
const DEPTH_MAX: u16 = 5;
const EXTENTS_FLAG: u32 = 0x8_0000;
/// Blocks of the journal or a folder; more is damage.
const FILE_BLOCKS_MAX: usize = 1 << 18;

/// The fixed places.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) blocks: u32,
    inode_bytes: u32,
    inodes_per_group: u32,
    /// Of each group: block bitmap, inode bitmap, first block of the inode table.
    groups: Vec<[u32; 3]>,
    group_blocks: u32,
    /// The journal's blocks in its order.
    pub(crate) journal: Vec<u32>,
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|it| it.try_into().ok()).map_or(0, u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// What a name in a folder stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub(crate) inode: u32,
    is_folder: bool,
}

/// The kind of a name.
const FOLDER: u8 = 2;

impl Layout {
    /// Reads it from a file system whose super block is in place.
    pub(crate) fn read(blocks: &impl Blocks) -> Result<Self, Unreadable> {
        let first = blocks.block(0);
        let of = |at: usize| u32_at(first, SUPER_BYTES + at);
        let refuse = |what: &str| Unreadable(what.to_owned());
        if u16_at(first, SUPER_BYTES + 0x38) != MAGIC {
            return Err(refuse("there is no ext4"));
        }
        if of(0x18) != 2 {
            return Err(refuse("its blocks are not of 4 KiB (--mkfs-options '-b 4096')"));
        }
        let incompatible = of(0x60);
        if incompatible & REFUSED_INCOMPATIBLE != 0 {
            return Err(refuse("it has an external journal, meta block groups, inline data or encryption"));
        }
        let is_64bit = incompatible & INCOMPATIBLE_64BIT != 0;
        let descriptor_bytes = if is_64bit { usize::from(u16_at(first, SUPER_BYTES + 0xfe)) } else { 32 };
        let (count, per_group, inodes_per_group) = (of(0x4), of(0x20), of(0x28));
        let inode_bytes = u32::from(u16_at(first, SUPER_BYTES + 0x58));
        let is_sane = per_group > 0
            && inodes_per_group > 0
            && (128..=BLOCK_BYTES as u32).contains(&inode_bytes)
            && (32..=1024).contains(&descriptor_bytes);
        if !is_sane || of(0x150) != 0 && is_64bit {
            return Err(refuse("its super block is damaged"));
        }
        let number = count.div_ceil(per_group) as usize;
        let per_block = BLOCK_BYTES / descriptor_bytes;
        let groups = (0..number)
            .map(|group| {
                let block = blocks.block(1 + (group / per_block) as u32);
                let at = group % per_block * descriptor_bytes;
                [u32_at(block, at), u32_at(block, at + 4), u32_at(block, at + 8)]
            })
            .collect();
        let group_blocks = 1 + number.div_ceil(per_block) as u32;
        let mut layout =
            Self { blocks: count, inode_bytes, inodes_per_group, groups, group_blocks, journal: Vec::new() };
        let journal = of(0xe0);
        if journal == 0 {
            return Err(refuse("it has no journal"));
        }
        layout.journal = layout.file_blocks(blocks, journal)?;
        Ok(layout)
    }

    /// Super block, group descriptors, bitmaps and inode tables.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = u32> {
        let table =
            (u64::from(self.inodes_per_group) * u64::from(self.inode_bytes)).div_ceil(BLOCK_BYTES as u64) as u32;
        let of_groups = self.groups.iter().flat_map(move |[blocks, inodes, first]| {
            [*blocks, *inodes].into_iter().chain(*first..first.saturating_add(table))
        });
        (0..self.group_blocks).chain(of_groups)
    }

    /// Whether a mount replays the journal.
    pub(crate) fn needs_recovery(blocks: &impl Blocks) -> bool {
        u32_at(blocks.block(0), SUPER_BYTES + 0x60) & INCOMPATIBLE_RECOVER != 0
    }

    fn inode<'b>(&self, blocks: &'b impl Blocks, number: u32) -> Option<&'b [u8]> {
        let index = number.checked_sub(1)?;
        let [_, _, table] = self.groups.get((index / self.inodes_per_group) as usize)?;
        let at = index % self.inodes_per_group * self.inode_bytes;
        let block = blocks.block(table.checked_add(at / BLOCK_BYTES as u32)?);
        let within = at as usize % BLOCK_BYTES;
        block.get(within..within + self.inode_bytes as usize)
    }

    /// The blocks of a file without holes, in their order.
    fn file_blocks(&self, blocks: &impl Blocks, number: u32) -> Result<Vec<u32>, Unreadable> {
        Ok(self.extents(blocks, number)?.into_iter().map(|(_, block)| block).collect())
    }

    /// The block that holds block `at` of a file.
    pub(crate) fn block_of(&self, blocks: &impl Blocks, number: u32, at: u64) -> Result<Option<u32>, Unreadable> {
        let extents = self.extents(blocks, number)?;
        Ok(extents.iter().find(|(within, _)| u64::from(*within) == at).map(|(_, block)| *block))
    }

    /// Each block of a file: its number there, and on the device.
    fn extents(&self, blocks: &impl Blocks, number: u32) -> Result<Vec<(u32, u32)>, Unreadable> {
        let damaged = || Unreadable(format!("file {number} has no extents that can be read"));
        let inode = self.inode(blocks, number).ok_or_else(damaged)?;
        if u32_at(inode, 0x20) & EXTENTS_FLAG == 0 {
            return Err(damaged());
        }
        let mut found = Vec::new();
        let mut open: Vec<(&[u8], u16)> = vec![(inode.get(0x28..0x28 + 60).ok_or_else(damaged)?, DEPTH_MAX)];
        while let Some((node, depth_max)) = open.pop() {
            let (entries, depth) = (u16_at(node, 2), u16_at(node, 6));
            if u16_at(node, 0) != EXTENT_MAGIC || depth > depth_max {
                return Err(damaged());
            }
            let entries = node.get(12..).unwrap_or_default().chunks_exact(12).take(usize::from(entries));
            if depth == 0 {
                for entry in entries {
                    let len = u32::from(u16_at(entry, 4));
                    let len = if len > 0x8000 { len - 0x8000 } else { len };
                    let (within, first) = (u32_at(entry, 0), u32_at(entry, 8));
                    let end = u64::from(first) + u64::from(len);
                    if found.len() + len as usize > FILE_BLOCKS_MAX || end > u64::from(self.blocks) {
                        return Err(damaged());
                    }
                    found.extend((within..=u32::MAX).zip(first..first + len));
                }
            } else {
                // Last in, first out.
                for entry in entries.rev() {
                    open.push((blocks.block(u32_at(entry, 4)), depth - 1));
                }
            }
            if open.len() > FILE_BLOCKS_MAX {
                return Err(damaged());
            }
        }
        Ok(found)
    }

    /// The blocks of all folders. Those that mkfs made were never in a journal.
    pub(crate) fn folders(&self, blocks: &impl Blocks) -> Result<Vec<u32>, Unreadable> {
        let (mut found, mut open) = (Vec::new(), vec![Self::ROOT]);
        while let Some(folder) = open.pop() {
            found.extend(self.file_blocks(blocks, folder)?);
            if found.len() > FILE_BLOCKS_MAX {
                return Err(Unreadable("its folders are too large".to_owned()));
            }
            let names = self.folder(blocks, folder)?;
            open.extend(names.values().filter(|name| name.is_folder).map(|name| name.inode));
        }
        Ok(found)
    }

    /// The files in a folder, by name.
    pub(crate) fn folder(&self, blocks: &impl Blocks, number: u32) -> Result<BTreeMap<Vec<u8>, Name>, Unreadable> {
        let mut names = BTreeMap::new();
        for block in self.file_blocks(blocks, number)? {
            let mut rest: &[u8] = blocks.block(block);
            // A tree's inner blocks look like one empty entry, checksums like another.
            while rest.len() >= 8 {
                let (inode, len) = (u32_at(rest, 0), usize::from(u16_at(rest, 4)));
                let name = rest.get(8..8 + rest.get(6).copied().map_or(0, usize::from)).unwrap_or_default();
                if inode != 0 && name != b"." && name != b".." {
                    names.insert(name.to_vec(), Name { inode, is_folder: rest.get(7) == Some(&FOLDER) });
                }
                if len < 8 {
                    return Err(Unreadable(format!("folder {number} is damaged")));
                }
                rest = rest.get(len..).unwrap_or_default();
            }
        }
        Ok(names)
    }

    /// The number of the top folder.
    pub(crate) const ROOT: u32 = 2;
}
