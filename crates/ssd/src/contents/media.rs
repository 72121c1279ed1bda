//! Where durable bytes live.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use super::sparse::SparseMemory;

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
    /// The system could not put what was written on its own media.
    #[error("what was written to the image {} may be lost: {source}", path.display())]
    Sync {
        /// The image.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl MediaError {
    /// Whether there is no room on the file system of the image.
    pub fn is_no_space(&self) -> bool {
        let (Self::Open { source, .. }
        | Self::Read { source, .. }
        | Self::Write { source, .. }
        | Self::Sync { source, .. }) = self
        else {
            return false;
        };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
    }
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

    /// Memory taken for contents.
    pub(super) fn memory_bytes(&self) -> u64 {
        match self {
            Self::Memory(memory) => memory.bytes(),
            Self::Nowhere | Self::Images(_) => 0,
        }
    }

    /// Memory that writing `range` would take more.
    pub(super) fn absent_bytes(&self, range: &Range<u64>) -> u64 {
        match self {
            Self::Memory(memory) => memory.absent_bytes(range),
            Self::Nowhere | Self::Images(_) => 0,
        }
    }

    /// Has the system put what it holds of images on its own media.
    pub(super) fn sync(&self) -> Result<(), MediaError> {
        match self {
            Self::Nowhere | Self::Memory(_) => Ok(()),
            Self::Images(images) => images.iter().try_for_each(Image::sync),
        }
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

/// A raw image of one namespace: block `n` at byte `n * lba_bytes`, as on a
/// disk, so that file-system tools read it as it is.
#[derive(Debug)]
pub(super) struct Image {
    path: PathBuf,
    file: File,
    /// The device address of the image's first byte.
    base: u64,
    /// Whether somebody wants it after the process.
    kept: bool,
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
        Ok(Self { path: path.to_owned(), file, base, kept: true })
    }

    /// Makes a sparse file of `bytes` at `path`, which must be free, and takes its name away.
    pub(super) fn scratch(path: &Path, base: u64, bytes: u64) -> Result<Self, MediaError> {
        let fail = |source| MediaError::Open { path: path.to_owned(), source };
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(fail)?;
        std::fs::remove_file(path).map_err(fail)?;
        file.set_len(bytes).map_err(fail)?;
        Ok(Self { path: path.to_owned(), file, base, kept: false })
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

    fn sync(&self) -> Result<(), MediaError> {
        if !self.kept {
            return Ok(());
        }
        self.file.sync_all().map_err(|source| MediaError::Sync { path: self.path.clone(), source })
    }

    fn write_error(&self, offset: u64, bytes: u64, source: io::Error) -> MediaError {
        MediaError::Write { path: self.path.clone(), offset, bytes, source }
    }
}
