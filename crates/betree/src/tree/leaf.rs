//! Messages meet their values: merging layers into a leaf.

use std::sync::Arc;

use super::{Change, ENTRY_WORK_BYTES, PIECE_BYTES, Source};
use crate::bytes::message::Message;
use crate::bytes::range::{Direction, KeyRange, RangeSet};
use crate::error::Result;
use crate::merge::{Layer, Merge};
use crate::nodes::node::{Node, RunHandle};
use crate::nodes::run::{Run, RunBlock, RunBuilder};

impl Change<'_> {
    /// The leaves that come of `leaf` and the layers of `source`: at least one. Basements without messages stay as
    /// they are, and those that a range covers are dropped unread.
    pub(super) async fn merge_into_leaf(
        &mut self,
        leaf: &Arc<Node>,
        bounds: &KeyRange,
        source: &Source<'_>,
        last_msn: u64,
    ) -> Result<Vec<Node>> {
        let old = RunHandle::Leaf(Arc::clone(leaf));
        let mut builder = RunBuilder::new(self.shape.basement_bytes, self.shape.filter_bits);
        // Whether only the last basement had messages: then more will come behind it.
        let mut growing = true;
        // A leaf without basements is one range without entries.
        let count = old.blocks.len().max(1);
        for index in 0..count {
            let range = match old.blocks.len() {
                0 => bounds.clone(),
                _ => old.range_of(index).intersection(bounds),
            };
            let mut merge = Merge::new(source(&self.with, &range)?, &range, Direction::Forward);
            let tombstones = merge.tombstones();
            let quiet = !merge.has_entries() && !tombstones.intersects(&range);
            let block = old.blocks.get(index);
            if quiet {
                // A small block in the making takes its neighbour in, so that no crumbs are left.
                let crumb = builder.open_bytes() > 0 && builder.open_bytes() < self.shape.basement_bytes / 4;
                match block {
                    Some(block) if !crumb => {
                        builder.keep(block.clone());
                        continue;
                    }
                    _ => {}
                }
            } else {
                growing &= index + 1 == count;
            }
            if let Some(block) = block {
                if !tombstones.covers(&range) {
                    let below = Layer::of_run(&self.with, old.clone(), &range, Direction::Forward)?;
                    merge.add_oldest(below);
                } else {
                    self.free_values_of(block)?;
                }
                self.free_block(block);
            }
            self.build(&mut merge, &mut builder).await?;
        }
        let blocks = builder.finish();
        // Blocks that were kept may be fresh from before; they were counted then.
        let kept = |block: &RunBlock| {
            old.blocks.iter().any(|before| match (&before.part, &block.part) {
                (crate::nodes::run::Part::Fresh(before), crate::nodes::run::Part::Fresh(now)) => {
                    Arc::ptr_eq(before, now)
                }
                _ => false,
            })
        };
        self.fresh_bytes +=
            blocks.iter().filter(|block| !kept(block)).map(|block| block.part.fresh_bytes() as i64).sum::<i64>();
        let last_msn = last_msn.max(old.last_msn);
        Ok(self.cut_leaves(blocks, growing, last_msn))
    }

    /// Entries with values go to the leaf; deletes have done their work.
    async fn build(&mut self, merge: &mut Merge, builder: &mut RunBuilder) -> Result<()> {
        let mut unfinished: Option<(Vec<u8>, Message<'static>)> = None;
        let mut worked = 0;
        loop {
            let more = merge.step(&self.with, |key, message| {
                worked += (key.len() + message.bytes()) as u64 + ENTRY_WORK_BYTES;
                match message {
                    Message::Insert(_) | Message::Place(_) => builder.push(key, &message),
                    Message::Delete => {}
                    Message::Upserts(_) => unfinished = Some((key.to_vec(), message.into_owned())),
                }
            })?;
            if worked >= PIECE_BYTES || !more {
                self.quota.spend(std::mem::take(&mut worked)).await;
            }
            if let Some((key, message)) = unfinished.take() {
                let message = message.over_nothing(&self.with)?;
                if matches!(message, Message::Insert(_)) {
                    builder.push(&key, &message);
                }
            }
            if !more {
                self.free_values(std::mem::take(&mut merge.superseded));
                return Ok(());
            }
        }
    }

    /// Leaves of at most the bound: equal ones, or full ones where the leaf grows at its end.
    fn cut_leaves(&self, blocks: Vec<RunBlock>, growing: bool, last_msn: u64) -> Vec<Node> {
        let total: u64 = blocks.iter().map(|block| block.part.raw_bytes()).sum();
        let bound = self.shape.leaf_bytes;
        let target = if growing { bound } else { total.div_ceil(total.div_ceil(bound).max(1)) };
        let mut leaves: Vec<Vec<RunBlock>> = vec![Vec::new()];
        let mut filled = 0;
        for block in blocks {
            let bytes = block.part.raw_bytes();
            if filled > 0 && filled + bytes / 2 > target {
                leaves.push(Vec::new());
                filled = 0;
            }
            filled += bytes;
            if let Some(leaf) = leaves.last_mut() {
                leaf.push(block);
            }
        }
        let leaf = |blocks| Node::Leaf(Run { tombstones: RangeSet::default(), blocks, first_msn: 0, last_msn });
        leaves.into_iter().map(leaf).collect()
    }
}
