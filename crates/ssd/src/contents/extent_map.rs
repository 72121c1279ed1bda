//! Ranges of blocks, each labelled with the sequence number of a write.

use std::collections::BTreeMap;
use std::ops::Range;

/// A map from block to sequence number, stored as disjoint extents.
///
/// Every operation costs O(log n) plus the extents it touches.
#[derive(Default, Debug)]
pub(crate) struct ExtentMap {
    by_start: BTreeMap<u64, Extent>,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    end: u64,
    sequence: u64,
}

impl ExtentMap {
    /// Number of extents.
    pub(crate) fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.by_start.clear();
    }

    /// Labels every block of `range` with `sequence`.
    pub(crate) fn set(&mut self, range: Range<u64>, sequence: u64) {
        self.carve(&range);
        if !range.is_empty() {
            self.by_start.insert(range.start, Extent { end: range.end, sequence });
        }
    }

    /// Labels `range` with `sequence`, except where a later one stands.
    pub(crate) fn raise(&mut self, range: Range<u64>, sequence: u64) {
        for piece in self.pieces_below(range, sequence) {
            self.set(piece, sequence);
        }
    }

    /// Takes away the blocks of `range` that are labelled exactly `sequence`.
    pub(crate) fn remove_labelled(&mut self, range: Range<u64>, sequence: u64) {
        let labelled: Vec<_> =
            self.overlapping(range).filter(|(_, label)| *label == sequence).map(|(piece, _)| piece).collect();
        for piece in labelled {
            self.carve(&piece);
        }
    }

    /// Takes away `range`.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        self.carve(&range);
    }

    /// The extents that overlap `range`, clipped to it, in ascending order.
    pub(crate) fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        let first = self.by_start.range(..=range.start).next_back().map_or(range.start, |(start, _)| *start);
        let clip = range.clone();
        // An empty range still makes a valid (empty) query of the tree.
        self.by_start.range(first..range.end.max(first)).filter_map(move |(start, extent)| {
            let piece = (*start).max(clip.start)..extent.end.min(clip.end);
            (!piece.is_empty()).then_some((piece, extent.sequence))
        })
    }

    /// The parts of `range` that carry no label or one lower than `sequence`.
    pub(crate) fn pieces_below(&self, range: Range<u64>, sequence: u64) -> Vec<Range<u64>> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        for (piece, label) in self.overlapping(range.clone()) {
            if label >= sequence {
                if at < piece.start {
                    pieces.push(at..piece.start);
                }
                at = piece.end;
            }
        }
        if at < range.end {
            pieces.push(at..range.end);
        }
        pieces
    }

    /// Keeps only the extents for which `keep` holds.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Range<u64>, u64) -> bool) {
        self.by_start.retain(|start, extent| keep(*start..extent.end, extent.sequence));
    }

    /// Empties `range`, cutting the extents that reach across its ends.
    fn carve(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.split_at(range.start);
        self.split_at(range.end);
        while let Some((&start, _)) = self.by_start.range(range.clone()).next() {
            self.by_start.remove(&start);
        }
    }

    fn split_at(&mut self, block: u64) {
        let Some((_, extent)) = self.by_start.range_mut(..block).next_back() else { return };
        if extent.end > block {
            let tail = *extent;
            extent.end = block;
            self.by_start.insert(block, tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(map: &ExtentMap) -> Vec<(Range<u64>, u64)> {
        map.overlapping(0..u64::MAX).collect()
    }

    #[test]
    fn set_splits_what_it_covers() {
        let mut map = ExtentMap::default();
        map.set(0..10, 1);
        map.set(3..5, 2);
        assert_eq!(all(&map), [(0..3, 1), (3..5, 2), (5..10, 1)]);
        assert_eq!(map.overlapping(4..6).collect::<Vec<_>>(), [(4..5, 2), (5..6, 1)]);
        map.remove_labelled(1..9, 1);
        assert_eq!(all(&map), [(0..1, 1), (3..5, 2), (9..10, 1)]);
    }

    #[test]
    fn raise_leaves_later_labels() {
        let mut map = ExtentMap::default();
        map.set(2..4, 7);
        map.raise(0..6, 5);
        assert_eq!(all(&map), [(0..2, 5), (2..4, 7), (4..6, 5)]);
        assert_eq!(map.pieces_below(0..8, 6), [0..2, 4..8]);
        assert_eq!(map.pieces_below(0..8, 5).first(), Some(&(6..8)));
    }

    #[test]
    fn empty_ranges_do_nothing() {
        let mut map = ExtentMap::default();
        map.set(5..5, 1);
        assert_eq!(map.len(), 0);
        map.set(4..6, 1);
        map.set(5..5, 2);
        assert_eq!(all(&map), [(4..6, 1)]);
        assert_eq!(map.overlapping(5..5).count(), 0);
    }
}
