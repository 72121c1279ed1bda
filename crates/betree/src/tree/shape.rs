//! Splitting, joining and dropping nodes.

use std::sync::Arc;

use super::Change;
use crate::bytes::range::Key;
use crate::error::Result;
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Child, Edge, Internal, Node};
use crate::nodes::run::Run;

/// The least key of a node that was cut off to the right of another: its pivot.
fn first_key(node: &Node) -> Key {
    match node {
        Node::Leaf(leaf) => leaf.blocks.first().map(|block| block.first_key.clone()).unwrap_or_default(),
        Node::Internal(_) => Key::default(),
    }
}

/// A child without anything waiting for it.
pub(super) fn fresh(node: Node) -> Child {
    Child { edge: Edge::Fresh(Arc::new(node)), runs: Vec::new() }
}

/// A tree of a height with nothing in it.
pub(super) fn empty_tree(height: u8) -> Node {
    match height {
        0 => Node::Leaf(Run::default()),
        _ => {
            let children = vec![fresh(empty_tree(height - 1))];
            Node::Internal(Internal { height, pivots: Vec::new(), children })
        }
    }
}

impl Change<'_> {
    /// A node as one or, where it has too many children, several. The pivots between them are their parent's to be:
    /// see [`Change::replace_child`].
    pub(super) fn split_internal(&self, node: Internal) -> Vec<Node> {
        let fanout = self.shape.fanout;
        let count = node.children.len();
        if count <= fanout {
            return vec![Node::Internal(node)];
        }
        // Two thirds full, so that neither splits again at once.
        let parts = count.div_ceil((fanout * 2 / 3).max(2));
        let height = node.height;
        let mut children = node.children.into_iter();
        // Each part's first pivot is kept in it for now: it becomes the parent's.
        let mut pivots = std::iter::once(Key::default()).chain(node.pivots);
        let part = |part: usize| {
            let len = count * (part + 1) / parts - count * part / parts;
            let pivots = pivots.by_ref().take(len).collect();
            Node::Internal(Internal { height, pivots, children: children.by_ref().take(len).collect() })
        };
        let mut split: Vec<Node> = (0..parts).map(part).collect();
        // The first has no left neighbour.
        if let Some(Node::Internal(first)) = split.first_mut() {
            first.pivots.remove(0);
        }
        split
    }

    /// Takes from a node cut off to the right the pivot that divides it from its left neighbour.
    fn take_pivot(node: &mut Node) -> Key {
        match node {
            Node::Leaf(_) => first_key(node),
            Node::Internal(internal) => internal.pivots.remove(0),
        }
    }

    /// Puts what became of child `index` in its place; nothing waits for it.
    pub(super) fn replace_child(&mut self, node: &mut Internal, index: usize, parts: Vec<Node>) {
        let mut pivots = Vec::new();
        let mut children = Vec::new();
        for (number, mut part) in parts.into_iter().enumerate() {
            if number > 0 {
                pivots.push(Self::take_pivot(&mut part));
            }
            self.fresh_bytes += part.header_bytes() as i64;
            children.push(fresh(part));
        }
        node.children.splice(index..=index, children);
        let at = if mutated(Mutant::SplitKeepsPivot) { index.saturating_sub(1) } else { index };
        node.pivots.splice(at..at, pivots);
        debug_assert_eq!(node.pivots.len() + 1, node.children.len());
    }

    /// The tree over nodes that stand beside each other.
    pub(super) fn grow(&mut self, parts: Vec<Node>) -> Edge {
        let mut parts = parts;
        while parts.len() > 1 {
            let height = parts[0].height() + 1;
            let mut node = Internal { height, pivots: Vec::new(), children: vec![fresh(empty_tree(height - 1))] };
            self.replace_child(&mut node, 0, parts);
            parts = self.split_internal(node);
        }
        let root = parts.pop().unwrap_or_else(|| empty_tree(0));
        self.fresh_bytes += root.header_bytes() as i64;
        let mut root = Edge::Fresh(Arc::new(root));
        // A root with one child and nothing waiting is one level too many.
        while let Edge::Fresh(node) = &root
            && let Node::Internal(internal) = &**node
            && let [only] = &internal.children[..]
            && only.runs.is_empty()
        {
            let below = only.edge.clone();
            self.free_header(&root, None);
            root = below;
        }
        root
    }

    /// Empties child `index`: its whole tree and what waits for it, with no basement read.
    pub(super) async fn drop_child(&mut self, node: &mut Internal, index: usize) -> Result<()> {
        let height = node.height - 1;
        let Some(child) = node.children.get_mut(index) else { return Ok(()) };
        let dropped = std::mem::replace(child, fresh(empty_tree(height)));
        // Each header of the empty tree is one block.
        self.fresh_bytes += (i64::from(height) + 1) * super::BLOCK as i64;
        if mutated(Mutant::DroppedChildLeaks) {
            return Ok(());
        }
        self.drop_tree(&dropped).await
    }

    fn drop_run(&mut self, run: &Run) -> Result<()> {
        run.blocks.iter().try_for_each(|block| self.free_values_of(block))?;
        self.free_run(run);
        Ok(())
    }

    /// Gives up the blocks of a tree and of what waits for it: only headers are read, and blocks whose values lie apart.
    pub async fn drop_tree(&mut self, child: &Child) -> Result<()> {
        let mut left = vec![child.clone()];
        while let Some(child) = left.pop() {
            for run in &child.runs {
                self.drop_run(run)?;
            }
            let node = match self.io.node(&child.edge) {
                Ok(node) => node,
                // It goes away, and the damage with it. What was below is lost space.
                Err(error) if error.is_damage() => {
                    self.free_header(&child.edge, None);
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.free_header(&child.edge, node.own_key());
            match &*node {
                Node::Leaf(leaf) => self.drop_run(leaf)?,
                Node::Internal(inner) => left.extend(inner.children.iter().cloned()),
            }
            self.quota.spend(super::BLOCK).await;
        }
        Ok(())
    }
}
