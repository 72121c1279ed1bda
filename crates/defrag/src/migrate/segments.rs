//! Which parts of a range can be moved.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::pace::Stop;
use crate::ByteRange;
use crate::extents::{ExtentKind, ExtentMap};

/// Data to be made contiguous.
///
/// Between its parts lie holes, and what is allocated and never written: these stay where they are, and the data on both
/// sides comes to lie side by side, so that a request across them is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// From its first byte to its last. It begins on a block and ends on one, or at the end of the file.
    pub range: ByteRange,
    /// The data in it, without the gaps: at least one, in the order of the file.
    pub parts: Vec<ByteRange>,
    /// Stretches of the device that it lies in; two at least.
    pub pieces: u64,
    /// Where the last piece of it begins in the file.
    pub last_start: u64,
}

/// A part of a segment, short enough for one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// Bytes of the file, all of them data.
    pub range: ByteRange,
    /// Bytes of the segment's data before it: where it goes in the room for the segment.
    pub place: u64,
}

impl Segment {
    /// Bytes of data.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(ByteRange::len).sum()
    }

    /// Its data in slices of `bytes` at most, in order.
    pub fn slices(&self, bytes: u64) -> impl Iterator<Item = Slice> + '_ {
        let mut before = 0;
        self.parts.iter().flat_map(move |part| {
            let (first, start) = (before, part.start);
            before += part.len();
            slices(*part, bytes).map(move |range| Slice { range, place: first + (range.start - start) })
        })
    }
}

/// Why a part of a file stayed where it was, or was moved in part.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reason", content = "detail")]
pub enum Left {
    /// Reflinks or snapshots have the same blocks.
    Shared,
    /// Compressed or encrypted.
    Encoded,
    /// Among metadata.
    Inline,
    /// Without a place on the device that could be told.
    NoPlace,
    /// Free space is so fragmented that the data would lie in as many pieces, or more.
    NoBetterSpace {
        /// Pieces it would have.
        pieces: u64,
    },
    /// There is no room for a copy.
    NoSpace,
    /// A quota leaves no room for a copy.
    Quota,
    /// Programs write to it faster than it can be moved.
    Busy,
    /// Another program has it open, which the way of moving does not allow.
    Open,
    /// It was truncated, or grew, meanwhile.
    Changed,
    /// The kernel does not move it.
    Unsupported(String),
    /// The move was ended before its time.
    Stopped(Stop),
}

impl Left {
    /// Whether it may be otherwise next time although the file lies where it lay and no more space is free.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Quota | Self::Busy | Self::Open | Self::Changed | Self::Stopped(_))
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Shared => "shared with reflinks or snapshots (--shared moves it and takes up more room)",
            Self::Encoded => "compressed or encrypted",
            Self::Inline => "kept among metadata",
            Self::NoPlace => "at a place that the file system does not tell",
            Self::NoBetterSpace { pieces } => {
                return write!(f, "free space is too fragmented: it would lie in {pieces} pieces");
            }
            Self::NoSpace => "no room for a copy; free some space",
            Self::Quota => "a quota leaves no room for a copy; raise it, or free some space within it",
            Self::Busy => "programs write to it all the time; run again later",
            Self::Open => "open in another program; run again when none has it open (ext4, XFS: or with --open-files)",
            Self::Changed => "its size changed meanwhile; run again",
            Self::Unsupported(why) => return write!(f, "the kernel does not move it: {why}"),
            Self::Stopped(stop) => return stop.fmt(f),
        };
        f.pad(text)
    }
}

/// A range and why it was left.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeftRange {
    /// Which bytes.
    pub range: ByteRange,
    /// Why.
    #[serde(flatten)]
    pub why: Left,
}

/// A range, taken apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cut {
    /// What to move, in the order of the file.
    pub segments: Vec<Segment>,
    /// What not, other than holes.
    pub left: Vec<LeftRange>,
}

/// Gaps of other lengths keep what lies beyond them at another offset within a page than the donor would have it, which
/// file systems with smaller blocks do not take.
const PAGE: u64 = 4096;

/// Whether data on both sides of a gap in the file, which has no data in it, can be placed side by side.
pub(crate) fn can_join(gap_bytes: u64) -> bool {
    gap_bytes.is_multiple_of(PAGE)
}

/// Takes `range` apart into segments of `longest_bytes` of data at most, a multiple of `block_bytes`.
///
/// The range is widened to whole blocks and ends at the end of the file. Holes and unwritten extents stay, and the data on
/// both sides is placed together; whatever else is not data of the file's own, or shared data unless `shared`, ends a segment.
/// What is one stretch of the device already is in neither list.
pub fn cut(map: &ExtentMap, range: ByteRange, block_bytes: u64, shared: bool, longest_bytes: u64) -> Cut {
    let block = block_bytes.max(1);
    let start = range.start - range.start % block;
    let end = range.end.checked_next_multiple_of(block).unwrap_or(u64::MAX).min(map.size_bytes());
    let mut out = Cut::default();
    let mut parts: Vec<ByteRange> = Vec::new();
    for piece in map.pieces(ByteRange { start, end }) {
        let why = match piece.kind {
            ExtentKind::Unwritten => continue,
            ExtentKind::Data => None,
            ExtentKind::Shared if shared => None,
            ExtentKind::Shared => Some(Left::Shared),
            ExtentKind::Encoded => Some(Left::Encoded),
            ExtentKind::Inline => Some(Left::Inline),
            ExtentKind::Delayed | ExtentKind::Unknown => Some(Left::NoPlace),
        };
        if let Some(why) = why {
            close(map, &mut out, &mut parts, longest_bytes);
            out.left.push(LeftRange { range: piece.range, why });
            continue;
        }
        match parts.last_mut() {
            Some(last) if last.end == piece.range.start => last.end = piece.range.end,
            Some(last) if !can_join(piece.range.start - last.end) => {
                close(map, &mut out, &mut parts, longest_bytes);
                parts.push(piece.range);
            }
            _ => parts.push(piece.range),
        }
    }
    close(map, &mut out, &mut parts, longest_bytes);
    out
}

/// Makes segments of `longest_bytes` at most of the data in `parts`, leaves out those that are one stretch, and empties the list.
fn close(map: &ExtentMap, out: &mut Cut, parts: &mut Vec<ByteRange>, longest_bytes: u64) {
    let longest_bytes = longest_bytes.max(1);
    let (mut held, mut held_bytes) = (Vec::new(), 0);
    for part in parts.drain(..) {
        let mut rest = part;
        while !rest.is_empty() {
            let taken = ByteRange { start: rest.start, end: rest.end.min(rest.start + (longest_bytes - held_bytes)) };
            (rest.start, held_bytes) = (taken.end, held_bytes + taken.len());
            held.push(taken);
            if held_bytes == longest_bytes {
                out.segments.extend(segment(map, std::mem::take(&mut held)));
                held_bytes = 0;
            }
        }
    }
    out.segments.extend(segment(map, held));
}

/// A segment of these parts, if they lie in several stretches.
fn segment(map: &ExtentMap, parts: Vec<ByteRange>) -> Option<Segment> {
    let range = ByteRange { start: parts.first()?.start, end: parts.last()?.end };
    let pieces = map.stretch_count(range);
    let last_start = map.pieces(range).filter(|piece| piece.kind.is_plain()).last()?.range.start;
    (pieces > 1).then_some(Segment { range, parts, pieces, last_start })
}

/// A range in parts of `bytes`, the last one shorter.
pub(super) fn slices(range: ByteRange, bytes: u64) -> impl Iterator<Item = ByteRange> {
    let bytes = bytes.max(1);
    let mut start = range.start;
    std::iter::from_fn(move || {
        let slice = ByteRange { start, end: start.saturating_add(bytes).min(range.end) };
        start = slice.end;
        (!slice.is_empty()).then_some(slice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::{Extent, ExtentFlags};
    use proptest::prelude::*;

    const BLOCK: u64 = 4096;

    #[derive(Clone, Copy, Debug)]
    enum Block {
        Hole,
        At(u64, ExtentFlags),
    }

    fn blocks() -> impl Strategy<Value = Vec<Block>> {
        let block = prop_oneof![
            2 => Just(Block::Hole),
            6 => (0_u64..8).prop_map(|place| Block::At(place, ExtentFlags::empty())),
            1 => (0_u64..8).prop_map(|place| Block::At(place, ExtentFlags::SHARED)),
            1 => (0_u64..8).prop_map(|place| Block::At(place, ExtentFlags::UNWRITTEN)),
            1 => (0_u64..8).prop_map(|place| Block::At(place, ExtentFlags::ENCODED)),
        ];
        proptest::collection::vec(block, 1..40)
    }

    fn map_of(blocks: &[Block], size: u64) -> ExtentMap {
        let extents = (0_u64..).zip(blocks).filter_map(|(at, block)| match block {
            Block::Hole => None,
            Block::At(place, flags) => Some(Extent {
                logical: at * BLOCK,
                // Some neighbours in the file are neighbours on the device.
                physical: (at + place / 4 * 100) * BLOCK,
                length: BLOCK,
                flags: *flags,
            }),
        });
        ExtentMap::new(extents.collect(), size)
    }

    proptest! {
        /// Against the definition, block by block: a block is in a segment exactly if it is movable data of the range,
        /// and in the same segment as its neighbour exactly if both are and no limit lies between.
        #[test]
        fn segments_hold_all_that_can_be_moved(
            blocks in blocks(), start in 0_u64..40, length in 0_u64..40, shared: bool, cut_bytes in 0_u64..BLOCK, longest in prop_oneof![1_u64..12, Just(64)],
        ) {
            let size = (blocks.len() as u64 * BLOCK).saturating_sub(cut_bytes);
            let map = map_of(&blocks, size);
            let range = ByteRange { start: start * BLOCK + 5, end: (start + length) * BLOCK + 9 };
            let cut = cut(&map, range, BLOCK, shared, longest * BLOCK);
            for segment in &cut.segments {
                prop_assert!(segment.pieces > 1);
                prop_assert_eq!(segment.pieces, map.stretch_count(segment.range));
                let last = map.pieces(segment.range).filter(|piece| piece.kind.is_plain()).last();
                prop_assert_eq!(Some(segment.last_start), last.map(|piece| piece.range.start));
                prop_assert!(segment.bytes() <= longest * BLOCK);
                prop_assert_eq!((segment.parts[0].start, segment.parts.last().unwrap().end), (segment.range.start, segment.range.end));
                // Slices are the data, in order, and follow each other in the room.
                let mut place = 0;
                for slice in segment.slices(3 * BLOCK) {
                    prop_assert_eq!(slice.place, place);
                    prop_assert!(slice.range.len() <= 3 * BLOCK);
                    prop_assert!(segment.parts.iter().any(|part| part.intersection(&slice.range) == Some(slice.range)));
                    place += slice.range.len();
                }
                prop_assert_eq!(place, segment.bytes());
                prop_assert_eq!(segment.range.start % BLOCK, 0);
                prop_assert!(segment.range.end % BLOCK == 0 || segment.range.end == size);
            }
            for pair in cut.segments.windows(2) {
                prop_assert!(pair[0].range.end <= pair[1].range.start);
            }
            for (at, block) in (0_u64..).zip(&blocks) {
                let of_block = ByteRange { start: at * BLOCK, end: ((at + 1) * BLOCK).min(size) };
                let within = of_block.intersection(&ByteRange { start: range.start - 5, end: range.end - 9 + BLOCK }).is_some();
                let plain = match block {
                    Block::At(_, flags) => flags.is_empty() || shared && *flags == ExtentFlags::SHARED,
                    Block::Hole => false,
                };
                let mut parts = cut.segments.iter().flat_map(|segment| &segment.parts);
                let inside = parts.any(|part| part.intersection(&of_block).is_some());
                prop_assert!(!inside || within && plain, "block {} must stay", at);
                let told = cut.left.iter().any(|left| left.range.intersection(&of_block).is_some());
                let gap = matches!(block, Block::Hole) || matches!(block, Block::At(_, flags) if *flags == ExtentFlags::UNWRITTEN);
                prop_assert_eq!(told, within && !plain && !gap, "block {}", at);
            }
            // Nothing that lies in several pieces is forgotten: two movable blocks at different places, with nothing or a gap
            // between them, are in one segment, unless a limit fell between them.
            let is_movable = |block: &Block| match block {
                Block::At(_, flags) => flags.is_empty() || shared && *flags == ExtentFlags::SHARED,
                Block::Hole => false,
            };
            let is_gap = |block: &Block| match block {
                Block::At(_, flags) => *flags == ExtentFlags::UNWRITTEN,
                Block::Hole => true,
            };
            for at in 1..blocks.len() {
                let Some(before) = blocks[..at].iter().rposition(|block| !is_gap(block)) else { continue };
                let pair = ByteRange { start: before as u64 * BLOCK, end: ((at as u64 + 1) * BLOCK).min(size) };
                let whole = ByteRange { start: range.start - 5, end: (range.end - 9 + BLOCK).min(size) };
                let movable = is_movable(&blocks[before]) && is_movable(&blocks[at]);
                let apart = map.stretch_count(pair) == 2;
                if pair.start >= whole.start && pair.end <= whole.end && movable && apart && longest >= 40 {
                    prop_assert!(cut.segments.iter().any(|segment| segment.range.intersection(&pair) == Some(pair)));
                }
            }
        }

        #[test]
        fn slices_cover_a_range(start in 0_u64..1000, length in 0_u64..1000, bytes in 0_u64..300) {
            let range = ByteRange { start, end: start + length };
            let parts: Vec<ByteRange> = slices(range, bytes).collect();
            prop_assert_eq!(parts.iter().map(ByteRange::len).sum::<u64>(), length);
            let mut at = start;
            for part in parts {
                prop_assert_eq!(part.start, at);
                prop_assert!(part.len() <= bytes.max(1));
                at = part.end;
            }
        }
    }
}
