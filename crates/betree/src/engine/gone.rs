//! Changed nodes that nothing refers to any more, given back in steps: freeing all of a tree at once takes as long as thousands of puts.

use std::sync::Arc;

use storage::BLOCK_BYTES;

use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Edge, Node};
use crate::step::Quota;

/// Freeing a block takes as long as that many bytes of other work.
const BLOCK_WORK: usize = BLOCK_BYTES / 2;

/// Frees what only these edges hold. Of what a reader or a newer tree holds as well, that one is the last to let go.
pub(super) async fn free(edges: Vec<Edge>, quota: &Quota) {
    let mut left = edges;
    while let Some(edge) = left.pop() {
        let Edge::Fresh(node) = edge else { continue };
        let Some(node) = Arc::into_inner(node) else { continue };
        let runs = match node {
            Node::Leaf(leaf) => vec![Arc::new(leaf)],
            Node::Internal(node) => {
                let children = node.children.into_iter();
                children
                    .flat_map(|child| {
                        left.push(child.edge);
                        child.runs
                    })
                    .collect()
            }
        };
        for run in runs {
            let blocks = 1 + run.blocks.len();
            drop(run);
            if !mutated(Mutant::FreedAtOnce) {
                quota.spend((blocks * BLOCK_WORK) as u64).await;
            }
        }
    }
}

/// However large a tree is, a step frees a part of it; and what somebody else holds stays.
#[cfg(test)]
pub(crate) fn in_steps() -> Result<(), String> {
    use crate::nodes::node::{Child, Internal};
    use crate::nodes::run::Run;
    use crate::step::Steps;

    let leaf = || Edge::Fresh(Arc::new(Node::Leaf(Run::default())));
    let held = leaf();
    let above = |edges: Vec<Edge>| {
        let children = edges.into_iter().map(|edge| Child { edge, runs: vec![Arc::default(); 3] }).collect();
        Edge::Fresh(Arc::new(Node::Internal(Internal { height: 1, pivots: Vec::new(), children })))
    };
    let leaves = |_| above((0..10).map(|_| leaf()).chain([held.clone()]).collect());
    let roots: Vec<Edge> = (0..4).map(leaves).collect();
    let mut steps = Steps::new(|quota| async move { free(vec![above(roots)], &quota).await });
    let mut count = 1;
    while steps.step(&mut 1).is_none() {
        count += 1;
    }
    let Edge::Fresh(node) = held else { return Err("it was made fresh".to_owned()) };
    let holders = Arc::strong_count(&node);
    if count < 40 || holders != 1 { Err(format!("{count} steps, {holders} hold the leaf")) } else { Ok(()) }
}

#[test]
fn a_tree_is_freed_in_steps() {
    in_steps().unwrap();
}
