//! A file's extents, and its pieces.

use super::extent::{Extent, ExtentKind};
use crate::ByteRange;

/// The longest run of one kind that is contiguous both in the file and on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Its bytes of the file.
    pub range: ByteRange,
    /// Where its first byte lies on the device.
    pub physical: u64,
    /// What it is.
    pub kind: ExtentKind,
}

impl Piece {
    /// Whether `next` carries on where this ends, in the file and on the device.
    fn continues(&self, next: &Self) -> bool {
        self.range.end == next.range.start && self.physical.checked_add(self.range.len()) == Some(next.physical)
    }
}

/// Where each byte of a file lies; what is in no extent is a hole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExtentMap {
    /// Sorted by logical address, without overlaps or empty ones, all of it before `size_bytes`.
    extents: Vec<Extent>,
    size_bytes: u64,
    /// What the device transfers behind the end of the file, as it transfers whole blocks.
    tail_bytes: u64,
}

/// Reads end on pages, as far as there are blocks.
const PAGE_BYTES: u64 = 4096;

impl ExtentMap {
    /// A map of a file of `size_bytes`.
    ///
    /// A file that changes while its extents are read can yield overlapping ones: the one that begins
    /// first keeps its bytes. What lies beyond the end of the file is left out.
    pub fn new(mut extents: Vec<Extent>, size_bytes: u64) -> Self {
        extents.sort_by_key(|extent| extent.logical);
        let (mut end, mut tail_bytes) = (0, 0);
        extents.retain_mut(|extent| {
            let start = extent.logical.max(end);
            let stop = extent.range().end.min(size_bytes);
            if stop <= start {
                return false;
            }
            if stop == size_bytes {
                let page = size_bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(size_bytes);
                tail_bytes = extent.range().end.min(page) - size_bytes;
            }
            extent.physical = extent.physical.saturating_add(start - extent.logical);
            (extent.logical, extent.length) = (start, stop - start);
            end = stop;
            true
        });
        Self { extents, size_bytes, tail_bytes }
    }

    /// The same extents elsewhere: what is behind the end of the file stays what it was.
    pub(super) fn laid_out_as(&self, extents: Vec<Extent>) -> Self {
        Self { tail_bytes: self.tail_bytes, ..Self::new(extents, self.size_bytes) }
    }

    /// Bytes of a piece that the device transfers: where the file ends within a block, all of that.
    pub(super) fn transferred_bytes(&self, piece: &Piece) -> u64 {
        let tail = if piece.range.end == self.size_bytes { self.tail_bytes } else { 0 };
        piece.range.len().saturating_add(tail)
    }

    /// The extents in the order of the file.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The file's size.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// All bytes of the file.
    pub fn whole(&self) -> ByteRange {
        ByteRange { start: 0, end: self.size_bytes }
    }

    /// The pieces of `range`, cut to it, in the order of the file.
    ///
    /// Extent records that follow each other on the device are one piece, as the block layer makes
    /// one request of them. (The published tool counts records, and rewrites such files for nothing.)
    pub fn pieces(&self, range: ByteRange) -> Pieces<'_> {
        let first = self.extents.partition_point(|extent| extent.range().end <= range.start);
        Pieces { extents: self.extents.get(first..).unwrap_or_default().iter(), range, held: None }
    }

    /// The map as if there were nothing outside of `range`.
    pub fn slice(&self, range: ByteRange) -> Self {
        let first = self.extents.partition_point(|extent| extent.range().end <= range.start);
        let inside = self.extents.get(first..).unwrap_or_default().iter().map_while(|extent| {
            let part = extent.range().intersection(&range)?;
            let physical = extent.physical.saturating_add(part.start - extent.logical);
            Some(Extent { logical: part.start, physical, length: part.len(), flags: extent.flags })
        });
        Self { extents: inside.collect(), size_bytes: self.size_bytes, tail_bytes: self.tail_bytes }
    }

    /// Pieces of `range` that lie on the device: data, shared and encoded ones.
    pub fn piece_count(&self, range: ByteRange) -> u64 {
        let on_device = |piece: &Piece| piece.kind.is_plain() || piece.kind == ExtentKind::Encoded;
        self.pieces(range).filter(on_device).count() as u64
    }

    /// Stretches of the device that the data of `range` lies in: like [`Self::piece_count`], but what lies side by side on
    /// the device is one, whatever lies between in the file. So many requests it takes, but for their length.
    pub fn stretch_count(&self, range: ByteRange) -> u64 {
        let mut stretches = 0;
        let mut end = None;
        for piece in self.pieces(range) {
            if piece.kind.is_plain() {
                stretches += u64::from(end != Some(piece.physical));
                end = piece.physical.checked_add(piece.range.len());
            } else if piece.kind == ExtentKind::Encoded {
                stretches += 1;
                end = None;
            }
        }
        stretches
    }

    /// Bytes of `range` in extents of `kind`.
    pub fn bytes_of(&self, range: ByteRange, kind: ExtentKind) -> u64 {
        self.pieces(range).filter(|piece| piece.kind == kind).map(|piece| piece.range.len()).sum()
    }
}

/// What [`ExtentMap::pieces`] yields.
pub struct Pieces<'a> {
    extents: std::slice::Iter<'a, Extent>,
    range: ByteRange,
    held: Option<Piece>,
}

impl Pieces<'_> {
    fn next_part(&mut self) -> Option<Piece> {
        let extent = self.extents.next()?;
        let range = extent.range().intersection(&self.range)?;
        let physical = extent.physical.saturating_add(range.start - extent.logical);
        Some(Piece { range, physical, kind: extent.kind() })
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let mut piece = self.held.take().or_else(|| self.next_part())?;
        while let Some(next) = self.next_part() {
            // Each compressed extent is read for itself, whatever the addresses look like.
            if piece.kind == next.kind && piece.kind != ExtentKind::Encoded && piece.continues(&next) {
                piece.range.end = next.range.end;
            } else {
                self.held = Some(next);
                break;
            }
        }
        Some(piece)
    }
}
