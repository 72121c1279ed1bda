//! What can be read after a cut, and how many such states are not the same.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use crash::order::{OrderedLog, Visible};
use ssd::PowerCut;

use super::host::Run;

/// States of one ordering: how many were made, and those that differ in what can be read. Runs count as one where they leave the same.
#[derive(Default)]
pub(super) struct Distinct {
    made: usize,
    seen: BTreeSet<u64>,
}

impl Distinct {
    pub fn number(&self) -> usize {
        self.seen.len()
    }
}

impl fmt::Display for Distinct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} distinct states of {}", self.number(), self.made)
    }
}

/// Checks what can be read after the cut for many choices among what the device's contract allows: all but one for each of the
/// undecided writes, and so many by lot.
pub(super) fn each(run: &Run, cut: &PowerCut, seed: u64, lots: usize, distinct: &mut Distinct) -> Result<(), String> {
    let mut log = OrderedLog::default();
    for write in &cut.undecided {
        log.accept(write.start.0..write.start.0 + u64::from(write.blocks), write.places);
    }
    let number = cut.undecided.len();
    // Of one run the same writes leave the same.
    let mut of_this_run = BTreeSet::new();
    for state in 0..number + lots {
        let lot = crash::Choice::Lot(seed.wrapping_mul(1000) + state as u64).of(number);
        let there = log.survivors(|write| if state < number { write != state } else { lot.has(write) });
        distinct.made += 1;
        if of_this_run.contains(&there) {
            continue;
        }
        let mut visible = run.durable.clone();
        for &index in &there {
            run.overlay(&cut.undecided[index], &mut visible);
        }
        of_this_run.insert(there);
        run.check(&visible)?;
        distinct.seen.insert(hash(&visible));
    }
    Ok(())
}

fn hash(visible: &Visible) -> u64 {
    let mut hasher = DefaultHasher::new();
    visible.hash(&mut hasher);
    hasher.finish()
}
