//! Whole extents in place of parts of them, where that costs less.
//!
//! A part that is moved out of an extent costs its bytes twice: they are written, and the old place stays taken up for as
//! long as anything refers to the rest. The whole extent costs what is written of it alone. So an extent is moved whole
//! once its parts are more than half of what would be written then.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::file::Move;
use crate::ByteRange;
use crate::extents::{Backing, ExtentKind, ExtentMap};
use crate::migrate::can_join;

/// References looked at for one file; where extents lie across each other in the millions, the rest is moved in parts.
const MAX_STEPS: u64 = 1 << 24;

/// An extent that is moved in part.
#[derive(Default)]
struct Extent {
    /// From its first reference to its last.
    span: Option<ByteRange>,
    is_movable: bool,
    moved_bytes: u64,
}

/// The ranges of `moves`, some of them grown to whole extents; `None` where none is. `may_move` says whether a piece of a kind may
/// be moved.
pub(super) fn grown(
    map: &ExtentMap,
    backing: &Backing,
    moves: &[Move],
    may_move: &dyn Fn(ExtentKind) -> bool,
) -> Option<Vec<ByteRange>> {
    let extents = moved_in_part(backing, moves);
    let mut order: Vec<(u64, u64)> = extents.iter().map(|(extent, found)| (*extent, found.moved_bytes)).collect();
    order.sort_by_key(|(extent, moved_bytes)| (Reverse(*moved_bytes), *extent));
    let mut ranges = Ranges(moves.iter().map(|to_move| (to_move.range.start, to_move.range.end)).collect());
    // Growing one may take parts of others.
    let mut moved: BTreeMap<u64, u64> = extents.iter().map(|(extent, found)| (*extent, found.moved_bytes)).collect();
    let (mut steps, mut any) = (0, false);
    for (extent, _) in order {
        let Some(Extent { span: Some(span), is_movable: true, .. }) = extents.get(&extent) else { continue };
        let is_whole = moved.get(&extent).is_none_or(|moved| *moved >= backing.live_bytes(extent));
        if is_whole || !is_one_run(map, *span, may_move) {
            continue;
        }
        let mut more: BTreeMap<u64, u64> = BTreeMap::new();
        for gap in ranges.gaps(*span) {
            for reference in backing.within(gap).filter(|reference| reference.movable) {
                *more.entry(reference.extent).or_default() += reference.range.len();
                steps += 1;
            }
        }
        if steps > MAX_STEPS {
            break;
        }
        let written: u64 = more.values().sum();
        let kept = |extent: u64, moved: u64| i128::from(if moved >= backing.live_bytes(extent) { 0 } else { moved });
        let change = more.iter().map(|(extent, bytes)| {
            let before = moved.get(extent).copied().unwrap_or(0);
            kept(*extent, before + bytes) - kept(*extent, before)
        });
        if i128::from(written) + change.sum::<i128>() < 0 {
            for (extent, bytes) in more {
                *moved.entry(extent).or_default() += bytes;
            }
            ranges.add(*span);
            any = true;
        }
    }
    any.then(|| ranges.0.into_iter().map(|(start, end)| ByteRange { start, end }).collect())
}

/// The extents of which `moves` take a part, and leave another.
fn moved_in_part(backing: &Backing, moves: &[Move]) -> BTreeMap<u64, Extent> {
    let mut extents: BTreeMap<u64, Extent> = BTreeMap::new();
    for to_move in moves {
        for reference in backing.within(to_move.range).filter(|reference| reference.movable) {
            extents.entry(reference.extent).or_default().moved_bytes += reference.range.len();
        }
    }
    extents.retain(|extent, found| found.moved_bytes < backing.live_bytes(*extent));
    if extents.is_empty() {
        return extents;
    }
    for reference in backing.references() {
        if let Some(extent) = extents.get_mut(&reference.extent) {
            extent.is_movable = reference.movable && (extent.is_movable || extent.span.is_none());
            let start = extent.span.map_or(reference.range.start, |span| span.start);
            extent.span = Some(ByteRange { start, end: reference.range.end });
        }
    }
    extents
}

/// Whether all of `span` can be moved as one: nothing in it that has to stay is read from the device.
fn is_one_run(map: &ExtentMap, span: ByteRange, may_move: &dyn Fn(ExtentKind) -> bool) -> bool {
    let mut end = span.start;
    map.pieces(span).filter(|piece| piece.kind != ExtentKind::Unwritten).all(|piece| {
        let joined = can_join(piece.range.start - end);
        end = piece.range.end;
        joined && may_move(piece.kind)
    })
}

/// Ranges that do not overlap, by where they begin.
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Those that overlap `span`.
    fn over(&self, span: ByteRange) -> Vec<ByteRange> {
        let before = self.0.range(..span.start).next_back();
        let from = before.filter(|(_, end)| **end > span.start).map_or(span.start, |(start, _)| *start);
        self.0.range(from..span.end).map(|(start, end)| ByteRange { start: *start, end: *end }).collect()
    }

    /// The parts of `span` that lie in none.
    fn gaps(&self, span: ByteRange) -> Vec<ByteRange> {
        let (mut gaps, mut start) = (Vec::new(), span.start);
        for range in self.over(span) {
            if range.start > start {
                gaps.push(ByteRange { start, end: range.start });
            }
            start = start.max(range.end);
        }
        if start < span.end {
            gaps.push(ByteRange { start, end: span.end });
        }
        gaps
    }

    /// Makes one of `span` and all that overlap it.
    fn add(&mut self, mut span: ByteRange) {
        for range in self.over(span) {
            span = ByteRange { start: span.start.min(range.start), end: span.end.max(range.end) };
            self.0.remove(&range.start);
        }
        self.0.insert(span.start, span.end);
    }
}
