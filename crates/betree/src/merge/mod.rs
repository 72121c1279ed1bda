//! Layers of messages, newest first, seen as one.
//!
//! Flushes and scans are the same merge. A layer first deletes its ranges and then carries out its entries; so for one
//! key the layers are asked from the newest on, until a final message or a range that hides everything below.

mod cursor;

use cursor::RunCursor;

use crate::bytes::message::Message;
use crate::bytes::order::{begins, common};
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
    #[inline]
    fn peek(&self) -> Option<&[u8]> {
        match self {
            Self::Memory(cursor) => cursor.peek().map(|(key, _)| key),
            Self::Run(cursor) => cursor.peek(),
        }
    }

    #[inline]
    fn message(&self) -> Option<Message<'_>> {
        match self {
            Self::Memory(cursor) => cursor.peek().map(|(_, message)| message.borrowed()),
            Self::Run(cursor) => cursor.message(),
        }
    }

    #[inline]
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

/// The next key of a layer, by what it begins with.
#[derive(Clone, Copy)]
struct Head {
    begins: u64,
    layer: usize,
}

/// Several layers seen as one.
pub(crate) struct Merge {
    /// Newest first.
    layers: Vec<Layer>,
    direction: Direction,
    /// The next key of each layer that has one; the first is the last of the list. Of one key the newest layer comes first.
    heads: Vec<Head>,
    /// Bytes that all keys have in common.
    common: usize,
    /// Whether a layer deletes a range.
    deletes: bool,
    /// Layers at the key of this step; kept for its memory.
    same: Vec<usize>,
    /// Places of values that were in a layer and are not in what came of the steps so far.
    pub superseded: Vec<Freed>,
}

impl Merge {
    /// Of layers all of whose keys are in `range`.
    pub fn new(layers: Vec<Layer>, range: &KeyRange, direction: Direction) -> Self {
        let common = range.end.as_ref().map_or(0, |end| common(&range.start, end));
        let heads = Vec::with_capacity(layers.len() + 1);
        let mut merge =
            Self { layers, direction, heads, common, deletes: false, same: Vec::new(), superseded: Vec::new() };
        (0..merge.layers.len()).for_each(|layer| merge.admit(layer));
        merge
    }

    /// Puts a layer below all others.
    pub fn add_oldest(&mut self, layer: Layer) {
        self.layers.push(layer);
        self.admit(self.layers.len() - 1);
    }

    fn admit(&mut self, layer: usize) {
        self.deletes |= self.layers.get(layer).is_some_and(|layer| !layer.tombstones.is_empty());
        self.enter(layer);
    }

    /// Whether there is another entry.
    pub fn has_entries(&self) -> bool {
        !self.heads.is_empty()
    }

    /// The next key of a layer.
    #[inline]
    fn key(&self, layer: usize) -> &[u8] {
        self.layers.get(layer).and_then(|layer| layer.cursor.peek()).unwrap_or_default()
    }

    /// Whether one head comes before another.
    #[inline]
    fn precedes(&self, one: Head, other: Head) -> bool {
        let by_key = one.begins.cmp(&other.begins).then_with(|| self.key(one.layer).cmp(self.key(other.layer)));
        let by_key = match self.direction {
            Direction::Forward => by_key,
            Direction::Backward => by_key.reverse(),
        };
        by_key.then(one.layer.cmp(&other.layer)).is_lt()
    }

    /// Puts a layer's next key among the others.
    #[inline]
    fn enter(&mut self, layer: usize) {
        let Some(key) = self.layers.get(layer).and_then(|layer| layer.cursor.peek()) else { return };
        let head = Head { begins: begins(key, self.common), layer };
        match self.heads.last() {
            // Mostly a layer has several keys one after the other.
            Some(first) if self.precedes(*first, head) => {
                let at = self.heads.partition_point(|other| self.precedes(head, *other));
                self.heads.insert(at, head);
            }
            _ => self.heads.push(head),
        }
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
    pub fn step(&mut self, with: &Composer<'_>, mut sink: impl FnMut(&[u8], Message<'_>)) -> Result<bool> {
        let Some(first) = self.heads.pop() else { return Ok(false) };
        let is_same = |merge: &Self, other: &Head| {
            other.begins == first.begins && merge.key(other.layer) == merge.key(first.layer)
        };
        if !self.deletes
            && !self.heads.last().is_some_and(|other| is_same(self, other))
            && let Some(layer) = self.layers.get_mut(first.layer)
        {
            // It is alone, as most are.
            if let (Some(key), Some(message)) = (layer.cursor.peek(), layer.cursor.message()) {
                sink(key, message);
            }
            layer.cursor.advance(with)?;
            self.enter(first.layer);
            return Ok(true);
        }
        self.same.clear();
        self.same.push(first.layer);
        while let Some(other) = self.heads.pop() {
            if !is_same(self, &other) {
                self.heads.push(other);
                break;
            }
            self.same.push(other.layer);
        }
        self.compose(with, sink)?;
        for at in 0..self.same.len() {
            let layer = self.same[at];
            self.layers[layer].cursor.advance(with)?;
            self.enter(layer);
        }
        Ok(true)
    }

    /// Gives what the layers that have one key come to.
    fn compose(&mut self, with: &Composer<'_>, mut sink: impl FnMut(&[u8], Message<'_>)) -> Result<()> {
        let Some(key) = self.same.first().and_then(|layer| self.layers.get(*layer)?.cursor.peek()) else {
            return Ok(());
        };
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
        Ok(())
    }
}
