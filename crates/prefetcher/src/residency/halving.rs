//! What of a row is there, where only the number within a range can be asked: most of it is as its neighbours are, so ranges are halved
//! until each is there or not.

use crate::mutants::{Mutant, mutated};

/// How much of a range is there, and how much there is of it at all.
#[derive(Clone, Copy)]
pub struct Answer {
    /// What is there.
    pub there: u64,
    /// All of it.
    pub all: u64,
}

/// Ranges of which something is there: of one place, any of it; of more, all. None where an answer is missing, or the questions would be
/// more than `most`. Each place was so at some moment of the call.
pub fn there(
    places: u64,
    most: u64,
    mut ask: impl FnMut(u64, u64) -> Option<Answer>,
    mut found: impl FnMut(u64, u64),
) -> Option<()> {
    let mut left = most;
    let mut ranges = vec![(0, places)];
    while let Some((from, to)) = ranges.pop() {
        left = if mutated(Mutant::QuestionsUnbounded) { left } else { left.checked_sub(1)? };
        let Answer { there, all } = ask(from, to)?;
        if there > 0 && (there >= all || to - from == 1 || mutated(Mutant::SomeIsAll)) {
            found(from, to);
        } else if there > 0 {
            let middle = from + (to - from) / 2;
            ranges.extend([(from, middle), (middle, to)]);
        }
    }
    Some(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn asked(row: &[bool], most: u64) -> Option<Vec<bool>> {
        let mut found = vec![false; row.len()];
        let ask = |from: u64, to: u64| {
            let there = row[from as usize..to as usize].iter().filter(|there| **there).count() as u64;
            Some(Answer { there, all: to - from })
        };
        there(row.len() as u64, most, ask, |from, to| found[from as usize..to as usize].fill(true))?;
        Some(found)
    }

    #[test]
    pub(crate) fn halves_find_what_a_look_at_each_would() {
        let mut state = 1_u64;
        for length in [0, 1, 2, 7, 64, 1000] {
            for share in [0, 1, 5, 10] {
                let row: Vec<bool> = (0..length)
                    .map(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        (state >> 33) % 10 < share
                    })
                    .collect();
                assert_eq!(asked(&row, u64::MAX), Some(row.clone()));
            }
        }
        let every_other: Vec<bool> = (0..1000).map(|place| place % 2 == 0).collect();
        assert_eq!(asked(&every_other, 100), None, "too many questions");
        assert_eq!(asked(&[true; 1000], 1), Some(vec![true; 1000]));
        assert_eq!(there(5, 9, |_, _| None, |_, _| {}), None, "nobody says");
    }
}
