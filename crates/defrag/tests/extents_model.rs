//! Pieces and requests against a file of single blocks.
#![allow(clippy::unwrap_used)]

use defrag::ByteRange;
use defrag::extents::{Direction, Extent, ExtentFlags, ExtentKind, ExtentMap, RequestLimits, moved, requests};
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

/// Extents of one to six blocks; each lies behind the one before it on the device, or before it, touching it or not.
fn extents() -> impl Strategy<Value = Vec<Extent>> {
    let one = (1_u64..6, 0_u64..4, prop_oneof![2 => Just(0_u64), 1 => 1_u64..9], 0_u8..4, flags());
    prop::collection::vec(one, 0..24).prop_map(|list| {
        let (mut logical, mut physical, mut held) = (0, 1_u64 << 30, 0);
        let mut extents = Vec::new();
        for (blocks, hole, gap, before, flags) in list {
            logical += if hole == 3 { BLOCK } else { 0 };
            let length = blocks * BLOCK;
            physical = if before == 0 { physical - gap * BLOCK - length } else { physical + held + gap * BLOCK };
            extents.push(Extent { logical, physical, length, flags });
            logical += length;
            held = length;
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

/// Requests of a read of whole blocks: bios made block by block and split, then a plug that holds them all.
fn counted(blocks: &Blocks, range: ByteRange, limits: &RequestLimits) -> usize {
    let most = limits.max_bytes.min(u64::from(limits.max_segments) * BLOCK);
    // (place, length) of what lies in one stretch of file and device; nothing for what is not on the device.
    let mut bios: Vec<(u64, u64)> = Vec::new();
    let mut last = None;
    for index in range.start / BLOCK..range.end.div_ceil(BLOCK) {
        let Some((place, flags)) = blocks.get(index as usize).copied().flatten() else { continue };
        let kind = kind(flags);
        if !kind.is_plain() {
            continue;
        }
        match bios.last_mut() {
            Some((start, length)) if last == Some((index, kind)) && *start + *length == place && *length < most => {
                *length += BLOCK;
            }
            _ => bios.push((place, BLOCK)),
        }
        last = Some((index + 1, kind));
    }
    let mut plug: Vec<(u64, u64)> = Vec::new();
    for (place, length) in bios {
        match plug.last_mut() {
            Some((start, held)) if *start + *held == place && *held + length <= most => *held += length,
            Some((start, held)) if place + length == *start && *held + length <= most => {
                (*start, *held) = (place, *held + length);
            }
            _ => plug.push((place, length)),
        }
    }
    plug.len()
}

/// A range of whole blocks, a few of them beyond the file.
fn range() -> impl Strategy<Value = ByteRange> {
    (0_u64..100, 1_u64..60).prop_map(|(start, length)| ByteRange::new(start * BLOCK, length * BLOCK).unwrap())
}

proptest! {
    #[test]
    fn requests_are_those_of_single_blocks(
        extents in extents(),
        range in range(),
        max_blocks in 1_u64..20,
        max_segments in 1_u32..20,
        size in 0_u64..90,
    ) {
        let size = size * BLOCK;
        let map = ExtentMap::new(extents.clone(), size);
        let limits = RequestLimits { max_bytes: max_blocks * BLOCK, max_segments };
        let inside = range.intersection(&map.whole());
        let expected = inside.map_or(0, |range| counted(&blocks(&extents, size), range, &limits)) as u64;
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
