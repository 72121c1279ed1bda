//! Finding and opening a file system, and what its errors mean for somebody at a terminal.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use betrfs::{Caller, Error, InodeNumber, Name, Operations, Volume, VolumeOptions};
use clap::Args;
use storage::{File, FileOptions, StorageError};
use units::ByteSize;

use super::serving;
use crate::failure::Failure;

/// How long to wait for who has it open: a server that was just unmounted is writing what is left.
const PATIENCE: Duration = Duration::from_secs(5);
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// Which file system.
#[derive(Args)]
pub struct ImageFlags {
    /// A file or a block device with a file system on it
    #[arg(value_name = "FILE")]
    pub image: PathBuf,
    /// Memory for what was read
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub cache: ByteSize,
}

impl ImageFlags {
    /// Opens it, which recovers it.
    pub fn open(&self) -> Result<Volume, Failure> {
        Volume::open(file(&self.image, None)?, self.options()).map_err(|error| fault(&self.image, &error))
    }

    pub fn options(&self) -> VolumeOptions {
        let mut options = VolumeOptions::default();
        options.store.cache_bytes = self.cache.0 as usize;
        options
    }

    pub fn fault(&self, error: &Error) -> Failure {
        fault(&self.image, error)
    }
}

/// A path in a file system that nobody has mounted: the directory and the name in it; none for the root.
pub fn place<'a>(volume: &Volume, path: &'a str) -> Result<Option<(InodeNumber, Name<'a>)>, Error> {
    let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let Some(last) = names.pop() else { return Ok(None) };
    let mut parent = InodeNumber::ROOT;
    for name in names {
        parent = volume.lookup(parent, Name::new(name.as_bytes())?)?.inode;
    }
    Ok(Some((parent, Name::new(last.as_bytes())?)))
}

/// Who may write the file that all of it lies on may do everything.
pub fn owner() -> Caller<'static> {
    Caller { uid: 0, gid: 0, groups: &[], umask: 0, now: serving::now() }
}

/// The file or device under a file system, locked.
pub fn file(path: &Path, capacity_bytes: Option<u64>) -> Result<File, Failure> {
    file_as(path, &FileOptions { capacity_bytes, ..FileOptions::default() })
}

/// The same, opened in this way.
pub fn file_as(path: &Path, options: &FileOptions) -> Result<File, Failure> {
    let began = Instant::now();
    loop {
        let error = match File::open(path, options) {
            Ok(file) => return Ok(file),
            Err(error) => error,
        };
        let path = path.display();
        match &error {
            StorageError::Locked { .. } if began.elapsed() < PATIENCE => thread::sleep(TRY_AGAIN),
            StorageError::Locked { .. } => {
                return Err(Failure::Machine(format!(
                    "{path}: in use, most likely mounted; `mount -t fuse.plumb` shows where, and umount ends that"
                )));
            }
            StorageError::Open { source: Some(source), .. } if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(Failure::input(format!(
                    "{path}: there is no such file; make a file system with `plumb fs mkfs {path} --size 10GiB`"
                )));
            }
            StorageError::Open { .. } => return Err(Failure::input(error)),
            _ => return Err(Failure::Machine(error.to_string())),
        }
    }
}

/// An error of the file system, with its name and what to do.
pub fn fault(path: &Path, error: &Error) -> Failure {
    let path = path.display();
    match error {
        Error::Corrupt(what) => {
            Failure::Machine(format!("{path}: damaged: {what}; `plumb fs fsck {path}` says what is wrong"))
        }
        Error::NoSpace => Failure::Machine(format!("{path}: too small or full")),
        error => Failure::Machine(format!("{path}: {error}")),
    }
}
