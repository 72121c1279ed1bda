//! The classic: over the bound, the child with the most bytes.

use super::{FlushPlan, NodeLoad};

pub(super) fn plan(node: &NodeLoad) -> FlushPlan {
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
