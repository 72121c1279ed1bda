//! Which parts of a range can be moved.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::pace::Stop;
use crate::ByteRange;
use crate::extents::{ExtentKind, ExtentMap};

/// Data without a hole, to be made contiguous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Which bytes. It begins on a block and ends on one, or at the end of the file.
    pub range: ByteRange,
    /// Pieces that it lies in; two at least.
    pub pieces: u64,
    /// Where the last of them begins.
    pub last_start: u64,
}

/// Why a part of a file stayed where it was, or was moved in part.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reason", content = "detail")]
pub enum Left {
    /// Reflinks or snapshots have the same blocks.
    Shared,
    /// Allocated and never written.
    Unwritten,
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

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Shared => "shared with reflinks or snapshots (--shared moves it and takes up more room)",
            Self::Unwritten => "allocated and never written",
            Self::Encoded => "compressed or encrypted",
            Self::Inline => "kept among metadata",
            Self::NoPlace => "at a place that the file system does not tell",
            Self::NoBetterSpace { pieces } => {
                return write!(f, "free space is too fragmented: it would lie in {pieces} pieces");
            }
            Self::NoSpace => "no room for a copy; free some space",
            Self::Busy => "programs write to it all the time; run again later",
            Self::Open => "open in another program; run again when none has it open (ext4: or with --open-files)",
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

/// Takes `range` apart into segments of `longest_bytes` at most, a multiple of `block_bytes`.
///
/// The range is widened to whole blocks and ends at the end of the file. Holes end a segment, as a donor would fill
/// them, and so does everything that is not data of the file's own, or shared data unless `shared`. What is one
/// piece already is in neither list.
pub fn cut(map: &ExtentMap, range: ByteRange, block_bytes: u64, shared: bool, longest_bytes: u64) -> Cut {
    let block = block_bytes.max(1);
    let start = range.start - range.start % block;
    let end = range.end.checked_next_multiple_of(block).unwrap_or(u64::MAX).min(map.size_bytes());
    let mut out = Cut::default();
    let mut run: Option<Segment> = None;
    for piece in map.pieces(ByteRange { start, end }) {
        let why = match piece.kind {
            ExtentKind::Data => None,
            ExtentKind::Shared if shared => None,
            ExtentKind::Shared => Some(Left::Shared),
            ExtentKind::Unwritten => Some(Left::Unwritten),
            ExtentKind::Encoded => Some(Left::Encoded),
            ExtentKind::Inline => Some(Left::Inline),
            ExtentKind::Delayed | ExtentKind::Unknown => Some(Left::NoPlace),
        };
        if let Some(why) = why {
            out.left.push(LeftRange { range: piece.range, why });
            close(&mut out, &mut run);
            continue;
        }
        match &mut run {
            Some(open) if open.range.end == piece.range.start => {
                open.range.end = piece.range.end;
                open.pieces += 1;
                open.last_start = piece.range.start;
            }
            _ => {
                close(&mut out, &mut run);
                run = Some(Segment { range: piece.range, pieces: 1, last_start: piece.range.start });
            }
        }
    }
    close(&mut out, &mut run);
    if out.segments.iter().any(|segment| segment.range.len() > longest_bytes) {
        out.segments = out.segments.iter().flat_map(|segment| divide(map, segment, longest_bytes)).collect();
    }
    out
}

fn close(out: &mut Cut, run: &mut Option<Segment>) {
    out.segments.extend(run.take().filter(|segment| segment.pieces > 1));
}

/// A segment in parts; those that are one piece are left out.
fn divide(map: &ExtentMap, segment: &Segment, longest_bytes: u64) -> Vec<Segment> {
    let parts = slices(segment.range, longest_bytes);
    let with_pieces = parts.map(|range| {
        let last_start = map.pieces(range).last().map_or(range.start, |piece| piece.range.start);
        Segment { range, pieces: map.piece_count(range), last_start }
    });
    with_pieces.filter(|part| part.pieces > 1).collect()
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
                prop_assert_eq!(segment.pieces, map.piece_count(segment.range));
                prop_assert_eq!(Some(segment.last_start), map.pieces(segment.range).last().map(|piece| piece.range.start));
                prop_assert!(segment.range.len() <= longest * BLOCK);
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
                let inside = cut.segments.iter().any(|segment| segment.range.intersection(&of_block).is_some());
                prop_assert!(!inside || within && plain, "block {} must stay", at);
                let told = cut.left.iter().any(|left| left.range.intersection(&of_block).is_some());
                prop_assert_eq!(told, within && !plain && !matches!(block, Block::Hole), "block {}", at);
            }
            // Nothing that lies in several pieces is forgotten: two movable neighbours at different places are in segments,
            // unless a limit fell between them.
            for at in 1..blocks.len() as u64 {
                let pair = ByteRange { start: (at - 1) * BLOCK, end: ((at + 1) * BLOCK).min(size) };
                let whole = ByteRange { start: range.start - 5, end: (range.end - 9 + BLOCK).min(size) };
                let movable = [at - 1, at].iter().all(|&block| match blocks[block as usize] {
                    Block::At(_, flags) => flags.is_empty() || shared && flags == ExtentFlags::SHARED,
                    Block::Hole => false,
                });
                let apart = map.piece_count(pair) == 2;
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
