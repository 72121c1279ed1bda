//! The files that are there after recovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::calls::{FileId, FilePath};
use super::tree::SECTOR_BYTES;

/// Size of a block of [`Contents`].
pub const FILE_BLOCK_BYTES: u64 = 4096;

/// Bytes of a file; blocks of zeroes are not kept, and of many bytes only digests are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    size_bytes: u64,
    blocks: BTreeMap<u64, Block>,
}

#[derive(Clone, Debug)]
enum Block {
    Bytes(Box<[u8]>),
    /// Somebody else keeps them, and has named them.
    Named(Arc<[u8]>, u64),
    /// Of each sector; 0 for zeroes.
    Digests([u64; BLOCK_SECTORS]),
}

impl Block {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Named(bytes, _) => Some(bytes),
            Self::Digests(_) => None,
        }
    }

    /// The bytes, to be changed.
    fn own(&mut self) -> Option<&mut [u8]> {
        if let Self::Named(bytes, _) = self {
            *self = Self::Bytes(bytes.to_vec().into_boxed_slice());
        }
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Named(..) | Self::Digests(_) => None,
        }
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Digests(digests), Self::Digests(others)) => digests == others,
            _ => self.bytes().is_some() && self.bytes() == other.bytes(),
        }
    }
}

impl Eq for Block {}

pub(super) const BLOCK_SECTORS: usize = (FILE_BLOCK_BYTES / SECTOR_BYTES) as usize;

/// A sector.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    Bytes(&'a [u8]),
    /// Not of zeroes.
    Digest(u64),
}

impl Contents {
    /// So many zeroes.
    pub fn zeroes(size_bytes: u64) -> Self {
        Self { size_bytes, blocks: BTreeMap::new() }
    }

    /// The bytes `offset_bytes` and after are these; what lies behind the size is left out.
    pub fn put(&mut self, offset_bytes: u64, bytes: &[u8]) {
        let len = usize::try_from(self.size_bytes.saturating_sub(offset_bytes)).unwrap_or(usize::MAX);
        let mut rest = bytes.get(..len.min(bytes.len())).unwrap_or_default();
        let mut at = offset_bytes;
        while !rest.is_empty() {
            let (number, inside) = (at / FILE_BLOCK_BYTES, (at % FILE_BLOCK_BYTES) as usize);
            let (now, later) = rest.split_at(rest.len().min(FILE_BLOCK_BYTES as usize - inside));
            let is_zero = now.iter().all(|byte| *byte == 0);
            if !is_zero || self.blocks.contains_key(&number) {
                let zeroes = || Block::Bytes(vec![0; FILE_BLOCK_BYTES as usize].into_boxed_slice());
                if let Some(block) = self.blocks.entry(number).or_insert_with(zeroes).own()
                    && let Some(part) = block.get_mut(inside..inside + now.len())
                {
                    part.copy_from_slice(now);
                }
            }
            at += now.len() as u64;
            rest = later;
        }
    }

    /// The same of bytes that somebody else keeps under a name, which nothing else has: what is known of a block by its name is not
    /// looked at again ([`Known`](super::Known)). They are taken as they are where they are a whole block.
    pub fn put_named(&mut self, offset_bytes: u64, bytes: &Arc<[u8]>, name: u64) {
        let is_whole = offset_bytes.is_multiple_of(FILE_BLOCK_BYTES) && bytes.len() as u64 == FILE_BLOCK_BYTES;
        if is_whole && offset_bytes + FILE_BLOCK_BYTES <= self.size_bytes {
            self.blocks.insert(offset_bytes / FILE_BLOCK_BYTES, Block::Named(Arc::clone(bytes), name));
        } else {
            self.put(offset_bytes, bytes);
        }
    }

    /// The same, of which whole blocks are kept as digests of their sectors.
    pub fn put_digests(&mut self, offset_bytes: u64, bytes: &[u8]) {
        let block_bytes = FILE_BLOCK_BYTES as usize;
        let head = (FILE_BLOCK_BYTES - offset_bytes % FILE_BLOCK_BYTES) % FILE_BLOCK_BYTES;
        let (head, rest) = bytes.split_at((head as usize).min(bytes.len()));
        self.put(offset_bytes, head);
        let first = (offset_bytes + head.len() as u64) / FILE_BLOCK_BYTES;
        for (number, block) in (first..).zip(rest.chunks(block_bytes)) {
            if block.len() < block_bytes {
                self.put(number * FILE_BLOCK_BYTES, block);
                continue;
            }
            let mut digests = [0; BLOCK_SECTORS];
            for (digest, sector) in digests.iter_mut().zip(block.chunks(SECTOR_BYTES as usize)) {
                *digest = crate::log::digest(sector);
            }
            if digests != [0; BLOCK_SECTORS] {
                self.blocks.insert(number, Block::Digests(digests));
            }
        }
    }

    /// Bytes are cut off, or zeroes come behind.
    pub fn resize(&mut self, size_bytes: u64) {
        self.blocks.retain(|number, _| *number < size_bytes.div_ceil(FILE_BLOCK_BYTES));
        let inside = (size_bytes % FILE_BLOCK_BYTES) as usize;
        if let Some(block) = self.blocks.get_mut(&(size_bytes / FILE_BLOCK_BYTES)).and_then(Block::own)
            && let Some(tail) = block.get_mut(inside..)
        {
            tail.fill(0);
        }
        self.size_bytes = size_bytes;
    }

    /// How many.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The numbers of sectors that may have something else than zeroes.
    pub(super) fn sectors(&self) -> impl Iterator<Item = u64> {
        let sectors = BLOCK_SECTORS as u64;
        self.blocks.keys().flat_map(move |block| block * sectors..(block + 1) * sectors)
    }

    /// The numbers of blocks that may have something else than zeroes, and the name of those that have one.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u64, Option<u64>)> {
        let name = |block: &Block| match block {
            Block::Named(_, name) => Some(*name),
            Block::Bytes(_) | Block::Digests(_) => None,
        };
        self.blocks.iter().map(move |(number, block)| (*number, name(block)))
    }

    /// A sector, with zeroes behind the size; `None` for zeroes.
    pub(super) fn sector(&self, number: u64) -> Option<Part<'_>> {
        let inside = (number % BLOCK_SECTORS as u64) as usize;
        match self.blocks.get(&(number / BLOCK_SECTORS as u64))? {
            Block::Digests(digests) => digests.get(inside).filter(|digest| **digest != 0).copied().map(Part::Digest),
            block => {
                let from = inside * SECTOR_BYTES as usize;
                block.bytes()?.get(from..from + SECTOR_BYTES as usize).map(Part::Bytes)
            }
        }
    }
}

impl From<&[u8]> for Contents {
    fn from(bytes: &[u8]) -> Self {
        let mut contents = Self::zeroes(bytes.len() as u64);
        contents.put(0, bytes);
        contents
    }
}

/// What a name stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// A regular file.
    File(Contents),
    /// A folder.
    Folder,
    /// A symbolic link to this.
    Symlink(FilePath),
    /// A device, pipe or socket.
    Other,
}

/// A name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which file it is: names of one file have the same.
    pub file: FileId,
    /// What it is.
    pub node: Node,
}

/// All names below a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    folder: FileId,
    entries: BTreeMap<FilePath, Entry>,
}

impl Found {
    /// Nothing below the folder `folder`.
    pub fn new(folder: FileId) -> Self {
        Self { folder, entries: BTreeMap::new() }
    }

    /// One more name; its folder comes before it.
    pub fn insert(&mut self, path: FilePath, entry: Entry) {
        self.entries.insert(path, entry);
    }

    /// The folder itself.
    pub fn folder(&self) -> FileId {
        self.folder
    }

    /// What a name stands for.
    pub fn get(&self, path: &FilePath) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// For tests of checkers: changes what a name stands for.
    pub fn get_mut(&mut self, path: &FilePath) -> Option<&mut Entry> {
        self.entries.get_mut(path)
    }

    /// Without a name, and what lies below it.
    pub fn remove(&mut self, path: &FilePath) -> Option<Entry> {
        let mut below = path.as_bytes().to_vec();
        below.push(b'/');
        self.entries.retain(|other, _| !other.as_bytes().starts_with(&below));
        self.entries.remove(path)
    }

    /// All names, a folder before what is in it.
    pub fn entries(&self) -> impl Iterator<Item = (&FilePath, &Entry)> {
        self.entries.iter()
    }
}
