//! Which parts of undecided writes can be there together, on a device that keeps the order of writes: the rules of
//! `docs/ordering.md`, part by part.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::survivors::Survivors;
use crate::order::{EpochId, Places};
use crate::rules::Ordered;
use crate::write::LoggedWrite;

/// The order of the parts of a moment.
#[derive(Clone, Debug)]
pub struct PartOrder {
    parts: Vec<Part>,
    /// Ranges of the device that several parts cover: these, oldest first.
    contested: Vec<Vec<usize>>,
    /// Epochs of which something is undecided.
    cuts: Vec<(u64, u64)>,
    /// The fewest parts that must be there.
    least: Vec<bool>,
    #[cfg(test)]
    pub(crate) defect: Option<Defect>,
}

/// A deliberate defect, for tests.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Defect {
    /// An epoch may begin when something of the one before is missing.
    OffByOne,
    /// What a newer part replaced is missed.
    SupersededMissed,
}

#[derive(Clone, Debug, Default)]
struct Part {
    places: Places,
    is_durable: bool,
    /// Nobody else covers some of it.
    is_alone: bool,
    /// What it covers together with others.
    contested: Vec<usize>,
}

impl Part {
    fn waited_for(&self) -> impl Iterator<Item = &EpochId> {
        self.places.iter().flatten().filter(|place| !place.is_late)
    }
}

/// What a set of parts makes of each.
struct View {
    /// It can be read somewhere.
    is_visible: Vec<bool>,
    /// Wherever it was, it can be read, or something newer.
    is_satisfied: Vec<bool>,
}

impl PartOrder {
    /// Of these undecided writes, of which `ordered` says what they ask of each other, on a device that writes `atomic_bytes`
    /// whole or not at all.
    pub fn new(undecided: &[&LoggedWrite], ordered: &[Ordered], atomic_bytes: u32) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        // Where parts begin and end.
        let mut borders: Vec<(u64, bool, usize)> = Vec::new();
        for (write, Ordered { places, is_durable }) in undecided.iter().zip(ordered) {
            for ranges in write.part_ranges(atomic_bytes) {
                let part = parts.len();
                borders.extend(ranges.iter().flat_map(|range| [(range.start, true, part), (range.end, false, part)]));
                parts.push(Part { places: *places, is_durable: *is_durable, ..Part::default() });
            }
        }
        borders.sort_unstable();
        let (mut contested, mut here, mut from): (Vec<Vec<usize>>, BTreeSet<usize>, u64) = Default::default();
        for (at, begins, part) in borders {
            if at > from {
                if let (Some(&alone), true) = (here.first(), here.len() == 1)
                    && let Some(part) = parts.get_mut(alone)
                {
                    part.is_alone = true;
                }
                if here.len() > 1 {
                    for part in &here {
                        if let Some(part) = parts.get_mut(*part) {
                            part.contested.push(contested.len());
                        }
                    }
                    contested.push(here.iter().copied().collect());
                }
                from = at;
            }
            if begins {
                here.insert(part)
            } else {
                here.remove(&part)
            };
        }
        let cuts: BTreeSet<(u64, u64)> = parts
            .iter()
            .flat_map(|part| part.places.iter().flatten())
            .map(|place| (place.stream, place.epoch))
            .collect();
        let mut order = Self {
            least: vec![false; parts.len()],
            parts,
            contested,
            cuts: cuts.into_iter().collect(),
            #[cfg(test)]
            defect: None,
        };
        let mut least = vec![false; order.parts.len()];
        order.complete(&mut least);
        order.least = least;
        order
    }

    /// Whether exactly these parts can be there.
    pub fn allows(&self, survivors: &Survivors) -> bool {
        let there = self.there(survivors);
        let view = self.view(&there);
        let reached = self.reached(&view);
        let is_missing = |part: &Part| {
            part.is_durable || part.waited_for().any(|place| reached.get(&place.stream) > Some(&place.epoch))
        };
        !self.parts.iter().zip(&view.is_satisfied).any(|(part, is_satisfied)| !is_satisfied && is_missing(part))
    }

    /// These parts without those that cannot be there, and with those that must be.
    pub fn reduced(&self, survivors: &Survivors) -> Survivors {
        let mut there = self.there(survivors);
        self.reduce(&mut there);
        chosen(&there)
    }

    /// Parts that are there after a cut within an epoch, by its number modulo those that there are: some of the epoch and the
    /// least, or the most, of everything else. In turn, so that each is seen.
    pub(super) fn cut(&self, number: usize, random: &mut Xoshiro256PlusPlus) -> Survivors {
        let Some(&(stream, epoch)) = self.cuts.get(number % self.cuts.len().max(1)) else {
            return Survivors::choose(self.parts.len(), |_| random.random_bool(0.5));
        };
        let of_it = |part: &Part| part.places.iter().flatten().any(|at| (at.stream, at.epoch) == (stream, epoch));
        let is_most = number / self.cuts.len() % 2 == 1;
        let one = random.random_range(0..self.parts.iter().filter(|part| of_it(part)).count().max(1));
        let mut seen = 0;
        let mut there: Vec<bool> = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            if of_it(part) {
                // One at least is there, or lost.
                there.push(if seen == one { !is_most } else { random.random_bool(0.5) });
                seen += 1;
            } else {
                there.push(is_most);
            }
        }
        if is_most {
            self.reduce(&mut there)
        } else {
            self.complete(&mut there)
        }
        chosen(&there)
    }

    fn there(&self, survivors: &Survivors) -> Vec<bool> {
        (0..self.parts.len()).map(|part| survivors.has(part)).collect()
    }

    fn view(&self, there: &[bool]) -> View {
        let has = |part: usize| there.get(part).copied().unwrap_or(false);
        let newest: Vec<Option<usize>> =
            self.contested.iter().map(|parts| parts.iter().rev().copied().find(|part| has(*part))).collect();
        let newest_at = |range: &usize| newest.get(*range).copied().flatten();
        let (mut is_visible, mut is_satisfied) = (Vec::with_capacity(there.len()), Vec::with_capacity(there.len()));
        for (number, part) in self.parts.iter().enumerate() {
            let has = has(number);
            let can_be_read = has && (part.is_alone || part.contested.iter().any(|at| newest_at(at) == Some(number)));
            is_visible.push(can_be_read);
            #[cfg(test)]
            if self.defect == Some(Defect::SupersededMissed) {
                is_satisfied.push(can_be_read);
                continue;
            }
            let is_replaced = || part.contested.iter().all(|at| newest_at(at) >= Some(number));
            is_satisfied.push(has || (!part.is_alone && is_replaced()));
        }
        View { is_visible, is_satisfied }
    }

    /// Of each stream the latest epoch of which something can be read.
    fn reached(&self, view: &View) -> BTreeMap<u64, u64> {
        let mut reached = BTreeMap::new();
        for (part, _) in self.parts.iter().zip(&view.is_visible).filter(|(_, is_visible)| **is_visible) {
            for place in part.places.iter().flatten() {
                #[cfg(test)]
                let epoch = place.epoch.saturating_sub(u64::from(self.defect == Some(Defect::OffByOne)));
                #[cfg(not(test))]
                let epoch = place.epoch;
                let latest = reached.entry(place.stream).or_insert(epoch);
                *latest = epoch.max(*latest);
            }
        }
        reached
    }

    /// Adds what must come before what is there.
    fn complete(&self, there: &mut [bool]) {
        loop {
            let view = self.view(there);
            let reached = self.reached(&view);
            let mut is_over = true;
            for ((part, there), is_satisfied) in self.parts.iter().zip(there.iter_mut()).zip(&view.is_satisfied) {
                let must =
                    part.is_durable || part.waited_for().any(|place| reached.get(&place.stream) > Some(&place.epoch));
                if must && !is_satisfied {
                    *there = true;
                    is_over = false;
                }
            }
            if is_over {
                return;
            }
        }
    }

    /// Takes away what cannot be there without what is missing.
    fn reduce(&self, there: &mut [bool]) {
        for (there, must) in there.iter_mut().zip(&self.least) {
            *there |= *must;
        }
        loop {
            let view = self.view(there);
            // Of each stream the first epoch of which something is missing.
            let mut missing: BTreeMap<u64, u64> = BTreeMap::new();
            for (part, _) in self.parts.iter().zip(&view.is_satisfied).filter(|(_, is_satisfied)| !**is_satisfied) {
                for place in part.waited_for() {
                    let first = missing.entry(place.stream).or_insert(place.epoch);
                    *first = place.epoch.min(*first);
                }
            }
            let mut is_over = true;
            for ((part, there), is_visible) in self.parts.iter().zip(there.iter_mut()).zip(&view.is_visible) {
                let is_early =
                    |place: &EpochId| missing.get(&place.stream).is_some_and(|missing| *missing < place.epoch);
                if *is_visible && part.places.iter().flatten().any(is_early) {
                    *there = false;
                    is_over = false;
                }
            }
            if is_over {
                return;
            }
        }
    }
}

fn chosen(there: &[bool]) -> Survivors {
    Survivors::choose(there.len(), |part| there.get(part).copied().unwrap_or(false))
}
