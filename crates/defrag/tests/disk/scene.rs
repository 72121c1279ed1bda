//! What is moved while crashes are recorded, how, and beside whom.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

use defrag::ByteRange;
use defrag::migrate::{FileMover, Migrate, MoveOptions, Unlimited};

use rustix::fs::FallocateFlags;

use super::trial::Trial;
use super::writers::{BLOCK, Synchronised};

/// Of every file.
pub const LENGTH: u64 = 4 << 20;
const WINDOW: u64 = 64 << 10;
/// Blocks from one hole to the next.
const HOLE_EACH: usize = 4;
/// Moved on a slow device: some of the longest calls.
const ENOUGH_BYTES: u64 = 1 << 20;
/// Times that a file is tried which others open all the time.
const ATTEMPTS: u32 = 4000;

/// Who uses the file system while the file is moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// Another file grows, and is synchronised.
    Neighbour,
    /// Another file is appended to on a disk that is nearly full, so that it soon gets the blocks that the file had; and for a while
    /// after the file was moved.
    Crowd,
    /// Blocks of the same file are written and synchronised.
    Writer {
        /// The file is opened for each write, and closed.
        reopens: bool,
    },
    /// The same by a mapping and msync(2), opened and closed each time.
    Mapper,
}

impl Beside {
    /// What the disk has free, if it is filled.
    pub fn room_bytes(self) -> Option<u64> {
        match self {
            // Little more than another copy of the file.
            Self::Crowd => Some(10 << 20),
            _ => None,
        }
    }
}

/// Where a file has data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    Whole,
    /// Each fourth block is a hole.
    Holes,
}

impl Shape {
    /// Makes the holes, in the file and in what it is known to hold.
    pub fn punch(self, file: &File, content: &mut [u8]) {
        if self == Self::Whole {
            return;
        }
        for (number, block) in content.chunks_mut(BLOCK).enumerate().skip(HOLE_EACH - 1).step_by(HOLE_EACH) {
            block.fill(0);
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, punch, (number * BLOCK) as u64, BLOCK as u64).unwrap();
        }
        file.sync_all().unwrap();
    }
}

/// A move that crashes are recorded of.
#[derive(Clone, Copy)]
pub struct Scene {
    pub trial: Trial,
    /// The file system's own by default.
    pub way: Option<&'static dyn Migrate>,
    pub beside: Beside,
    pub shape: Shape,
    /// What a request to the device takes, if it is slow; then the file is moved at once, or a part of it where others get in between.
    pub latency: Option<Duration>,
}

impl Scene {
    /// A file without holes, on a quick device.
    pub fn new(trial: Trial, way: Option<&'static dyn Migrate>, beside: Beside) -> Self {
        Self { trial, way, beside, shape: Shape::Whole, latency: None }
    }

    /// How blocks of the file are written meanwhile, if they are.
    pub fn writer(&self) -> Option<Synchronised> {
        match self.beside {
            Beside::Writer { reopens } => Some(if reopens { Synchronised::Reopened } else { Synchronised::Held }),
            // Long enough for a slow device to read what the first call moves.
            Beside::Mapper => Some(Synchronised::Mapped { pause: self.latency.unwrap_or_default() * 40 }),
            _ => None,
        }
    }

    /// Moves a file; how many ranges were moved.
    pub fn moved(&self, path: &Path) -> u64 {
        let open = self.beside == Beside::Writer { reopens: false };
        let options = MoveOptions { open, ..MoveOptions::default() };
        let mover = match self.way {
            Some(way) => FileMover::open_with(path, way, &options),
            None => FileMover::open(path, None, &options),
        };
        let (mut mover, mut moved, mut written_bytes) = (mover.unwrap(), 0, 0);
        let window = if self.latency.is_some() { LENGTH } else { WINDOW };
        for start in (0..LENGTH).step_by(window as usize) {
            for attempt in 1.. {
                let done = mover.migrate(ByteRange { start, end: start + window }, &mut Unlimited).unwrap();
                if self.way.is_none() && self.beside == Beside::Neighbour {
                    assert_eq!((done.pieces_after, &done.left[..]), (1, &[][..]), "at {start}");
                }
                written_bytes += done.written_bytes;
                let is_slow = self.latency.is_some();
                let is_moved =
                    done.written_bytes > 0 && done.left.is_empty() || is_slow && written_bytes >= ENOUGH_BYTES;
                moved += u64::from(is_moved);
                if !is_slow || is_moved {
                    break;
                }
                assert!(attempt < ATTEMPTS, "it was not moved: {done:?}");
            }
            if self.writer().is_some() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        moved
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:?}, {:?}", self.trial.name, self.shape, self.beside)?;
        match self.latency {
            Some(latency) => write!(f, ", {latency:?} a request"),
            None => Ok(()),
        }
    }
}
