//! Programs that write while files are moved lose nothing.
//!
//! Each writer updates blocks of the file all the time, near the place that is being moved, and reads each block back
//! before it writes it anew: a block that is not what was written last is a lost update. `PLUMB_LONG=1` goes on to a
//! million updates for each file system and writer; `PLUMB_UPDATES` says another number.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use disk::mutant::PunchAndRewrite;
use disk::{Dice, Disk, System, skipped};
use plumb_defrag::ByteRange;
use plumb_defrag::migrate::{FileMover, Migrate, MoveOptions, Unlimited};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

const BLOCK: usize = 4096;
const LENGTH: u64 = 4 << 20;
const PIECE: u64 = 4096;
const WINDOW: u64 = 32 << 10;
/// Updates without a pause; then a millisecond is slept.
const BURST: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
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
fn content(block: usize, updates: u64) -> Vec<u8> {
    Dice((block as u64) << 32 | updates).bytes(BLOCK)
}

#[derive(Debug, Default)]
struct Outcome {
    updates: u64,
    lost: u64,
    moved: u64,
    left: u64,
}

/// One pass over a file with a writer beside.
fn pass(disk: &Disk, number: u64, way: Way, by: Option<&'static dyn Migrate>) -> Outcome {
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
            let mut access = Blocks::open(&path, way);
            let mut dice = Dice(number);
            let mut updates = vec![0_u64; blocks];
            let (mut count, mut lost) = (0, 0);
            while !over.load(Ordering::Relaxed) {
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
                thread::sleep(Duration::from_millis(1));
            }
            // Everything, at the end.
            for (block, &updates) in updates.iter().enumerate() {
                lost += u64::from(access.read(block) != content(block, updates));
            }
            (count, lost)
        });
        let options = MoveOptions::default();
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

fn wanted_updates() -> u64 {
    let asked = std::env::var("PLUMB_UPDATES").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if std::env::var_os("PLUMB_LONG").is_some() { 1_000_000 } else { 1 })
}

fn loses_nothing(system: System) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::new(system);
    for way in [Way::Buffered, Way::Direct, Way::Mapped] {
        let mut sum = Outcome::default();
        // A pass has some thousands of updates.
        for number in 0..100_000 {
            let one = pass(&disk, number, way, None);
            sum.updates += one.updates;
            sum.lost += one.lost;
            sum.moved += one.moved;
            sum.left += one.left;
            if sum.updates >= wanted_updates() || sum.lost > 0 {
                break;
            }
        }
        println!("{system:?}, {way:?}: {sum:?}");
        assert_eq!(sum.lost, 0, "{way:?}: {sum:?}");
        assert!(sum.moved > 0 && sum.updates > 0, "{way:?}: {sum:?}");
    }
    disk.check();
}

#[test]
fn ext4_loses_nothing() {
    loses_nothing(System::Ext4);
}

#[test]
fn xfs_loses_nothing() {
    loses_nothing(System::Xfs);
}

#[test]
fn xfs_exchange_loses_nothing() {
    loses_nothing(System::XfsExchange);
}

#[test]
fn btrfs_loses_nothing() {
    loses_nothing(System::Btrfs);
}

/// Were it not found out, the tests above would prove nothing.
#[test]
fn the_published_way_loses_updates() {
    for system in [System::Ext4, System::Xfs] {
        if skipped(system) {
            continue;
        }
        let disk = Disk::new(system);
        let outcome = pass(&disk, 0, Way::Buffered, Some(&PunchAndRewrite));
        println!("{system:?}: {outcome:?}");
        assert!(outcome.lost > 0, "{outcome:?}");
    }
}
