//! Where durable bytes live.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

/// Why an image file cannot serve as a device's media.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The file cannot be opened or created.
    #[error("cannot open the image {}: {source}", path.display())]
    Open {
        /// The image.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file exists with another length than the namespace.
    #[error(
        "the image {} has {found} bytes but the namespace has {expected}; it is truncated or belongs to \
         another device: give another path, or `truncate -s {expected}` it if a zero-filled end is wanted",
        path.display()
    )]
    WrongSize {
        /// The image.
        path: PathBuf,
        /// Bytes the namespace has.
        expected: u64,
        /// Bytes the file has.
        found: u64,
    },
    /// Another process holds the image.
    #[error("the image {} is in use by another process; stop it or give another path", path.display())]
    InUse {
        /// The image.
        path: PathBuf,
    },
    /// Reading the image failed.
    #[error("cannot read {bytes} bytes at offset {offset} of the image {}: {source}", path.display())]
    Read {
        /// The image.
        path: PathBuf,
        /// First byte.
        offset: u64,
        /// Length.
        bytes: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// Writing the image failed.
    #[error("cannot write {bytes} bytes at offset {offset} of the image {}: {source}", path.display())]
    Write {
        /// The image.
        path: PathBuf,
        /// First byte.
        offset: u64,
        /// Length.
        bytes: u64,
        /// The system's answer.
        source: io::Error,
    },
}

/// The durable layer. Addresses are bytes from the device's first, namespaces
/// one after another; a call never crosses from one namespace to the next.
#[derive(Debug)]
pub(super) enum Media {
    /// Nowhere.
    Nowhere,
    /// Sparse, in memory.
    Memory(SparseMemory),
    /// One raw image file per namespace.
    Images(Vec<Image>),
}

impl Media {
    /// Whether bytes come back.
    pub(super) fn keeps(&self) -> bool {
        !matches!(self, Self::Nowhere)
    }

    /// Copies what is stored at `offset` into `buffer`; never written bytes are zero.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), MediaError> {
        match self {
            Self::Nowhere => {}
            Self::Memory(memory) => memory.read(offset, buffer),
            Self::Images(images) => {
                let image = image_at(images, offset);
                image.read(offset - image.base, buffer)?;
            }
        }
        Ok(())
    }

    /// Stores `data` at `offset`.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        match self {
            Self::Nowhere => {}
            Self::Memory(memory) => memory.write(offset, data),
            Self::Images(images) => {
                let image = image_at(images, offset);
                image.write(offset - image.base, data)?;
            }
        }
        Ok(())
    }

    /// Makes `range` read as zeroes and gives its space back.
    pub(super) fn clear(&mut self, range: Range<u64>) -> Result<(), MediaError> {
        match self {
            Self::Nowhere => {}
            Self::Memory(memory) => memory.clear(range),
            Self::Images(images) => {
                let image = image_at(images, range.start);
                image.clear(range.start - image.base..range.end - image.base)?;
            }
        }
        Ok(())
    }
}

fn image_at(images: &[Image], offset: u64) -> &Image {
    let after = images.partition_point(|image| image.base <= offset);
    &images[after - 1]
}

/// Bytes in memory, allocated chunk by chunk as they are written.
///
/// Chunks hang in leaves of 64 so that clearing a large range visits only
/// what exists.
#[derive(Default, Debug)]
pub(super) struct SparseMemory {
    leaves: BTreeMap<u64, Box<[Option<Chunk>; LEAF_CHUNKS]>>,
}

type Chunk = Box<[u8; CHUNK_BYTES as usize]>;
const CHUNK_BYTES: u64 = 4096;
const LEAF_CHUNKS: usize = 64;
const LEAF_BYTES: u64 = CHUNK_BYTES * LEAF_CHUNKS as u64;

impl SparseMemory {
    fn read(&self, offset: u64, buffer: &mut [u8]) {
        for (chunk, within, part) in pieces(offset, buffer.len()) {
            let stored = self.leaves.get(&leaf_of(chunk)).and_then(|leaf| leaf[slot_of(chunk)].as_deref());
            match stored {
                Some(bytes) => buffer[part.clone()].copy_from_slice(&bytes[within..within + part.len()]),
                None => buffer[part].fill(0),
            }
        }
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        for (chunk, within, part) in pieces(offset, data.len()) {
            let leaf = self.leaves.entry(leaf_of(chunk)).or_insert_with(|| Box::new([const { None }; LEAF_CHUNKS]));
            let bytes = leaf[slot_of(chunk)].get_or_insert_with(|| Box::new([0; CHUNK_BYTES as usize]));
            bytes[within..within + part.len()].copy_from_slice(&data[part]);
        }
    }

    fn clear(&mut self, range: Range<u64>) {
        let first = range.start / LEAF_BYTES;
        let mut emptied = Vec::new();
        for (&index, leaf) in self.leaves.range_mut(first..range.end.div_ceil(LEAF_BYTES)) {
            let start = range.start.max(index * LEAF_BYTES);
            let end = range.end.min((index + 1) * LEAF_BYTES);
            for (chunk, within, part) in pieces(start, (end - start) as usize) {
                let slot = &mut leaf[slot_of(chunk)];
                if part.len() as u64 == CHUNK_BYTES {
                    *slot = None;
                } else if let Some(bytes) = slot {
                    bytes[within..within + part.len()].fill(0);
                }
            }
            if leaf.iter().all(Option::is_none) {
                emptied.push(index);
            }
        }
        for index in emptied {
            self.leaves.remove(&index);
        }
    }

    #[cfg(test)]
    fn chunks(&self) -> usize {
        self.leaves.values().map(|leaf| leaf.iter().flatten().count()).sum()
    }
}

fn leaf_of(chunk: u64) -> u64 {
    chunk / LEAF_CHUNKS as u64
}

fn slot_of(chunk: u64) -> usize {
    (chunk % LEAF_CHUNKS as u64) as usize
}

/// Cuts `len` bytes at `offset` along chunk borders: (chunk, offset in the
/// chunk, range of the caller's bytes).
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % CHUNK_BYTES) as usize;
        let count = (CHUNK_BYTES as usize - within).min(len - done);
        let part = done..done + count;
        done += count;
        Some((at / CHUNK_BYTES, within, part))
    })
}

/// A raw image of one namespace: block `n` at byte `n * lba_bytes`, as on a
/// disk, so that file-system tools read it as it is.
#[derive(Debug)]
pub(super) struct Image {
    path: PathBuf,
    file: File,
    /// The device address of the image's first byte.
    base: u64,
}

impl Image {
    /// Opens `path`, or creates it as a sparse file of `bytes`, and locks it
    /// against other processes.
    pub(super) fn open(path: &Path, base: u64, bytes: u64) -> Result<Self, MediaError> {
        let fail = |source| MediaError::Open { path: path.to_owned(), source };
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(MediaError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(fail(source)),
        }
        let found = file.metadata().map_err(fail)?.len();
        match found {
            0 => file.set_len(bytes).map_err(fail)?,
            found if found == bytes => {}
            found => return Err(MediaError::WrongSize { path: path.to_owned(), expected: bytes, found }),
        }
        Ok(Self { path: path.to_owned(), file, base })
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), MediaError> {
        self.file.read_exact_at(buffer, offset).map_err(|source| MediaError::Read {
            path: self.path.clone(),
            offset,
            bytes: buffer.len() as u64,
            source,
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.file.write_all_at(data, offset).map_err(|source| self.write_error(offset, data.len() as u64, source))
    }

    fn clear(&self, range: Range<u64>) -> Result<(), MediaError> {
        let bytes = range.end - range.start;
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, punch, range.start, bytes) {
            Ok(()) => Ok(()),
            // A file system without holes: write the zeroes.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                let zeroes = [0; 1 << 16];
                let mut at = range.start;
                while at < range.end {
                    let count = (range.end - at).min(zeroes.len() as u64);
                    self.write(at, &zeroes[..count as usize])?;
                    at += count;
                }
                Ok(())
            }
            Err(errno) => Err(self.write_error(range.start, bytes, errno.into())),
        }
    }

    fn write_error(&self, offset: u64, bytes: u64, source: io::Error) -> MediaError {
        MediaError::Write { path: self.path.clone(), offset, bytes, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_what_is_written_and_shrinks_with_what_is_cleared() {
        let mut memory = SparseMemory::default();
        let far = 900 << 30;
        memory.write(far + 100, &[7; 5000]);
        assert_eq!(memory.chunks(), 2);
        let mut back = [1; 5200];
        memory.read(far, &mut back);
        assert!(back[..100].iter().all(|byte| *byte == 0));
        assert!(back[100..5100].iter().all(|byte| *byte == 7));
        assert!(back[5100..].iter().all(|byte| *byte == 0));
        memory.clear(0..far + 4096);
        assert_eq!(memory.chunks(), 1);
        memory.clear(0..u64::MAX / 2);
        assert_eq!((memory.chunks(), memory.leaves.len()), (0, 0));
    }
}
