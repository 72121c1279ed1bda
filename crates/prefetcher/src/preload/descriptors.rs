//! What this process knows of its descriptors.
//!
//! The memory is the process's own: a child of `fork` has a copy, one of `exec` begins with nothing, and one of `vfork`, which uses
//! its parent's, can only make the parent ask again. An entry may be out of date, where a descriptor was closed or opened behind the
//! hooks' back; a request carries the file's identity, which the executor compares with what it finds.

use core::sync::atomic::{AtomicU64, Ordering};

/// Descriptors beyond are not followed.
const DESCRIPTORS: usize = 1 << 16;

/// Nothing is known.
const UNKNOWN: u64 = 0;
/// One read was seen that gave all that was asked for.
const READ_ONCE: u64 = 1;
/// Not worth a look: no regular file, a small one, one that is not cached.
const IGNORED: u64 = 2;
/// A file of the table.
const FOLLOWED: u64 = 3;
const KIND: u64 = 3;

/// The second look at what a descriptor is, in the hook's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// To be left alone.
    Ignored,
    /// To be left alone, unless there are more such reads.
    First,
    /// To be looked at now.
    Unknown,
    /// This file of the table.
    Followed {
        /// Its place.
        index: usize,
        /// The place's generation when it was found.
        generation: u32,
    },
}

struct Entry {
    /// Kind, place in the table from bit 2 on, and generation in the upper half.
    word: AtomicU64,
    /// Where the next `read` begins.
    position: AtomicU64,
    /// Reads that are not looked at, and in the upper half whose.
    rest: AtomicU64,
}

static ENTRIES: [Entry; DESCRIPTORS] =
    [const { Entry { word: AtomicU64::new(UNKNOWN), position: AtomicU64::new(0), rest: AtomicU64::new(0) } };
        DESCRIPTORS];

#[inline]
fn entry(fd: i32) -> Option<&'static Entry> {
    ENTRIES.get(fd as u32 as usize)
}

/// What is known of a descriptor that was just read from. The second such read is told to look closer: short files are over by then.
#[inline]
pub fn known(fd: i32) -> Known {
    let Some(entry) = entry(fd) else { return Known::Ignored };
    let word = entry.word.load(Ordering::Relaxed);
    match word & KIND {
        FOLLOWED => Known::Followed { index: (word as u32 >> 2) as usize, generation: (word >> 32) as u32 },
        IGNORED => Known::Ignored,
        READ_ONCE => Known::Unknown,
        _ => {
            entry.word.store(READ_ONCE, Ordering::Relaxed);
            Known::First
        }
    }
}

/// The descriptor is another file's from now on, or nobody's.
#[inline]
pub fn forget(fd: i32) {
    if let Some(entry) = entry(fd)
        && entry.word.load(Ordering::Relaxed) != UNKNOWN
    {
        entry.word.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// As [`forget`], for all from `first` to `last`.
pub fn forget_range(first: u32, last: u32) {
    let end = (last as usize).saturating_add(1).min(DESCRIPTORS);
    for entry in ENTRIES.get(first as usize..end).into_iter().flatten() {
        if entry.word.load(Ordering::Relaxed) != UNKNOWN {
            entry.word.store(UNKNOWN, Ordering::Relaxed);
        }
    }
}

/// The descriptor is not worth another look.
pub fn ignore(fd: i32) {
    if let Some(entry) = entry(fd) {
        entry.word.store(IGNORED, Ordering::Relaxed);
    }
}

/// The descriptor is one of this file of the table, and its next `read` begins at `position`.
pub fn follow(fd: i32, index: usize, generation: u32, position: u64) {
    if let Some(entry) = entry(fd) {
        entry.position.store(position, Ordering::Relaxed);
        entry.rest.store(0, Ordering::Relaxed);
        entry.word.store(FOLLOWED | (index as u64) << 2 | u64::from(generation) << 32, Ordering::Relaxed);
    }
}

/// What is looked at of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// All.
    Whole,
    /// What it adds to the cost of reading at random.
    Cost,
    /// Nothing.
    None,
}

/// In a word of rest: that its reads count at random.
const COUNTED: u64 = 1 << 31;

/// The next so many reads of the descriptor by this thread are not looked at, or only `counted`. One thread rests at a time.
pub fn rest(fd: i32, lane: u32, reads: u32, counted: bool) {
    if let Some(entry) = entry(fd) {
        let counted = if counted && reads > 0 { COUNTED } else { 0 };
        entry.rest.store(u64::from(lane) << 32 | counted | u64::from(reads), Ordering::Relaxed);
    }
}

/// What is looked at of a read by this thread.
#[inline]
pub fn look(fd: i32, lane: u32) -> Look {
    let Some(entry) = entry(fd) else { return Look::None };
    let rest = entry.rest.load(Ordering::Relaxed);
    let left = rest as u32 & !(COUNTED as u32);
    if left == 0 || rest >> 32 != u64::from(lane) {
        return Look::Whole;
    }
    entry.rest.store(rest - 1, Ordering::Relaxed);
    if rest & COUNTED != 0 { Look::Cost } else { Look::None }
}

/// A `read` of so many bytes: where it began.
#[inline]
pub fn advance(fd: i32, bytes: u64) -> u64 {
    entry(fd).map_or(0, |entry| {
        // Threads that share a descriptor may each be wrong by the other's read; a request asks the kernel before it is made.
        let begin = entry.position.load(Ordering::Relaxed);
        entry.position.store(begin.wrapping_add(bytes), Ordering::Relaxed);
        begin
    })
}

/// The next `read` begins here. What was believed before.
#[inline]
pub fn moved(fd: i32, position: u64) -> u64 {
    entry(fd).map_or(position, |entry| {
        let before = entry.position.load(Ordering::Relaxed);
        entry.position.store(position, Ordering::Relaxed);
        before
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_looked_at_on_its_second_read() {
        let fd = 60_000;
        assert_eq!([known(fd), known(fd), known(fd)], [Known::First, Known::Unknown, Known::Unknown]);
        ignore(fd);
        assert_eq!(known(fd), Known::Ignored);
        forget(fd);
        assert_eq!([known(fd), known(fd)], [Known::First, Known::Unknown]);
        follow(fd, 1023, u32::MAX, 4096);
        assert_eq!(known(fd), Known::Followed { index: 1023, generation: u32::MAX });
        assert_eq!((advance(fd, 100), advance(fd, 50), moved(fd, 7), advance(fd, 1)), (4096, 4196, 4246, 7));
        rest(fd, 7, 2, false);
        assert_eq!([7, 8, 7, 7].map(|lane| look(fd, lane)), [Look::None, Look::Whole, Look::None, Look::Whole]);
        rest(fd, 7, 1, true);
        assert_eq!([7, 7].map(|lane| look(fd, lane)), [Look::Cost, Look::Whole]);
        forget_range(59_999, u32::MAX);
        assert_eq!(known(fd), Known::First);
    }

    #[test]
    fn descriptors_beyond_the_room_are_left_alone() {
        for fd in [-1, DESCRIPTORS as i32, i32::MAX] {
            follow(fd, 1, 1, 1);
            forget(fd);
            assert_eq!((known(fd), known(fd), advance(fd, 1)), (Known::Ignored, Known::Ignored, 0));
        }
        forget_range(5, 4);
        forget_range(u32::MAX, u32::MAX);
    }
}
