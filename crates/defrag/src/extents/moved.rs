//! The layout that moving some ranges would give.

use super::extent::{Extent, ExtentFlags};
use super::map::ExtentMap;
use crate::ByteRange;

/// The map after each of `ranges` has become one contiguous piece at a place of its own.
///
/// `ranges` are sorted and do not overlap; each holds nothing but data. No two of the new places touch each other or
/// an old one, so that requests are never predicted to merge by luck.
pub fn moved(map: &ExtentMap, ranges: &[ByteRange]) -> ExtentMap {
    let beyond = map.extents().iter().map(|extent| extent.physical.saturating_add(extent.length)).max();
    let mut place = beyond.unwrap_or(0).saturating_add(1);
    let mut extents = Vec::with_capacity(map.extents().len());
    let mut ranges_left = ranges.iter().filter(|range| !range.is_empty()).peekable();
    for extent in map.extents() {
        let mut rest = extent.range();
        while let Some(range) = ranges_left.peek() {
            if range.start >= rest.end {
                break;
            }
            push(&mut extents, extent, ByteRange { start: rest.start, end: range.start });
            rest.start = rest.end.min(range.end).max(rest.start);
            if range.end > rest.end {
                break;
            }
            extents.push(Extent {
                logical: range.start,
                physical: place,
                length: range.len(),
                flags: ExtentFlags::empty(),
            });
            place = place.saturating_add(range.len()).saturating_add(1);
            ranges_left.next();
        }
        push(&mut extents, extent, rest);
    }
    ExtentMap::new(extents, map.size_bytes())
}

/// The part of `extent` at `range`, if there is any.
fn push(extents: &mut Vec<Extent>, extent: &Extent, range: ByteRange) {
    if let Some(part) = range.intersection(&extent.range()) {
        let physical = extent.physical.saturating_add(part.start - extent.logical);
        extents.push(Extent { logical: part.start, physical, length: part.len(), flags: extent.flags });
    }
}
