//! Bitmaps that programs in the kernel keep of files' pages, one for each file that somebody asked for.
//!
//! The programs sit at the tracepoints of pages that come into the page cache and leave it, whoever causes that, and look in a table if
//! the page's file has an array ([`bits`](super::bits) says what is in it). An array is frozen: no process can change it, and who has its
//! descriptor can map it and read it like his own memory.

mod program;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use observe::bpf::{Array, Arrays, Attached, attach};
use observe::mounts::Mounts;
use observe::tracefs::{self, Format, device_to_kernel};
use prefetch::{PAGE_BYTES, Range};
use rustix::fs::FileType;

use super::Residency;
use super::bits::{Bits, PAGES, WORDS};
pub use program::Key;
use program::{Event, program};

/// Files that are followed at once.
pub const FILES: u32 = 4096;

/// The largest file: its array takes 32 MiB.
const MOST_BYTES: u64 = 256 << 30;

/// File systems whose superblock's device and inode number name one file, and whose pages all come and go by the tracepoints. On btrfs and
/// bcachefs subvolumes share numbers, on overlays the pages are another file's, and tmpfs has its own way.
const FILE_SYSTEMS: [&str; 4] = ["ext4", "xfs", "f2fs", "ext2"];

/// Programs that are attached as long as this lives, and the table of the files that they follow.
pub struct Tracker {
    // Detached first: programs name the table.
    _programs: Vec<Attached>,
    arrays: Arrays<Key, WORDS>,
}

impl Tracker {
    /// Attaches them.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON; where there is no tracefs, or the kernel's tracepoints do not say enough.
    pub fn attach() -> io::Result<Self> {
        let root = tracefs::root().map_err(io::Error::other)?;
        let arrays = Arrays::create(FILES)?;
        let programs = [Event::Delete, Event::Add].map(|event| {
            let format = Format::read(&root, "filemap", event.name()).map_err(io::Error::other)?;
            let found = format.and_then(|format| Some((program(event, &format, arrays.as_fd())?, format)));
            let missing = || io::Error::other(format!("{} does not say how large a folio is", event.name()));
            let (instructions, format) = found.ok_or_else(missing)?;
            attach(&instructions, &format)
        });
        let programs = programs.into_iter().collect::<io::Result<_>>()?;
        Ok(Self { _programs: programs, arrays })
    }

    /// Follows a file from now on: its array, of so many [`entries`].
    ///
    /// # Errors
    /// Where its pages cannot be told from another file's, it is too large, or there is no room.
    pub fn follow(&self, file: BorrowedFd<'_>) -> io::Result<(Key, Array<WORDS>, u32)> {
        let (key, bytes) = key_of(file)?;
        let entries = u32::try_from(entries(bytes)).map_err(io::Error::other)?;
        let array = Array::create(entries)?;
        self.arrays.set(&key, &array)?;
        Ok((key, array, entries))
    }

    /// Follows it no more. Who has its array sees the last state.
    pub fn forget(&self, key: Key) {
        // It may be gone by itself.
        let _ = self.arrays.remove(&key);
    }
}

/// The name of a file, and its size.
pub fn key_of(file: BorrowedFd<'_>) -> io::Result<(Key, u64)> {
    let refused = |why: String| io::Error::new(io::ErrorKind::Unsupported, why);
    // What it is a file of is known before the file system is asked anything: one in user space need not answer.
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    let mounts = Mounts::now()?;
    let mount = id.and_then(|id| mounts.with_id(id));
    let mount = mount.ok_or_else(|| refused("a file of a mount that is not seen here".to_owned()))?;
    if !FILE_SYSTEMS.contains(&mount.file_system.as_str()) {
        return Err(refused(format!("a file of {}, whose pages cannot be followed", mount.file_system)));
    }
    let about = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Err(refused("no regular file".to_owned()));
    }
    let device = u64::from(device_to_kernel(mount.kernel_device));
    Ok((Key { device, inode: about.st_ino }, u64::try_from(about.st_size).unwrap_or(0)))
}

/// Entries of a file's array: with room for it to grow to twice its size.
pub fn entries(bytes: u64) -> u64 {
    bytes.min(MOST_BYTES).div_ceil(PAGE_BYTES).saturating_mul(2).max(PAGES).div_ceil(PAGES)
}

/// The source that follows files as they are asked for.
pub struct Bpf {
    tracker: Tracker,
    followed: Mutex<BTreeMap<Key, Option<Bits>>>,
}

impl Bpf {
    /// Attaches the programs.
    ///
    /// # Errors
    /// As [`Tracker::attach`].
    pub fn attach() -> io::Result<Self> {
        Ok(Self { tracker: Tracker::attach()?, followed: Mutex::default() })
    }
}

impl Residency for Bpf {
    fn resident_pages(&self, file: BorrowedFd<'_>, range: Range) -> Option<u64> {
        let about = rustix::fs::fstat(file).ok()?;
        // By what `stat` says; who has that number twice is refused by `key_of`.
        let name = Key { device: about.st_dev, inode: about.st_ino };
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if !followed.contains_key(&name) {
            if followed.len() >= FILES as usize {
                for (name, bits) in std::mem::take(&mut *followed) {
                    if bits.is_some() {
                        self.tracker.forget(Key { device: device_to_kernel(name.device).into(), ..name });
                    }
                }
            }
            let found = self.tracker.follow(file);
            let bits = found.and_then(|(_, array, entries)| Bits::new(array.as_fd(), entries, file)).ok();
            followed.insert(name, bits);
        }
        // Behind what the array was made for only the kernel knows.
        followed.get(&name)?.as_ref()?.resident_pages(range).or_else(|| super::cachestat::resident_pages(file, range))
    }
}
