//! A window: a stretch of a file that is worth having in one piece.

use crate::ByteRange;
use crate::extents::Direction;

/// One distinct access inside a window, and how often it happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Touch {
    /// Which bytes; whole blocks, within the file.
    pub range: ByteRange,
    /// Read or written.
    pub direction: Direction,
    /// How often; at least one.
    pub count: u64,
}

/// Overlapping accesses, taken together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// All that they cover.
    pub range: ByteRange,
    /// Accesses in it: the window's heat.
    pub count: u64,
    /// The accesses, sorted; each lies within `range`.
    pub touches: Vec<Touch>,
}
