//! What may not wait for ever.
//!
//! A message that waits costs nothing but a place in a lookup. Moving it into its leaf rewrites the leaf, which is
//! what makes a store write much: so a store at rest moves what gives something back, and lets the rest wait.

use super::{BLOCK, Change};
use crate::bytes::filter::{KeyHash, admitted_of_million};
use crate::error::Result;
use crate::flush::{FlushPlan, is_worth_at_rest};
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Child, Edge, Node};
use crate::nodes::run::Run;

/// How far messages move down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// Until the flush policy lets the nodes rest that messages go through.
    Settle,
    /// What is not on the storage, before it is written: past nodes above others, as far as it is enough for a block of each child there.
    Unwritten,
    /// Until it lets every node rest: where something stopped before.
    Overdue,
    /// Where that gives space back.
    Rest,
    /// Every one to its leaf.
    Empty,
}

impl Change<'_> {
    /// Whether anything in a tree is to move.
    pub(super) fn is_due(&self, edge: &Edge, reach: Reach) -> Result<bool> {
        if reach == Reach::Settle || (reach == Reach::Unwritten && matches!(edge, Edge::Stored(_))) {
            return Ok(false);
        }
        let node = match self.io.node(edge) {
            Err(error) if error.is_damage() => return Ok(false),
            node => node?,
        };
        let Node::Internal(node) = &*node else { return Ok(false) };
        if reach == Reach::Overdue && self.plan(node) != FlushPlan::Rest {
            return Ok(true);
        }
        if reach == Reach::Empty && self.is_untidy(node)? {
            return Ok(true);
        }
        for child in node.children.iter().filter(|child| !self.is_stuck(child)) {
            if self.is_child_due(child, node.height == 1, reach)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether what waits for a child, or below it, is to move.
    pub(super) fn is_child_due(&self, child: &Child, above_leaves: bool, reach: Reach) -> Result<bool> {
        let own = match reach {
            Reach::Settle | Reach::Overdue => false,
            Reach::Unwritten => !above_leaves && self.moves_unwritten(child),
            Reach::Empty => !child.runs.is_empty(),
            Reach::Rest if mutated(Mutant::RestKeepsGarbage) => false,
            Reach::Rest if child.runs.iter().any(|run| run.deletes()) => true,
            Reach::Rest => match self.replaces(child) {
                Err(error) if error.is_damage() => false,
                replaces => above_leaves && replaces?,
            },
        };
        Ok(own || (!above_leaves && self.is_due(&child.edge, reach)?))
    }

    /// Whether what is not on the storage of what waits for a child above others is enough for a block of each of these.
    pub(super) fn moves_unwritten(&self, child: &Child) -> bool {
        let block_bytes = self.shape.basement_bytes.next_multiple_of(BLOCK as usize) as u64;
        child.fresh_bytes() >= self.shape.fanout as u64 * block_bytes && !mutated(Mutant::WrittenOnTheWay)
    }

    /// Whether much of what waits for a leaf takes the place of something older: by the keys of one block a run, and
    /// the filters of what is below it.
    fn replaces(&self, child: &Child) -> Result<bool> {
        if child.runs.is_empty() {
            return Ok(false);
        }
        let node = self.io.node(&child.edge)?;
        let Node::Leaf(leaf) = &*node else { return Ok(false) };
        let admits = |run: &Run, key: &[u8]| {
            let block = run.block_of(key).and_then(|index| run.blocks.get(index));
            block.is_some_and(|block| block.filter.admits(KeyHash::of(key)))
        };
        let mut replaced_bytes = 0;
        for (number, run) in child.runs.iter().enumerate() {
            let Some(sample) = run.blocks.get(run.blocks.len() / 2) else { continue };
            let block = self.io.block(&sample.part)?;
            let older = child.runs.get(number + 1..).unwrap_or_default();
            let found = |at: &usize| {
                let key = block.key(*at);
                older.iter().any(|run| admits(run, key)) || admits(leaf, key)
            };
            let count = (0..block.len()).filter(found).count() as u64;
            // Filters admit some keys that are not there: the more runs wait, the more of them.
            let share = count * 1_000_000 / block.len().max(1) as u64;
            let by_chance = admitted_of_million(older.len() + 1, self.shape.filter_bits);
            let share = match 1_000_000 - by_chance {
                0 => share,
                others => share.saturating_sub(by_chance) * 1_000_000 / others,
            };
            replaced_bytes += run.bytes() * share / 1_000_000;
        }
        Ok(is_worth_at_rest(replaced_bytes, leaf.bytes()))
    }
}
