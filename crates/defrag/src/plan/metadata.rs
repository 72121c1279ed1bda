//! What Btrfs writes of its trees for a plan.
//!
//! A tree is written leaf by leaf: whatever changes in a leaf, the leaf is written again elsewhere, in as many copies as the profile of
//! the metadata has (`btrfs_cow_block`, fs/btrfs/ctree.c), once a commit. A leaf that loses all its items is not written. So
//! what matters is how many leaves the moved pieces lie in, and which of these they leave empty: the pieces of a whole file
//! leave nearly all empty, and ranges chosen out of it few. A small file's pieces lie in leaves with those of others, and leave
//! none empty.
//!
//! Four trees have something for each piece (`Documentation/filesystems/btrfs`, include/uapi/linux/btrfs_tree.h):
//!
//! | tree | in the order of | bytes for an extent |
//! |---|---|---|
//! | of the subvolume | the file | 78: a file extent item of 53 and 25 of its place in the leaf |
//! | of extents | the device | 78: an extent item of 24, a reference of 29, and 25 |
//! | of checksums | the device | 25, and 4 for each block |
//! | of free space | the device | 25 |
//!
//! How full leaves are is not known; ln 2 is what random insertions come to (Yao 1978). Nor is what lies between the file's extents on
//! the device: where two do not touch, one extent of another file is taken to lie between them.

use std::collections::BTreeMap;

use super::file::Move;
use crate::extents::{Backing, MetadataLayout};

/// `sizeof(struct btrfs_header)`, and of `struct btrfs_item`, which each item has at the front of its leaf.
const HEADER_BYTES: u64 = 101;
const SLOT_BYTES: u64 = 25;
const FILE_EXTENT_BYTES: u64 = SLOT_BYTES + 53;
const EXTENT_BYTES: u64 = SLOT_BYTES + 24 + 29;
const CHECKSUM_BYTES: u64 = 4;
const BLOCK_BYTES: u64 = 4096;
/// The longest new extent.
const LONGEST_EXTENT_BYTES: u64 = 128 << 20;

/// What becomes of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Changed,
    Removed,
}

/// Bytes of metadata that are written when `moves` are made in one commit.
pub(super) fn metadata_bytes(backing: &Backing, moves: &[Move], layout: &MetadataLayout) -> u64 {
    let node_bytes = layout.node_bytes.saturating_sub(HEADER_BYTES).max(1);
    // Fractions of a byte do not matter.
    let leaf_bytes = (node_bytes as f64 * std::f64::consts::LN_2) as u64;
    let mut ranges = moves.iter().map(|to_move| to_move.range).peekable();
    let mut in_file = Vec::new();
    // By where it begins: bytes of the file in it, and how many of them are moved.
    let mut extents: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for reference in backing.references() {
        while ranges.next_if(|range| range.end <= reference.range.start).is_some() {}
        let inside = ranges.peek().and_then(|range| range.intersection(&reference.range));
        let moved = inside.filter(|_| reference.movable).map_or(0, |inside| inside.len());
        in_file.push((FILE_EXTENT_BYTES, fate(moved, reference.range.len())));
        let (live, gone) = extents.entry(reference.extent).or_default();
        *live += reference.range.len();
        *gone += moved;
    }
    let (mut in_extents, mut in_checksums, mut in_free_space) = (Vec::new(), Vec::new(), Vec::new());
    let mut end = None;
    for (start, (live, gone)) in extents {
        let checksums = SLOT_BYTES + live.div_ceil(BLOCK_BYTES) * CHECKSUM_BYTES;
        if end != Some(start) {
            in_extents.push((EXTENT_BYTES, Fate::Kept));
            in_checksums.push((checksums, Fate::Kept));
            in_free_space.push((SLOT_BYTES, Fate::Kept));
        }
        end = start.checked_add(live);
        let fate = fate(gone, live);
        in_extents.push((EXTENT_BYTES, fate));
        // A checksum and the room go when the extent does, and not before.
        let freed = if fate == Fate::Removed { fate } else { Fate::Kept };
        in_checksums.push((checksums, freed));
        in_free_space.push((SLOT_BYTES, if freed == Fate::Removed { Fate::Changed } else { Fate::Kept }));
    }
    let new_extents: u64 = moves.iter().map(|to_move| to_move.bytes.div_ceil(LONGEST_EXTENT_BYTES)).sum();
    let new_bytes: u64 = moves.iter().map(|to_move| to_move.bytes).sum();
    let new_checksums = new_bytes.div_ceil(BLOCK_BYTES) * CHECKSUM_BYTES + new_extents * SLOT_BYTES;
    let leaves = leaves(&in_file, leaf_bytes)
        + leaves(&in_extents, leaf_bytes)
        + leaves(&in_checksums, leaf_bytes)
        + leaves(&in_free_space, leaf_bytes)
        // New items follow each other, and fill their leaves.
        + (new_extents * FILE_EXTENT_BYTES).div_ceil(node_bytes)
        + (new_extents * EXTENT_BYTES).div_ceil(node_bytes)
        + new_checksums.div_ceil(node_bytes);
    leaves.saturating_mul(layout.node_bytes).saturating_mul(layout.copies)
}

fn fate(moved: u64, of: u64) -> Fate {
    match moved {
        0 => Fate::Kept,
        moved if moved >= of => Fate::Removed,
        _ => Fate::Changed,
    }
}

/// Leaves of `leaf_bytes` that are written, of the items of a tree with their lengths, in order.
fn leaves(items: &[(u64, Fate)], leaf_bytes: u64) -> u64 {
    let (mut written, mut held) = (0, 0);
    let (mut any_kept, mut any_changed) = (false, false);
    for (number, (bytes, fate)) in items.iter().enumerate() {
        any_kept |= *fate != Fate::Removed;
        any_changed |= *fate != Fate::Kept;
        held += bytes;
        // What these items do not fill has others' items in it, which stay.
        any_kept |= number + 1 == items.len() && held < leaf_bytes;
        if held >= leaf_bytes || number + 1 == items.len() {
            written += u64::from(any_kept && any_changed) * held.div_ceil(leaf_bytes.max(1)).max(1);
            (held, any_kept, any_changed) = (0, false, false);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ByteRange;
    use crate::extents::Reference;

    /// A file of 4,000 extents of a block each, far from each other on the device.
    fn scattered() -> Backing {
        let reference = |block: u64| {
            let range = ByteRange { start: block * BLOCK_BYTES, end: (block + 1) * BLOCK_BYTES };
            Reference { range, extent: (block + 1) << 30, movable: true }
        };
        Backing::exact((0..4000).map(reference).collect())
    }

    fn moves(every: u64, blocks: u64) -> Vec<Move> {
        let to_move = |at: u64| {
            let range = ByteRange { start: at * BLOCK_BYTES, end: (at + blocks) * BLOCK_BYTES };
            Move { range, bytes: range.len(), pieces: blocks as u32, requests_before: blocks, requests_after: 1 }
        };
        (0..4000).step_by(every as usize).map(to_move).collect()
    }

    #[test]
    fn ranges_out_of_a_file_touch_leaves_that_the_whole_leaves_empty() {
        let layout = MetadataLayout { node_bytes: 16 << 10, copies: 1 };
        let of = |moves: &[Move]| metadata_bytes(&scattered(), moves, &layout) / layout.node_bytes;
        let leaf = ((16_384.0 - 101.0) * std::f64::consts::LN_2) as u64;
        // Every third stretch of 32 pieces: all leaves of the file's and the extents' trees are touched.
        let parts = of(&moves(96, 32));
        assert!(parts >= 4000 * FILE_EXTENT_BYTES / leaf + 8000 * EXTENT_BYTES / leaf, "{parts}");
        // All of them: the last leaf of the file stays, as another file's items are in it.
        assert_eq!(leaves(&vec![(FILE_EXTENT_BYTES, Fate::Removed); 4000], leaf), 1);
        let filling = leaf.div_ceil(FILE_EXTENT_BYTES) as usize;
        assert_eq!(leaves(&vec![(FILE_EXTENT_BYTES, Fate::Removed); 3 * filling], leaf), 0);
        // A small file's items fill none.
        assert_eq!(leaves(&[(FILE_EXTENT_BYTES, Fate::Removed); 17], leaf), 1);
        let twice = MetadataLayout { copies: 2, ..layout };
        assert_eq!(metadata_bytes(&scattered(), &moves(96, 32), &twice), 2 * parts * layout.node_bytes);
        assert_eq!(of(&[]), 0);
    }
}
