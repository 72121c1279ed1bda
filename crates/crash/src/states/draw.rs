//! States drawn moment by moment, as many as are wanted and none of them kept: for millions, which are judged where they are made.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::choice::Choices;
use super::survivors::{Survivors, parts_of};
use crate::log::Log;
use crate::moments::Moments;
use crate::rules::Rule;

/// Spreads the numbers of moments over all seeds.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where the moments of a log are, and how much each leaves open.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The first of them that counts.
    first: usize,
    /// Of each that counts, until which entry what it leaves stays possible.
    until: Vec<usize>,
    /// Of each that counts, how many parts are undecided.
    parts: Vec<usize>,
}

impl Timeline {
    /// Of the moments of `log` under `rule` after its first `from` entries.
    pub fn new<R: Rule>(log: &Log, rule: R, from: usize, atomic_bytes: u32) -> Self {
        let atomic_bytes = atomic_bytes.max(log.unit_bytes());
        let mut walk = Moments::new(log, rule);
        let (mut first, mut number, mut open) = (0, 0, 0);
        let (mut until, mut parts): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        while walk.advance() {
            if walk.has_narrowed() {
                let before = walk.entries() - 1;
                for until in until.get_mut(open..).unwrap_or_default() {
                    *until = before;
                }
                open = until.len();
            }
            if walk.entries() < from {
                first = number + 1;
            } else {
                until.push(log.entries().len());
                parts.push(parts_of(&walk.undecided(), atomic_bytes));
            }
            number += 1;
        }
        Self { first, until, parts }
    }

    /// The moments that count, as [`Moments`] numbers them from 0.
    pub fn moments(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.until.len()
    }

    /// Before which entry what a cut at this moment leaves stays possible; `None` for a moment that does not count.
    pub fn until(&self, moment: usize) -> Option<usize> {
        self.until.get(moment.checked_sub(self.first)?).copied()
    }

    /// How many subsets of undecided parts there are at all of these moments, whatever order forbids of them; or the largest
    /// number where they are more.
    pub fn subsets(&self) -> f64 {
        self.parts.iter().map(|parts| 2_f64.powi(i32::try_from(*parts).unwrap_or(i32::MAX))).sum::<f64>().min(f64::MAX)
    }

    /// How many states to draw at each moment for `states` in all: of a moment with fewer subsets of its parts all of them, and
    /// as many of each other one.
    pub fn share(&self, states: u64) -> u64 {
        let drawn = |share: u64| -> u64 { self.parts.iter().map(|parts| subsets(*parts).min(share)).sum() };
        let (mut low, mut high) = (0, states);
        while low < high {
            let middle = low + (high - low) / 2;
            if drawn(middle) >= states { high = middle } else { low = middle + 1 }
        }
        low
    }
}

/// So many sets can be made of so many parts, or more than anybody asks for.
fn subsets(parts: usize) -> u64 {
    1_u64.checked_shl(parts as u32).unwrap_or(u64::MAX).min(1 << 40)
}

impl<R: Rule> Moments<'_, R> {
    /// Draws up to `share` states of this moment, which is number `moment`: every possible one where there are no more subsets of
    /// its parts, else nothing and everything of them and others by lot. The same arguments draw the same states.
    pub fn draw(&self, moment: usize, atomic_bytes: u32, share: u64, seed: u64, mut each: impl FnMut(&Survivors)) {
        let undecided = self.undecided();
        let parts = parts_of(&undecided, atomic_bytes);
        let order = self.part_order(atomic_bytes);
        if subsets(parts) <= share {
            for mask in 0..subsets(parts) {
                let survivors = Survivors::choose(parts, |part| mask >> part & 1 == 1);
                if order.as_ref().is_none_or(|order| order.allows(&survivors)) {
                    each(&survivors);
                }
            }
            return;
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ (moment as u64 + 1).wrapping_mul(STRIDE));
        let mut choices = Choices::new(undecided.iter().map(|write| write.parts(atomic_bytes)));
        for number in 0..share as usize {
            match &order {
                None => each(&choices.next(&mut random)),
                Some(order) if number >= 2 && number % 2 == 1 => each(&order.cut(moment + number / 2, &mut random)),
                Some(order) => each(&order.reduced(&choices.next(&mut random))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use units::Nanos;

    use super::*;
    use crate::log::Event;
    use crate::rules::VolatileCache;
    use crate::states::{Amount, StatePlan};

    /// Five writes of two units each, and a flush after the second.
    fn log() -> Log {
        let mut log = Log::new(1 << 20, 512).unwrap();
        for number in 0..5_u64 {
            let id = log.next_write();
            log.push(Nanos(number), Event::write(id, number * 1024, &[number as u8 + 1; 1024])).unwrap();
            log.push(Nanos(number), Event::Completed(id)).unwrap();
            if number == 1 {
                let flush = log.next_flush();
                log.push(Nanos(number), Event::FlushSubmitted(flush)).unwrap();
                log.push(Nanos(number), Event::FlushCompleted(flush)).unwrap();
            }
        }
        log
    }

    fn drawn(log: &Log, share: u64, seed: u64) -> Vec<(usize, Option<usize>, Survivors)> {
        let timeline = Timeline::new(log, VolatileCache::default(), 0, 512);
        let mut walk = Moments::new(log, VolatileCache::default());
        let (mut moment, mut drawn) = (0, Vec::new());
        while walk.advance() {
            walk.draw(moment, 512, share, seed, |survivors| {
                drawn.push((moment, timeline.until(moment), survivors.clone()));
            });
            moment += 1;
        }
        assert_eq!(timeline.moments(), 0..moment);
        drawn
    }

    #[test]
    fn with_room_for_every_subset_the_states_are_those_of_a_plan() {
        let log = log();
        let drawn: BTreeSet<(usize, Option<usize>, Vec<bool>)> = drawn(&log, 1 << 10, 1)
            .into_iter()
            .map(|(moment, until, it)| (moment, until, (0..it.parts()).map(|part| it.has(part)).collect()))
            .collect();
        let plan = StatePlan::new(&log, &VolatileCache::default(), 0, 512, Amount::Exhaustive { parts_max: 10 });
        assert!(plan.generated == drawn.len() as u64 && plan.states.len() > 60);
        for state in plan.states {
            let there = (0..state.survivors.parts()).map(|part| state.survivors.has(part)).collect();
            assert!(drawn.contains(&(state.moment, Some(state.until), there)));
        }
    }

    #[test]
    fn shares_add_up_and_the_same_seed_draws_the_same() {
        let log = log();
        let timeline = Timeline::new(&log, VolatileCache::default(), 0, 512);
        for states in [1, 20, 60, 100] {
            let count = drawn(&log, timeline.share(states), 1).len() as u64;
            assert!((states..states + 2 * timeline.moments().len() as u64).contains(&count), "{states}: {count}");
        }
        assert_eq!(drawn(&log, 8, 1), drawn(&log, 8, 1));
        assert_ne!(drawn(&log, 8, 1), drawn(&log, 8, 2));
    }
}
