//! Runs the tasks on real files.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use super::step::{Blocks, Change, File, PART_BLOCKS, Race, Step, steps};

const BLOCK_BYTES: u64 = 4096;
const COMMON: &str = "common";

/// A race that could not be run.
#[derive(Debug, thiserror::Error)]
#[error("task {task}: {step}: {error}")]
pub struct RaceError {
    /// Counted from 0.
    pub task: u32,
    /// What was being done.
    pub step: String,
    /// What the system said.
    pub error: io::Error,
}

/// Makes the files in `folder` where they are not there, makes them durable, and runs the tasks. What the last steps wrote is synced
/// by nobody. A full disk is no error.
///
/// # Errors
/// Where a call fails.
pub fn run(race: Race, folder: &Path) -> Result<(), RaceError> {
    let failed = |error| RaceError { task: 0, step: "making the files".to_owned(), error };
    let names = (0..race.tasks).map(own).chain([COMMON.to_owned()]);
    for name in names {
        let path = folder.join(&name);
        if !path.exists() {
            let blocks = if name == COMMON { PART_BLOCKS * u64::from(race.tasks) } else { 4 };
            fs::write(&path, filled(u32::MAX, 0, 0, blocks)).map_err(failed)?;
        }
    }
    rustix::fs::sync();
    let start = Barrier::new(race.tasks as usize);
    std::thread::scope(|scope| {
        let start = &start;
        let tasks: Vec<_> = (0..race.tasks)
            .map(|number| scope.spawn(move || Task { number, folder: folder.to_owned() }.run(race, start)))
            .collect();
        let lost = |_| Err(RaceError { task: 0, step: "a task".to_owned(), error: io::Error::other("it panicked") });
        tasks.into_iter().try_for_each(|task| task.join().unwrap_or_else(lost))
    })
}

fn own(task: u32) -> String {
    format!("own-{task}")
}

/// Blocks that say who wrote them when.
fn filled(task: u32, step: usize, block: u64, count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in block..block + count {
        let line = format!("task {task:>10} step {step:>5} block {block:>4} ..................\n");
        bytes.extend(line.bytes().cycle().take(BLOCK_BYTES as usize));
    }
    bytes
}

struct Task {
    number: u32,
    folder: PathBuf,
}

impl Task {
    fn run(self, race: Race, start: &Barrier) -> Result<(), RaceError> {
        start.wait();
        for (number, step) in steps(race, self.number).into_iter().enumerate() {
            match self.step(step, number) {
                Ok(()) => {}
                // Nothing to collapse, a file that is too short, or a full disk.
                Err(error)
                    if matches!(Errno::from_io_error(&error), Some(Errno::NOSPC | Errno::INVAL | Errno::OPNOTSUPP)) => {
                }
                Err(error) => return Err(RaceError { task: self.number, step: format!("{step:?}"), error }),
            }
        }
        Ok(())
    }

    fn open(&self, file: File, flags: OFlags) -> io::Result<fs::File> {
        let name = if file == File::Common { COMMON.to_owned() } else { own(self.number) };
        OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(self.folder.join(name))
    }

    /// Where a block is in its file.
    fn offset(&self, file: File, block: u64) -> u64 {
        let part = if file == File::Common { PART_BLOCKS * u64::from(self.number) } else { 0 };
        (part + block) * BLOCK_BYTES
    }

    fn step(&self, step: Step, number: usize) -> io::Result<()> {
        match step {
            Step::Write(Blocks { file, first, count }) => {
                let bytes = filled(self.number, number, first, count);
                self.open(file, OFlags::empty())?.write_all_at(&bytes, self.offset(file, first))
            }
            Step::WriteDirect(Blocks { file, first, count }) => {
                let mut buffer = vec![0; ((count + 1) * BLOCK_BYTES) as usize];
                let skew = buffer.as_ptr().align_offset(BLOCK_BYTES as usize);
                let bytes = filled(self.number, number, first, count);
                let aligned = buffer.get_mut(skew..skew + bytes.len()).unwrap_or_default();
                aligned.copy_from_slice(&bytes);
                self.open(file, OFlags::DIRECT)?.write_all_at(aligned, self.offset(file, first))
            }
            Step::Store(Blocks { file, first, count }) => {
                let file_here = self.open(file, OFlags::empty())?;
                store(&file_here, self.offset(file, first), &filled(self.number, number, first, count))
            }
            Step::StartWriteback(file) => start_writeback(&self.open(file, OFlags::empty())?),
            Step::Sync(file) => self.open(file, OFlags::empty())?.sync_all(),
            Step::SyncData(file) => self.open(file, OFlags::empty())?.sync_data(),
            Step::Resize(blocks) => self.open(File::Own, OFlags::empty())?.set_len(blocks * BLOCK_BYTES),
            Step::Change(change, Blocks { file, first, count }) => {
                let flags = match change {
                    Change::Allocate => FallocateFlags::empty(),
                    Change::AllocateBehind => FallocateFlags::KEEP_SIZE,
                    Change::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    Change::Zero => FallocateFlags::ZERO_RANGE,
                    Change::Collapse => FallocateFlags::COLLAPSE_RANGE,
                };
                let file = self.open(file, OFlags::empty())?;
                Ok(rustix::fs::fallocate(file, flags, first * BLOCK_BYTES, count * BLOCK_BYTES)?)
            }
            Step::Rename => {
                let (name, other) =
                    (self.folder.join(own(self.number)), self.folder.join(format!("renamed-{}", self.number)));
                fs::rename(&name, &other)?;
                fs::rename(&other, &name)
            }
            Step::MakeAndRemove => {
                let name = self.folder.join(format!("made-{}-{number}", self.number));
                fs::File::create_new(&name)?;
                fs::File::open(&self.folder)?.sync_all()?;
                fs::remove_file(&name)
            }
        }
    }
}

/// Stores through a shared mapping of a range that lies in the file, and has it written.
fn store(file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let length = bytes.len();
    if file.metadata()?.len() < offset + length as u64 {
        return Ok(());
    }
    // SAFETY: a new mapping of `length` bytes that lie in the file, which only this task makes shorter, at an address of the kernel's
    // choice; nothing else uses it, it is written within its bounds, and unmapped once, after its last use.
    unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let address = rustix::mm::mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, file, offset)?;
        address.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), length);
        let written = rustix::mm::msync(address, length, MsyncFlags::SYNC);
        rustix::mm::munmap(address, length)?;
        Ok(written?)
    }
}

/// `sync_file_range` of the whole file, without waiting.
fn start_writeback(file: &fs::File) -> io::Result<()> {
    // SAFETY: the call takes no pointers, and the descriptor is open.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_leaves_the_common_file_whole() {
        let folder = tempfile::tempdir().unwrap();
        let race = Race { tasks: 3, steps: 60, seed: 5 };
        run(race, folder.path()).unwrap();
        let common = fs::read(folder.path().join(COMMON)).unwrap();
        assert_eq!(common.len() as u64, 3 * PART_BLOCKS * BLOCK_BYTES);
        // Each block is what one step of its task, or none, wrote there.
        for (at, block) in common.chunks(BLOCK_BYTES as usize).enumerate() {
            let (task, within) = (at as u64 / PART_BLOCKS, at as u64 % PART_BLOCKS);
            let words: Vec<&str> = std::str::from_utf8(block).unwrap().split_whitespace().collect();
            let is_first = words[1] == u32::MAX.to_string();
            assert!(
                is_first || words[1] == task.to_string() && words[5] == within.to_string(),
                "block {at}: {words:?}"
            );
        }
    }
}
