//! One file, opened to be looked at.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::FileId;
use crate::extents::{ExtentMap, FiemapError, WriteBack, read_map};

/// A regular file, open for reading; nothing of it is read.
#[derive(Debug)]
pub struct Opened {
    /// The descriptor.
    pub file: File,
    /// What it is now.
    pub metadata: Metadata,
}

impl Opened {
    /// The regular file at `path`; a link is not followed, and a pipe not waited for.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok(Self { file, metadata })
    }

    /// What identifies it, without the generation.
    pub fn id(&self) -> FileId {
        FileId { device: self.metadata.dev(), inode: self.metadata.ino(), generation: None }
    }

    /// The inode's generation, where the file system tells it to this user.
    pub fn generation(&self) -> Option<u32> {
        crate::migrate::generation(&self.file).ok()
    }

    /// Where it lies.
    pub fn map(&self, write_back: WriteBack) -> Result<ExtentMap, FiemapError> {
        read_map(&self.file, self.metadata.len(), write_back)
    }
}
