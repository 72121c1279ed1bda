//! Files whose pieces lie on the device in turns.
//!
//! Most file systems put what is appended past the page cache where it comes, so appending to the files in turns lays
//! them out. ext4 keeps room behind each file and puts its appends together again; there the files get their blocks
//! from one donor, piece by piece (`EXT4_IOC_MOVE_EXT`), before they hold any data.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{FallocateFlags, fallocate};

use super::access::Buffer;
use super::{Interleaved, StudyError};
use crate::migrate::move_extents;

/// Bytes of an ext4 block that the layout counts in: what `mkfs.ext4` makes but on the smallest devices.
const BLOCK: u64 = 4096;

/// The files' paths.
pub fn paths(data: &Interleaved, folder: &Path) -> Vec<PathBuf> {
    (0..data.files).map(|number| folder.join(format!("file{number}"))).collect()
}

/// Makes the files in an empty folder.
pub fn lay_out(data: &Interleaved, folder: &Path, system: &str, seed: u64) -> Result<Vec<PathBuf>, StudyError> {
    let paths = paths(data, folder);
    let files = paths.iter().map(|path| create(path)).collect::<Result<Vec<File>, StudyError>>()?;
    let mut content = Content { random: Xoshiro256PlusPlus::seed_from_u64(seed), buffer: Buffer::new(data.size.0) };
    if system == "ext4" {
        from_a_donor(data, folder, &paths, &files)?;
        for (path, file) in paths.iter().zip(&files) {
            content.write(file, path, 0, data.size.0)?;
        }
    } else {
        for (start, length) in data.pieces() {
            for (path, file) in paths.iter().zip(&files) {
                content.write(file, path, start, length)?;
            }
        }
    }
    for (path, file) in paths.iter().zip(&files) {
        file.sync_all().map_err(StudyError::file("write out", path))?;
    }
    Ok(paths)
}

fn create(path: &Path) -> Result<File, StudyError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).custom_flags(libc::O_DIRECT);
    options.open(path).map_err(StudyError::file("make", path))
}

/// Random bytes, so that no file system compresses them away.
struct Content {
    random: Xoshiro256PlusPlus,
    buffer: Buffer,
}

impl Content {
    fn write(&mut self, file: &File, path: &Path, start: u64, length: u64) -> Result<(), StudyError> {
        let memory = self.buffer.first(length);
        self.random.fill(&mut *memory);
        file.write_all_at(memory, start).map_err(StudyError::file("write", path))
    }
}

/// Gives the files, still without data, blocks that lie in turns on the device.
fn from_a_donor(data: &Interleaved, folder: &Path, paths: &[PathBuf], files: &[File]) -> Result<(), StudyError> {
    let donor_path = folder.join("donor");
    let donor = create(&donor_path)?;
    let allocate = |file: &File, path: &Path, bytes: u64| {
        fallocate(file, FallocateFlags::empty(), 0, bytes)
            .map_err(|errno| StudyError::file("allocate room for", path)(errno.into()))
    };
    allocate(&donor, &donor_path, data.size.0.saturating_mul(data.files.into()))?;
    for (path, file) in paths.iter().zip(files) {
        allocate(file, path, data.size.0)?;
    }
    let mut from = 0;
    for (start, length) in data.pieces() {
        for (path, file) in paths.iter().zip(files) {
            let (mut done, blocks) = (0, length / BLOCK);
            while done < blocks {
                let (moved, result) =
                    move_extents(file, &donor, start / BLOCK + done, from / BLOCK + done, blocks - done);
                result.map_err(StudyError::file("give blocks to", path))?;
                if moved == 0 {
                    return Err(StudyError::file("give blocks to", path)(std::io::Error::other("none were moved")));
                }
                done += moved;
            }
            from += length;
        }
    }
    drop(donor);
    std::fs::remove_file(&donor_path).map_err(StudyError::file("remove", &donor_path))
}
