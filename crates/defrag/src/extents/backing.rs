//! The allocated extents behind a file, as far as parts of them cannot be freed.
//!
//! Btrfs frees an extent only when no file extent item refers to any part of it (`btrfs_free_extent`,
//! fs/btrfs/extent-tree.c): what is moved out of the middle of one is taken up twice from then on. The other file systems
//! free block by block, and have nothing to say here.

use std::collections::BTreeMap;

use super::extent::ExtentKind;
use super::map::ExtentMap;
use crate::ByteRange;

/// The longest extent of Btrfs's data (`BTRFS_MAX_EXTENT_SIZE`, fs/btrfs/fs.h).
const LONGEST_EXTENT_BYTES: u64 = 128 << 20;

/// One stretch of a file that refers to an allocated extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// Bytes of the file.
    pub range: ByteRange,
    /// Where the extent begins on the device, which tells it from others.
    pub extent: u64,
    /// Whether it is data that may be moved; what is allocated and not written, or compressed, stays and keeps the extent.
    pub movable: bool,
}

/// Every reference of a file to extents that are freed as a whole only.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Backing {
    references: Vec<Reference>,
    /// Bytes of the file in each extent.
    live: BTreeMap<u64, u64>,
    is_exact: bool,
}

impl Backing {
    /// From the file system's own items.
    pub fn exact(references: Vec<Reference>) -> Self {
        Self::new(references, true)
    }

    /// Where the items cannot be read (only root may): stretches that were written as one lie as far apart in the file as
    /// on the device, so that all of these, no further from each other than an extent is long, are taken for one extent.
    /// That errs on the side of more room taken up.
    pub fn estimated(map: &ExtentMap) -> Self {
        let mut references: Vec<Reference> = Vec::new();
        // By the distance between file and device: the extent's name, and where it was met last.
        let mut open: BTreeMap<i128, (u64, u64)> = BTreeMap::new();
        for piece in map.pieces(map.whole()) {
            if !(piece.kind.is_plain() || piece.kind == ExtentKind::Unwritten) {
                continue;
            }
            let distance = i128::from(piece.physical) - i128::from(piece.range.start);
            let known = open.get(&distance).filter(|(_, end)| piece.range.start - end <= LONGEST_EXTENT_BYTES);
            let extent = known.map_or(piece.physical, |(extent, _)| *extent);
            open.insert(distance, (extent, piece.range.end));
            references.push(Reference { range: piece.range, extent, movable: piece.kind.is_plain() });
        }
        Self::new(references, false)
    }

    fn new(mut references: Vec<Reference>, is_exact: bool) -> Self {
        references.sort_unstable_by_key(|reference| reference.range);
        let mut live: BTreeMap<u64, u64> = BTreeMap::new();
        for reference in &references {
            *live.entry(reference.extent).or_default() += reference.range.len();
        }
        Self { references, live, is_exact }
    }

    /// Whether this is what the file system says, and no estimate.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Bytes of the file in an extent.
    pub fn live_bytes(&self, extent: u64) -> u64 {
        self.live.get(&extent).copied().unwrap_or(0)
    }

    /// The references that touch `range`, cut to it, in the order of the file.
    pub fn within(&self, range: ByteRange) -> impl Iterator<Item = Reference> + '_ {
        let first = self.references.partition_point(|reference| reference.range.end <= range.start);
        let near = self.references.get(first..).unwrap_or_default().iter();
        near.map_while(move |reference| Some(Reference { range: reference.range.intersection(&range)?, ..*reference }))
    }

    /// All of them, in the order of the file.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::{Extent, ExtentFlags};

    #[test]
    fn what_was_written_as_one_is_taken_for_one_extent() {
        let extent = |logical, physical, length, flags| Extent { logical, physical, length, flags };
        let map = ExtentMap::new(
            vec![
                extent(0, 1 << 30, 1 << 20, ExtentFlags::empty()),
                // Overwritten in the middle.
                extent(1 << 20, 5 << 30, 4096, ExtentFlags::empty()),
                extent((1 << 20) + 4096, (1 << 30) + (1 << 20) + 4096, 1 << 20, ExtentFlags::UNWRITTEN),
            ],
            3 << 20,
        );
        let backing = Backing::estimated(&map);
        assert!(!backing.is_exact());
        assert_eq!((backing.live_bytes(1 << 30), backing.live_bytes(5 << 30)), (2 << 20, 4096));
        let movable: Vec<bool> = backing.references().iter().map(|reference| reference.movable).collect();
        assert_eq!(movable, [true, true, false]);
        let part: Vec<ByteRange> =
            backing.within(ByteRange { start: 4096, end: 8192 }).map(|part| part.range).collect();
        assert_eq!(part, [ByteRange { start: 4096, end: 8192 }]);
    }
}
