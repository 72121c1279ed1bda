//! A flush into a leaf rewrites the leaf: as soon as the messages are half of what is rewritten, waiting saves little,
//! and reads get shorter.

use super::{FlushPlan, NodeLoad, largest};

pub(super) fn plan(node: &NodeLoad) -> FlushPlan {
    let worth = node.leaf_bytes / 2;
    let ready = node.children.iter().position(|child| node.above_leaves && child.buffered_bytes > worth);
    match ready {
        Some(child) => FlushPlan::Flush { child },
        None => largest::plan(node),
    }
}
