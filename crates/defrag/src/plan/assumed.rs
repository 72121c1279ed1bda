//! The I/O that a plan is made for: one interface over the three modes.

use super::{bypass, traced, whole};
use crate::ByteRange;
use crate::analysis::{Touch, Window};
use crate::extents::ExtentMap;

/// What is assumed of one file.
#[derive(Clone, Copy, Debug)]
pub enum Assumed<'a> {
    /// The windows that a trace has of it, sorted and without overlaps.
    Traced(&'a [Window]),
    /// Read from end to end by requests of `window_bytes`; only ranges that split are moved.
    Bypass {
        /// The published tool has 128 KiB.
        window_bytes: u64,
    },
    /// The same I/O, but everything is moved that lies in more than one piece.
    Whole {
        /// What the reading is done by.
        window_bytes: u64,
    },
}

/// One window of a mode: where a move may be, and the I/O that it is for.
pub(super) struct Candidate<'a> {
    pub range: ByteRange,
    pub accesses: Accesses<'a>,
}

/// The accesses in a window.
#[derive(Clone, Copy)]
pub(super) enum Accesses<'a> {
    /// Sorted, and none longer than `longest_bytes`.
    Listed { touches: &'a [Touch], longest_bytes: u64 },
    /// Each stretch of `bytes`, counted from the file's start, once.
    EndToEnd { range: ByteRange, bytes: u64 },
}

impl<'a> Assumed<'a> {
    /// Its windows in the file of `map`, in order.
    pub(super) fn candidates(self, map: &'a ExtentMap) -> Box<dyn Iterator<Item = Candidate<'a>> + 'a> {
        match self {
            Self::Traced(windows) => Box::new(traced::candidates(windows, map.size_bytes())),
            Self::Bypass { window_bytes } => Box::new(bypass::candidates(window_bytes, map)),
            Self::Whole { window_bytes } => Box::new(whole::candidates(window_bytes, map)),
        }
    }
}

impl<'a> Assumed<'a> {
    /// The accesses that touch `range` of a file of `size_bytes`, whatever window they are in.
    pub(super) fn touching(self, range: ByteRange, size_bytes: u64) -> Box<dyn Iterator<Item = Touch> + 'a> {
        match self {
            Self::Traced(windows) => {
                let first = windows.partition_point(|window| window.range.end <= range.start);
                let near = windows.get(first..).unwrap_or_default().iter();
                let near = near.take_while(move |window| window.range.start < range.end);
                Box::new(near.flat_map(move |window| traced::accesses(window).touching(range)))
            }
            Self::Bypass { window_bytes: bytes } | Self::Whole { window_bytes: bytes } => {
                Accesses::EndToEnd { range: ByteRange { start: 0, end: size_bytes }, bytes }.touching(range)
            }
        }
    }
}

impl<'a> Accesses<'a> {
    /// Those that touch `range`.
    pub(super) fn touching(self, range: ByteRange) -> Box<dyn Iterator<Item = Touch> + 'a> {
        match self {
            Self::Listed { touches, longest_bytes } => {
                let from = range.start.saturating_sub(longest_bytes);
                let first = touches.partition_point(|touch| touch.range.start < from);
                let last = touches.partition_point(|touch| touch.range.start < range.end);
                let near = touches.get(first..last).unwrap_or_default().iter().copied();
                Box::new(near.filter(move |touch| touch.range.end > range.start))
            }
            Self::EndToEnd { range: all, bytes } => match all.intersection(&range) {
                Some(common) => Box::new(bypass::stretches(all, bytes, common)),
                None => Box::new(std::iter::empty()),
            },
        }
    }
}
