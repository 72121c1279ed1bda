//! A file's pieces on a grid: along it the place in the file, up it the place on the device.

use std::collections::BTreeMap;

use crate::extents::{ExtentKind, ExtentMap, Piece};
use crate::plan::Move;

/// Points along the file.
pub const COLUMNS: u64 = 480;
/// Points along the device.
pub const ROWS: u64 = 140;

/// What a point shows; of several the one that comes last here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ink {
    /// Stays where it is.
    Stays,
    /// Stays, as it is shared or encoded.
    Fixed,
    /// To be moved.
    Moves,
}

/// Runs of points: (row, column, ink) to length. At most `COLUMNS * ROWS`, whatever the number of pieces.
pub fn runs(map: &ExtentMap, moves: &[Move]) -> BTreeMap<(Ink, u64, u64), u64> {
    let (low, high) = span(map);
    let mut points: BTreeMap<(u64, u64), Ink> = BTreeMap::new();
    for piece in map.pieces(map.whole()).filter(on_device) {
        let ink = if moves.binary_search_by(|to_move| place(to_move, &piece)).is_ok() {
            Ink::Moves
        } else if piece.kind == ExtentKind::Data {
            Ink::Stays
        } else {
            Ink::Fixed
        };
        let row = scaled(piece.physical - low, high - low, ROWS);
        let first = scaled(piece.range.start, map.size_bytes(), COLUMNS);
        let last = scaled(piece.range.end - 1, map.size_bytes(), COLUMNS);
        for column in first..=last {
            let point = points.entry((row, column)).or_insert(ink);
            *point = ink.max(*point);
        }
    }
    let mut runs = BTreeMap::new();
    let mut open: Option<((Ink, u64, u64), u64)> = None;
    for ((row, column), ink) in points {
        match &mut open {
            Some(((of, at, start), length)) if *of == ink && *at == row && *start + *length == column => *length += 1,
            _ => {
                runs.extend(open.take());
                open = Some(((ink, row, column), 1));
            }
        }
    }
    runs.extend(open);
    runs
}

/// The lowest and the highest place on the device, in bytes.
pub fn span(map: &ExtentMap) -> (u64, u64) {
    let ends = |piece: Piece| piece.physical.saturating_add(piece.range.len());
    let low = map.pieces(map.whole()).filter(on_device).map(|piece| piece.physical).min().unwrap_or(0);
    let high = map.pieces(map.whole()).filter(on_device).map(ends).max().unwrap_or(0);
    (low, high)
}

fn on_device(piece: &Piece) -> bool {
    piece.kind.is_plain() || piece.kind == ExtentKind::Encoded
}

/// Where a move lies as seen from a piece; a piece that a move covers in part is as good as moved.
fn place(to_move: &Move, piece: &Piece) -> std::cmp::Ordering {
    if to_move.range.end <= piece.range.start {
        std::cmp::Ordering::Less
    } else if to_move.range.start >= piece.range.end {
        std::cmp::Ordering::Greater
    } else {
        std::cmp::Ordering::Equal
    }
}

/// `value` of `0..whole` as one of `points`.
fn scaled(value: u64, whole: u64, points: u64) -> u64 {
    let point = u128::from(value) * u128::from(points) / u128::from(whole.max(1));
    u64::try_from(point).unwrap_or(u64::MAX).min(points - 1)
}
