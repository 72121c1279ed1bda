//! What is to be moved of one file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::skip::SkipReason;
use crate::{ByteRange, FileId};

/// A file as it was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileFacts {
    /// The name it was found under.
    #[serde(with = "super::path_text")]
    pub path: PathBuf,
    /// What identifies it; compare before moving, as the name may meanwhile be another file's.
    pub id: FileId,
    /// `st_size`.
    pub size_bytes: u64,
    /// The file system's block, to which ranges are aligned; a power of two.
    pub block_bytes: u64,
}

/// A range that is to become contiguous.
///
/// It begins on a block, ends on one or at the end of the file, and holds nothing but written data: no hole, no
/// unwritten, encoded, inline or (unless asked for) shared extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Move {
    /// Which bytes.
    pub range: ByteRange,
    /// Pieces it lies in now; a donor with as many is no gain.
    pub pieces: u32,
    /// Requests that the assumed I/O which touches this range takes, all of its repetitions together, once the moves
    /// before it in the same window are made.
    pub requests_before: u64,
    /// The same once this range is one piece.
    pub requests_after: u64,
}

impl Move {
    /// Requests that the move saves. I/O that touches two moves is in the counts of both, and in this once.
    pub fn saved(&self) -> u64 {
        self.requests_before.saturating_sub(self.requests_after)
    }
}

/// Bytes that the assumed I/O touches, and that stay where they are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeftAlone {
    /// Why.
    #[serde(flatten)]
    pub reason: SkipReason,
    /// How many.
    pub bytes: u64,
}

/// What is to be moved of one file, and what not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FilePlan {
    /// Which file.
    #[serde(flatten)]
    pub file: FileFacts,
    /// Pieces of the whole file on the device.
    pub pieces: u64,
    /// Requests of all assumed I/O to the file, as it lies now.
    pub requests_before: u64,
    /// The same after every move in `moves`.
    pub requests_after: u64,
    /// What to move, in the order of the file; none overlap.
    pub moves: Vec<Move>,
    /// What stays in windows that are split, one entry a reason.
    pub left_alone: Vec<LeftAlone>,
}

impl FilePlan {
    /// Bytes to write.
    pub fn bytes(&self) -> u64 {
        self.moves.iter().map(|to_move| to_move.range.len()).sum()
    }

    /// Requests that all moves save.
    pub fn saved(&self) -> u64 {
        self.moves.iter().map(Move::saved).sum()
    }
}

/// Requests of `before` that are left after `moves`.
pub(super) fn requests_after(before: u64, moves: &[Move]) -> u64 {
    // A move that is made although it saves nothing may cost a merge.
    let change = |to_move: &Move| i128::from(to_move.requests_after) - i128::from(to_move.requests_before);
    let after = i128::from(before) + moves.iter().map(change).sum::<i128>();
    u64::try_from(after.max(0)).unwrap_or(u64::MAX)
}
