//! FP-B: no trace; each file as if it were read from end to end.

use super::assumed::{Accesses, Candidate};
use crate::ByteRange;
use crate::analysis::Touch;
use crate::extents::{Direction, ExtentMap};

/// Windows of `window_bytes` from the file's start on, the last ending with the file.
pub(super) fn candidates(window_bytes: u64, map: &ExtentMap) -> impl Iterator<Item = Candidate<'_>> {
    let accesses = move |range| Accesses::EndToEnd { range, bytes: window_bytes };
    mapped(map, window_bytes).map(move |range| Candidate { range, accesses: accesses(range) })
}

/// Stretches of `bytes`, counted from the file's start, with any extent in them: a sparse file
/// may have more stretches than can be counted through.
pub(super) fn mapped(map: &ExtentMap, bytes: u64) -> impl Iterator<Item = ByteRange> {
    let bytes = bytes.max(1);
    let whole = map.whole();
    let mut next = 0;
    let indices = map.extents().iter().flat_map(move |extent| {
        let range = extent.range();
        let first = (range.start / bytes).max(next);
        next = range.end.div_ceil(bytes).max(first);
        first..next
    });
    indices.filter_map(move |index| stretch(index, bytes).intersection(&whole))
}

fn stretch(index: u64, bytes: u64) -> ByteRange {
    ByteRange { start: index.saturating_mul(bytes), end: index.saturating_add(1).saturating_mul(bytes) }
}

/// Reads of `bytes`, aligned to multiples of it and cut to `all`, that touch `part`.
pub(super) fn stretches(all: ByteRange, bytes: u64, part: ByteRange) -> impl Iterator<Item = Touch> {
    let bytes = bytes.max(1);
    let (first, last) = (part.start / bytes, part.end.div_ceil(bytes));
    (first..last).filter_map(move |index| {
        let range = stretch(index, bytes).intersection(&all)?;
        Some(Touch { range, direction: Direction::Read, count: 1 })
    })
}
