//! What the launcher and the programs under it share: one table in memory, of a fixed size, that no one can wait for.
//!
//! The library in a program looks a file up, takes its lock if it is free, has the policy observe the access, and leaves a
//! request where the policy answers with a plan. The executor in the launcher takes requests and carries them out. Either may
//! be killed at any instruction: a file whose lock is held for long gets another place ([`File::abandon`]), and
//! whoever finds one held goes on without.
//!
//! Everything here is numbers for which any bits are valid: the program owns its memory, and the launcher believes none of it.

mod file;
mod record;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub use file::{Counts, Done, File, Guard, Kind, Request};
#[cfg(test)]
pub(crate) use record::tests as ring_tests;
pub use record::{Deed, Name, Record, Ring};

/// Files that are followed at once.
pub const FILES: usize = 1024;

/// Files in which one is looked for, from the place that its number hashes to.
const PROBES: usize = 8;

/// The name of the environment variable by which a program finds the table: `/proc/PID/fd/N:KEY`.
pub const ENVIRONMENT: &str = "PLUMB_PREFETCH";

/// What begins the table.
pub const MAGIC: u64 = u64::from_le_bytes(*b"plumbpre");

/// How programs behave, and what everybody counts.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`], and the size of the table: a library of another version keeps off.
    pub magic: AtomicU64,
    /// Bytes of the table.
    pub bytes: AtomicU64,
    /// Drawn by the launcher, and in the environment: that a reused process number does not lead to another's memory.
    pub key: AtomicU64,
    /// Set when the launcher ends: there is nobody left to do anything.
    pub over: AtomicU32,
    /// 1 while the executor waits: the word that it waits at.
    pub asleep: AtomicU32,
    /// A program has installed a system call filter; those that it starts look whether they are under one.
    pub filters: AtomicU32,
    /// The program's own advice to the kernel is dropped.
    pub drop_advice: AtomicU32,
    /// Files are loaded whole when they are opened.
    pub whole_at_open: AtomicU32,
    /// Streams are followed.
    pub follow: AtomicU32,
    /// Counts a tenth of a second each: the age of files in the table.
    pub clock: AtomicU32,
    /// Files that are read at random for long are loaded whole.
    pub passes: AtomicU32,
    /// Every access is left in the ring.
    pub records: AtomicU32,
    /// Smaller files are left alone.
    pub min_file_bytes: AtomicU64,
    /// Smaller mappings are left alone.
    pub min_map_bytes: AtomicU64,
    /// Most bytes of one window.
    pub window_bytes: AtomicU64,
    /// Most bytes of a file that are loaded and not read yet.
    pub ahead_bytes: AtomicU64,
    /// What may be loaded of files that are read at random: 0 where they do not fit together.
    pub free_bytes: AtomicU64,
    /// Bytes a second of large requests, as measured last.
    pub bandwidth_bytes_per_second: AtomicU64,
    /// What a small read that is not in memory takes, as measured last.
    pub latency_ns: AtomicU64,
    /// Both of these have been measured, and bound the windows.
    pub is_measured: AtomicU32,
    /// Programs that the library is active in, counted when each starts.
    pub programs: AtomicU64,
    /// Accesses and requests of files that had to leave the table.
    pub left: Counts,
    /// What the executor has done.
    pub done: Done,
}

/// All of it.
#[repr(C)]
pub struct Table {
    /// Settings and counts.
    pub header: Header,
    /// A bit for each file that has requests.
    work: [AtomicU64; FILES / 64],
    /// A bit for each place that a file ever had: what others take of memory is not touched.
    had: [AtomicU64; FILES / 64],
    /// The files.
    files: [File; FILES],
    /// What they are called, where accesses are recorded.
    pub names: [Name; FILES],
    /// Accesses, where they are recorded.
    pub ring: Ring,
}

/// The size of the table, a whole number of pages.
pub const TABLE_BYTES: usize = size_of::<Table>().next_multiple_of(4096);

impl Table {
    /// A file of the table; numbers beyond its end begin again.
    #[inline]
    pub fn file(&self, index: usize) -> &File {
        &self.files[index % FILES]
    }

    /// The places that a file ever had, with their numbers.
    pub fn files(&self) -> impl Iterator<Item = (usize, &File)> {
        let had = self.had.iter().map(|word| word.load(Ordering::Relaxed));
        had.enumerate().flat_map(|(word, bits)| numbers(word, bits)).map(|index| (index, &self.files[index]))
    }

    /// The place of a file in the table, and its generation; room is made by sending the least used away. None where all are in use.
    pub fn place(&self, dev: u64, ino: u64, file_bytes: u64) -> Option<(usize, u32)> {
        let begin = hash(dev, ino);
        let places = || (0..PROBES).map(|step| (begin + step) % FILES);
        if let Some(index) = places().find(|index| self.files[*index].is(dev, ino)) {
            let file = &self.files[index];
            file.file_bytes.store(file_bytes, Ordering::Relaxed);
            return Some((index, file.generation.load(Ordering::Relaxed)));
        }
        let now = self.header.clock.load(Ordering::Relaxed);
        let age = |index: &usize| {
            let file = &self.files[*index];
            if file.is_free() { u32::MAX } else { now.wrapping_sub(file.used_at.load(Ordering::Relaxed)) }
        };
        // One whose lock is held is not to be had.
        let index = places().filter(|index| self.files[*index].held().is_none()).max_by_key(age)?;
        // Before its lock is taken, so that it is looked at if it stays locked.
        self.had[index / 64].fetch_or(1 << (index % 64), Ordering::Relaxed);
        let generation = self.files[index].begin(dev, ino, file_bytes, now, &self.header.left)?;
        Some((index, generation))
    }

    /// Notes that a file has requests. Whether the executor has to be woken.
    pub fn ask(&self, index: usize) -> bool {
        self.work[index % FILES / 64].fetch_or(1 << (index % 64), Ordering::SeqCst);
        self.header.asleep.load(Ordering::SeqCst) != 0
    }

    /// Files that have requests, each once, for the executor.
    pub fn asked(&self) -> impl Iterator<Item = usize> {
        (0..FILES / 64).flat_map(|word| {
            let bits = match self.work[word].load(Ordering::SeqCst) {
                0 => 0,
                _ => self.work[word].swap(0, Ordering::SeqCst),
            };
            numbers(word, bits)
        })
    }

    /// Whether any file has requests.
    pub fn is_asked(&self) -> bool {
        self.work.iter().any(|word| word.load(Ordering::SeqCst) != 0)
    }
}

/// The numbers that the bits of a word stand for.
fn numbers(word: usize, mut bits: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (bit < 64).then_some(word * 64 + bit as usize)
    })
}

/// Spreads device and inode numbers over the table.
fn hash(dev: u64, ino: u64) -> usize {
    let mixed = (ino ^ dev.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % FILES
}

#[cfg(test)]
pub(in crate::shared) mod tests {
    use super::file::PENDING;
    use super::*;
    use crate::policies::Plan;

    pub(in crate::shared) fn table() -> Box<Table> {
        // SAFETY: all zero is an empty table.
        unsafe { Box::<Table>::new_zeroed().assume_init() }
    }

    #[test]
    fn a_file_keeps_its_place_until_others_need_it() {
        let table = table();
        let (index, generation) = table.place(1, 42, 4096).unwrap();
        assert_eq!(table.place(1, 42, 8192), Some((index, generation)));
        assert_ne!(table.place(2, 42, 8192).unwrap().0, index);
        for ino in 100..100 + 4 * FILES as u64 {
            table.header.clock.fetch_add(1, Ordering::Relaxed);
            assert!(table.place(1, ino, 4096).is_some());
        }
        assert_ne!(table.file(index).generation.load(Ordering::Relaxed), generation, "sent away");
        assert!(!table.file(index).is(1, 42));
    }

    #[test]
    fn only_places_that_a_file_had_are_gone_through() {
        let table = table();
        assert_eq!(table.files().count(), 0);
        let mut places: Vec<usize> = [7, 8, 9].map(|ino| table.place(1, ino, 4096).unwrap().0).into();
        places.sort_unstable();
        assert_eq!(table.files().map(|(index, _)| index).collect::<Vec<_>>(), places);
    }

    #[test]
    fn each_file_with_requests_is_named_once() {
        let table = table();
        table.header.asleep.store(1, Ordering::SeqCst);
        assert!([0, 63, 64, 1023, 64].map(|index| table.ask(index)).iter().all(|wake| *wake));
        assert!(table.is_asked());
        assert_eq!(table.asked().collect::<Vec<_>>(), [0, 63, 64, 1023]);
        assert!(!table.is_asked());
    }

    #[test]
    fn a_file_whose_lock_stays_held_gets_another_place_and_its_holder_may_come_back() {
        let table = table();
        let (index, generation) = table.place(1, 42, 4096).unwrap();
        let file = table.file(index);
        let guard = file.try_lock().unwrap();
        assert!(file.try_lock().is_none());
        let seen = file.held().unwrap();
        file.abandon(seen);
        assert!(file.try_lock().is_none() && file.is_free(), "its holder may go on");
        assert_ne!(file.generation.load(Ordering::Relaxed), generation);
        let (other, again) = table.place(1, 42, 4096).unwrap();
        assert_ne!(other, index);
        drop(guard);
        assert!(file.try_lock().is_some(), "others may have it");
        // Who was not meant keeps its place.
        table.file(other).abandon(seen);
        assert_eq!(table.place(1, 42, 4096), Some((other, again)));
    }

    #[test]
    fn requests_beyond_the_room_are_refused() {
        let table = table();
        let (index, _) = table.place(1, 42, 4096).unwrap();
        let mut guard = table.file(index).try_lock().unwrap();
        let request =
            Request { plan: Plan::contiguous(0, 4096), process: 1, fd: 2, kind: Kind::Stream as u32, lane: 0 };
        assert_eq!((0..PENDING + 3).filter(|_| guard.push(request)).count(), PENDING);
        assert_eq!(guard.take().count(), PENDING);
        assert_eq!(guard.take().count(), 0);
    }
}
