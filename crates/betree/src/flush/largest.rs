//! The classic: over the bound, the child with the most bytes. A child for which too many runs wait goes before, however few
//! bytes they are.

use super::{FlushPlan, NodeLoad};

/// Runs that may wait for a child: a scan reads of each.
pub(super) const RUNS_MAX: usize = 16;

pub(super) fn plan(node: &NodeLoad) -> FlushPlan {
    let of_many =
        node.children.iter().enumerate().filter(|(_, child)| child.runs > RUNS_MAX && child.buffered_bytes > 0);
    if let Some((child, _)) = of_many.rev().max_by_key(|(_, child)| child.runs) {
        return FlushPlan::Flush { child };
    }
    let total: u64 = node.children.iter().map(|child| child.buffered_bytes).sum();
    if total <= node.buffer_bytes {
        return FlushPlan::Rest;
    }
    // The first of equals, so that the plan is the same on every machine.
    let largest = node.children.iter().enumerate().rev().max_by_key(|(_, child)| child.buffered_bytes);
    match largest {
        Some((child, load)) if load.buffered_bytes > 0 => FlushPlan::Flush { child },
        _ => FlushPlan::Rest,
    }
}
