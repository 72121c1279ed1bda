//! Programs that write to a file while it is moved.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Lines, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use defrag::ByteRange;
use defrag::migrate::{FileMover, Migrate, MoveOptions, Pace, Stop, Unlimited};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use super::logged::LoggedDevice;
use super::scene::{LENGTH, Shape};
use super::{Dice, Disk, beside, scatter_bytes};

pub const BLOCK: usize = 4096;
const PIECE: u64 = 4096;
const WINDOW: u64 = 32 << 10;
/// Between bursts. ext4 moves no page that is dirty, and no lease is available of a file that is open: without any, hardly
/// anything would be moved.
const PAUSE: Duration = Duration::from_micros(500);
/// The same after many updates beside one window, whose move takes longer than usual: what is moved is what counts.
const LONG_PAUSE: Duration = Duration::from_millis(4);
const MANY_UPDATES: u64 = 384;
/// Updates in and behind a window before it is moved, so that something is dirty; more come while it is moved.
const BEFORE_EACH_WINDOW: u64 = 128;
/// Longest wait for them.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Between two looks at how many there are.
const LOOK_EACH: Duration = Duration::from_micros(500);
/// Longest wait for them under a lease: who opens the file waits for its end, and writes nothing meanwhile.
const LONGEST_WAIT_UNDER_LEASE: Duration = Duration::from_millis(5);

/// How a writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Buffered,
    Direct,
    Mapped,
}

impl Way {
    /// Most updates without a pause: a direct one waits for the device.
    fn burst(self) -> u64 {
        if self == Self::Direct { 8 } else { 32 }
    }
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

    /// Whether a block holds this.
    fn holds(&mut self, block: usize, content: &[u8]) -> bool {
        match self {
            Self::File { file, buffer, skew } => {
                let bytes = &mut buffer[*skew..*skew + BLOCK];
                file.read_exact_at(bytes, (block * BLOCK) as u64).unwrap();
                bytes == content
            }
            Self::Mapping { address, length } => {
                assert!((block + 1) * BLOCK <= *length);
                let mut bytes = [0; BLOCK];
                // SAFETY: within the mapping, which only this thread uses; the file is never shortened.
                unsafe { std::ptr::copy_nonoverlapping(address.add(block * BLOCK), bytes.as_mut_ptr(), BLOCK) };
                bytes == content
            }
        }
    }

    /// Has what was written to a block made lasting.
    fn synchronise(&self, block: usize) {
        match self {
            Self::File { file, .. } => file.sync_data().unwrap(),
            Self::Mapping { address, length } => {
                assert!((block + 1) * BLOCK <= *length);
                // SAFETY: within the mapping.
                let done = unsafe { rustix::mm::msync(address.add(block * BLOCK).cast(), BLOCK, MsyncFlags::SYNC) };
                done.unwrap();
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
            // What is dirty stays in the page cache.
            // SAFETY: the mapping that was made, and nothing refers to it any more.
            let _ = unsafe { rustix::mm::munmap(address.cast(), *length) };
        }
    }
}

/// What a block holds after so many updates.
pub fn content(block: usize, updates: u64) -> Vec<u8> {
    Dice((block as u64) << 32 | updates).bytes(BLOCK)
}

/// What became of a pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub updates: u64,
    pub lost: u64,
    pub moved: u64,
    pub left: u64,
}

/// Where the mover is, and the writer.
#[derive(Default)]
struct Where {
    over: AtomicBool,
    window: AtomicU64,
    /// Updates before it came to this window.
    before: AtomicU64,
    updates: AtomicU64,
}

impl Where {
    /// Until the writer has made some more updates, or for so long at most.
    fn wait_for_updates(&self, longest: Duration) {
        let (begun, enough) = (Instant::now(), self.updates.load(Ordering::Relaxed) + BEFORE_EACH_WINDOW);
        while self.updates.load(Ordering::Relaxed) < enough && begun.elapsed() < longest {
            thread::sleep(LOOK_EACH);
        }
    }
}

/// As with `--rate`: a pause before each slice, for which a lease is given back.
struct Paced<'a>(&'a Where);

impl Pace for Paced<'_> {
    fn before(&mut self, _bytes: u64) -> ControlFlow<Stop> {
        self.0.wait_for_updates(LONGEST_WAIT);
        ControlFlow::Continue(())
    }

    fn waits(&self) -> bool {
        true
    }
}

/// A program that updates blocks in the window that is being moved, or the next, until it is over; and reads each back
/// before it writes it again.
struct Writer<'a> {
    path: &'a Path,
    way: Way,
    reopens: bool,
    dice: Dice,
    /// What the file has to hold.
    expected: Vec<u8>,
}

impl Writer<'_> {
    /// Updates, and those that were lost.
    fn write(mut self, shared: &Where) -> (u64, u64) {
        let (path, way) = (self.path, self.way);
        let blocks = self.expected.len() / BLOCK;
        let mut open = None;
        let (mut count, mut lost) = (0, 0);
        while !shared.over.load(Ordering::Relaxed) {
            let access = open.get_or_insert_with(|| Blocks::open(path, way));
            for _ in 0..=self.dice.below(way.burst()) {
                let near = shared.window.load(Ordering::Relaxed) / BLOCK as u64;
                let block = (near + self.dice.below(2 * WINDOW / BLOCK as u64)) as usize % blocks;
                count += 1;
                let expected = &mut self.expected[block * BLOCK..(block + 1) * BLOCK];
                lost += u64::from(!access.holds(block, expected));
                expected.copy_from_slice(&content(block, count));
                access.write(block, expected);
                shared.updates.store(count, Ordering::Relaxed);
            }
            open = open.filter(|_| !self.reopens);
            let beside = count - shared.before.load(Ordering::Relaxed);
            thread::sleep(if beside < MANY_UPDATES { PAUSE } else { LONG_PAUSE });
        }
        // Everything, at the end; and once more from the device.
        let access = open.get_or_insert_with(|| Blocks::open(path, way));
        for (block, expected) in self.expected.chunks(BLOCK).enumerate() {
            lost += u64::from(!access.holds(block, expected));
        }
        drop(open);
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let found = std::fs::read(path).unwrap();
        assert_eq!(found.len(), self.expected.len());
        lost += found.chunks(BLOCK).zip(self.expected.chunks(BLOCK)).filter(|(is, was)| is != was).count() as u64;
        (count, lost)
    }
}

/// One pass over a file with a writer beside, which has it open all the time or opens it for each burst. Passes of odd and
/// even numbers are made at full speed and with pauses.
pub fn pass(
    disk: &Disk,
    number: u64,
    way: Way,
    by: Option<&'static dyn Migrate>,
    reopens: bool,
    shape: Shape,
) -> Outcome {
    let path = disk.path(&format!("file-{number}"));
    let mut expected: Vec<u8> = (0..LENGTH as usize / BLOCK).flat_map(|block| content(block, 0)).collect();
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    scatter_bytes(&file, disk.system, &expected, 0, PIECE);
    shape.punch(&file, &mut expected);
    drop(file);
    let shared = Where::default();
    let mut outcome = Outcome::default();
    thread::scope(|scope| {
        let writer = Writer { path: &path, way, reopens, dice: Dice(number), expected };
        let writer = scope.spawn(|| writer.write(&shared));
        let options = MoveOptions { open: !reopens, ..MoveOptions::default() };
        let mover = match by {
            Some(by) => FileMover::open_with(&path, by, &options),
            None => FileMover::open(&path, None, &options),
        };
        let mut mover = mover.unwrap();
        for start in (0..LENGTH).step_by(WINDOW as usize) {
            shared.window.store(start, Ordering::Relaxed);
            shared.before.store(shared.updates.load(Ordering::Relaxed), Ordering::Relaxed);
            let range = ByteRange { start, end: start + WINDOW };
            let moved = if number.is_multiple_of(2) {
                mover.migrate(range, &mut Paced(&shared))
            } else {
                shared.wait_for_updates(if reopens { LONGEST_WAIT_UNDER_LEASE } else { LONGEST_WAIT });
                mover.migrate(range, &mut Unlimited)
            };
            let moved = moved.unwrap();
            outcome.moved += u64::from(moved.written_bytes > 0 && moved.left.is_empty());
            outcome.left += u64::from(!moved.left.is_empty());
        }
        drop(mover);
        shared.over.store(true, Ordering::Relaxed);
        (outcome.updates, outcome.lost) = writer.join().unwrap();
    });
    std::fs::remove_file(&path).unwrap();
    // What it was written in turns with, if it was.
    let _ = std::fs::remove_file(beside(&path, 0));
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

/// How blocks are written and synchronised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Synchronised {
    /// By fdatasync(2), to a file that stays open.
    Held,
    /// To one that is opened for each and closed.
    Reopened,
    /// The same by a mapping and msync(2), with a pause between two blocks.
    Mapped { pause: Duration },
}

impl Synchronised {
    /// Between two blocks.
    fn pause(self) -> Duration {
        match self {
            Self::Held => Duration::ZERO,
            Self::Reopened => Duration::from_millis(3),
            Self::Mapped { pause } => pause,
        }
    }
}

/// Writes blocks all over a file, each synchronised before the next, until it is `over`.
pub fn synchronise(
    path: &Path,
    length: u64,
    seed: u64,
    how: Synchronised,
    device: &LoggedDevice,
    over: &AtomicBool,
) -> Vec<Update> {
    let blocks = length / BLOCK as u64;
    let (mut dice, mut updates) = (Dice(seed), Vec::new());
    let mut versions = vec![0_u64; blocks as usize];
    let mut open = None;
    let mut mapper = matches!(how, Synchronised::Mapped { .. }).then(|| Mapper::start(path));
    while !over.load(Ordering::Relaxed) {
        let block = dice.below(blocks) as usize;
        versions[block] += 1;
        let version = versions[block];
        let begun = device.entries();
        match &mut mapper {
            Some(mapper) => mapper.update(block, version),
            None => {
                let access = open.get_or_insert_with(|| Blocks::open(path, Way::Buffered));
                update(access, block, version);
            }
        }
        updates.push(Update { block, version, begun, synchronised: device.entries() });
        if how != Synchronised::Held {
            open = None;
            thread::sleep(how.pause());
        }
    }
    updates
}

fn update(access: &mut Blocks, block: usize, version: u64) {
    access.write(block, &content(block, version));
    // As programs do that write more than one thing before they synchronise.
    thread::sleep(Duration::from_micros(300));
    access.synchronise(block);
}

/// The test in which [`Mapper`] is at work, and the variable that names its file.
pub const MAPPER: &str = "mapper";
const MAPPED_FILE: &str = "PLUMB_MAPPED_FILE";

/// A process that updates blocks by a mapping.
///
/// It cannot be a thread beside the server of the device: a store that waits for the device has its process's memory locked, and the
/// server would wait for that as soon as it needs some.
struct Mapper {
    process: Child,
    replies: Lines<BufReader<ChildStdout>>,
}

impl Mapper {
    fn start(path: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([MAPPER, "--exact", "--nocapture"])
            .env(MAPPED_FILE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let replies = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, replies }
    }

    fn update(&mut self, block: usize, version: u64) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{block} {version}").unwrap();
        let done = format!("{MAPPER} {block} {version}");
        assert!(self.replies.by_ref().any(|line| line.unwrap() == done), "the process that maps the file ended");
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // What it prints at its end has to go somewhere.
        self.replies.by_ref().for_each(drop);
        let _ = self.process.wait();
    }
}

/// What the process does: a block and a version a line, until there are no more; nothing where this is no such process.
pub fn update_by_mapping() {
    let Some(path) = std::env::var_os(MAPPED_FILE) else { return };
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (block, version) = line.split_once(' ').unwrap();
        let mut access = Blocks::open(path.as_ref(), Way::Mapped);
        update(&mut access, block.parse().unwrap(), version.parse().unwrap());
        drop(access);
        println!("\n{MAPPER} {line}");
    }
}
