//! Which subsets of the undecided writes a sample looks at.

use rand::{Rng, RngExt};

use super::survivors::Survivors;
use crate::write::LoggedWrite;

/// The choices of one moment, endless: first nothing and everything, then by lot.
pub(super) struct Choices {
    /// The first part of each write, and at last the number of parts.
    firsts: Vec<usize>,
    next: usize,
}

/// How likely parts of a random choice survive.
const CHANCES: [f64; 3] = [0.5, 0.9, 0.1];

impl Choices {
    pub(super) fn new(undecided: &[&LoggedWrite], atomic_bytes: u32) -> Self {
        let mut firsts = vec![0];
        let mut parts = 0;
        for write in undecided {
            parts += write.parts(atomic_bytes);
            firsts.push(parts);
        }
        Self { firsts, next: 0 }
    }

    fn parts(&self) -> usize {
        self.firsts.last().copied().unwrap_or(0)
    }

    /// Parts of whole writes, by their number.
    fn writes(&self, mut survives: impl FnMut(usize) -> bool) -> Survivors {
        let mut write = 0;
        let mut is_there = survives(0);
        Survivors::choose(self.parts(), |part| {
            while self.firsts.get(write + 1).is_some_and(|next| part >= *next) {
                write += 1;
                is_there = survives(write);
            }
            is_there
        })
    }

    pub(super) fn next(&mut self, random: &mut impl Rng) -> Survivors {
        let number = self.next;
        self.next += 1;
        let writes = self.firsts.len() - 1;
        if writes == 0 {
            return Survivors::default();
        }
        let one = random.random_range(0..writes);
        let chance = CHANCES[random.random_range(0..CHANCES.len())];
        match number {
            0 => self.writes(|_| false),
            1 => self.writes(|_| true),
            number => match number % 6 {
                // A write that is lost while everything newer is there: what a missing flush costs.
                2 => self.writes(|write| write != one),
                3 => self.writes(|write| write == one),
                4 => self.writes(|write| write < one),
                5 => self.writes(|_| random.random_bool(chance)),
                // Any parts: writes torn in the middle.
                0 => Survivors::choose(self.parts(), |_| random.random_bool(chance)),
                // The oldest writes, and a piece of the next.
                _ => {
                    let (first, end) = (self.firsts[one], self.firsts[one + 1]);
                    let torn = random.random_range(first..=end);
                    Survivors::choose(self.parts(), |part| part < torn)
                }
            },
        }
    }
}
