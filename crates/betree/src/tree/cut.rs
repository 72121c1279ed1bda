//! A range of a tree, or all but a range, as a tree of its own: what lies within is shared, and what lies across an end is copied.

use std::sync::Arc;

use super::Change;
use super::shape::empty_tree;
use crate::bytes::range::{KeyRange, RangeSet};
use crate::error::Result;
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Child, Edge, Internal, Node};
use crate::nodes::run::{Part, Run, RunBuilder};

impl Change<'_> {
    /// The tree of what is within `wanted`, which has two ends at most. It reads a node a level for each, and of their blocks those across
    /// an end. What was copied is noted as freed.
    pub fn cut_out(&mut self, root: &Edge, wanted: &RangeSet) -> Result<Edge> {
        if wanted.is_empty() {
            return Ok(Edge::Fresh(Arc::new(empty_tree(0))));
        }
        self.cut(root, &KeyRange::all(), wanted)
    }

    /// Of a node with the keys of `own`, some of which are wanted. It calls itself once a level, or twice below the first node whose
    /// children hold one end each.
    fn cut(&mut self, edge: &Edge, own: &KeyRange, wanted: &RangeSet) -> Result<Edge> {
        if wanted.covers(own) {
            return Ok(edge.clone());
        }
        let node = self.io.node(edge)?;
        self.free_header(edge, node.own_key());
        let node = match &*node {
            Node::Leaf(leaf) => Node::Leaf(self.cut_run(leaf, own, wanted)?),
            Node::Internal(internal) => {
                let (mut pivots, mut children) = (Vec::new(), Vec::new());
                for (index, child) in internal.children.iter().enumerate() {
                    let range = internal.range_of(index, own);
                    if !wanted.intersects(&range) {
                        continue;
                    }
                    if !children.is_empty() {
                        pivots.push(range.start.clone());
                    }
                    children.push(self.cut_child(child, &range, wanted)?);
                }
                Node::Internal(Internal { height: internal.height, pivots, children })
            }
        };
        Ok(Edge::Fresh(Arc::new(node)))
    }

    fn cut_child(&mut self, child: &Child, own: &KeyRange, wanted: &RangeSet) -> Result<Child> {
        if wanted.covers(own) {
            return Ok(child.clone());
        }
        let edge = self.cut(&child.edge, own, wanted)?;
        let mut runs = Vec::with_capacity(child.runs.len());
        for run in &child.runs {
            let run = self.cut_run(run, own, wanted)?;
            if !run.is_empty() {
                runs.push(Arc::new(run));
            }
        }
        Ok(Child { edge, runs })
    }

    /// Of a run with the keys of `own`.
    fn cut_run(&mut self, run: &Run, own: &KeyRange, wanted: &RangeSet) -> Result<Run> {
        let mut builder = RunBuilder::new(self.shape.basement_bytes, self.shape.filter_bits);
        for (index, block) in run.blocks.iter().enumerate() {
            let behind = run.blocks.get(index + 1).map(|next| next.first_key.clone());
            let keys = KeyRange::new(block.first_key.clone(), behind.or_else(|| own.end.clone()));
            let is_inside = wanted.intersects(&keys);
            if wanted.covers(&keys) || (mutated(Mutant::CutKeepsBlocks) && is_inside) {
                builder.keep(block.clone());
            } else if is_inside {
                let content = self.io.block(&block.part)?;
                for at in (0..content.len()).filter(|at| wanted.contains(content.key(*at))) {
                    builder.push(content.key(at), &content.message(at));
                }
                self.free_block(block);
            }
        }
        let blocks = builder.finish();
        debug_assert!(run.blocks.iter().all(|block| matches!(block.part, Part::Stored(_))), "a checkpoint was before");
        Ok(Run { tombstones: run.tombstones.within(wanted), blocks, first_msn: run.first_msn, last_msn: run.last_msn })
    }
}
