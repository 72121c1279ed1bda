//! What deletes leave behind goes: nodes with nothing in them, small neighbours, and crumbs of blocks.

use std::sync::Arc;

use super::shape::fresh;
use super::{BLOCK, Change};
use crate::error::Result;
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Child, Edge, Internal, Node};
use crate::nodes::run::{Run, RunBlock, RunBuilder};

/// What becomes of two neighbours.
enum Fate {
    Stay,
    /// The left or right one has nothing in it: these are its nodes. The other gets its keys.
    Drop {
        right: bool,
        nodes: Vec<Edge>,
    },
    /// Both are small enough to be one.
    Join(Arc<Node>, Arc<Node>),
}

impl Change<'_> {
    /// After a change of child `index`: looks at it and its neighbours.
    pub(super) fn tidy_beside(&mut self, node: &mut Internal, index: usize) -> Result<()> {
        // The pair to the right first, so that the one to the left keeps its place.
        for (left, beside) in [(Some(index), Some(index + 1)), (index.checked_sub(1), index.checked_sub(1))] {
            if let (Some(left), Some(beside)) = (left, beside)
                && self.is_worth_a_look(node, index, beside)
            {
                self.tidy_pair(node, left)?;
            }
        }
        Ok(())
    }

    /// Whether a child that was just changed and a neighbour may be small: by the length of the neighbour's header, for it
    /// would have to be read otherwise.
    fn is_worth_a_look(&self, node: &Internal, index: usize, beside: usize) -> bool {
        let Some(Edge::Fresh(own)) = node.children.get(index).map(|child| &child.edge) else { return true };
        match (&**own, node.children.get(beside).map(|child| &child.edge)) {
            (Node::Leaf(own), Some(Edge::Stored(beside))) => {
                let is_small = own.bytes() < self.shape.leaf_bytes / 4;
                is_small || beside.raw_bytes as usize * 3 < own.header_bytes()
            }
            _ => true,
        }
    }

    /// Looks at all children of a node, and into the leaves among them.
    pub(super) async fn tidy(&mut self, node: &mut Internal) -> Result<()> {
        for left in (0..node.children.len().saturating_sub(1)).rev() {
            if !self.affordable() {
                return Ok(());
            }
            if self.tidy_pair(node, left)? {
                self.quota.spend(BLOCK).await;
            }
        }
        for index in 0..node.children.len() {
            let Some(child) = node.children.get(index).filter(|_| node.height == 1).cloned() else { break };
            let Some(leaf) = self.crumbly(&child)? else { continue };
            if !self.affordable() {
                return Ok(());
            }
            let before = self.mark();
            match self.squeeze(leaf.blocks.clone()) {
                Ok(blocks) => {
                    self.free_header(&child.edge, leaf.blocks.first().map(|block| &*block.first_key));
                    self.replace_child(node, index, vec![Node::Leaf(Run { blocks, ..leaf })]);
                    self.moved = true;
                }
                Err(error) if error.is_damage() => self.undo(before),
                Err(error) => return Err(error),
            }
            self.quota.spend(self.shape.leaf_bytes).await;
        }
        Ok(())
    }

    /// Whether [`Change::tidy`] would do something.
    pub(super) fn is_untidy(&self, node: &Internal) -> Result<bool> {
        for left in 0..node.children.len().saturating_sub(1) {
            match self.fate(node, left) {
                Ok(Fate::Stay) => {}
                Ok(_) => return Ok(true),
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
        for child in node.children.iter().filter(|_| node.height == 1) {
            if self.crumbly(child)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether anything became of children `left` and `left + 1`. Damage leaves them as they are.
    fn tidy_pair(&mut self, node: &mut Internal, left: usize) -> Result<bool> {
        let before = self.mark();
        match self.tidy_pair_now(node, left) {
            Err(error) if error.is_damage() => {
                self.undo(before);
                Ok(false)
            }
            result => result,
        }
    }

    fn tidy_pair_now(&mut self, node: &mut Internal, left: usize) -> Result<bool> {
        match self.fate(node, left)? {
            Fate::Stay => return Ok(false),
            Fate::Drop { right, nodes } => {
                // There is no key in them.
                nodes.iter().for_each(|edge| self.free_header(edge, None));
                node.children.remove(left + usize::from(right));
                node.pivots.remove(left);
            }
            Fate::Join(first, second) => {
                let Some(pivot) = node.pivots.get(left).cloned() else { return Ok(false) };
                let joined = match (&*first, &*second) {
                    (Node::Leaf(a), Node::Leaf(b)) => {
                        let blocks = self.seam(&a.blocks, &b.blocks)?;
                        Node::Leaf(Run { blocks, last_msn: a.last_msn.max(b.last_msn), ..Run::default() })
                    }
                    (Node::Internal(a), Node::Internal(b)) => {
                        let pivots = a.pivots.iter().chain([&pivot]).chain(&b.pivots).cloned().collect();
                        let children = a.children.iter().chain(&b.children).cloned().collect();
                        Node::Internal(Internal { height: a.height, pivots, children })
                    }
                    _ => return Ok(false),
                };
                for (child, node) in node.children.iter().skip(left).zip([&first, &second]) {
                    self.free_header(&child.edge, node.own_key());
                }
                self.fresh_bytes += joined.header_bytes() as i64;
                node.children.splice(left..=left + 1, [fresh(joined)]);
                node.pivots.remove(left);
            }
        }
        self.moved = true;
        Ok(true)
    }

    /// What is to become of children `left` and `left + 1`.
    fn fate(&self, node: &Internal, left: usize) -> Result<Fate> {
        let Some([a, b]) = node.children.get(left..left + 2) else { return Ok(Fate::Stay) };
        if mutated(Mutant::EmptiedNodesStay) {
            return Ok(Fate::Stay);
        }
        // Nothing of a neighbour's messages is about the keys of one with nothing in it: it may have some.
        for (right, child) in [(true, b), (false, a)] {
            if child.runs.is_empty()
                && let Some(nodes) = self.empty_tree_of(&child.edge, node.height - 1)?
            {
                return Ok(Fate::Drop { right, nodes });
            }
        }
        // Of two that join nothing may wait for either: so all that comes later is newer than all in the joined node.
        if !a.runs.is_empty() || !b.runs.is_empty() {
            return Ok(Fate::Stay);
        }
        let (first, second) = (self.io.node(&a.edge)?, self.io.node(&b.edge)?);
        let fits = match (&*first, &*second) {
            (Node::Leaf(a), Node::Leaf(b)) => {
                let (a, b) = (a.bytes(), b.bytes());
                a.min(b) < self.shape.leaf_bytes / 4 && a + b <= self.shape.leaf_bytes * 3 / 4
            }
            (Node::Internal(a), Node::Internal(b)) => {
                let (a, b) = (a.children.len(), b.children.len());
                a.min(b) < (self.shape.fanout / 4).max(2) && a + b <= self.shape.fanout
            }
            _ => false,
        };
        Ok(if fits { Fate::Join(first, second) } else { Fate::Stay })
    }

    /// The nodes of a tree in which there is nothing, and nothing waits.
    fn empty_tree_of(&self, edge: &Edge, height: u8) -> Result<Option<Vec<Edge>>> {
        let (mut nodes, mut edge) = (vec![edge.clone()], edge.clone());
        for height in (0..=height).rev() {
            let node = self.io.node(&edge)?;
            match &*node {
                Node::Leaf(leaf) if height == 0 => return Ok(leaf.blocks.is_empty().then_some(nodes)),
                Node::Internal(internal) if internal.height == height => match &internal.children[..] {
                    [only] if only.runs.is_empty() => edge = only.edge.clone(),
                    _ => return Ok(None),
                },
                _ => return Ok(None),
            }
            nodes.push(edge.clone());
        }
        Ok(None)
    }

    /// A child that is a leaf with blocks so small that two of them are one.
    fn crumbly(&self, child: &Child) -> Result<Option<Run>> {
        let node = match self.io.node(&child.edge) {
            Err(error) if error.is_damage() => return Ok(None),
            node => node?,
        };
        let Node::Leaf(leaf) = &*node else { return Ok(None) };
        let crumbly = leaf.blocks.windows(2).any(|pair| matches!(pair, [a, b] if self.are_crumbs(a, b)));
        Ok((child.runs.is_empty() && crumbly).then(|| leaf.clone()))
    }

    fn are_crumbs(&self, a: &RunBlock, b: &RunBlock) -> bool {
        let bound = self.shape.basement_bytes as u64;
        let (a, b) = (a.part.raw_bytes(), b.part.raw_bytes());
        a.min(b) < bound / 4 && a + b <= bound * 3 / 4
    }

    /// The blocks of two neighbours, where what touches is no crumb.
    fn seam(&mut self, left: &[RunBlock], right: &[RunBlock]) -> Result<Vec<RunBlock>> {
        match (left.split_last(), right.split_first()) {
            (Some((last, before)), Some((first, behind))) if self.are_crumbs(last, first) => {
                let one = self.one_block(last, first)?;
                Ok(before.iter().chain([&one]).chain(behind).cloned().collect())
            }
            _ => Ok(left.iter().chain(right).cloned().collect()),
        }
    }

    /// The same entries without crumbs.
    fn squeeze(&mut self, blocks: Vec<RunBlock>) -> Result<Vec<RunBlock>> {
        let mut squeezed: Vec<RunBlock> = Vec::with_capacity(blocks.len());
        for block in blocks {
            let one = match squeezed.last() {
                Some(last) if self.are_crumbs(last, &block) => Some(self.one_block(&last.clone(), &block)?),
                _ => None,
            };
            if one.is_some() {
                squeezed.pop();
            }
            squeezed.push(one.unwrap_or(block));
        }
        Ok(squeezed)
    }

    fn one_block(&mut self, left: &RunBlock, right: &RunBlock) -> Result<RunBlock> {
        let mut builder = RunBuilder::new(self.shape.basement_bytes, self.shape.filter_bits);
        for block in [left, right] {
            let content = self.io.block(&block.part)?;
            (0..content.len()).for_each(|at| builder.push(content.key(at), &content.message(at)));
        }
        let mut blocks = builder.finish();
        let one = blocks.pop().filter(|_| blocks.is_empty());
        let Some(one) = one else { unreachable!("two crumbs fill less than a block") };
        self.free_block(left);
        self.free_block(right);
        self.fresh_bytes += one.part.fresh_bytes() as i64;
        Ok(one)
    }
}
