//! What is to be moved of one file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::skip::SkipReason;
use super::ties::{Tie, for_good_bytes};
use crate::{ByteRange, FileId};

/// A file as it was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileFacts {
    /// The name it was found under.
    #[serde(with = "crate::path_text")]
    pub path: PathBuf,
    /// What identifies it; compare before moving, as the name may meanwhile be another file's.
    pub id: FileId,
    /// `st_size`.
    pub size_bytes: u64,
    /// The file system's block, to which ranges are aligned; a power of two.
    pub block_bytes: u64,
}

/// A range whose data is to become contiguous.
///
/// It begins on a block, ends on one or at the end of the file, and holds no encoded, inline or (unless asked for) shared
/// extent. Holes and unwritten extents in it stay, and the data on both sides comes to lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Move {
    /// Which bytes.
    pub range: ByteRange,
    /// Bytes of data in it: what is written.
    pub bytes: u64,
    /// Stretches of the device that it lies in now; a donor with as many is no gain.
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

/// What moving everything of a file that lies in pieces costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WholeCost {
    /// Bytes to write.
    pub bytes: u64,
    /// Space that is taken up for good.
    pub for_good_bytes: u64,
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
    /// Space that is taken up for good: bytes of `moves` whose old place is not freed, as something else refers to the same
    /// allocated extent (Btrfs), or to the same blocks (`--shared`).
    #[serde(default)]
    pub for_good_bytes: u64,
    /// Whether that is the most it may be, as the file system's items could not be read.
    #[serde(default)]
    pub for_good_is_estimated: bool,
    /// What `--mode whole` would cost, where these moves take up space for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<WholeCost>,
    /// What `for_good_bytes` is the sum of.
    #[serde(skip)]
    pub(super) ties: Vec<Tie>,
    /// What stays in windows that are split, one entry a reason.
    pub left_alone: Vec<LeftAlone>,
}

impl FilePlan {
    /// One that makes these moves, which take up nothing for good.
    pub fn of_moves(file: FileFacts, pieces: u64, requests_before: u64, moves: Vec<Move>) -> Self {
        Self {
            file,
            pieces,
            requests_before,
            requests_after: requests_after(requests_before, &moves),
            moves,
            for_good_bytes: 0,
            for_good_is_estimated: false,
            whole: None,
            ties: Vec::new(),
            left_alone: Vec::new(),
        }
    }

    /// Bytes to write.
    pub fn bytes(&self) -> u64 {
        self.moves.iter().map(|to_move| to_move.bytes).sum()
    }

    /// Bytes to write and bytes taken up for good: what a budget is spent on.
    pub fn cost_bytes(&self) -> u64 {
        self.bytes().saturating_add(self.for_good_bytes)
    }

    /// Requests that all moves save.
    pub fn saved(&self) -> u64 {
        self.moves.iter().map(Move::saved).sum()
    }
}

impl FilePlan {
    /// Keeps the moves that `wanted` says, and notes why the rest stays.
    pub(crate) fn retain(&mut self, reason: SkipReason, wanted: impl Fn(&FileId, &Move) -> bool) {
        let moves = self.moves.iter().enumerate();
        let kept: Vec<usize> = moves.filter(|(_, to_move)| wanted(&self.file.id, to_move)).map(|(at, _)| at).collect();
        self.keep(&kept, reason);
    }

    /// Keeps the moves at `kept`, which is sorted, and says why the rest stays.
    pub(super) fn keep(&mut self, kept: &[usize], reason: SkipReason) {
        let bytes_before = self.bytes();
        let mut place = 0;
        self.moves.retain(|_| {
            place += 1;
            kept.binary_search(&(place - 1)).is_ok()
        });
        for tie in &mut self.ties {
            tie.keep(kept);
        }
        self.ties.retain(|tie| !tie.parts.is_empty());
        self.for_good_bytes = for_good_bytes(&self.ties);
        self.requests_after = requests_after(self.requests_before, &self.moves);
        let bytes = bytes_before - self.bytes();
        if bytes > 0 {
            self.left_alone.push(LeftAlone { reason, bytes });
        }
    }
}

/// Requests of `before` that are left after `moves`.
fn requests_after(before: u64, moves: &[Move]) -> u64 {
    // A move that is made although it saves nothing may cost a merge.
    let change = |to_move: &Move| i128::from(to_move.requests_after) - i128::from(to_move.requests_before);
    let after = i128::from(before) + moves.iter().map(change).sum::<i128>();
    u64::try_from(after.max(0)).unwrap_or(u64::MAX)
}
