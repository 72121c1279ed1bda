//! What conventional tools do: move every byte that is not contiguous.

use super::assumed::{Accesses, Candidate};
use super::bypass::stretches;
use crate::ByteRange;

/// The longest move: the longest extent of ext4 (32,768 blocks of 4 KiB), so that on ext4 as elsewhere
/// a second run finds nothing to do.
const LONGEST_MOVE_BYTES: u64 = 128 << 20;

/// Stretches of the file that are moved as soon as they lie in more than one piece, read by `window_bytes` at a time.
pub(super) fn candidates<'a>(window_bytes: u64, size_bytes: u64) -> impl Iterator<Item = Candidate<'a>> {
    // A multiple of the reads, so that none lies across two moves.
    let window_bytes = window_bytes.max(1);
    let move_bytes = (LONGEST_MOVE_BYTES / window_bytes).max(1).saturating_mul(window_bytes);
    let whole = ByteRange { start: 0, end: size_bytes };
    stretches(whole, move_bytes, whole).map(move |touch| Candidate {
        range: touch.range,
        accesses: Accesses::EndToEnd { range: touch.range, bytes: window_bytes },
        regardless: true,
    })
}
