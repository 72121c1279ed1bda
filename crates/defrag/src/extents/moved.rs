//! The layout that moving some ranges would give.

use super::extent::{Extent, ExtentFlags};
use super::map::ExtentMap;
use crate::ByteRange;

/// The map after the data in each of `ranges` has come to lie in one stretch of the device, at a place of its own.
///
/// `ranges` are sorted and do not overlap; whatever is data in them is moved. Holes, and what is allocated and not written, stay
/// as they are, and the data on both sides lies side by side. No two of the new places touch each other or an old one, so that
/// requests are never predicted to merge by luck.
pub fn moved(map: &ExtentMap, ranges: &[ByteRange]) -> ExtentMap {
    let beyond = map.extents().iter().map(|extent| extent.physical.saturating_add(extent.length)).max();
    let mut place = beyond.unwrap_or(0).saturating_add(1);
    let mut extents = Vec::with_capacity(map.extents().len());
    let mut ranges_left = ranges.iter().filter(|range| !range.is_empty()).peekable();
    for extent in map.extents() {
        let mut rest = extent.range();
        while let Some(range) = ranges_left.peek() {
            if range.end <= rest.start {
                place = place.saturating_add(1);
                ranges_left.next();
                continue;
            }
            let Some(inside) = range.intersection(&rest) else { break };
            push(&mut extents, extent, ByteRange { start: rest.start, end: inside.start });
            if extent.kind().is_plain() {
                let flags = ExtentFlags::empty();
                extents.push(Extent { logical: inside.start, physical: place, length: inside.len(), flags });
                place = place.saturating_add(inside.len());
            } else {
                push(&mut extents, extent, inside);
            }
            rest.start = inside.end;
            if rest.is_empty() {
                break;
            }
        }
        push(&mut extents, extent, rest);
    }
    map.laid_out_as(extents)
}

/// The part of `extent` at `range`, if there is any.
fn push(extents: &mut Vec<Extent>, extent: &Extent, range: ByteRange) {
    if let Some(part) = range.intersection(&extent.range()) {
        let physical = extent.physical.saturating_add(part.start - extent.logical);
        extents.push(Extent { logical: part.start, physical, length: part.len(), flags: extent.flags });
    }
}
