//! What conventional tools do: move every byte that is not contiguous, in long stretches. One in which no read would be
//! fewer requests stays: a border that no read lies across costs nothing, wherever the kernel has put it.

use super::assumed::{Accesses, Candidate};
use super::bypass::mapped;
use crate::ByteRange;
use crate::extents::ExtentMap;

/// The longest move: the longest extent of ext4 (32,768 blocks of 4 KiB), so that on ext4 as elsewhere
/// a second run finds nothing to do.
const LONGEST_MOVE_BYTES: u64 = 128 << 20;

/// Stretches of the file that are moved as soon as a read of `window_bytes` in them is split.
pub(super) fn candidates(window_bytes: u64, map: &ExtentMap) -> impl Iterator<Item = Candidate<'_>> {
    // A multiple of the reads, so that none lies across two moves.
    let window_bytes = window_bytes.max(1);
    let move_bytes = (LONGEST_MOVE_BYTES / window_bytes).max(1).saturating_mul(window_bytes);
    let accesses = move |range| Accesses::EndToEnd { range, bytes: window_bytes };
    mapped(map, move_bytes).map(move |range| Candidate { range, accesses: accesses(range) })
}

/// Stretches that a whole file is moved in, whatever reads it.
pub(super) fn stretches(map: &ExtentMap) -> impl Iterator<Item = ByteRange> + '_ {
    mapped(map, LONGEST_MOVE_BYTES)
}
