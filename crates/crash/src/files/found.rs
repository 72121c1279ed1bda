//! The files that are there after recovery.

use std::collections::BTreeMap;

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

#[derive(Clone, PartialEq, Eq, Debug)]
enum Block {
    Bytes(Box<[u8]>),
    /// Of each sector; 0 for zeroes.
    Digests([u64; BLOCK_SECTORS]),
}

const BLOCK_SECTORS: usize = (FILE_BLOCK_BYTES / SECTOR_BYTES) as usize;

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
                if let Block::Bytes(block) = self.blocks.entry(number).or_insert_with(zeroes)
                    && let Some(part) = block.get_mut(inside..inside + now.len())
                {
                    part.copy_from_slice(now);
                }
            }
            at += now.len() as u64;
            rest = later;
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
        if let Some(Block::Bytes(block)) = self.blocks.get_mut(&(size_bytes / FILE_BLOCK_BYTES))
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

    /// A sector, with zeroes behind the size; `None` for zeroes.
    pub(super) fn sector(&self, number: u64) -> Option<Part<'_>> {
        let inside = (number % BLOCK_SECTORS as u64) as usize;
        match self.blocks.get(&(number / BLOCK_SECTORS as u64))? {
            Block::Bytes(block) => {
                let from = inside * SECTOR_BYTES as usize;
                block.get(from..from + SECTOR_BYTES as usize).map(Part::Bytes)
            }
            Block::Digests(digests) => digests.get(inside).filter(|digest| **digest != 0).copied().map(Part::Digest),
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
