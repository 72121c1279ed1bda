//! A file under a name that other runs may want at the same time.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;

use super::error::JournalError;

/// Times that a name is looked at again which others change.
const ATTEMPTS: u32 = 20;

/// A file that this process has locked under its name.
#[derive(Debug)]
pub(super) struct Locked {
    pub path: PathBuf,
    pub file: File,
}

impl Locked {
    /// An empty file of this name for this process alone; what a killed one left there goes.
    pub fn draft(path: &Path) -> Result<Self, JournalError> {
        let io = |error| JournalError::Io { path: path.to_owned(), error };
        for _ in 0..ATTEMPTS {
            match OpenOptions::new().read(true).append(true).create_new(true).open(path) {
                Ok(file) => {
                    lock(&file, path)?;
                    let locked = Self { path: path.to_owned(), file };
                    if locked.has_name() {
                        return Ok(locked);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match Self::open(path) {
                    Err(JournalError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
                    left => left?.remove()?,
                },
                Err(error) => return Err(io(error)),
            }
        }
        Err(JournalError::Busy { path: path.to_owned() })
    }

    /// The file of this name, for this process alone.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let io = |error| JournalError::Io { path: path.to_owned(), error };
        for _ in 0..ATTEMPTS {
            let found = path.metadata().map_err(io)?;
            if !found.is_file() {
                return Err(JournalError::Foreign { path: path.to_owned() });
            }
            let file = OpenOptions::new().read(true).append(true).open(path).map_err(io)?;
            lock(&file, path)?;
            let locked = Self { path: path.to_owned(), file };
            // Who had the lock may have put it aside, or removed it, meanwhile.
            if locked.has_name() {
                return Ok(locked);
            }
        }
        Err(JournalError::Busy { path: path.to_owned() })
    }

    /// Whether the name still is this file's.
    pub fn has_name(&self) -> bool {
        let (Ok(named), Ok(open)) = (self.path.metadata(), self.file.metadata()) else { return false };
        (named.dev(), named.ino()) == (open.dev(), open.ino())
    }

    pub fn remove(self) -> Result<(), JournalError> {
        std::fs::remove_file(&self.path).map_err(|error| JournalError::Io { path: self.path, error })
    }

    /// Renames it to `NAME.old`, in place of one put aside before.
    pub fn put_aside(self) -> Result<PathBuf, JournalError> {
        let aside = beside(&self.path, ".old");
        std::fs::rename(&self.path, &aside).map_err(|error| JournalError::Io { path: self.path, error })?;
        Ok(aside)
    }
}

pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Renames a file to a name that nobody has.
pub(super) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // File systems that do not know the flag, such as NFS and FAT.
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => std::fs::rename(from, to),
        done => done.map_err(io::Error::from),
    }
}

fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    // A process that is just being started holds copies of its parent's files until it becomes another program.
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 1..ATTEMPTS {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            done => return done.map_err(|errno| JournalError::Io { path: path.to_owned(), error: errno.into() }),
        }
    }
    Err(JournalError::Busy { path: path.to_owned() })
}
