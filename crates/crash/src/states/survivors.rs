//! Which parts of undecided writes are there.

use std::ops::Range;

use crate::write::{LoggedWrite, Piece};

/// A set of parts of the undecided writes of a moment, numbered through all of them in order of submission.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Survivors {
    words: Vec<u64>,
    parts: usize,
}

impl Survivors {
    /// The parts below `parts` that `survives` chooses; it is asked in order.
    pub fn choose(parts: usize, mut survives: impl FnMut(usize) -> bool) -> Self {
        let mut words = vec![0; parts.div_ceil(64)];
        for part in 0..parts {
            if survives(part)
                && let Some(word) = words.get_mut(part / 64)
            {
                *word |= 1 << (part % 64);
            }
        }
        Self { words, parts }
    }

    /// Whether a part is there.
    pub fn has(&self, part: usize) -> bool {
        self.words.get(part / 64).is_some_and(|word| word >> (part % 64) & 1 == 1)
    }

    /// How many parts there are to be kept or lost.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// How many are lost.
    pub fn lost(&self) -> usize {
        self.parts - self.words.iter().map(|word| word.count_ones() as usize).sum::<usize>()
    }

    /// The same parts, where `undecided` has more writes behind those that they are of: none of them is there.
    pub fn extended(&self, undecided: &[&LoggedWrite], atomic_bytes: u32) -> Self {
        Self::choose(parts_of(undecided, atomic_bytes), |part| part < self.parts && self.has(part))
    }

    /// What they put over the durable bytes, in the order in which it is to be applied.
    pub fn pieces<'a>(&self, undecided: &[&'a LoggedWrite], atomic_bytes: u32) -> Vec<Piece<'a>> {
        let mut first = 0;
        let mut pieces = Vec::new();
        for write in undecided {
            pieces.extend(write.pieces(atomic_bytes, |part| self.has(first + part)));
            first += write.parts(atomic_bytes);
        }
        pieces
    }
}

/// Which parts each of them has: the groups by which [`shrink`](crate::shrink()) gives writes back.
pub fn parts_by_write(undecided: &[&LoggedWrite], atomic_bytes: u32) -> Vec<Range<usize>> {
    let mut first = 0;
    let parts_of_one = |write: &&LoggedWrite| {
        let parts = write.parts(atomic_bytes);
        first += parts;
        first - parts..first
    };
    undecided.iter().map(parts_of_one).collect()
}

/// How many parts all of them have.
pub(super) fn parts_of(undecided: &[&LoggedWrite], atomic_bytes: u32) -> usize {
    undecided.iter().map(|write| write.parts(atomic_bytes)).sum()
}
