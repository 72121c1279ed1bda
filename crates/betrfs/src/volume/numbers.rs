//! Which inode numbers are given next.
//!
//! A directory takes numbers a chunk at a time, so that what is made in it lies together in the trees, whoever makes things
//! elsewhere meanwhile. What is left of a chunk when the file system is unmounted is never used.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::operations::InodeNumber;

const FIRST_CHUNK: u64 = 16;
const CHUNK_MAX: u64 = 1024;
/// Directories with a chunk at a time.
const CHUNKS_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Numbers {
    /// The first that no chunk has.
    next: u64,
    /// What the store says of it.
    saved: u64,
    /// What is left of each directory's chunk, and how large the next one is.
    chunks: BTreeMap<InodeNumber, (Range<u64>, u64)>,
}

impl Numbers {
    pub fn new(next: u64) -> Self {
        Self { next, saved: next, chunks: BTreeMap::new() }
    }

    /// The first that no chunk has.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A number for something in a directory.
    pub fn take(&mut self, parent: InodeNumber) -> InodeNumber {
        if self.chunks.len() >= CHUNKS_MAX && !self.chunks.contains_key(&parent) {
            self.chunks.pop_first();
        }
        let (left, size) = self.chunks.entry(parent).or_insert((0..0, FIRST_CHUNK));
        if let Some(number) = left.next() {
            return InodeNumber(number);
        }
        *left = self.next + 1..self.next + *size;
        let number = self.next;
        self.next += *size;
        *size = (*size * 2).min(CHUNK_MAX);
        InodeNumber(number)
    }

    /// What the store is to say, where it says something else.
    pub fn unsaved(&self) -> Option<u64> {
        (self.next != self.saved).then_some(self.next)
    }

    /// The store says it.
    pub fn saved(&mut self) {
        self.saved = self.next;
    }
}
