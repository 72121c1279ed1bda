//! Pieces and requests against a file of single blocks.
#![allow(clippy::unwrap_used)]

use plumb_defrag::ByteRange;
use plumb_defrag::extents::{Direction, Extent, ExtentFlags, ExtentKind, ExtentMap, RequestLimits, moved, requests};
use proptest::prelude::*;

const BLOCK: u64 = 4096;

/// Each block of a file: where it lies and what it is; `None` is a hole.
type Blocks = Vec<Option<(u64, ExtentFlags)>>;

fn flags() -> impl Strategy<Value = ExtentFlags> {
    prop_oneof![
        6 => Just(ExtentFlags::empty()),
        1 => Just(ExtentFlags::SHARED),
        1 => Just(ExtentFlags::UNWRITTEN),
        1 => Just(ExtentFlags::DELALLOC | ExtentFlags::UNKNOWN),
        1 => Just(ExtentFlags::DATA_INLINE | ExtentFlags::NOT_ALIGNED),
    ]
}

/// Extents of one to six blocks at neighbouring, near or far places.
fn extents() -> impl Strategy<Value = Vec<Extent>> {
    let one = (1_u64..6, 0_u64..4, prop_oneof![2 => Just(0_u64), 1 => 1_u64..9], flags());
    prop::collection::vec(one, 0..24).prop_map(|list| {
        let (mut logical, mut physical) = (0, 1 << 30);
        let mut extents = Vec::new();
        for (blocks, hole, gap, flags) in list {
            logical += if hole == 3 { BLOCK } else { 0 };
            physical += gap * BLOCK;
            extents.push(Extent { logical, physical, length: blocks * BLOCK, flags });
            logical += blocks * BLOCK;
            physical += blocks * BLOCK;
        }
        extents
    })
}

fn blocks(extents: &[Extent], size_bytes: u64) -> Blocks {
    let mut blocks = vec![None; size_bytes.div_ceil(BLOCK) as usize];
    for extent in extents {
        for index in 0..extent.length / BLOCK {
            if let Some(block) = blocks.get_mut((extent.logical / BLOCK + index) as usize) {
                *block = Some((extent.physical + index * BLOCK, extent.flags));
            }
        }
    }
    blocks
}

fn kind(flags: ExtentFlags) -> ExtentKind {
    Extent { logical: 0, physical: 0, length: BLOCK, flags }.kind()
}

/// Requests of a read of whole blocks, one block after the other.
fn counted(blocks: &Blocks, range: ByteRange, limits: &RequestLimits) -> u64 {
    let mut count = 0;
    let mut run: Option<(u64, u64)> = None;
    for index in range.start / BLOCK..range.end.div_ceil(BLOCK) {
        let block = blocks.get(index as usize).copied().flatten();
        let on_device = block.filter(|(_, flags)| kind(*flags).is_plain());
        run = match (run, on_device) {
            (Some((next, length)), Some((place, _))) if next == place && length < limits.max_bytes => {
                Some((place + BLOCK, length + BLOCK))
            }
            (_, Some((place, _))) => {
                count += 1;
                Some((place + BLOCK, BLOCK))
            }
            (_, None) => None,
        };
    }
    count
}

/// A range of whole blocks, a few of them beyond the file.
fn range() -> impl Strategy<Value = ByteRange> {
    (0_u64..100, 1_u64..60).prop_map(|(start, length)| ByteRange::new(start * BLOCK, length * BLOCK).unwrap())
}

proptest! {
    #[test]
    fn requests_are_those_of_single_blocks(extents in extents(), range in range(), max_blocks in 1_u64..20, size in 0_u64..90) {
        let size = size * BLOCK;
        let map = ExtentMap::new(extents.clone(), size);
        let limits = RequestLimits { max_bytes: max_blocks * BLOCK, max_segments: 128 };
        let inside = range.intersection(&map.whole());
        let expected = inside.map_or(0, |range| counted(&blocks(&extents, size), range, &limits));
        prop_assert_eq!(requests(&map, range, &limits, Direction::Read), expected);
        prop_assert_eq!(requests(&map.slice(range), map.whole(), &limits, Direction::Read), expected);
    }

    #[test]
    fn pieces_cover_every_mapped_block_once(extents in extents(), range in range(), size in 0_u64..90) {
        let size = size * BLOCK;
        let map = ExtentMap::new(extents.clone(), size);
        let blocks = blocks(&extents, size);
        let mut seen = 0;
        let mut end = 0;
        for piece in map.pieces(range) {
            prop_assert!(piece.range.start >= end && !piece.range.is_empty());
            end = piece.range.end;
            for offset in (0..piece.range.len()).step_by(BLOCK as usize) {
                let block = blocks[((piece.range.start + offset) / BLOCK) as usize].unwrap();
                prop_assert_eq!((piece.physical + offset, piece.kind), (block.0, kind(block.1)));
                seen += 1;
            }
        }
        let all = range.intersection(&map.whole()).map_or(0..0, |range| range.start / BLOCK..range.end / BLOCK);
        prop_assert_eq!(seen, all.filter(|index| blocks[*index as usize].is_some()).count());
    }

    /// After a move the range is one piece, and not a byte elsewhere has gone anywhere.
    #[test]
    fn a_move_changes_its_range_alone(extents in extents(), range in range(), size in 0_u64..90) {
        let size = size * BLOCK;
        let map = ExtentMap::new(extents.clone(), size);
        // As a plan does: each stretch of data in the range without a gap.
        let mut moves: Vec<ByteRange> = Vec::new();
        for piece in map.pieces(range).filter(|piece| piece.kind == ExtentKind::Data) {
            match moves.last_mut() {
                Some(last) if last.end == piece.range.start => last.end = piece.range.end,
                _ => moves.push(piece.range),
            }
        }
        let after = moved(&map, &moves);
        for to_move in &moves {
            prop_assert_eq!(after.piece_count(*to_move), 1);
            prop_assert_eq!(after.bytes_of(*to_move, ExtentKind::Data), to_move.len());
        }
        let mut edges: Vec<u64> = moves.iter().flat_map(|range| [range.start, range.end]).chain([0, size]).collect();
        edges.sort_unstable();
        for pair in edges.windows(2) {
            let between = ByteRange { start: pair[0], end: pair[1] };
            if !moves.contains(&between) {
                prop_assert_eq!(after.slice(between), map.slice(between));
            }
        }
        let limits = RequestLimits::default();
        for to_move in moves {
            prop_assert_eq!(requests(&after, to_move, &limits, Direction::Read), 1);
        }
    }

    /// Whatever the kernel says, the map is sorted, without overlaps, and within the file.
    #[test]
    fn any_answer_makes_a_map(raw in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>()), 0..20), size: u64) {
        let extents = raw.iter().map(|(logical, physical, length, flags)| Extent {
            logical: *logical, physical: *physical, length: *length, flags: ExtentFlags::from_bits_retain(*flags),
        });
        let map = ExtentMap::new(extents.collect(), size);
        let mut end = 0;
        for extent in map.extents() {
            prop_assert!(extent.logical >= end && extent.length > 0);
            end = extent.range().end;
        }
        prop_assert!(end <= size);
        prop_assert!(map.piece_count(map.whole()) <= map.extents().len() as u64);
        requests(&map, map.whole(), &RequestLimits { max_bytes: 0, max_segments: 0 }, Direction::Write);
    }
}

#[test]
fn records_that_touch_on_the_device_are_one_piece() {
    let extent = |logical, physical| Extent { logical, physical, length: BLOCK, flags: ExtentFlags::empty() };
    let map = ExtentMap::new(vec![extent(0, 1 << 20), extent(BLOCK, (1 << 20) + BLOCK)], 2 * BLOCK);
    assert_eq!((map.extents().len(), map.piece_count(map.whole())), (2, 1));
}

#[test]
fn compressed_extents_are_read_one_by_one() {
    let encoded = |logical, physical| Extent { logical, physical, length: 32 * BLOCK, flags: ExtentFlags::ENCODED };
    let map = ExtentMap::new(vec![encoded(0, 0), encoded(32 * BLOCK, 32 * BLOCK)], 64 * BLOCK);
    assert_eq!(requests(&map, map.whole(), &RequestLimits::default(), Direction::Read), 2);
    assert_eq!(map.piece_count(map.whole()), 2);
}
