//! Greedy: the block with the fewest valid units.

use super::{GcPolicy, Plan, View};

/// Takes the block that costs least to move; the lowest index among equals.
pub(crate) struct Greedy;

impl GcPolicy for Greedy {
    fn choose(&self, view: &View<'_>) -> Plan {
        match view.candidates().min_by_key(|candidate| candidate.valid) {
            Some(candidate) => Plan::Collect { block: candidate.block },
            None => Plan::Nothing,
        }
    }
}
