//! A file as one line of text, its start to the left.

use super::cells::{Cell, cells};
use crate::extents::ExtentMap;
use crate::plan::Move;

/// From one piece in a cell to 128 and more: each step is twice as many.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What the characters of [`strip`] mean.
pub const LEGEND: &str =
    "▁ one piece … █ 128 or more; · hole; ~ not to be moved (shared, compressed); ^ below: to be moved";

/// Two lines of `width` characters: how many pieces each part of the file touches, and which parts are to be moved.
/// The second is empty where nothing is.
pub fn strip(map: &ExtentMap, moves: &[Move], width: usize) -> (String, String) {
    let cells = cells(map, moves, width);
    let below: String = cells.iter().map(|cell| if cell.moved_bytes > 0 { '^' } else { ' ' }).collect();
    (cells.iter().map(glyph).collect(), below.trim_end().to_owned())
}

fn glyph(cell: &Cell) -> char {
    if cell.mapped_bytes == 0 {
        '·'
    } else if cell.fixed_bytes * 2 > cell.mapped_bytes {
        '~'
    } else {
        let step = cell.pieces.max(1).ilog2() as usize;
        HEIGHTS.get(step).copied().unwrap_or('█')
    }
}
