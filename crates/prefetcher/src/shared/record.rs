//! Every access of programs, for who asks for all of them: a ring that programs write and the launcher takes from, and the names of
//! the files.
//!
//! Nobody waits: what finds no room is counted. A program may be killed while it writes; the place that it took is given up later.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::mutants::{Mutant, mutated};

/// Records that wait.
pub const RECORDS: usize = 1 << 16;

/// Bytes of a name that are kept; of a longer one, the first.
const NAME_BYTES: usize = 248;

/// Numbers of a record.
const WORDS: usize = 6;

/// What a program did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// It read.
    Read,
    /// It asked the kernel to load something.
    Advised,
}

/// An access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The file's place in the table, and whose it was then.
    pub index: u32,
    /// The place's generation.
    pub generation: u32,
    /// What was done.
    pub deed: Deed,
    /// By which thread, as the kernel numbers it.
    pub thread: u32,
    /// First byte.
    pub offset_bytes: u64,
    /// Bytes.
    pub length_bytes: u64,
    /// When the call began, by `CLOCK_MONOTONIC`.
    pub began_ns: u64,
    /// When it returned.
    pub ended_ns: u64,
}

impl Record {
    fn words(&self) -> [u64; WORDS] {
        let deed = u64::from(self.deed == Deed::Advised && !mutated(Mutant::AdviceIsRead));
        [
            u64::from(self.index) | deed << 32,
            u64::from(self.generation) | u64::from(self.thread) << 32,
            self.offset_bytes,
            self.length_bytes,
            self.began_ns,
            self.ended_ns,
        ]
    }

    fn of([place, who, offset_bytes, length_bytes, began_ns, ended_ns]: [u64; WORDS]) -> Self {
        let deed = if place >> 32 == 0 { Deed::Read } else { Deed::Advised };
        let (index, generation, thread) = (place as u32, who as u32, (who >> 32) as u32);
        Self { index, generation, deed, thread, offset_bytes, length_bytes, began_ns, ended_ns }
    }
}

/// One place of the ring.
#[repr(C)]
struct Entry {
    /// One more than the number of the record that is complete here.
    number: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The records that nobody has taken yet.
#[repr(C)]
pub struct Ring {
    /// Records that were begun.
    head: AtomicU64,
    /// Records that were taken.
    tail: AtomicU64,
    /// Records for which there was no room, or whose writer was gone.
    lost: AtomicU64,
    entries: [Entry; RECORDS],
}

impl Ring {
    /// Leaves a record. Whether somebody should come and take them: from when a quarter is full, now and then.
    pub fn push(&self, record: &Record) -> bool {
        let mut number = self.head.load(Ordering::Relaxed);
        loop {
            let is_full = number.wrapping_sub(self.tail.load(Ordering::Acquire)) >= RECORDS as u64;
            if is_full && !mutated(Mutant::RingOverwrites) {
                self.lost.fetch_add(u64::from(!mutated(Mutant::LossUncounted)), Ordering::Relaxed);
                return false;
            }
            let next = number.wrapping_add(1);
            match self.head.compare_exchange_weak(number, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => number = now,
            }
        }
        let entry = &self.entries[number as usize % RECORDS];
        for (place, word) in entry.words.iter().zip(record.words()) {
            place.store(word, Ordering::Relaxed);
        }
        entry.number.store(number.wrapping_add(1), Ordering::Release);
        number.is_multiple_of(RECORDS as u64 / 4)
    }

    /// Takes the oldest record; none where it is not complete, or there is none. One taker at a time.
    pub fn take(&self) -> Option<Record> {
        let number = self.tail.load(Ordering::Relaxed);
        let entry = &self.entries[number as usize % RECORDS];
        if entry.number.load(Ordering::Acquire) != number.wrapping_add(1) && !mutated(Mutant::TakenEarly) {
            return None;
        }
        let mut words = [0; WORDS];
        for (word, place) in words.iter_mut().zip(&entry.words) {
            *word = place.load(Ordering::Relaxed);
        }
        self.tail.store(number.wrapping_add(1), Ordering::Release);
        Some(Record::of(words))
    }

    /// Gives up the oldest record, if it was begun and is not complete. Whether there was one.
    pub fn skip(&self) -> bool {
        let number = self.tail.load(Ordering::Relaxed);
        let entry = &self.entries[number as usize % RECORDS];
        let begun = self.head.load(Ordering::Relaxed) != number;
        if !begun || mutated(Mutant::DeadWaitedFor) || entry.number.load(Ordering::Acquire) == number.wrapping_add(1) {
            return false;
        }
        self.lost.fetch_add(1, Ordering::Relaxed);
        self.tail.store(number.wrapping_add(1), Ordering::Release);
        true
    }

    /// Records that were lost.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// What a file of the table is called, by who found it last.
#[repr(C)]
pub struct Name {
    /// The generation of the file's place.
    generation: AtomicU32,
    length: AtomicU32,
    bytes: [AtomicU8; NAME_BYTES],
}

impl Name {
    /// The file that has this generation is called so.
    pub fn set(&self, generation: u32, name: &[u8]) {
        for (place, byte) in self.bytes.iter().zip(name) {
            place.store(*byte, Ordering::Relaxed);
        }
        self.length.store(name.len().min(NAME_BYTES) as u32, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Release);
    }

    /// The bytes of the name, if it is that of the file of this generation.
    pub fn get(&self, generation: u32) -> Option<impl Iterator<Item = u8> + '_> {
        let is_it = self.generation.load(Ordering::Acquire) == generation || mutated(Mutant::NameOfAnother);
        let length = self.length.load(Ordering::Relaxed) as usize;
        is_it.then(|| self.bytes.iter().take(length).map(|byte| byte.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::table;
    use super::*;

    fn record(number: u64) -> Record {
        Record {
            index: 7,
            generation: u32::MAX,
            deed: if number.is_multiple_of(3) { Deed::Advised } else { Deed::Read },
            thread: 1 << 31,
            offset_bytes: number,
            length_bytes: u64::MAX,
            began_ns: number * 2,
            ended_ns: number * 2 + 1,
        }
    }

    #[test]
    pub(crate) fn records_are_taken_in_order_and_what_has_no_room_is_counted() {
        let table = table();
        let ring = &table.ring;
        assert_eq!(ring.take(), None);
        for number in 0..RECORDS as u64 + 5 {
            ring.push(&record(number));
        }
        assert_eq!(ring.lost(), 5);
        for number in 0..RECORDS as u64 {
            assert_eq!(ring.take(), Some(record(number)));
        }
        assert_eq!((ring.take(), ring.skip()), (None, false));
        ring.push(&record(1));
        assert_eq!(ring.take(), Some(record(1)));
    }

    #[test]
    pub(crate) fn a_killed_writers_place_is_given_up() {
        let table = table();
        let ring = &table.ring;
        ring.head.fetch_add(1, Ordering::Relaxed);
        ring.push(&record(1));
        assert_eq!((ring.take(), ring.skip(), ring.skip()), (None, true, false));
        assert_eq!((ring.take(), ring.lost()), (Some(record(1)), 1));
    }

    #[test]
    fn threads_lose_nothing_while_there_is_room() {
        let table = table();
        let ring = &table.ring;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || (0..1000).for_each(|at| _ = ring.push(&record(thread * 1000 + at))));
            }
        });
        let mut taken: Vec<u64> = std::iter::from_fn(|| ring.take()).map(|record| record.offset_bytes).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..4000).collect::<Vec<_>>());
    }

    #[test]
    pub(crate) fn a_name_is_that_of_its_generation() {
        let table = table();
        let name = &table.names[3];
        name.set(5, b"/srv/data");
        assert_eq!(name.get(5).unwrap().collect::<Vec<_>>(), b"/srv/data");
        assert!(name.get(6).is_none());
        name.set(6, &[b'x'; 1000]);
        assert_eq!(name.get(6).unwrap().count(), NAME_BYTES);
    }
}
