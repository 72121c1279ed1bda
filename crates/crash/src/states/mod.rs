//! Which states are looked at.

mod choice;
mod draw;
mod hash;
pub(crate) mod part_order;
mod survivors;

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::log::Log;
use crate::moments::Moments;
use crate::rules::Rule;
use crate::write::LoggedWrite;

pub use choice::Choice;
use choice::Choices;
pub use draw::Timeline;
use hash::ImageHash;
#[cfg(test)]
pub(crate) use part_order::Defect as OrderDefect;
pub use part_order::PartOrder;
pub use survivors::{Survivors, parts_by_write};

/// How many states are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Every subset of parts at each moment that has at most so many undecided; of a moment with more, nothing, everything, and
    /// so many others by lot as it may have parts.
    Exhaustive {
        /// At most [`EXHAUSTIVE_PARTS_MAX`].
        parts_max: u32,
    },
    /// A sample that covers every moment: at each, nothing and everything of the undecided writes, then all but one write, one
    /// write alone, the oldest ones, any writes, and any parts. Where even the first two are more, some of them by lot.
    Sampled {
        /// How many distinct ones, if there are so many. Where [`StatePlan::subsets`] is at most [`SUBSETS_WALKED`], or four times
        /// this, none is missed; of more, a few of the moments with the most undecided parts may be: they are drawn by lot.
        states: usize,
        /// The same log, number and seed give the same states.
        seed: u64,
    },
}

/// Most parts whose subsets are all looked at: a million states a moment.
pub const EXHAUSTIVE_PARTS_MAX: u32 = 20;

/// Where a sample is short, so many subsets are gone through at least, moments with few undecided parts first.
pub const SUBSETS_WALKED: usize = 1 << 16;

/// A state that a cut may leave: everything durable at a moment, and some parts of undecided writes.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct State {
    /// Its moment, as [`Moments`] counts them from 0.
    pub moment: usize,
    /// How many entries of the log had happened.
    pub entries: usize,
    /// The same bytes may be left by a cut as late as this: before the entry of this number nothing more becomes durable. What
    /// was promised until then must be there.
    pub until: usize,
    /// Which parts of the undecided writes are there.
    pub survivors: Survivors,
    /// Of all bytes that can be read: states with the same hash are the same.
    pub hash: u64,
}

impl State {
    /// What it is called: its hash.
    pub fn name(&self) -> String {
        format!("{:016x}", self.hash)
    }

    /// Gives states of `log` under `rule`, found in any other way, the hashes that a plan would give them.
    pub fn put_hashes<'s, R: Rule>(states: impl Iterator<Item = &'s mut Self>, log: &Log, rule: &R, atomic_bytes: u32) {
        let atomic_bytes = atomic_bytes.max(log.unit_bytes());
        let mut states: Vec<&mut Self> = states.collect();
        states.sort_by_key(|state| state.moment);
        let mut states = states.into_iter().peekable();
        let mut hash = ImageHash::new(log.unit_bytes());
        let mut walk = Moments::new(log, rule.clone());
        let mut moment = 0;
        while states.peek().is_some() && walk.advance() {
            for write in walk.settled() {
                hash.settle(write);
            }
            while let Some(state) = states.next_if(|state| state.moment == moment) {
                state.hash = hash.with(&state.survivors.pieces(&walk.undecided(), atomic_bytes));
            }
            moment += 1;
        }
    }
}

/// Distinct states, in the order of the log.
#[derive(Clone, Debug, Default)]
pub struct StatePlan {
    /// They.
    pub states: Vec<State>,
    /// States that were generated, before those with the same bytes were made one.
    pub generated: u64,
    /// Moments at which a cut could leave something new.
    pub moments: usize,
    /// Of these, moments with too many undecided parts to look at each subset.
    pub sampled_moments: usize,
    /// Subsets of undecided parts, of all these moments: at most so many distinct states there are.
    pub subsets: f64,
}

/// States that are generated for each that a moment still is to give, at most: it may have fewer distinct ones.
const TRIES: usize = 4;
/// Of so few parts all subsets are tried, where the sample is short of states.
const FEW_PARTS: usize = 10;

impl StatePlan {
    /// States of `log` under `rule` at moments after its first `from` entries, on a device that writes `atomic_bytes` whole or not
    /// at all, at least the log's unit.
    ///
    /// Of equal states the last one is kept, since by then the most was promised.
    pub fn new<R: Rule>(log: &Log, rule: &R, from: usize, atomic_bytes: u32, amount: Amount) -> Self {
        Self::of(log, rule, from, atomic_bytes, amount, |order| order)
    }

    /// With an order that is broken on purpose.
    #[cfg(test)]
    pub(crate) fn with_defect<R: Rule>(log: &Log, rule: &R, amount: Amount, defect: Option<OrderDefect>) -> Self {
        Self::of(log, rule, 0, log.unit_bytes(), amount, |mut order| {
            order.defect = defect;
            order
        })
    }

    /// Adds states that were found in another way, but those that are there.
    pub fn add(&mut self, states: &[State]) {
        let known: BTreeSet<u64> = self.states.iter().map(|state| state.hash).collect();
        self.states.extend(states.iter().filter(|state| !known.contains(&state.hash)).cloned());
        self.states.sort_by_key(|state| state.moment);
    }

    fn of<R: Rule>(
        log: &Log,
        rule: &R,
        from: usize,
        atomic_bytes: u32,
        amount: Amount,
        change: impl Fn(PartOrder) -> PartOrder,
    ) -> Self {
        let atomic_bytes = atomic_bytes.max(log.unit_bytes());
        let timeline = Timeline::new(log, rule.clone(), from, atomic_bytes);
        let mut plan = Self { moments: timeline.moments().len(), subsets: timeline.subsets(), ..Self::default() };
        let mut drafts = Drafts::default();
        // Goes through all moments that count; each is told its number among them.
        let walk = |drafts: &mut Drafts, look: &mut dyn FnMut(usize, &Undecided<'_>, &mut Adding<'_>)| {
            let mut hash = ImageHash::new(log.unit_bytes());
            let mut walk = Moments::new(log, rule.clone());
            let mut moment = 0;
            while walk.advance() {
                for write in walk.settled() {
                    hash.settle(write);
                }
                if let Some(until) = timeline.until(moment) {
                    let undecided = walk.undecided();
                    let order = walk.part_order(atomic_bytes).map(&change);
                    let state = |survivors: Survivors| {
                        let hash = hash.with(&survivors.pieces(&undecided, atomic_bytes));
                        State { moment, entries: walk.entries(), until, survivors, hash }
                    };
                    let at = Undecided { writes: &undecided, order: order.as_ref(), atomic_bytes, moment };
                    look(moment - timeline.moments().start, &at, &mut Adding { drafts: &mut *drafts, state: &state });
                }
                moment += 1;
            }
        };
        match amount {
            Amount::Exhaustive { parts_max } => {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(0);
                let parts_max = parts_max.min(EXHAUSTIVE_PARTS_MAX);
                walk(&mut drafts, &mut |_, at, adding| {
                    plan.sampled_moments += usize::from(at.every_subset(parts_max, &mut random, adding));
                });
                (plan.generated, plan.states) = drafts.in_order();
            }
            Amount::Sampled { states, seed } => {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                let mut parts = Vec::with_capacity(plan.moments);
                walk(&mut drafts, &mut |number, at, adding| {
                    parts.push(at.parts());
                    // What earlier moments could not give is for the later ones.
                    let given = states * (number + 1) / plan.moments;
                    at.sample(given.saturating_sub(adding.distinct().min(states)), &mut random, adding);
                });
                // What the last ones could not give is for all that have more, alike.
                let mut open = plan.moments;
                while open > 0 && drafts.distinct() < states {
                    let share = (states - drafts.distinct()).div_ceil(open);
                    open = 0;
                    walk(&mut drafts, &mut |_, at, adding| {
                        let wanted = share.min(states.saturating_sub(adding.distinct()));
                        open += usize::from(wanted > 0 && at.more(wanted, &mut random, adding) == wanted);
                    });
                }
                // And what is still missing, nobody drew.
                let walked = fewest_subsets(&parts, SUBSETS_WALKED.max(states.saturating_mul(TRIES)));
                if drafts.distinct() < states && !walked.is_empty() {
                    walk(&mut drafts, &mut |number, at, adding| {
                        if walked.contains(&number) {
                            at.subsets(at.parts(), states.saturating_sub(adding.distinct()), adding);
                        }
                    });
                }
                (plan.generated, plan.states) = drafts.in_order();
                thin(&mut plan.states, states, &mut random);
            }
        }
        plan
    }
}

/// States that were found so far.
#[derive(Default)]
struct Drafts {
    /// Where in `states` the one with this hash is.
    known: BTreeMap<u64, usize>,
    states: Vec<Option<State>>,
    generated: u64,
}

impl Drafts {
    /// Whether there was none like it. Of equal ones that of the latest moment is kept.
    fn add(&mut self, state: State) -> bool {
        self.generated += 1;
        let older = self.known.get(&state.hash).copied();
        if let Some(slot) = older.and_then(|older| self.states.get_mut(older)) {
            if slot.as_ref().is_some_and(|older| older.moment > state.moment) {
                return false;
            }
            *slot = None;
        }
        self.known.insert(state.hash, self.states.len());
        self.states.push(Some(state));
        older.is_none()
    }

    fn distinct(&self) -> usize {
        self.known.len()
    }

    /// How many were generated, and those that are distinct in the order of the log.
    fn in_order(self) -> (u64, Vec<State>) {
        let mut states: Vec<State> = self.states.into_iter().flatten().collect();
        states.sort_by_key(|state| state.moment);
        (self.generated, states)
    }
}

/// States of one moment, to be added.
struct Adding<'a> {
    drafts: &'a mut Drafts,
    state: &'a dyn Fn(Survivors) -> State,
}

impl Adding<'_> {
    /// Whether there was none like it.
    fn add(&mut self, survivors: Survivors) -> bool {
        self.drafts.add((self.state)(survivors))
    }

    /// Of all moments.
    fn distinct(&self) -> usize {
        self.drafts.distinct()
    }
}

/// Of moments with so many parts each, those with the fewest that have at most so many subsets together; not those of which all subsets are
/// tried anyway.
fn fewest_subsets(parts: &[usize], mut left: usize) -> BTreeSet<usize> {
    let mut moments: Vec<(usize, usize)> =
        parts.iter().copied().zip(0..).filter(|(parts, _)| *parts > FEW_PARTS).collect();
    moments.sort_unstable();
    let fits = moments.into_iter().take_while(|(parts, _)| {
        let subsets = u32::try_from(*parts).ok().and_then(|parts| 1_usize.checked_shl(parts));
        let rest = subsets.and_then(|subsets| left.checked_sub(subsets));
        left = rest.unwrap_or(0);
        rest.is_some()
    });
    fits.map(|(_, number)| number).collect()
}

/// Leaves so many of them, each with the same chance, in their order (selection sampling: Knuth, TAOCP 3.4.2, algorithm S).
fn thin(states: &mut Vec<State>, wanted: usize, random: &mut Xoshiro256PlusPlus) {
    let (mut left, mut missing) = (states.len(), wanted);
    states.retain(|_| {
        let is_taken = missing > 0 && random.random_range(0..left) < missing;
        left -= 1;
        missing -= usize::from(is_taken);
        is_taken
    });
}

/// What is undecided at a moment.
struct Undecided<'a> {
    writes: &'a [&'a LoggedWrite],
    order: Option<&'a PartOrder>,
    atomic_bytes: u32,
    moment: usize,
}

impl Undecided<'_> {
    fn parts(&self) -> usize {
        survivors::parts_of(self.writes, self.atomic_bytes)
    }

    /// All subsets, or, of too many, some; whether it is some.
    fn every_subset(&self, parts_max: u32, random: &mut Xoshiro256PlusPlus, adding: &mut Adding<'_>) -> bool {
        let parts = self.parts();
        if parts <= parts_max as usize {
            self.subsets(parts, usize::MAX, adding);
            return false;
        }
        self.sample(1 << parts_max, random, adding);
        true
    }

    /// So many new ones, or all that there are; how many new ones it were.
    fn more(&self, wanted: usize, random: &mut Xoshiro256PlusPlus, adding: &mut Adding<'_>) -> usize {
        match self.parts() {
            parts @ 0..=FEW_PARTS => self.subsets(parts, wanted, adding),
            _ => self.sample(wanted, random, adding),
        }
    }

    /// Of all subsets so many that are new; how many it were.
    fn subsets(&self, parts: usize, wanted: usize, adding: &mut Adding<'_>) -> usize {
        let mut found = 0;
        for mask in 0..1_u64 << parts {
            if found >= wanted {
                break;
            }
            let survivors = Survivors::choose(parts, |part| mask >> part & 1 == 1);
            if self.order.is_none_or(|order| order.allows(&survivors)) {
                found += usize::from(adding.add(survivors));
            }
        }
        found
    }

    /// Nothing, everything, and more until `wanted` new ones were found or tried for long enough; how many new ones it were.
    fn sample(&self, wanted: usize, random: &mut Xoshiro256PlusPlus, adding: &mut Adding<'_>) -> usize {
        let mut choices = Choices::new(self.writes.iter().map(|write| write.parts(self.atomic_bytes)));
        let tries = if self.writes.is_empty() { 1 } else { (wanted * TRIES).max(2) };
        let mut found = 0;
        for number in 0..tries {
            // Nothing and everything are looked at in any case: the one is what was promised, the other what came too early.
            if found >= wanted && number >= 2 {
                break;
            }
            let survivors = match self.order {
                None => choices.next(random),
                // Each second one is at a cut between epochs, at another one in each moment.
                Some(order) if number >= 2 && number % 2 == 1 => order.cut(self.moment + number / 2, random),
                Some(order) => order.reduced(&choices.next(random)),
            };
            found += usize::from(adding.add(survivors));
        }
        found
    }
}
