//! Folders for what tests make, and copies of images in them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use tempfile::TempDir;

/// A file system in memory that most systems have.
const MEMORY: &str = "/dev/shm";
/// What has to be free there, and in memory, for the images of tests beside each other.
const ROOM_BYTES: u64 = 6 << 30;
/// Copied at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// A folder in memory if there is room, otherwise where temporary files are.
pub fn in_memory() -> TempDir {
    if has_room() { tempfile::tempdir_in(MEMORY).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn has_room() -> bool {
    let statistics = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = statistics.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = available.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let Ok(space) = rustix::fs::statvfs(MEMORY) else { return false };
    let is_memory = rustix::fs::statfs(MEMORY).is_ok_and(|system| system.f_type == libc::TMPFS_MAGIC);
    is_memory && space.f_bavail * space.f_frsize >= ROOM_BYTES && available.is_some_and(|kib| kib * 1024 >= ROOM_BYTES)
}

/// Copies a file with its holes over what was at `to`.
pub fn copy_image(from: &Path, to: &Path) {
    let source = File::open(from).unwrap();
    let length = source.metadata().unwrap().len();
    let target = OpenOptions::new().write(true).create(true).truncate(true).open(to).unwrap();
    target.set_len(length).unwrap();
    let mut buffer = vec![0; CHUNK_BYTES as usize];
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(&source, SeekFrom::Data(at)) {
            Ok(start) => start,
            // No data from there on.
            Err(Errno::NXIO) => break,
            Err(errno) => panic!("{}: {errno}", from.display()),
        };
        let end = rustix::fs::seek(&source, SeekFrom::Hole(start)).unwrap();
        at = start;
        while at < end {
            let chunk = &mut buffer[..(end - at).min(CHUNK_BYTES) as usize];
            source.read_exact_at(chunk, at).unwrap();
            target.write_all_at(chunk, at).unwrap();
            at += chunk.len() as u64;
        }
    }
}
