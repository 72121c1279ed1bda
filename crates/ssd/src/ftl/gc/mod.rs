//! Which block to collect next: policies that look and return a plan.

mod cost_benefit;
mod greedy;

use crate::config::GcPolicyKind;
use crate::ftl::blocks::{BlockState, Blocks};

/// What a policy may look at: the full blocks of one die.
///
/// Policies scan. A die has a few hundred to a few thousand blocks and a victim
/// is chosen once per (1 - u) x units-per-block host writes, so a scan costs a
/// fraction of a step per write, less than keeping buckets in order would.
pub(crate) struct View<'a> {
    pub blocks: &'a Blocks,
    pub candidates: std::ops::Range<u32>,
    /// Units that a block holds.
    pub capacity: u32,
    /// Valid units that there is room to move.
    pub movable: u32,
    /// Host units written to the device so far: the clock of ages, which unlike
    /// time stands still while nothing is written.
    pub host_units: u64,
}

/// One full block.
pub(crate) struct Candidate {
    pub block: u32,
    pub valid: u32,
    /// Host units written since it was filled.
    pub age: u64,
}

impl View<'_> {
    /// The full blocks that can be collected.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.candidates.clone().filter_map(|block| {
            let at = block as usize;
            let full = self.blocks.state[at] == BlockState::Closed && self.blocks.programming[at] == 0;
            let valid = self.blocks.valid[at];
            (full && valid <= self.movable).then(|| {
                let age = self.host_units.saturating_sub(self.blocks.closed_at[at]);
                Candidate { block, valid, age }
            })
        })
    }
}

/// What the translation layer is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// There is nothing to gain.
    Nothing,
    /// Move the valid units of this block and erase it.
    Collect {
        /// The victim.
        block: u32,
    },
}

/// A victim selection policy.
pub(crate) trait GcPolicy: Send {
    /// Looks at the full blocks and says what to do.
    fn choose(&self, view: &View<'_>) -> Plan;
}

/// The policy of that name.
pub(crate) fn policy(kind: GcPolicyKind) -> Box<dyn GcPolicy> {
    match kind {
        GcPolicyKind::Greedy => Box::new(greedy::Greedy),
        GcPolicyKind::CostBenefit => Box::new(cost_benefit::CostBenefit),
    }
}
