//! A file cut into equal cells, and what is in each.

use crate::ByteRange;
use crate::extents::{ExtentKind, ExtentMap};
use crate::plan::Move;

/// One of many equal parts of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    /// Bytes in it that lie on the device.
    pub mapped_bytes: u64,
    /// Bytes of these that are shared, encoded or otherwise not to be moved.
    pub fixed_bytes: u64,
    /// Pieces that it touches.
    pub pieces: u64,
    /// Bytes to be moved.
    pub moved_bytes: u64,
}

/// `count` cells of the file of `map`, each as long as the others but for rounding.
pub fn cells(map: &ExtentMap, moves: &[Move], count: usize) -> Vec<Cell> {
    let mut cells = vec![Cell::default(); count];
    let size = map.size_bytes();
    if size == 0 || count == 0 {
        return cells;
    }
    for piece in map.pieces(map.whole()) {
        let is_mapped = piece.kind.is_plain() || piece.kind == ExtentKind::Encoded;
        if is_mapped {
            spread(&mut cells, size, piece.range, |cell, bytes| {
                cell.pieces += 1;
                cell.mapped_bytes += bytes;
                cell.fixed_bytes += if piece.kind == ExtentKind::Data { 0 } else { bytes };
            });
        }
    }
    for to_move in moves {
        spread(&mut cells, size, to_move.range, |cell, bytes| cell.moved_bytes += bytes);
    }
    cells
}

/// Hands each cell the bytes of `range` that are in it.
fn spread(cells: &mut [Cell], size: u64, range: ByteRange, mut give: impl FnMut(&mut Cell, u64)) {
    let count = cells.len() as u128;
    // 128 bits: a size times a number of cells may be more than 64 have.
    let edge = |index: usize| (u128::from(size) * index as u128 / count) as u64;
    let first = usize::try_from(u128::from(range.start) * count / u128::from(size)).unwrap_or(usize::MAX);
    for (index, cell) in cells.iter_mut().enumerate().skip(first.saturating_sub(1)) {
        let all = ByteRange { start: edge(index), end: edge(index + 1) };
        if all.start >= range.end {
            break;
        }
        if let Some(common) = all.intersection(&range) {
            give(cell, common.len());
        }
    }
}
