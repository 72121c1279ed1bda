//! Layers of messages, newest first, seen as one.
//!
//! Flushes and scans are the same merge. A layer first deletes its ranges and then carries out its entries; so for one
//! key the layers are asked from the newest on, until a final message or a range that hides everything below.

mod cursor;

use cursor::RunCursor;

use crate::bytes::message::Message;
use crate::bytes::pointer::Freed;
use crate::bytes::range::{Direction, KeyRange, RangeSet};
use crate::error::Result;
use crate::io::Composer;
use crate::io::ahead::{ReadAhead, Wanted};
use crate::memtable::MemoryCursor;
use crate::nodes::node::RunHandle;

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
        let mut cursor = RunCursor::new(run, range.clone(), direction);
        cursor.begin(with)?;
        Ok(Self { tombstones, cursor: LayerCursor::Run(cursor) })
    }

    /// The parts of runs that are in `range`. What a reader that begins takes of them first is read together.
    pub fn of_runs(
        with: &Composer<'_>,
        runs: Vec<RunHandle>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Vec<Self>> {
        if with.begins() {
            let first = |run: &RunHandle| RunCursor::new(run.clone(), range.clone(), direction).wanted(with.io);
            let wanted: Vec<Wanted> = runs.iter().flat_map(first).collect();
            if wanted.len() > 1 {
                ReadAhead::of(wanted).finish(with.io);
            }
        }
        runs.into_iter().map(|run| Self::of_run(with, run, range, direction)).collect()
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
    pub superseded: Vec<Freed>,
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
            self.superseded.extend(places.map(|place| Freed::new(place, Some(key))));
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
