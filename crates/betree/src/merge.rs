//! Layers of messages, newest first, seen as one.
//!
//! Flushes and scans are the same merge. A layer first deletes its ranges and then carries out its entries; so for one
//! key the layers are asked from the newest on, until a final message or a range that hides everything below.

use std::sync::Arc;

use crate::bytes::block::Block;
use crate::bytes::message::Message;
use crate::bytes::pointer::BlockPointer;
use crate::bytes::range::{Direction, KeyRange, RangeSet};
use crate::error::Result;
use crate::io::Composer;
use crate::io::ahead::ReadAhead;
use crate::memtable::MemoryCursor;
use crate::nodes::node::RunHandle;

/// Goes through the entries of a run that are in a range.
pub(crate) struct RunCursor {
    run: RunHandle,
    range: KeyRange,
    direction: Direction,
    index: usize,
    /// The block at `index` and the entry in it; none at the end.
    at: Option<(Arc<Block>, usize)>,
}

impl RunCursor {
    pub fn new(with: &Composer<'_>, run: RunHandle, range: KeyRange, direction: Direction) -> Result<Self> {
        let mut cursor = Self { run, range, direction, index: 0, at: None };
        if cursor.range.is_empty() {
            return Ok(cursor);
        }
        match direction {
            Direction::Forward => {
                cursor.index = cursor.run.block_of(&cursor.range.start).unwrap_or(0);
                if let Some(found) = cursor.run.blocks.get(cursor.index) {
                    let block = with.block(&found.part)?;
                    let entry = block.lower_bound(&cursor.range.start);
                    cursor.settle(with, block, Some(entry))?;
                }
            }
            Direction::Backward => {
                let end = cursor.range.end.clone();
                let before = match &end {
                    Some(end) => cursor.run.blocks.partition_point(|block| block.first_key < *end),
                    None => cursor.run.blocks.len(),
                };
                if let Some(index) = before.checked_sub(1) {
                    cursor.index = index;
                    let block = with.block(&cursor.run.blocks[index].part)?;
                    let entries = end.map_or(block.len(), |end| block.lower_bound(&end));
                    cursor.settle(with, block, entries.checked_sub(1))?;
                }
            }
        }
        Ok(cursor)
    }

    /// Stands at an entry of the current block, or at the next block's where there is none.
    fn settle(&mut self, with: &Composer<'_>, block: Arc<Block>, entry: Option<usize>) -> Result<()> {
        let (mut block, mut entry) = (block, entry);
        self.at = loop {
            match entry {
                Some(entry) if entry < block.len() => break Some((block, entry)),
                _ => {}
            }
            let next = match self.direction {
                Direction::Forward => self.index.checked_add(1),
                Direction::Backward => self.index.checked_sub(1),
            };
            let Some((next, found)) = next.and_then(|next| Some((next, self.run.blocks.get(next)?))) else {
                break None;
            };
            // A block that cannot have a key of the range is not read.
            if self.direction == Direction::Forward
                && self.range.end.as_ref().is_some_and(|end| found.first_key >= *end)
            {
                break None;
            }
            self.index = next;
            with.ahead.into_iter().for_each(ReadAhead::go_on);
            block = with.block(&found.part)?;
            entry = match self.direction {
                Direction::Forward => Some(0),
                Direction::Backward => block.len().checked_sub(1),
            };
        };
        if self.at.as_ref().is_some_and(|(block, entry)| !self.range.contains(block.key(*entry))) {
            self.at = None;
        }
        Ok(())
    }

    pub fn peek(&self) -> Option<&[u8]> {
        self.at.as_ref().map(|(block, entry)| block.key(*entry))
    }

    fn message(&self) -> Option<Message<'_>> {
        self.at.as_ref().map(|(block, entry)| block.message(*entry))
    }

    pub fn advance(&mut self, with: &Composer<'_>) -> Result<()> {
        if let Some((block, entry)) = self.at.take() {
            let entry = match self.direction {
                Direction::Forward => Some(entry + 1),
                Direction::Backward => entry.checked_sub(1),
            };
            self.settle(with, block, entry)?;
        }
        Ok(())
    }
}

/// Where a layer's entries come from.
pub(crate) enum LayerCursor {
    Memory(MemoryCursor),
    Run(RunCursor),
}

impl LayerCursor {
    fn peek(&self) -> Option<&[u8]> {
        match self {
            Self::Memory(cursor) => cursor.peek().map(|(key, _)| key),
            Self::Run(cursor) => cursor.peek(),
        }
    }

    fn message(&self) -> Option<Message<'_>> {
        match self {
            Self::Memory(cursor) => cursor.peek().map(|(_, message)| message.clone()),
            Self::Run(cursor) => cursor.message(),
        }
    }

    fn advance(&mut self, with: &Composer<'_>) -> Result<()> {
        match self {
            Self::Memory(cursor) => cursor.advance(with),
            Self::Run(cursor) => cursor.advance(with),
        }
    }
}

/// Ranges to delete, and then entries.
pub(crate) struct Layer {
    pub tombstones: RangeSet,
    pub cursor: LayerCursor,
}

impl Layer {
    /// The part of a run that is in `range`.
    pub fn of_run(with: &Composer<'_>, run: RunHandle, range: &KeyRange, direction: Direction) -> Result<Self> {
        let tombstones = run.tombstones.clip(range);
        Ok(Self { tombstones, cursor: LayerCursor::Run(RunCursor::new(with, run, range.clone(), direction)?) })
    }
}

/// Several layers seen as one.
pub(crate) struct Merge {
    /// Newest first.
    layers: Vec<Layer>,
    direction: Direction,
    /// Layers at the key of this step; kept for its memory.
    same: Vec<usize>,
    /// Places of values that were in a layer and are not in what came of the steps so far.
    pub superseded: Vec<BlockPointer>,
}

impl Merge {
    pub fn new(layers: Vec<Layer>, direction: Direction) -> Self {
        Self { layers, direction, same: Vec::new(), superseded: Vec::new() }
    }

    /// Puts a layer below all others.
    pub fn add_oldest(&mut self, layer: Layer) {
        self.layers.push(layer);
    }

    /// Whether there is another entry.
    pub fn has_entries(&self) -> bool {
        self.layers.iter().any(|layer| layer.cursor.peek().is_some())
    }

    /// All ranges that any layer deletes.
    pub fn tombstones(&self) -> RangeSet {
        let mut all = RangeSet::default();
        for layer in &self.layers {
            all.extend(&layer.tombstones);
        }
        all
    }

    /// Gives the next key with what its layers come to, and goes on; whether there was one.
    pub fn step(&mut self, with: &Composer<'_>, sink: &mut dyn FnMut(&[u8], Message<'_>)) -> Result<bool> {
        self.same.clear();
        let mut best: Option<&[u8]> = None;
        for (index, layer) in self.layers.iter().enumerate() {
            let Some(key) = layer.cursor.peek() else { continue };
            let first = match (best, self.direction) {
                (None, _) => true,
                (Some(best), Direction::Forward) => key < best,
                (Some(best), Direction::Backward) => key > best,
            };
            if first {
                best = Some(key);
                self.same.clear();
            }
            if first || best == Some(key) {
                self.same.push(index);
            }
        }
        let Some(key) = best else { return Ok(false) };
        let mut folded: Option<Message<'_>> = None;
        let mut at_key = self.same.iter().copied().peekable();
        for (index, layer) in self.layers.iter().enumerate() {
            if at_key.next_if_eq(&index).is_some()
                && let Some(message) = layer.cursor.message()
            {
                folded = Some(match folded {
                    None => message,
                    Some(newer) => newer.over(message, with)?,
                });
            }
            if folded.as_ref().is_some_and(Message::is_final) {
                break;
            }
            if layer.tombstones.contains(key) {
                folded = folded.map(|message| message.over_nothing(with)).transpose()?;
                break;
            }
        }
        let kept = folded.as_ref().and_then(Message::place);
        let first_only = self.same.len() == 1 && folded.as_ref().is_some_and(Message::is_final);
        if !first_only {
            let messages = self.same.iter().filter_map(|index| self.layers.get(*index)?.cursor.message());
            let places = messages.filter_map(|message| message.place()).filter(|place| Some(*place) != kept);
            self.superseded.extend(places);
        }
        // None: a newer range hides the key.
        if let Some(message) = folded {
            sink(key, message);
        }
        for index in &self.same {
            self.layers[*index].cursor.advance(with)?;
        }
        Ok(true)
    }
}
