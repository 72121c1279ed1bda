//! Moving what waits for a child into the child.

use std::pin::Pin;

use super::{Change, Reach, layers_of, span};
use crate::bytes::range::{Direction, KeyRange};
use crate::error::Result;
use crate::flush::{ChildLoad, FlushPlan, NodeLoad};
use crate::io::ahead::{ReadAhead, Wanted};
use crate::io::{Composer, Kind};
use crate::merge::Merge;
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Child, Internal, Node};
use crate::nodes::run::Part;

impl Change<'_> {
    /// What the policy has to say of a node.
    pub(super) fn plan(&self, node: &Internal) -> FlushPlan {
        // What moves on before it is written is in memory until then, where there is a bound for that.
        let counted = |child: &Child| match node.height > 1 && self.moves_unwritten(child) {
            true => child.buffered_bytes() - child.fresh_bytes(),
            false => child.buffered_bytes(),
        };
        // What cannot go on is left where it is.
        let child = |child: &Child| match self.is_stuck(child) {
            true => ChildLoad { buffered_bytes: 0, runs: 0 },
            false => ChildLoad { buffered_bytes: counted(child), runs: child.runs.len() },
        };
        let load = NodeLoad {
            buffer_bytes: self.shape.buffer_bytes,
            leaf_bytes: self.shape.leaf_bytes,
            above_leaves: node.height == 1,
            children: node.children.iter().map(child).collect(),
        };
        self.shape.policy.plan(&load)
    }

    /// Flushes children until the policy lets the node rest.
    pub(super) async fn settle(&mut self, node: &mut Internal, bounds: &KeyRange) -> Result<()> {
        loop {
            match self.plan(node) {
                FlushPlan::Rest => return Ok(()),
                FlushPlan::Flush { .. } if !self.affordable() => return Ok(()),
                FlushPlan::Flush { child } => {
                    let before = node.buffered_bytes();
                    let flushed = self.flush_child(node, child, bounds, Reach::Settle).await?;
                    assert!(!flushed || node.buffered_bytes() < before, "a flush moves something");
                }
            }
        }
    }

    /// Flushes what is due in a node and below.
    pub(super) async fn flush_node(&mut self, node: &mut Internal, bounds: &KeyRange, reach: Reach) -> Result<()> {
        if matches!(reach, Reach::Settle | Reach::Overdue | Reach::Unwritten) {
            self.settle(node, bounds).await?;
        }
        if reach == Reach::Settle {
            return Ok(());
        }
        // From the right, since a child may become several.
        for index in (0..node.children.len()).rev() {
            if let Some(child) = node.children.get(index)
                && !self.is_stuck(child)
                && (reach == Reach::Empty || self.is_child_due(child, node.height == 1, reach)?)
                && self.affordable()
            {
                self.flush_child(node, index, bounds, reach).await?;
            }
        }
        if reach == Reach::Empty { self.tidy(node).await } else { Ok(()) }
    }

    /// Moves everything that waits for child `index` into it, and what is below as far as `reach` says. The child may
    /// become several, or join a neighbour. Where damage is in the way everything stays as it is: the messages wait, and
    /// whoever reads there is told. Whether it was moved.
    ///
    /// It calls itself for the levels below, so the future is boxed.
    pub(super) fn flush_child<'b>(
        &'b mut self,
        node: &'b mut Internal,
        index: usize,
        bounds: &'b KeyRange,
        reach: Reach,
    ) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + 'b>> {
        Box::pin(async move {
            let before = self.mark();
            match self.flush_child_now(node, index, bounds, reach).await {
                Ok(()) => Ok(true),
                Err(error) if error.is_damage() => {
                    self.undo(before);
                    if let Some(child) = node.children.get(index) {
                        self.note_stuck(child, node.range_of(index, bounds), &error);
                    }
                    Ok(false)
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Reads what waits for a child, and then what it will change in a leaf, with many requests at the device: as much as
    /// the cache keeps until it is merged.
    fn read_ahead(&self, child: &Child, target: &Node, range: &KeyRange) -> Result<()> {
        let waits = child.runs.iter().flat_map(|run| &run.blocks);
        self.read_all(waits.map(|block| &block.part));
        if let Node::Leaf(leaf) = target {
            let layers = |own: &KeyRange| layers_of(&self.with, &child.runs, own);
            let mut changed = Vec::new();
            for (index, block) in leaf.blocks.iter().enumerate() {
                let own = leaf.range_of(index).intersection(range);
                let merge = Merge::new(layers(&own)?, &own, Direction::Forward);
                let tombstones = merge.tombstones();
                if !tombstones.covers(&own) && (merge.has_entries() || tombstones.intersects(&own)) {
                    changed.push(&block.part);
                }
            }
            self.read_all(changed);
        }
        Ok(())
    }

    fn read_all<'b>(&self, parts: impl IntoIterator<Item = &'b Part>) {
        let mut left_bytes = self.io.cache.budget_bytes() as u64 / 4;
        let wanted = parts.into_iter().filter_map(|part| match part {
            Part::Stored(pointer) => Some(Wanted::new(*pointer, Kind::Block)),
            Part::Fresh(_) => None,
        });
        let wanted = wanted.take_while(|wanted| {
            let fits = wanted.bytes() <= left_bytes;
            left_bytes = left_bytes.saturating_sub(wanted.bytes());
            fits
        });
        let wanted: Vec<Wanted> = wanted.collect();
        if wanted.len() > 1 {
            ReadAhead::of(wanted).finish(self.io);
        }
    }

    async fn flush_child_now(
        &mut self,
        node: &mut Internal,
        index: usize,
        bounds: &KeyRange,
        reach: Reach,
    ) -> Result<()> {
        let range = node.range_of(index, bounds);
        let Some(child) = node.children.get(index).cloned() else { return Ok(()) };
        let target = self.io.node(&child.edge)?;
        if child.runs.is_empty() && !self.is_due(&child.edge, reach)? {
            return Ok(());
        }
        self.read_ahead(&child, &target, &range)?;
        self.free_header(&child.edge, target.own_key());
        let runs = child.runs;
        let msns = span(&runs);
        let mut moving = runs.clone();
        if mutated(Mutant::BufferAppliedTwice) {
            moving.extend(runs.clone());
        }
        let source = move |with: &Composer<'_>, range: &KeyRange| layers_of(with, &moving, range);
        let parts: Vec<Node> = match &*target {
            Node::Leaf(_) => self.merge_into_leaf(&target, &range, &source, msns.1).await?,
            Node::Internal(inner) => {
                let mut inner = inner.clone();
                if !runs.is_empty() {
                    self.push(&mut inner, &range, &source, msns).await?;
                }
                self.flush_node(&mut inner, &range, reach).await?;
                self.split_internal(inner)
            }
        };
        for run in &runs {
            self.free_run(run);
        }
        self.moved = true;
        self.replace_child(node, index, parts);
        self.tidy_beside(node, index)
    }
}
