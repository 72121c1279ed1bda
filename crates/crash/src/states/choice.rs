//! Which subsets of the undecided writes a sample looks at.

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::survivors::Survivors;
/// Which of a device's undecided writes survive a power cut: chosen before anybody knows how many there are, for tests that ask a
/// device itself and have no log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// None of them.
    Nothing,
    /// All of them.
    Everything,
    /// By lot, as a [`StatePlan`](crate::StatePlan) samples them: all but one, one alone, the oldest, or any. The same lot and number of
    /// writes give the same choice.
    Lot(u64),
}

impl Choice {
    /// Of so many writes, oldest first, each of which survives as a whole or not at all.
    pub fn of(self, writes: usize) -> Survivors {
        match self {
            Self::Nothing => Survivors::choose(writes, |_| false),
            Self::Everything => Survivors::choose(writes, |_| true),
            Self::Lot(seed) => {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                let number = random.random_range(CERTAIN..CERTAIN + KINDS);
                Choices::new(std::iter::repeat_n(1, writes)).numbered(number, &mut random)
            }
        }
    }
}

/// Choices that come before those by lot: nothing and everything.
const CERTAIN: usize = 2;

/// Kinds of choices by lot.
const KINDS: usize = 6;

/// The choices of one moment, endless: first nothing and everything, then by lot.
pub(super) struct Choices {
    /// The first part of each write, and at last the number of parts.
    firsts: Vec<usize>,
    next: usize,
}

/// How likely parts of a random choice survive.
const CHANCES: [f64; 3] = [0.5, 0.9, 0.1];

impl Choices {
    /// Of writes that have so many parts each.
    pub(super) fn new(parts: impl Iterator<Item = usize>) -> Self {
        let mut firsts = vec![0];
        let mut sum = 0;
        for parts in parts {
            sum += parts;
            firsts.push(sum);
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
        self.next += 1;
        self.numbered(self.next - 1, random)
    }

    fn numbered(&self, number: usize, random: &mut impl Rng) -> Survivors {
        let writes = self.firsts.len() - 1;
        if writes == 0 {
            return Survivors::default();
        }
        let one = random.random_range(0..writes);
        let chance = CHANCES[random.random_range(0..CHANCES.len())];
        match number {
            0 => self.writes(|_| false),
            1 => self.writes(|_| true),
            number => match number % KINDS {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(choice: Choice, writes: usize) -> Vec<bool> {
        let survivors = choice.of(writes);
        assert_eq!(survivors.parts(), writes);
        (0..writes).map(|write| survivors.has(write)).collect()
    }

    #[test]
    fn nothing_and_everything_are_what_they_say() {
        for writes in [0, 1, 64, 65, 200] {
            assert_eq!(chosen(Choice::Nothing, writes), vec![false; writes]);
            assert_eq!(chosen(Choice::Everything, writes), vec![true; writes]);
        }
    }

    /// Each pair of writes is told apart by some lot, in both directions, however many lie between them.
    #[test]
    fn no_write_shares_the_fate_of_another() {
        const WRITES: usize = 200;
        let lots: Vec<Vec<bool>> = (0..400).map(|seed| chosen(Choice::Lot(seed), WRITES)).collect();
        for one in 0..WRITES {
            for other in 0..WRITES {
                let apart = lots.iter().any(|lot| lot[one] && !lot[other]);
                assert!(apart || one == other, "write {one} never survives without {other}");
            }
        }
    }

    /// All but one, one alone, the oldest ones, and others come up in a few lots.
    #[test]
    fn every_kind_of_choice_comes_up() {
        const WRITES: usize = 9;
        let lots: Vec<Vec<bool>> = (0..60).map(|seed| chosen(Choice::Lot(seed), WRITES)).collect();
        let survivors = |lot: &Vec<bool>| lot.iter().filter(|survives| **survives).count();
        assert!(lots.iter().any(|lot| survivors(lot) == WRITES - 1));
        assert!(lots.iter().any(|lot| survivors(lot) == 1));
        assert!(
            lots.iter().any(|lot| (2..WRITES - 1).contains(&survivors(lot)) && !lot[survivors(lot)..].contains(&true))
        );
        assert!(
            lots.iter().any(|lot| (2..WRITES - 1).contains(&survivors(lot)) && lot[survivors(lot)..].contains(&true))
        );
        assert_eq!(lots, (0..60).map(|seed| chosen(Choice::Lot(seed), WRITES)).collect::<Vec<_>>());
    }
}
