//! Every state that a log may leave.

use std::collections::{BTreeMap, BTreeSet};

use super::{OrderedLog, Visible};

impl OrderedLog {
    /// Every legal state, or `None` where there are more than `most`, or more combinations of cuts than that.
    ///
    /// A state has a cut epoch in each stream: earlier epochs are all there, later ones not at all, and of that one any subset. A
    /// write of two streams joins their cuts. With the cuts given, what a block may hold does not depend on the others.
    pub fn legal_states(&self, most: usize) -> Option<BTreeSet<Visible>> {
        let mut epochs: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for place in self.writes.iter().flat_map(|write| write.places.iter().flatten()) {
            epochs.entry(place.stream).or_default().insert(place.epoch);
        }
        let mut cuts = vec![BTreeMap::new()];
        for (stream, epochs) in &epochs {
            if cuts.len().saturating_mul(epochs.len()) > most {
                return None;
            }
            let with = |cut: &BTreeMap<u64, u64>, epoch: u64| {
                let mut cut = cut.clone();
                cut.insert(*stream, epoch);
                cut
            };
            cuts = cuts.iter().flat_map(|cut| epochs.iter().map(move |epoch| with(cut, *epoch))).collect();
        }
        let mut states = BTreeSet::new();
        for cut in &cuts {
            self.add_states_of(cut, most, &mut states)?;
        }
        Some(states)
    }

    /// Adds the states of these cut epochs; `None` where there are too many.
    fn add_states_of(&self, cut: &BTreeMap<u64, u64>, most: usize, states: &mut BTreeSet<Visible>) -> Option<()> {
        // What each block may hold; `None` is what was there before the log.
        let mut choices: BTreeMap<u64, Vec<Option<usize>>> = BTreeMap::new();
        for (number, write) in self.writes.iter().enumerate() {
            let epochs = || write.places.iter().flatten().map(|place| (place, cut.get(&place.stream).copied()));
            let must = write.is_durable
                || epochs().any(|(place, cut)| !place.is_late && cut.is_some_and(|cut| place.epoch < cut));
            let may = epochs().all(|(place, cut)| cut.is_none_or(|cut| place.epoch <= cut));
            for block in write.blocks.clone() {
                let choices = choices.entry(block).or_insert_with(|| vec![None]);
                if must {
                    choices.clear();
                }
                if may {
                    choices.push(Some(number));
                }
            }
        }
        let mut found = vec![Visible::new()];
        for (block, choices) in &choices {
            if found.len().saturating_mul(choices.len()) > most {
                return None;
            }
            let with = |state: &Visible, choice: Option<usize>| {
                let mut state = state.clone();
                if let Some(write) = choice {
                    state.insert(*block, write);
                }
                state
            };
            found = found.iter().flat_map(|state| choices.iter().map(move |choice| with(state, *choice))).collect();
        }
        states.extend(found);
        (states.len() <= most).then_some(())
    }
}
