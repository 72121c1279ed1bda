//! The file that is moved.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Advice, AtFlags, Mode, OFlags};

use super::error::MigrateError;
use super::facts::Facts;
use super::ioctl;
use super::refusals::Refusal;
use crate::FileId;
use crate::extents::{ExtentMap, WriteBack, read_map_range};
use crate::{ByteRange, extents::FiemapError};

/// What folios may hold: one page, what readahead reads at once by default, and the most of any file system
/// (`PREFERRED_MAX_PAGECACHE_ORDER`, include/linux/pagemap.h).
const FOLIO_BYTES: [u64; 3] = [4 << 10, 128 << 10, 2 << 20];

/// How a way of moving has to have the file open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// For reading; also running programs are moved.
    Read,
    /// For writing.
    Write,
    /// For writing such that XFS leaves the file's times alone.
    XfsInvisible,
}

/// An open file, known to be the one that is meant.
#[derive(Debug)]
pub struct Target {
    file: File,
    path: PathBuf,
    device: u64,
    block_bytes: u64,
    facts: Facts,
}

impl Target {
    /// Opens a file for reading. Symbolic links are not followed, and the time of the last access stays.
    ///
    /// With an `id`, a file that has another device, inode or generation is [`Refusal::AnotherFile`]: names are
    /// reused, and so are inodes' numbers.
    pub fn open(path: &Path, id: Option<&FileId>) -> Result<Self, MigrateError> {
        let refused = |refusal| MigrateError::refused(path, refusal);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
            // Only the owner may leave the time of access.
            Err(rustix::io::Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
            other => other,
        };
        let file = match opened {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Err(refused(Refusal::NotRegular)),
            Err(errno) => return Err(refused(Refusal::Open(io::Error::from(errno).to_string()))),
        };
        let status = file.metadata().map_err(MigrateError::system(path, "look at it"))?;
        if !status.is_file() {
            return Err(refused(Refusal::NotRegular));
        }
        if let Some(id) = id {
            // A file system that tells no generation now told none then.
            let generation = id.generation.and_then(|then| Some((then, ioctl::generation(&file).ok()?)));
            let same_generation = generation.is_none_or(|(then, now)| then == now);
            if (status.dev(), status.ino()) != (id.device, id.inode) || !same_generation {
                return Err(refused(Refusal::AnotherFile));
            }
        }
        let facts = Facts::of(&file, path)?;
        let block_bytes = rustix::fs::fstatfs(&file)
            .map_err(|errno| MigrateError::system(path, "look at its file system")(errno.into()))?;
        let block_bytes = u64::try_from(block_bytes.f_bsize).unwrap_or(4096).max(512);
        // Readahead would read what is not moved.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        Ok(Self { file, path: path.to_owned(), device: status.dev(), block_bytes, facts })
    }

    /// Opens it once more, as a way of moving needs it; the same inode, whatever its name is now.
    pub(super) fn reopen(&mut self, opening: Opening) -> Result<(), MigrateError> {
        match opening {
            Opening::Read => return Ok(()),
            Opening::Write => {
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
                self.file = match rustix::fs::open(own, flags, Mode::empty()) {
                    Ok(file) => File::from(file),
                    Err(errno) => {
                        let refusal = match errno {
                            rustix::io::Errno::TXTBSY => Refusal::Running,
                            rustix::io::Errno::ROFS => Refusal::ReadOnly,
                            other => Refusal::Open(format!("for writing: {}", io::Error::from(other))),
                        };
                        return Err(MigrateError::refused(&self.path, refusal));
                    }
                };
            }
            Opening::XfsInvisible => {
                let folder = File::open(self.folder());
                let opened = folder.and_then(|folder| ioctl::xfs_open_invisibly(&self.file, &folder));
                let needs =
                    |error| Refusal::Open(format!("without changing its times (CAP_SYS_ADMIN is needed): {error}"));
                self.file = opened.map_err(|error| MigrateError::refused(&self.path, needs(error)))?;
            }
        }
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Random);
        Ok(())
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The name it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of that name.
    pub fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// `st_dev`.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Whether this user owns it.
    pub(super) fn is_own(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw())
    }

    /// Whether this user may write to it.
    pub(super) fn is_writable(&self) -> bool {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::accessat(rustix::fs::CWD, own, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    /// Whether this user may make files beside it, as the room for a copy is one.
    pub(super) fn can_have_donor(&self) -> bool {
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(rustix::fs::CWD, self.folder(), access, AtFlags::EACCESS).is_ok()
    }

    /// The file system's block.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// What the system says of it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Its size now.
    pub fn size_bytes(&self) -> Result<u64, MigrateError> {
        let status = self.file.metadata().map_err(MigrateError::system(&self.path, "look at it"))?;
        Ok(status.len())
    }

    /// Lets the page cache drop what it has of `range`, other than what is dirty or mapped.
    ///
    /// The kernel drops no folio in part (`find_lock_entries`, mm/filemap.c), and folios lie at multiples of their size: where some of
    /// `range` stays, as much around it is dropped as its folios may hold.
    pub(super) fn forget(&self, range: ByteRange) {
        // No length would be everything up to the end.
        if range.is_empty() {
            return;
        }
        for folio_bytes in FOLIO_BYTES {
            let start = range.start - range.start % folio_bytes;
            let end = range.end.checked_next_multiple_of(folio_bytes).unwrap_or(range.end);
            let length = std::num::NonZeroU64::new(end.saturating_sub(start));
            let _ = rustix::fs::fadvise(&self.file, start, length, Advice::DontNeed);
            // Kernels that do not tell (before Linux 6.5) have single pages on ext4.
            if ioctl::cached_pages(&self.file, range.start, range.len()).is_ok_and(|cached| cached.clean > 0) {
                continue;
            }
            break;
        }
    }

    /// Has the page cache read `range`, in one go; as the file is open for access at random, into single pages (`force_page_cache_ra`,
    /// mm/readahead.c).
    pub(super) fn read_ahead(&self, range: ByteRange) {
        let mut buffer = vec![0; usize::try_from(range.len()).unwrap_or(0)];
        // What fails here fails once more, and is told, where it is moved.
        let _ = self.file.read_at(&mut buffer, range.start);
    }

    /// Where `range` lies now, after everything dirty has been written.
    pub fn map(&self, range: ByteRange) -> Result<ExtentMap, MigrateError> {
        let size = self.size_bytes()?;
        self.map_of_size(range, size).map_err(MigrateError::extents(&self.path))
    }

    fn map_of_size(&self, range: ByteRange, size: u64) -> Result<ExtentMap, FiemapError> {
        read_map_range(&self.file, range, size, WriteBack::First)
    }
}
