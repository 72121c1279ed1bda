//! One tree: looking into it, and changing it.
//!
//! Nothing here writes to the storage. A change makes fresh nodes and blocks in memory beside the old tree and notes
//! which blocks the new one has no use for; a checkpoint writes what is fresh ([`crate::checkpoint`]). A change is made
//! in steps ([`crate::step`]); until its last one nobody sees anything of it.

mod cut;
mod estimate;
mod flush;
mod leaf;
mod lookup;
mod rest;
mod room;
mod shape;
mod stuck;
mod tidy;

pub(crate) use estimate::estimate;
pub(crate) use lookup::{find, missing, missing_at_start, window};
pub(crate) use rest::Reach;
#[cfg(test)]
pub(crate) use room::is_shared as room_is_shared;
pub(crate) use room::{FreshBytes, Room};
pub(crate) use stuck::Blocked;

use std::sync::Arc;

use crate::bytes::message::{Message, UPSERTS_MAX};
use crate::bytes::pointer::Freed;
use crate::bytes::range::{Direction, Key, KeyRange};
use crate::error::Result;
use crate::flush::FlushPolicy;
use crate::io::{BlockIo, Composer};
use crate::memtable::{MemoryCursor, Memtable};
use crate::merge::{Layer, LayerCursor, Merge};
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Child, Edge, Internal, Node, RunHandle};
use crate::nodes::run::{Part, Run, RunBlock, RunBuilder};
use crate::step::Quota;

/// Sizes of a tree's nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub leaf_bytes: u64,
    pub basement_bytes: usize,
    pub filter_bits: usize,
    pub fanout: usize,
    pub buffer_bytes: u64,
    pub policy: FlushPolicy,
}

/// A block of the storage.
const BLOCK: u64 = storage::BLOCK_BYTES as u64;

impl Shape {
    /// Bytes that a leaf takes on the storage, at most.
    pub fn leaf_storage_bytes(&self) -> u64 {
        let basements = self.leaf_bytes.div_ceil(self.basement_bytes as u64) + 1;
        basements * (self.basement_bytes as u64).next_multiple_of(BLOCK) + self.header_bytes(self.leaf_bytes)
    }

    /// Bytes of a node's header with so many bytes of entries in blocks half full, for entries of 16 bytes and keys of up
    /// to 64: an estimate, for what is not made yet. What is made is counted ([`Node::header_bytes`]).
    fn header_bytes(&self, entry_bytes: u64) -> u64 {
        const PLACE_BYTES: u64 = 128;
        const PAGE_BYTES: u64 = 48;
        let filters = entry_bytes / 16 * self.filter_bits as u64 / 8;
        let places = entry_bytes.div_ceil((self.basement_bytes as u64 / 2).max(1)) * PLACE_BYTES;
        let pages = entry_bytes.div_ceil(BLOCK) * PAGE_BYTES;
        (filters + places + pages).next_multiple_of(BLOCK) + BLOCK
    }

    /// Bytes that messages take on the storage, with blocks half full and not compressed.
    pub fn storage_bytes(&self, message_bytes: u64) -> u64 {
        let basement = self.basement_bytes as u64;
        message_bytes.div_ceil((basement / 2).max(1)) * basement.next_multiple_of(BLOCK)
    }

    /// Bytes that draining a memtable and a checkpoint take besides the messages: a last block for every child, the
    /// headers of a path, the catalog.
    pub fn overhead_bytes(&self) -> u64 {
        const LEVELS: u64 = 3;
        (self.fanout as u64 + 8) * BLOCK + LEVELS * self.header_bytes(self.buffer_bytes)
    }
}

/// Runs that one child's buffer may have; more are merged. Merging writes their messages again, and a run more costs a lookup
/// a look into a filter that is in memory, and seldom a page; a scan that begins, a page. `BENCHMARKS.md` has what 4 and 8 cost.
const RUNS_MAX: usize = 12;

/// Gives the layers that move down, cut to a range of keys.
type Source<'a> = dyn Fn(&Composer<'_>, &KeyRange) -> Result<Vec<Layer>> + Send + Sync + 'a;

/// Bytes that a merged entry counts besides its key and message.
const ENTRY_WORK_BYTES: u64 = 32;

/// Work is reported in pieces of about this many bytes.
const PIECE_BYTES: u64 = 2048;

/// A change of a tree.
pub(crate) struct Change<'a> {
    pub io: &'a BlockIo,
    pub with: Composer<'a>,
    pub quota: &'a Quota,
    pub shape: Shape,
    /// Blocks that the new tree does not use.
    pub freed: Vec<Freed>,
    /// Bytes to be written that it has more than the old one.
    pub fresh_bytes: i64,
    /// For how much more of them there is room: without, messages wait.
    pub room: Room,
    /// Whether messages wait for that reason.
    pub stopped: bool,
    /// Whether any child was flushed.
    pub moved: bool,
    /// Children that damage keeps from being flushed.
    stuck: Vec<Edge>,
    /// Of those, where no more may wait.
    pub blocked: Vec<Blocked>,
}

/// What a change has noted so far.
struct Mark {
    freed: usize,
    fresh_bytes: i64,
}

impl<'a> Change<'a> {
    pub fn new(with: Composer<'a>, quota: &'a Quota, shape: Shape, room: Room) -> Self {
        let (io, freed) = (with.io, Vec::new());
        Self {
            io,
            with,
            quota,
            shape,
            freed,
            fresh_bytes: 0,
            room,
            stopped: false,
            moved: false,
            stuck: Vec::new(),
            blocked: Vec::new(),
        }
    }

    fn mark(&self) -> Mark {
        Mark { freed: self.freed.len(), fresh_bytes: self.fresh_bytes }
    }

    /// Nothing came of what was done since.
    fn undo(&mut self, mark: Mark) {
        self.freed.truncate(mark.freed);
        self.fresh_bytes = mark.fresh_bytes;
    }

    /// Whether another leaf may be rewritten.
    fn affordable(&mut self) -> bool {
        let affordable = self.room.left_bytes(self.fresh_bytes) >= self.shape.leaf_storage_bytes() as i64;
        self.stopped |= !affordable;
        affordable
    }

    /// The tree with everything that is in a memtable. Where damage is in the way at the root, messages wait above it.
    pub async fn drain(&mut self, root: &Edge, table: &Arc<Memtable>) -> Result<Edge> {
        let Some(msns) = table.msns() else { return Ok(root.clone()) };
        let tombstones = table.tombstones(&KeyRange::all(), msns.1);
        let with = self.with;
        self.free_values(table.superseded(&with)?);
        let source = move |with: &Composer<'_>, range: &KeyRange| {
            let cursor = MemoryCursor::new(Arc::clone(table), range.clone(), Direction::Forward, msns.1, with)?;
            Ok(vec![Layer { tombstones: tombstones.clip(range), cursor: LayerCursor::Memory(cursor) }])
        };
        let before = self.mark();
        let parts = match self.drain_into(root, &source, msns).await {
            Err(error) if error.is_damage() => {
                self.undo(before);
                // Where the root cannot be read its height is unknown, and nobody gets far enough to miss it.
                let height = self.io.node(root).map_or(0, |node| node.height());
                let only = Child { edge: root.clone(), runs: Vec::new() };
                let mut above = Internal { height: height + 1, pivots: Vec::new(), children: vec![only] };
                self.push(&mut above, &KeyRange::all(), &source, msns).await?;
                vec![Node::Internal(above)]
            }
            parts => parts?,
        };
        Ok(self.grow(parts))
    }

    async fn drain_into(&mut self, root: &Edge, source: &Source<'_>, msns: (u64, u64)) -> Result<Vec<Node>> {
        let all = KeyRange::all();
        let node = self.io.node(root)?;
        self.free_header(root, node.own_key());
        match &*node {
            Node::Leaf(_) => self.merge_into_leaf(&node, &all, source, msns.1).await,
            Node::Internal(internal) => {
                let mut internal = internal.clone();
                self.push(&mut internal, &all, source, msns).await?;
                self.settle(&mut internal, &all).await?;
                Ok(self.split_internal(internal))
            }
        }
    }

    /// The tree with what is due moved down, as far as the budget goes.
    pub async fn move_down(&mut self, root: &Edge, reach: Reach) -> Result<Edge> {
        let node = self.io.node(root)?;
        let Node::Internal(internal) = &*node else { return Ok(root.clone()) };
        // A root above one node alone goes.
        let needless = matches!(&internal.children[..], [only] if only.runs.is_empty());
        if !needless && !self.is_due(root, reach)? {
            return Ok(root.clone());
        }
        self.free_header(root, node.own_key());
        let mut internal = internal.clone();
        self.flush_node(&mut internal, &KeyRange::all(), reach).await?;
        let parts = self.split_internal(internal);
        Ok(self.grow(parts))
    }

    /// Lets the layers of `source` wait in a node, each for its child.
    async fn push(
        &mut self,
        node: &mut Internal,
        bounds: &KeyRange,
        source: &Source<'_>,
        msns: (u64, u64),
    ) -> Result<()> {
        let mut index = 0;
        // What was taken out of the layers already: a child whose range was removed leaves it to the next one.
        let mut done = Key::default();
        while index < node.children.len() {
            let mut range = node.range_of(index, bounds);
            range.start = range.start.max(done.clone());
            let below = node.children.get(index).cloned();
            let mut run = self.merge_run((source(&self.with, &range)?, &range), msns, below.as_ref()).await?;
            if run.tombstones.covers(&range) && !range.is_empty() {
                self.drop_child(node, index).await?;
                run.tombstones = crate::bytes::range::RangeSet::default();
                if run.is_empty() && node.children.len() > 1 {
                    // Its range goes to a neighbour; nothing of it is left to look for there.
                    let empty = node.children.remove(index);
                    self.drop_tree(&empty).await?;
                    node.pivots.remove(index.saturating_sub(1).min(node.pivots.len().saturating_sub(1)));
                    done = range.end.unwrap_or_default();
                    continue;
                }
            }
            if !run.is_empty()
                && let Some(child) = node.children.get_mut(index)
            {
                child.runs.insert(0, Arc::new(run));
                let fits = |room: &mut Room, child: &Child| {
                    (child.buffered_bytes() as i64) < room.left_bytes(self.fresh_bytes)
                };
                if child.runs.len() > RUNS_MAX && fits(&mut self.room, child) {
                    let (runs, below, before) = (child.runs.clone(), child.edge.clone(), self.mark());
                    match self.compact(runs, &range, &below).await {
                        Ok(runs) => {
                            if let Some(child) = node.children.get_mut(index) {
                                child.runs = runs;
                            }
                        }
                        // They stay several.
                        Err(error) if error.is_damage() => self.undo(before),
                        Err(error) => return Err(error),
                    }
                }
            }
            index += 1;
        }
        Ok(())
    }

    /// One run that does what the layers of a range do. `below` is what it is to wait above.
    async fn merge_run(
        &mut self,
        (layers, range): (Vec<Layer>, &KeyRange),
        msns: (u64, u64),
        below: Option<&Child>,
    ) -> Result<Run> {
        let mut merge = Merge::new(layers, range, Direction::Forward);
        let tombstones = merge.tombstones();
        let mut builder = RunBuilder::new(self.shape.basement_bytes, self.shape.filter_bits);
        let mut worked = 0;
        loop {
            let mut long: Option<(Vec<u8>, Message<'static>)> = None;
            let more = merge.step(&self.with, |key, message| {
                worked += (key.len() + message.bytes()) as u64 + ENTRY_WORK_BYTES;
                if matches!(&message, Message::Upserts(list) if list.len() > UPSERTS_MAX) {
                    long = Some((key.to_vec(), message.into_owned()));
                    return;
                }
                // Of a key in a deleted range, a delete says nothing more.
                let needless = tombstones.contains(key) || mutated(Mutant::DeletesDropped);
                if message != Message::Delete || !needless {
                    builder.push(key, &message);
                }
            })?;
            if let Some((key, upserts)) = long
                && let Some(below) = below
            {
                // Too many to wait: they meet their value. With nothing there, they are final as well.
                let found = lookup::find_below(&self.with, below, &key, upserts.clone());
                match found.and_then(|message| message.over_nothing(&self.with)) {
                    Ok(message) => builder.push(&key, &message),
                    // They wait for a value that cannot be read.
                    Err(error) if error.is_damage() => builder.push(&key, &upserts),
                    Err(error) => return Err(error),
                }
            }
            if worked >= PIECE_BYTES || !more {
                self.quota.spend(std::mem::take(&mut worked)).await;
            }
            if !more {
                break;
            }
        }
        self.free_values(merge.superseded);
        let blocks = builder.finish();
        self.fresh_bytes += blocks.iter().map(|block| block.part.fresh_bytes() as i64).sum::<i64>();
        let tombstones = if mutated(Mutant::RangesStay) { Default::default() } else { tombstones };
        Ok(Run { tombstones, blocks, first_msn: msns.0, last_msn: msns.1 })
    }

    /// Merges the newest runs of a buffer, and older ones as long as they are not larger than what was merged so far:
    /// each message is copied a number of times that grows with the logarithm of the buffer.
    async fn compact(&mut self, mut runs: Vec<Arc<Run>>, range: &KeyRange, below: &Edge) -> Result<Vec<Arc<Run>>> {
        let mut count = 0;
        let mut bytes = 0;
        for run in &runs {
            if count >= 2 && run.bytes() > bytes {
                break;
            }
            bytes += run.bytes();
            count += 1;
        }
        let older = runs.split_off(count);
        if mutated(Mutant::RunsReversed) {
            runs.reverse();
        }
        let below = Child { edge: below.clone(), runs: older.clone() };
        let merged = self.merge_run((layers_of(&self.with, &runs, range)?, range), span(&runs), Some(&below)).await?;
        for run in &runs {
            self.free_run(run);
        }
        Ok(std::iter::once(Arc::new(merged)).chain(older).collect())
    }

    fn free_block(&mut self, block: &RunBlock) {
        match &block.part {
            Part::Stored(pointer) => self.freed.push(Freed::new(*pointer, Some(&block.first_key))),
            Part::Fresh(_) => self.fresh_bytes -= block.part.fresh_bytes() as i64,
        }
    }

    fn free_run(&mut self, run: &Run) {
        for block in &run.blocks {
            self.free_block(block);
        }
    }

    /// Values that lie apart and that nobody refers to any more.
    fn free_values(&mut self, places: Vec<Freed>) {
        if !mutated(Mutant::ValuesLeak) {
            self.freed.extend(places);
        }
    }

    /// The values that lie apart of a block that is dropped: the only reason to read it.
    fn free_values_of(&mut self, block: &RunBlock) -> Result<()> {
        if block.tally.places > 0 {
            let block = match self.io.block(&block.part) {
                Ok(block) => block,
                // Where its values lie nobody knows any more.
                Err(error) if error.is_damage() => return Ok(()),
                Err(error) => return Err(error),
            };
            let freed = |at| Some(Freed::new(block.message(at).place()?, Some(block.key(at))));
            self.free_values((0..block.len()).filter_map(freed).collect());
        }
        Ok(())
    }

    /// The header of a node that is going to change, with a key of its own.
    fn free_header(&mut self, edge: &Edge, key: Option<&[u8]>) {
        match edge {
            Edge::Stored(pointer) => self.freed.push(Freed::new(*pointer, key)),
            Edge::Fresh(_) if mutated(Mutant::GivenUpStaysCounted) => {}
            Edge::Fresh(node) => self.fresh_bytes -= node.header_bytes() as i64,
        }
    }
}

/// The layers of runs, newest first, in a range.
fn layers_of(with: &Composer<'_>, runs: &[Arc<Run>], range: &KeyRange) -> Result<Vec<Layer>> {
    let layer = |run: &Arc<Run>| Layer::of_run(with, RunHandle::Run(Arc::clone(run)), range, Direction::Forward);
    runs.iter().map(layer).collect()
}

/// Sequence numbers of the oldest and the newest message of runs, newest first.
fn span(runs: &[Arc<Run>]) -> (u64, u64) {
    let first = runs.iter().map(|run| run.first_msn).min().unwrap_or(0);
    let last = runs.iter().map(|run| run.last_msn).max().unwrap_or(0);
    (first, last)
}
