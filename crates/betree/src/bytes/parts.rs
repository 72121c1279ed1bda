//! Large values of which a part can be read and checked: behind a value's bytes lies the checksum of each 4 KiB of them.
//!
//! ```text
//! value        as it is
//! u128 each    XXH3-128 of 4,096 bytes of it, of the last of as many as there are
//! ```
//!
//! The pointer has the checksum of these checksums, so that whoever holds it can tell whether any part is what it was.

use std::ops::{Bound, Range, RangeBounds};

use storage::BLOCK_BYTES;

use super::pointer::{BlockPointer, Codec, checksum, sums_bytes};

const SUM_BYTES: usize = 16;

/// Whether checksums of the parts cost little beside the value: no block more, or one of 32.
pub(crate) fn are_worthwhile(raw_bytes: usize) -> bool {
    let blocks = raw_bytes.div_ceil(BLOCK_BYTES);
    let with_sums = (raw_bytes as u64 + sums_bytes(raw_bytes as u64)).div_ceil(BLOCK_BYTES as u64) as usize;
    blocks > 1 && (with_sums - blocks) * 32 <= blocks
}

/// Bytes that a value takes that is not compressed.
pub(crate) fn stored_bytes(raw_bytes: usize) -> usize {
    raw_bytes + if are_worthwhile(raw_bytes) { sums_bytes(raw_bytes as u64) as usize } else { 0 }
}

/// Puts the checksums behind a value; returns theirs.
pub(crate) fn append_sums(value: &mut Vec<u8>) -> u128 {
    let raw_bytes = value.len();
    let sums: Vec<u8> = value.chunks(BLOCK_BYTES).flat_map(|part| checksum(part).to_le_bytes()).collect();
    value.extend_from_slice(&sums);
    checksum(&value[raw_bytes..])
}

/// Whether stored bytes are those that a pointer means.
pub(crate) fn are_sound(pointer: &BlockPointer, stored: &[u8]) -> bool {
    if pointer.codec != Codec::Parts {
        return checksum(stored) == pointer.checksum;
    }
    let Some((value, sums)) = stored.split_at_checked(pointer.raw_bytes as usize) else { return false };
    let each = value.chunks(BLOCK_BYTES).map(|part| checksum(part).to_le_bytes());
    checksum(sums) == pointer.checksum && each.flatten().eq(sums.iter().copied())
}

/// A part of a value as a block of its own: the 4 KiB at `index`, by the checksums of all.
pub(crate) fn part(pointer: &BlockPointer, sums: &[u8], index: usize) -> Option<BlockPointer> {
    let begin = index.checked_mul(BLOCK_BYTES)?;
    let bytes = (pointer.raw_bytes as usize).checked_sub(begin)?.min(BLOCK_BYTES) as u32;
    let sum = sums.get(index * SUM_BYTES..)?.first_chunk::<SUM_BYTES>()?;
    Some(BlockPointer {
        start: pointer.start + index as u64,
        stored_bytes: bytes,
        raw_bytes: bytes,
        codec: Codec::Plain,
        checksum: u128::from_le_bytes(*sum),
        ..*pointer
    })
}

/// The blocks that have the checksums, and where these begin there. Its name is that of no part: it is longer than what the value has
/// there.
pub(crate) fn tail(pointer: &BlockPointer) -> (BlockPointer, usize) {
    let raw_bytes = pointer.raw_bytes as usize;
    let (start, before) = (pointer.start + (raw_bytes / BLOCK_BYTES) as u64, raw_bytes % BLOCK_BYTES);
    let bytes = pointer.stored_bytes.saturating_sub((raw_bytes - before) as u32);
    (BlockPointer { start, stored_bytes: bytes, raw_bytes: bytes, codec: Codec::Plain, ..*pointer }, before)
}

/// The places of a range that a value of so many bytes has.
pub(crate) fn within(range: &impl RangeBounds<usize>, bytes: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => bytes,
    };
    let start = start.min(bytes);
    start..end.clamp(start, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_cost_one_block_of_32_at_most() {
        for bytes in (1usize..2 << 20).step_by(997) {
            let (alone, stored) = (bytes.div_ceil(BLOCK_BYTES), stored_bytes(bytes).div_ceil(BLOCK_BYTES));
            assert!((stored - alone) * 32 <= alone, "{bytes} bytes take {stored} blocks");
        }
        assert!(are_worthwhile(20_000) && are_worthwhile(128 << 10) && are_worthwhile(1 << 20));
        assert!(!are_worthwhile(4096) && !are_worthwhile(64 << 10));
    }

    #[test]
    fn a_range_is_cut_to_the_value() {
        assert_eq!(within(&(3..7), 10), 3..7);
        assert_eq!(within(&(3..), 10), 3..10);
        assert_eq!(within(&(..=20), 10), 0..10);
        assert_eq!(within(&(12..20), 10), 10..10);
        let reversed = (Bound::Included(7), Bound::Excluded(3));
        assert_eq!(within(&reversed, 10), 7..7);
        assert_eq!(within(&(Bound::Excluded(usize::MAX), Bound::Unbounded), 10), 10..10);
    }
}
