//! From the plans of files to one plan: best benefit per byte first, within a budget.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::file::{FilePlan, Move};
use super::mode::Mode;
use super::room::{Room, Use};
use super::skip::{SkipReason, SkippedFile};

/// Most moves that a plan holds, some 40 MB.
pub const MAX_MOVES: usize = 1 << 20;

/// Most files that a plan names as left alone; the rest is counted by reason.
pub const MAX_SKIPPED_FILES: usize = 1 << 14;

/// Sums over everything that was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Files with a map of extents.
    pub files: u64,
    /// Their sizes.
    pub size_bytes: u64,
    /// Their pieces.
    pub pieces: u64,
    /// Files with something to move.
    pub files_to_move: u64,
    /// Moves.
    pub moves: u64,
    /// Bytes to write.
    pub bytes_to_move: u64,
    /// Space that is taken up for good.
    #[serde(default)]
    pub for_good_bytes: u64,
    /// Whether that is the most it may be, as the file system's items could not be read.
    #[serde(default)]
    pub for_good_is_estimated: bool,
    /// The most space that is taken up at any time during the run, metadata aside.
    #[serde(default)]
    pub peak_bytes: u64,
    /// Requests of all assumed I/O now.
    pub requests_before: u64,
    /// The same after every move.
    pub requests_after: u64,
}

/// What to move, and what not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// How the ranges were chosen.
    pub mode: Mode,
    /// Sums.
    pub totals: Totals,
    /// Files with something to move, best benefit per byte first.
    pub files: Vec<FilePlan>,
    /// Files left alone, in the order they were found: the first [`MAX_SKIPPED_FILES`], and of those
    /// that need nothing the first half as many.
    pub skipped: Vec<SkippedFile>,
    /// All files left alone, counted by reason.
    pub skipped_by_reason: BTreeMap<String, u64>,
}

/// Puts a plan together in bounded memory.
#[derive(Debug)]
pub struct Planner {
    mode: Mode,
    max_moves: usize,
    files: BTreeMap<Rank, FilePlan>,
    moves: usize,
    sequence: u64,
    /// By device.
    rooms: BTreeMap<u64, Room>,
    totals: Totals,
    skipped: Vec<SkippedFile>,
    skipped_by_reason: BTreeMap<String, u64>,
}

/// Benefit per byte that is written or taken up for good; the greatest first, and of equals the one found first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rank {
    saved: u64,
    cost_bytes: u64,
    sequence: u64,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        // saved / cost_bytes without division: no benefit is lost to rounding.
        let cross = |a: &Self, b: &Self| u128::from(a.saved) * u128::from(b.cost_bytes.max(1));
        cross(other, self).cmp(&cross(self, other)).then(self.sequence.cmp(&other.sequence))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Rank {
    fn of_file(file: &FilePlan, sequence: u64) -> Self {
        Self { saved: file.saved(), cost_bytes: file.cost_bytes(), sequence }
    }

    fn of_move(to_move: &Move, for_good_bytes: u64, sequence: u64) -> Self {
        Self { saved: to_move.saved(), cost_bytes: to_move.bytes.saturating_add(for_good_bytes), sequence }
    }
}

impl Planner {
    /// An empty plan.
    pub fn new(mode: Mode) -> Self {
        Self::with_max_moves(mode, MAX_MOVES)
    }

    /// One that holds fewer moves than usual.
    pub fn with_max_moves(mode: Mode, max_moves: usize) -> Self {
        Self {
            mode,
            max_moves,
            files: BTreeMap::new(),
            moves: 0,
            sequence: 0,
            rooms: BTreeMap::new(),
            totals: Totals::default(),
            skipped: Vec::new(),
            skipped_by_reason: BTreeMap::new(),
        }
    }

    /// The free space of a device's file system. Where it is not told, there is enough.
    pub fn set_room(&mut self, device: u64, room: Room) {
        self.rooms.insert(device, room);
    }

    /// A file that was looked at. One without moves counts as left alone.
    pub fn add(&mut self, mut file: FilePlan) {
        self.totals.files += 1;
        self.totals.size_bytes = self.totals.size_bytes.saturating_add(file.file.size_bytes);
        self.totals.pieces = self.totals.pieces.saturating_add(file.pieces);
        self.totals.requests_before = self.totals.requests_before.saturating_add(file.requests_before);
        if file.moves.is_empty() {
            let most = file.left_alone.into_iter().max_by_key(|left| left.bytes).map(|left| left.reason);
            self.skip(SkippedFile { path: file.file.path, reason: most.unwrap_or(SkipReason::NotSplit) });
            return;
        }
        if file.moves.len() > self.max_moves {
            let mut ranked = ranked(std::iter::once(&file));
            ranked.truncate(self.max_moves);
            let mut kept: Vec<_> = ranked.into_iter().map(|(_, _, index)| index).collect();
            kept.sort_unstable();
            file.keep(&kept, SkipReason::OverLimit);
        }
        self.moves += file.moves.len();
        let rank = Rank::of_file(&file, self.sequence);
        self.sequence += 1;
        self.files.insert(rank, file);
        while self.moves > self.max_moves {
            let Some((_, worst)) = self.files.pop_last() else { break };
            self.moves -= worst.moves.len();
            self.skip(SkippedFile { path: worst.file.path, reason: SkipReason::OverLimit });
        }
    }

    /// A file of `size_bytes` too small to be split, in `pieces` (0 or 1).
    pub fn add_small(&mut self, path: &Path, size_bytes: u64, pieces: u64) {
        self.totals.files += 1;
        self.totals.size_bytes = self.totals.size_bytes.saturating_add(size_bytes);
        self.totals.pieces = self.totals.pieces.saturating_add(pieces);
        self.totals.requests_before = self.totals.requests_before.saturating_add(pieces);
        self.skip(SkippedFile { path: path.to_owned(), reason: SkipReason::NotSplit });
    }

    /// A file left alone before its extents were looked at.
    pub fn skip(&mut self, file: SkippedFile) {
        *self.skipped_by_reason.entry(file.reason.name().to_owned()).or_default() += 1;
        // What is in order must not crowd out what is not.
        if self.skipped.len() < if file.reason.is_in_order() { MAX_SKIPPED_FILES / 2 } else { MAX_SKIPPED_FILES } {
            self.skipped.push(file);
        }
    }

    /// The plan: at most `budget_bytes` to write and to take up for good, spent on the moves that save most for each byte,
    /// and never so much that less free space is left than is to be kept.
    ///
    /// A move that no longer fits is left, and smaller ones after it still have their chance.
    pub fn finish(mut self, budget_bytes: Option<u64>) -> Plan {
        let mut files: Vec<FilePlan> = std::mem::take(&mut self.files).into_values().collect();
        if let Some(budget_bytes) = budget_bytes {
            files = self.within(files, budget_bytes);
        }
        let (files, peak_bytes) = self.with_room(files);
        let mut totals = self.totals;
        totals.peak_bytes = peak_bytes;
        totals.files_to_move = files.len() as u64;
        for file in &files {
            totals.moves += file.moves.len() as u64;
            totals.bytes_to_move = totals.bytes_to_move.saturating_add(file.bytes());
            totals.for_good_bytes = totals.for_good_bytes.saturating_add(file.for_good_bytes);
            totals.for_good_is_estimated |= file.for_good_is_estimated;
        }
        let sum = |of: fn(&FilePlan) -> u64| files.iter().map(of).fold(0, u64::saturating_add);
        let untouched = totals.requests_before.saturating_sub(sum(|file| file.requests_before));
        totals.requests_after = untouched.saturating_add(sum(|file| file.requests_after));
        Plan { mode: self.mode, totals, files, skipped: self.skipped, skipped_by_reason: self.skipped_by_reason }
    }

    fn within(&mut self, files: Vec<FilePlan>, budget_bytes: u64) -> Vec<FilePlan> {
        let mut left = budget_bytes;
        let mut kept: Vec<Vec<usize>> = vec![Vec::new(); files.len()];
        for (rank, file, index) in ranked(files.iter()) {
            if rank.cost_bytes <= left {
                left -= rank.cost_bytes;
                if let Some(kept) = kept.get_mut(file) {
                    kept.push(index);
                }
            }
        }
        self.kept(files, kept, &SkipReason::OverBudget)
    }

    /// The moves of every file that find room, and the most that is taken up on all file systems together.
    fn with_room(&mut self, files: Vec<FilePlan>) -> (Vec<FilePlan>, u64) {
        let mut uses: BTreeMap<u64, Use> = BTreeMap::new();
        let mut kept = Vec::with_capacity(files.len());
        for file in &files {
            let device = file.file.id.device;
            kept.push(uses.entry(device).or_default().fitting(file, self.rooms.get(&device)));
        }
        let peak_bytes = uses
            .iter()
            .filter_map(|(device, used)| Some(used.peak_bytes(self.rooms.get(device)?)))
            .fold(0, u64::saturating_add);
        (self.kept(files, kept, &SkipReason::KeepFree), peak_bytes)
    }

    /// The files with the moves at `kept` alone, best first again.
    fn kept(&mut self, files: Vec<FilePlan>, kept: Vec<Vec<usize>>, reason: &SkipReason) -> Vec<FilePlan> {
        let mut chosen = BTreeMap::new();
        for (sequence, (mut file, mut kept)) in files.into_iter().zip(kept).enumerate() {
            kept.sort_unstable();
            file.keep(&kept, reason.clone());
            if file.moves.is_empty() {
                self.skip(SkippedFile { path: file.file.path, reason: reason.clone() });
            } else {
                chosen.insert(Rank::of_file(&file, sequence as u64), file);
            }
        }
        chosen.into_values().collect()
    }
}

/// Every move with its rank, its file's and its own place, best first.
///
/// An extent that several moves empty together counts as taken up for good, as the budget may end before the last of them.
fn ranked<'a>(files: impl Iterator<Item = &'a FilePlan>) -> Vec<(Rank, usize, usize)> {
    let mut all = Vec::new();
    for (file, plan) in files.enumerate() {
        let mut for_good = vec![0_u64; plan.moves.len()];
        for (at, bytes) in plan.ties.iter().flat_map(|tie| &tie.parts) {
            if let Some(for_good) = for_good.get_mut(*at) {
                *for_good = for_good.saturating_add(*bytes);
            }
        }
        for (index, (to_move, for_good)) in plan.moves.iter().zip(for_good).enumerate() {
            all.push((Rank::of_move(to_move, for_good, all.len() as u64), file, index));
        }
    }
    all.sort_by_key(|(rank, ..)| *rank);
    all
}
