//! What conventional tools do: move every byte that is not contiguous.

use super::assumed::{Accesses, Candidate};
use super::bypass::mapped;
use crate::extents::ExtentMap;

/// The longest move: the longest extent of ext4 (32,768 blocks of 4 KiB), so that on ext4 as elsewhere
/// a second run finds nothing to do.
const LONGEST_MOVE_BYTES: u64 = 128 << 20;

/// Stretches of the file that are moved as soon as they lie in more than one piece, read by `window_bytes` at a time.
pub(super) fn candidates(window_bytes: u64, map: &ExtentMap) -> impl Iterator<Item = Candidate<'_>> {
    // A multiple of the reads, so that none lies across two moves.
    let window_bytes = window_bytes.max(1);
    let move_bytes = (LONGEST_MOVE_BYTES / window_bytes).max(1).saturating_mul(window_bytes);
    let accesses = move |range| Accesses::EndToEnd { range, bytes: window_bytes };
    mapped(map, move_bytes).map(move |range| Candidate { range, accesses: accesses(range), regardless: true })
}
