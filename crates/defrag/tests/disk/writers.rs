//! Programs that write to a file while it is moved.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use plumb_defrag::ByteRange;
use plumb_defrag::migrate::{FileMover, Migrate, MoveOptions, Unlimited};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use super::logged::LoggedDevice;
use super::{Dice, Disk};

pub const BLOCK: usize = 4096;
const LENGTH: u64 = 4 << 20;
const PIECE: u64 = 4096;
const WINDOW: u64 = 32 << 10;
/// Updates without a pause; then a millisecond is slept.
const BURST: u64 = 8;

/// How a writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Buffered,
    Direct,
    Mapped,
}

/// How a writer gets at the blocks.
enum Blocks {
    File { file: File, buffer: Vec<u8>, skew: usize },
    Mapping { address: *mut u8, length: usize },
}

impl Blocks {
    fn open(path: &Path, way: Way) -> Self {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if way == Way::Direct {
            options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
        }
        let file = options.open(path).unwrap();
        if way != Way::Mapped {
            let buffer = vec![0; 2 * BLOCK];
            let skew = buffer.as_ptr().align_offset(BLOCK);
            return Self::File { file, buffer, skew };
        }
        let length = LENGTH as usize;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let mapped = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        Self::Mapping { address: mapped.unwrap().cast(), length }
    }

    fn read(&mut self, block: usize) -> Vec<u8> {
        match self {
            Self::File { file, buffer, skew } => {
                let bytes = &mut buffer[*skew..*skew + BLOCK];
                file.read_exact_at(bytes, (block * BLOCK) as u64).unwrap();
                bytes.to_vec()
            }
            Self::Mapping { address, length } => {
                assert!((block + 1) * BLOCK <= *length);
                let mut bytes = vec![0; BLOCK];
                // SAFETY: within the mapping, which only this thread uses; the file is never shortened.
                unsafe { std::ptr::copy_nonoverlapping(address.add(block * BLOCK), bytes.as_mut_ptr(), BLOCK) };
                bytes
            }
        }
    }

    fn write(&mut self, block: usize, content: &[u8]) {
        match self {
            Self::File { file, buffer, skew } => {
                let bytes = &mut buffer[*skew..*skew + BLOCK];
                bytes.copy_from_slice(content);
                file.write_all_at(bytes, (block * BLOCK) as u64).unwrap();
            }
            Self::Mapping { address, length } => {
                assert!((block + 1) * BLOCK <= *length && content.len() == BLOCK);
                // SAFETY: within the mapping, which only this thread uses; the file is never shortened.
                unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), address.add(block * BLOCK), BLOCK) };
            }
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        if let Self::Mapping { address, length } = self {
            // SAFETY: the mapping that was made, and nothing refers to it any more.
            unsafe {
                let _ = rustix::mm::msync(address.cast(), *length, MsyncFlags::SYNC);
                let _ = rustix::mm::munmap(address.cast(), *length);
            }
        }
    }
}

/// What a block holds after so many updates.
pub fn content(block: usize, updates: u64) -> Vec<u8> {
    Dice((block as u64) << 32 | updates).bytes(BLOCK)
}

/// What became of a pass.
#[derive(Debug, Default)]
pub struct Outcome {
    pub updates: u64,
    pub lost: u64,
    pub moved: u64,
    pub left: u64,
}

/// One pass over a file with a writer beside, which has it open all the time or opens it for each burst.
pub fn pass(disk: &Disk, number: u64, way: Way, by: Option<&'static dyn Migrate>, reopens: bool) -> Outcome {
    let path = disk.fragmented(&format!("file-{number}"), number, LENGTH, PIECE);
    let blocks = (LENGTH as usize) / BLOCK;
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for block in 0..blocks {
        file.write_all_at(&content(block, 0), (block * BLOCK) as u64).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    let (over, place) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut outcome = Outcome::default();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut open = Some(Blocks::open(&path, way));
            let mut dice = Dice(number);
            let mut updates = vec![0_u64; blocks];
            let (mut count, mut lost) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                let access = open.get_or_insert_with(|| Blocks::open(&path, way));
                for _ in 0..BURST {
                    // Within the window that is being moved, or the next.
                    let near = place.load(Ordering::Relaxed) / BLOCK as u64 + dice.below(2 * WINDOW / BLOCK as u64);
                    let block = near as usize % blocks;
                    if access.read(block) != content(block, updates[block]) {
                        lost += 1;
                    }
                    updates[block] += 1;
                    access.write(block, &content(block, updates[block]));
                    count += 1;
                }
                open = open.filter(|_| !reopens);
                thread::sleep(Duration::from_millis(1));
            }
            // Everything, at the end.
            let access = open.get_or_insert_with(|| Blocks::open(&path, way));
            for (block, &updates) in updates.iter().enumerate() {
                lost += u64::from(access.read(block) != content(block, updates));
            }
            (count, lost)
        });
        let options = MoveOptions { open: !reopens, ..MoveOptions::default() };
        let mover = match by {
            Some(by) => FileMover::open_with(&path, by, &options),
            None => FileMover::open(&path, None, &options),
        };
        let mut mover = mover.unwrap();
        for start in (0..LENGTH).step_by(WINDOW as usize) {
            place.store(start, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
            let moved = mover.migrate(ByteRange { start, end: start + WINDOW }, &mut Unlimited).unwrap();
            outcome.moved += u64::from(moved.written_bytes > 0 && moved.left.is_empty());
            outcome.left += u64::from(!moved.left.is_empty());
        }
        drop(mover);
        over.store(true, Ordering::Relaxed);
        (outcome.updates, outcome.lost) = writer.join().unwrap();
    });
    for entry in std::fs::read_dir(disk.place()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    outcome
}

/// A block that was written and synchronised beside a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    pub block: usize,
    /// Counted from one.
    pub version: u64,
    /// Entries of the device's log before it was written, and once it was synchronised.
    pub begun: usize,
    pub synchronised: usize,
}

impl Update {
    /// What it wrote.
    pub fn content(&self) -> Vec<u8> {
        content(self.block, self.version)
    }
}

/// Writes blocks all over a file, each synchronised before the next, until it is `over`.
pub fn synchronise(path: &Path, length: u64, reopens: bool, device: &LoggedDevice, over: &AtomicBool) -> Vec<Update> {
    let open = || OpenOptions::new().write(true).open(path).unwrap();
    let blocks = length / BLOCK as u64;
    let (mut dice, mut updates, mut file) = (Dice(3), Vec::new(), None);
    let mut versions = vec![0_u64; blocks as usize];
    while !over.load(Ordering::Relaxed) {
        let block = dice.below(blocks) as usize;
        versions[block] += 1;
        let version = versions[block];
        let begun = device.entries();
        let writer = file.get_or_insert_with(open);
        writer.write_all_at(&content(block, version), (block * BLOCK) as u64).unwrap();
        // As programs do that write more than one thing before they synchronise.
        thread::sleep(Duration::from_micros(300));
        writer.sync_data().unwrap();
        updates.push(Update { block, version, begun, synchronised: device.entries() });
        if reopens {
            file = None;
            thread::sleep(Duration::from_millis(3));
        }
    }
    updates
}
