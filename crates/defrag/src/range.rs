//! A range of a file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of a file from `start` up to `end`, without `end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
}

impl ByteRange {
    /// `length` bytes from `start` on; `None` where that leaves 64 bits.
    pub fn new(start: u64, length: u64) -> Option<Self> {
        Some(Self { start, end: start.checked_add(length)? })
    }

    /// Bytes in it.
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// What both have in common, if anything.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let common = Self { start: self.start.max(other.start), end: self.end.min(other.end) };
        (!common.is_empty()).then_some(common)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}
