//! Bad states by their cause.

use std::collections::BTreeMap;

use super::{Evidence, Explained};
use crate::crash::task::{Fault, Judged, Verdict};

/// States with one cause.
#[derive(Clone, Debug)]
pub struct Group<'v> {
    /// Who finds them bad.
    pub by: Judged,
    /// How many.
    pub states: usize,
    /// The one with the fewest lost writes of those that were made small, or the first.
    pub example: &'v Verdict,
    /// Of that one; nothing where none was made small.
    pub explained: Option<Explained>,
}

/// Bad states put together: where the judge says the same but for numbers, and where what was made small has the same cause. The
/// largest group first.
pub fn grouped<'v>(evidence: &Evidence, bad: &[&'v Verdict]) -> Vec<Group<'v>> {
    let mut by_words: BTreeMap<(Judged, String), Group<'v>> = BTreeMap::new();
    for verdict in bad {
        let Some(fault) = &verdict.fault else { continue };
        let group = by_words.entry((fault.by, signature(fault))).or_insert_with(|| Group {
            by: fault.by,
            states: 0,
            example: verdict,
            explained: None,
        });
        group.states += 1;
        if size(verdict) < size(group.example) {
            group.example = verdict;
        }
    }
    let mut by_cause: BTreeMap<(Judged, String), Group<'v>> = BTreeMap::new();
    for ((by, words), mut group) in by_words {
        group.explained = evidence.explain(group.example);
        let key =
            group.explained.as_ref().map_or_else(|| format!("words {words}"), |explained| explained.cause.key.clone());
        match by_cause.get_mut(&(by, key.clone())) {
            Some(same) => {
                same.states += group.states;
                if size(group.example) < size(same.example) {
                    (same.example, same.explained) = (group.example, group.explained);
                }
            }
            None => {
                by_cause.insert((by, key), group);
            }
        }
    }
    let mut groups: Vec<Group<'v>> = by_cause.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.states));
    groups
}

/// Those that were made small first, with the fewest lost writes, at the earliest moment.
fn size(verdict: &Verdict) -> (usize, usize) {
    let smallest = verdict.fault.as_ref().and_then(|fault| fault.smallest.as_ref());
    smallest.map_or((usize::MAX, verdict.entries), |smallest| (smallest.lost.len(), smallest.entries))
}

/// What a judge says, but for numbers.
fn signature(fault: &Fault) -> String {
    crate::crash::task::signature(&fault.what)
}
