//! Cost-benefit: age x (1 - u) / 2u, after Rosenblum and Ousterhout (The Design
//! and Implementation of a Log-Structured File System, 1992, section 3.6) as
//! Kawaguchi, Nishioka and Motoda (1995) apply it to flash.

use std::cmp::Ordering;

use super::{Candidate, GcPolicy, Plan, View};

/// Takes the block whose space, weighted by how long it stayed free of change,
/// is worth most for the cost of reading and writing what is valid.
pub(crate) struct CostBenefit;

impl CostBenefit {
    /// Compares age x free / valid without division, exactly.
    fn compare(a: &Candidate, b: &Candidate, capacity: u32) -> Ordering {
        let benefit = |candidate: &Candidate| u128::from(candidate.age + 1) * u128::from(capacity - candidate.valid);
        (benefit(a) * u128::from(b.valid)).cmp(&(benefit(b) * u128::from(a.valid)))
    }
}

impl GcPolicy for CostBenefit {
    fn choose(&self, view: &View<'_>) -> Plan {
        let mut best: Option<Candidate> = None;
        for candidate in view.candidates() {
            if candidate.valid == 0 {
                return Plan::Collect { block: candidate.block };
            }
            if best.as_ref().is_none_or(|best| Self::compare(&candidate, best, view.capacity) == Ordering::Greater) {
                best = Some(candidate);
            }
        }
        best.map_or(Plan::Nothing, |best| Plan::Collect { block: best.block })
    }
}
