//! Where things are in an ext4: what never moves while it is mounted, and the numbers of files, which no other reader tells.
//!
//! After Documentation/filesystems/ext4 (super.rst, group_descr.rst, directory.rst, inlinedata.rst).

use std::collections::BTreeMap;

use crate::error::Unreadable;
use crate::inode::{Contents, Inode};

/// Blocks as somebody sees them.
pub(crate) trait Blocks {
    /// Size of a block.
    fn block_bytes(&self) -> usize;

    /// The bytes of a block; zeroes behind the end.
    fn block(&self, number: u32) -> &[u8];
}

/// Size of the super block, and where it is.
pub(crate) const SUPER_BYTES: usize = 1024;
const MAGIC: u16 = 0xef53;
/// Journal device, meta block groups, encryption: not read here.
const REFUSED_INCOMPATIBLE: u32 = 0x8 | 0x10 | 0x1_0000;
const INCOMPATIBLE_INLINE_DATA: u32 = 0x8000;
const OLD_INODE_BYTES: u32 = 128;
const INCOMPATIBLE_64BIT: u32 = 0x80;
const INCOMPATIBLE_RECOVER: u32 = 0x4;
/// What a folder in an inode has in the place of the map; the rest is among its attributes.
const INLINE_FIRST_BYTES: usize = 60;
/// The number of the folder above, before the names.
const INLINE_ABOVE_BYTES: usize = 4;
/// Blocks of folders; more is damage.
const FILE_BLOCKS_MAX: usize = 1 << 18;

/// The fixed places.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) blocks: u32,
    block_bytes: u32,
    inode_bytes: u32,
    inodes_per_group: u32,
    /// Of each group: block bitmap, inode bitmap, first block of the inode table.
    groups: Vec<[u32; 3]>,
    group_blocks: u32,
    /// `ext4-view` does not read it: contents may lie in inodes, or inodes have the oldest size.
    pub(crate) is_read_here_only: bool,
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
        let first = super_block(blocks);
        let of = |at: usize| u32_at(first, at);
        let refuse = |what: &str| Unreadable(what.to_owned());
        let block_bytes = blocks.block_bytes();
        if size_of(first).is_none_or(|(_, found)| found != block_bytes) {
            return Err(refuse("there is no ext4"));
        }
        let incompatible = of(0x60);
        if incompatible & REFUSED_INCOMPATIBLE != 0 {
            return Err(refuse("it has an external journal, meta block groups or encryption"));
        }
        let is_64bit = incompatible & INCOMPATIBLE_64BIT != 0;
        let descriptor_bytes = if is_64bit { usize::from(u16_at(first, 0xfe)) } else { 32 };
        let (count, per_group, inodes_per_group) = (of(0x4), of(0x20), of(0x28));
        let inode_bytes = u32::from(u16_at(first, 0x58));
        let is_sane = per_group > 0
            && inodes_per_group > 0
            && (OLD_INODE_BYTES..=block_bytes as u32).contains(&inode_bytes)
            && (32..=1024).contains(&descriptor_bytes);
        if !is_sane || of(0x150) != 0 && is_64bit {
            return Err(refuse("its super block is damaged"));
        }
        // Blocks before the super block's are of no group.
        let before = of(0x14);
        let number = count.saturating_sub(before).div_ceil(per_group) as usize;
        let per_block = block_bytes / descriptor_bytes;
        let groups = (0..number)
            .map(|group| {
                let block = blocks.block(before.saturating_add(1 + (group / per_block) as u32));
                let at = group % per_block * descriptor_bytes;
                [u32_at(block, at), u32_at(block, at + 4), u32_at(block, at + 8)]
            })
            .collect();
        let group_blocks = before.saturating_add(1 + number.div_ceil(per_block) as u32);
        let is_read_here_only = incompatible & INCOMPATIBLE_INLINE_DATA != 0 || inode_bytes == OLD_INODE_BYTES;
        let mut layout = Self {
            blocks: count,
            block_bytes: block_bytes as u32,
            inode_bytes,
            inodes_per_group,
            groups,
            group_blocks,
            is_read_here_only,
            journal: Vec::new(),
        };
        let journal = of(0xe0);
        if journal == 0 {
            return Err(refuse("it has no journal"));
        }
        layout.journal = layout.file_blocks(blocks, journal)?;
        Ok(layout)
    }

    /// Super block, group descriptors, bitmaps and inode tables.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = u32> {
        let table = (u64::from(self.inodes_per_group) * u64::from(self.inode_bytes))
            .div_ceil(u64::from(self.block_bytes)) as u32;
        let of_groups = self.groups.iter().flat_map(move |[blocks, inodes, first]| {
            [*blocks, *inodes].into_iter().chain(*first..first.saturating_add(table))
        });
        (0..self.group_blocks).chain(of_groups)
    }

    /// Whether a mount replays the journal.
    pub(crate) fn needs_recovery(blocks: &impl Blocks) -> bool {
        u32_at(super_block(blocks), 0x60) & INCOMPATIBLE_RECOVER != 0
    }

    fn inode<'b>(&self, blocks: &'b impl Blocks, number: u32) -> Option<&'b [u8]> {
        let index = number.checked_sub(1)?;
        let [_, _, table] = self.groups.get((index / self.inodes_per_group) as usize)?;
        let at = index % self.inodes_per_group * self.inode_bytes;
        let block = blocks.block(table.checked_add(at / self.block_bytes)?);
        let within = (at % self.block_bytes) as usize;
        block.get(within..within + self.inode_bytes as usize)
    }

    /// What is read of a file.
    pub(crate) fn file(&self, blocks: &impl Blocks, number: u32) -> Result<Inode, Unreadable> {
        let bytes = self.inode(blocks, number);
        let bytes = bytes.ok_or_else(|| Unreadable(format!("there is no place for file {number}")))?;
        Inode::read(bytes, number, blocks, self.blocks)
    }

    /// The blocks of a file without holes, in their order; of one that lies in its inode there are none.
    fn file_blocks(&self, blocks: &impl Blocks, number: u32) -> Result<Vec<u32>, Unreadable> {
        Ok(match self.file(blocks, number)?.contents {
            Contents::Blocks(mapped) => mapped.into_iter().map(|mapped| mapped.block).collect(),
            Contents::Inline(_) => Vec::new(),
        })
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
        match self.file(blocks, number)?.contents {
            Contents::Blocks(mapped) => {
                for mapped in mapped {
                    add_names(blocks.block(mapped.block), number, &mut names)?;
                }
            }
            Contents::Inline(bytes) => {
                let (first, rest) = bytes.split_at(bytes.len().min(INLINE_FIRST_BYTES));
                add_names(first.get(INLINE_ABOVE_BYTES..).unwrap_or_default(), number, &mut names)?;
                add_names(rest, number, &mut names)?;
            }
        }
        Ok(names)
    }

    /// The number of the top folder.
    pub(crate) const ROOT: u32 = 2;
}

/// Adds the names in a block of a folder.
fn add_names(mut rest: &[u8], folder: u32, names: &mut BTreeMap<Vec<u8>, Name>) -> Result<(), Unreadable> {
    // A tree's inner blocks look like one empty entry, checksums like another.
    while rest.len() >= 8 {
        let (inode, len) = (u32_at(rest, 0), usize::from(u16_at(rest, 4)));
        let name = rest.get(8..8 + rest.get(6).copied().map_or(0, usize::from)).unwrap_or_default();
        if inode != 0 && name != b"." && name != b".." {
            names.insert(name.to_vec(), Name { inode, is_folder: rest.get(7) == Some(&FOLDER) });
        }
        if len < 8 {
            return Err(Unreadable(format!("folder {folder} is damaged")));
        }
        rest = rest.get(len..).unwrap_or_default();
    }
    Ok(())
}

/// Blocks and the size of one, by the bytes of a super block; `None` if it is none.
pub(crate) fn size_of(super_block: &[u8]) -> Option<(u32, usize)> {
    let shift = u32_at(super_block, 0x18);
    (u16_at(super_block, 0x38) == MAGIC && shift <= 6).then(|| (u32_at(super_block, 4), SUPER_BYTES << shift))
}

/// The bytes of the super block, which is the second KiB of the device.
fn super_block(blocks: &impl Blocks) -> &[u8] {
    let (block, within) = (SUPER_BYTES / blocks.block_bytes(), SUPER_BYTES % blocks.block_bytes());
    blocks.block(block as u32).get(within..within + SUPER_BYTES).unwrap_or_default()
}
