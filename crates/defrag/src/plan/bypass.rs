//! FP-B: no trace; each file as if it were read from end to end.

use super::assumed::{Accesses, Candidate};
use crate::ByteRange;
use crate::analysis::Touch;
use crate::extents::Direction;

/// Windows of `window_bytes` from the file's start on; the last ends with the file.
pub(super) fn candidates<'a>(window_bytes: u64, size_bytes: u64) -> impl Iterator<Item = Candidate<'a>> {
    let whole = ByteRange { start: 0, end: size_bytes };
    let windows = stretches(whole, window_bytes, whole);
    windows.map(move |touch| Candidate {
        range: touch.range,
        accesses: Accesses::EndToEnd { range: touch.range, bytes: window_bytes },
        regardless: false,
    })
}

/// Reads of `bytes`, aligned to multiples of it and cut to `all`, that touch `part`.
pub(super) fn stretches(all: ByteRange, bytes: u64, part: ByteRange) -> impl Iterator<Item = Touch> {
    let bytes = bytes.max(1);
    let (first, last) = (part.start / bytes, part.end.div_ceil(bytes));
    (first..last).filter_map(move |index| {
        let stretch = ByteRange { start: index * bytes, end: index.saturating_add(1).saturating_mul(bytes) };
        let range = stretch.intersection(&all)?;
        Some(Touch { range, direction: Direction::Read, count: 1 })
    })
}
