//! What moves take up for good: extents of which a part is moved, and another part keeps the whole of it allocated.

use std::collections::BTreeMap;

use super::file::Move;
use crate::extents::{Backing, ExtentKind, ExtentMap};

/// An allocated extent that no single move empties.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tie {
    /// Bytes of the file that refer to it; it is freed once all of them are moved. Without end where other files refer to it.
    pub live_bytes: u64,
    /// Moves that take a part of it, by their place in the plan, and how much they take.
    pub parts: Vec<(usize, u64)>,
}

impl Tie {
    /// What is taken up for good when all of its moves are made.
    pub fn for_good_bytes(&self) -> u64 {
        let moved = self.parts.iter().map(|(_, bytes)| bytes).sum();
        if moved >= self.live_bytes { 0 } else { moved }
    }

    /// Forgets the moves that are not at `kept`, which is sorted, and counts the others again.
    pub fn keep(&mut self, kept: &[usize]) {
        self.parts.retain_mut(|(at, _)| match kept.binary_search(at) {
            Ok(place) => {
                *at = place;
                true
            }
            Err(_) => false,
        });
    }
}

/// The extents that `moves` take parts of. `backing` has those that are freed as a whole only; shared blocks are never freed.
pub(super) fn ties(map: &ExtentMap, backing: Option<&Backing>, moves: &[Move]) -> Vec<Tie> {
    let mut by_extent: BTreeMap<u64, Vec<(usize, u64)>> = BTreeMap::new();
    let mut ties = Vec::new();
    for (at, to_move) in moves.iter().enumerate() {
        for piece in map.pieces(to_move.range) {
            match (piece.kind, backing) {
                (ExtentKind::Shared, _) => {
                    ties.push(Tie { live_bytes: u64::MAX, parts: vec![(at, piece.range.len())] });
                }
                (ExtentKind::Data, Some(backing)) => {
                    for reference in backing.within(piece.range).filter(|reference| reference.movable) {
                        let parts = by_extent.entry(reference.extent).or_default();
                        match parts.last_mut() {
                            Some((last, bytes)) if *last == at => *bytes += reference.range.len(),
                            _ => parts.push((at, reference.range.len())),
                        }
                    }
                }
                _ => {}
            }
        }
    }
    let Some(backing) = backing else { return ties };
    let of_extents = by_extent.into_iter().map(|(extent, parts)| Tie { live_bytes: backing.live_bytes(extent), parts });
    ties.extend(of_extents.filter(|tie| tie.parts.len() > 1 || tie.for_good_bytes() > 0));
    ties
}

/// What is taken up for good when all moves are made.
pub(super) fn for_good_bytes(ties: &[Tie]) -> u64 {
    ties.iter().map(Tie::for_good_bytes).fold(0, u64::saturating_add)
}

/// The space that moves take up, one after the other.
pub(super) struct Occupancy<'a> {
    ties: &'a [Tie],
    /// By move: its ties and what it takes of them.
    by_move: BTreeMap<usize, Vec<(usize, u64)>>,
    moved: Vec<u64>,
}

impl<'a> Occupancy<'a> {
    pub fn new(ties: &'a [Tie]) -> Self {
        let mut by_move: BTreeMap<usize, Vec<(usize, u64)>> = BTreeMap::new();
        for (number, tie) in ties.iter().enumerate() {
            for (at, bytes) in &tie.parts {
                by_move.entry(*at).or_default().push((number, *bytes));
            }
        }
        Self { ties, by_move, moved: vec![0; ties.len()] }
    }

    /// By how many bytes more are taken up once the move at `at` is made too; fewer, where it empties an extent.
    pub fn make(&mut self, at: usize) -> i128 {
        let mut change = 0;
        for (number, bytes) in self.by_move.get(&at).into_iter().flatten() {
            let (Some(tie), Some(moved)) = (self.ties.get(*number), self.moved.get_mut(*number)) else { continue };
            let before = *moved;
            *moved = before.saturating_add(*bytes);
            change += if *moved >= tie.live_bytes { -i128::from(before) } else { i128::from(*bytes) };
        }
        change
    }
}
