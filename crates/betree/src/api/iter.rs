//! Entries of a range, from both ends.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::api::{Entry, Value};
use crate::bytes::message::Message;
use crate::bytes::range::{Direction, KeyRange, successor};
use crate::bytes::tree_id::TreeId;
use crate::engine::{SharedEngine, View};
use crate::error::{Error, Result};
use crate::io::Composer;
use crate::io::ahead::ReadAhead;
use crate::memtable::MemoryCursor;
use crate::merge::{Layer, LayerCursor, Merge};
use crate::mutant::{Mutant, mutated};

/// The entries of a range at one moment, in key order; from the back in reverse. After an error it ends, but for
/// [`past_damage`](Self::past_damage).
pub struct Iter {
    engine: SharedEngine,
    view: View,
    tree: TreeId,
    /// Keys that neither end has reached.
    rest: KeyRange,
    front: Option<Window>,
    back: Option<Window>,
    /// Whether values are of interest.
    values: bool,
    /// What is read before it is needed, for the end that was read first.
    ahead: Option<(Direction, ReadAhead)>,
    /// Instead of anything else.
    refused: Option<Error>,
    /// Whether it goes on behind what cannot be read.
    past_damage: bool,
}

/// The part of the range that one leaf answers for, or a part of that where something is damaged.
struct Window {
    /// Keys of it and of everything behind it, seen from the end it serves.
    bounds: KeyRange,
    source: Source,
}

/// Where the entries of a window come from.
enum Source {
    Merge(Merge),
    /// Each key that something readable is about is looked up by itself.
    Keys {
        keys: BTreeSet<Vec<u8>>,
        /// Whether it was said that some of them cannot be read.
        is_told: bool,
    },
}

/// A key, and its value as far as that can be read.
type Found = (Vec<u8>, Result<Value>);

impl Iter {
    pub(crate) fn new(engine: SharedEngine, view: View, tree: TreeId, range: KeyRange) -> Self {
        Self {
            engine,
            view,
            tree,
            rest: range,
            front: None,
            back: None,
            values: true,
            ahead: None,
            refused: None,
            past_damage: false,
        }
    }

    /// Makes it go on behind what is damaged or cannot be read from the storage ([`Error::Corrupt`], [`Error::Storage`]). Each part of the
    /// range of which something is lost gives such an error, a large one several, and all other entries come in order as ever: those of
    /// other blocks, of a damaged block's other pages, and those that are newer than it. A value is never one that was there before.
    /// Beside damage each key is looked up by itself, which takes longer. Any other error ends it.
    #[must_use]
    pub fn past_damage(mut self) -> Self {
        self.past_damage = true;
        self
    }

    /// One that gives nothing but an error.
    pub(crate) fn refused(mut self, error: Error) -> Self {
        self.refused = Some(error);
        self
    }

    /// Nothing is left.
    fn end(&mut self) {
        self.rest.end = Some(self.rest.start.clone());
        (self.front, self.back) = (None, None);
    }

    /// The same, with what is read ahead.
    fn open_ahead(&mut self, direction: Direction) -> Result<Option<Window>> {
        if let (None, Some(version)) = (&self.ahead, self.view.version.trees.get(&self.tree)) {
            let ahead = ReadAhead::along(version.root.clone(), self.rest.clone(), direction, self.values);
            self.ahead = Some((direction, ahead));
        }
        self.open(direction)
    }

    /// The window at one end of what is left.
    fn open(&self, direction: Direction) -> Result<Option<Window>> {
        let Some(version) = self.view.version.trees.get(&self.tree) else { return Ok(None) };
        let with = &self.composer(direction);
        with.ahead.into_iter().for_each(ReadAhead::next_leaf);
        let (bounds, below) = crate::tree::window(with, &version.root, &self.rest, direction)?;
        let own = bounds.intersection(&self.rest);
        let mut layers = Vec::new();
        for table in version.tables() {
            let cursor = MemoryCursor::new(table.clone(), own.clone(), direction, self.view.msn, with)?;
            let tombstones = table.tombstones(&own, self.view.msn);
            layers.push(Layer { tombstones, cursor: LayerCursor::Memory(cursor) });
        }
        layers.extend(below);
        // A window must bring the end that it serves further, or reading would not end.
        let stuck = match direction {
            Direction::Forward => bounds.end.as_ref().is_some_and(|end| *end <= self.rest.start),
            Direction::Backward => self.rest.end.as_ref().is_some_and(|end| *end <= bounds.start),
        };
        if stuck {
            let what = "a leaf that does not have the keys it was found by".to_owned();
            return Err(Error::Corrupt { what, offset_bytes: 0, stored_bytes: 0 });
        }
        Ok(Some(Window { bounds, source: Source::Merge(Merge::new(layers, direction)) }))
    }

    fn composer(&self, direction: Direction) -> Composer<'_> {
        let ahead = self.ahead.as_ref().filter(|(of, _)| *of == direction).map(|(_, ahead)| ahead);
        Composer { ahead, ..self.engine.composer() }
    }

    /// The next entry of a window.
    fn step(&self, window: &mut Window, direction: Direction) -> Result<Option<Found>> {
        match &mut window.source {
            Source::Merge(merge) => self.merged(merge, direction),
            Source::Keys { keys, is_told } => self.looked_up(keys, *is_told, direction),
        }
    }

    fn merged(&self, merge: &mut Merge, direction: Direction) -> Result<Option<Found>> {
        let with = &self.composer(direction);
        loop {
            let mut found: Option<(Vec<u8>, Message<'static>)> = None;
            let mut sink = |key: &[u8], message: Message<'_>| {
                let message = match message {
                    Message::Insert(_) | Message::Place(_) if !self.values => Message::Insert(Cow::Borrowed(&[][..])),
                    message => message.into_owned(),
                };
                found = Some((key.to_vec(), message));
            };
            if !merge.step(with, &mut sink)? {
                return Ok(None);
            }
            let Some((key, message)) = found else { continue };
            match with.value(message) {
                Ok(Some(value)) => return Ok(Some((key, Ok(value)))),
                Ok(None) => {}
                Err(error) if self.passes(&error) => return Ok(Some((key, Err(error)))),
                Err(error) => return Err(error),
            }
        }
    }

    fn looked_up(&self, keys: &mut BTreeSet<Vec<u8>>, is_told: bool, direction: Direction) -> Result<Option<Found>> {
        loop {
            let next = match direction {
                Direction::Forward => keys.pop_first(),
                Direction::Backward => keys.pop_last(),
            };
            let Some(key) = next else { return Ok(None) };
            let value = match self.values {
                true => self.engine.get(&self.view, self.tree, &key),
                false => self.engine.has(&self.view, self.tree, &key).map(|has| has.then(Value::new)),
            };
            match value {
                Ok(Some(value)) => return Ok(Some((key, Ok(value)))),
                Ok(None) => {}
                Err(error) if !self.passes(&error) => return Err(error),
                Err(_) if is_told => {}
                Err(error) => return Ok(Some((key, Err(error)))),
            }
        }
    }

    /// Whether it goes on behind an error.
    fn passes(&self, error: &Error) -> bool {
        self.past_damage && error.is_damage()
    }

    /// Behind an error: what else can be read of where it was met comes next. Returns what is lost there, if anything is.
    fn go_past(&mut self, error: Error, direction: Direction) -> Result<Option<Error>> {
        // Damage has ended it: from here on it is another.
        if let Some((_, ahead)) = self.ahead.take_if(|(of, _)| *of == direction) {
            ahead.close(&self.engine.io);
        }
        let cell = self.engine.cell(&self.view, self.tree, &self.rest, direction)?;
        let Some(cell) = cell.filter(|cell| !cell.range.is_empty()) else { return Err(error) };
        let source = Source::Keys { keys: cell.keys, is_told: cell.damage.is_some() };
        let damage = cell.damage.map(|damage| self.engine.name(damage, self.tree, &cell.range));
        let window = Some(Window { bounds: cell.range, source });
        match direction {
            Direction::Forward => self.front = window,
            Direction::Backward => self.back = window,
        }
        Ok(damage)
    }

    fn advance(&mut self, direction: Direction) -> Result<Option<Found>> {
        loop {
            if self.rest.is_empty() {
                return Ok(None);
            }
            let kept = match direction {
                Direction::Forward => self.front.take(),
                Direction::Backward => self.back.take(),
            };
            let mut window = match kept {
                Some(window) => window,
                None => match self.open_ahead(direction)? {
                    Some(window) => window,
                    None => return Ok(None),
                },
            };
            let entry = self.step(&mut window, direction)?.filter(|(key, _)| self.rest.contains(key));
            match (entry, direction) {
                (Some(entry), Direction::Forward) => {
                    self.rest.start = successor(&entry.0);
                    self.front = Some(window);
                    return Ok(Some(entry));
                }
                (Some(entry), Direction::Backward) => {
                    self.rest.end = Some(entry.0.clone().into());
                    self.back = Some(window);
                    return Ok(Some(entry));
                }
                // The window is at its end: on to the next leaf.
                (None, Direction::Forward) => match window.bounds.end {
                    Some(end) => self.rest.start = end.max(self.rest.start.clone()),
                    None => return Ok(None),
                },
                (None, Direction::Backward) => {
                    if window.bounds.start.is_empty() || window.bounds.start <= self.rest.start {
                        return Ok(None);
                    }
                    self.rest.end = Some(window.bounds.start);
                }
            }
        }
    }

    fn take(&mut self, direction: Direction) -> Option<Result<Entry>> {
        if let Some(error) = self.refused.take() {
            self.end();
            return Some(Err(error));
        }
        loop {
            let error = match self.advance(direction) {
                Ok(Some((key, value))) => {
                    let value = self.engine.named_at(value, &self.view, self.tree, &key);
                    return Some(value.map(|value| (key, value)));
                }
                Ok(None) => {
                    self.end();
                    return None;
                }
                Err(error) if self.passes(&error) => match self.go_past(error, direction) {
                    // All of it can be read, one by one.
                    Ok(None) => continue,
                    Ok(Some(lost)) => return Some(Err(lost)),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            let error = self.engine.named_in(error, &self.view, self.tree, &self.rest, direction);
            self.end();
            return Some(Err(error));
        }
    }
}

impl Iterator for Iter {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take(Direction::Forward)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take(Direction::Backward)
    }
}

impl std::iter::FusedIterator for Iter {}

impl Drop for Iter {
    fn drop(&mut self) {
        self.ahead.iter().for_each(|(_, ahead)| ahead.close(&self.engine.io));
    }
}

/// The keys of a range at one moment, in order; from the back in reverse. After an error it ends, but for
/// [`past_damage`](Self::past_damage).
#[derive(Debug)]
pub struct Keys {
    iter: Iter,
}

impl Keys {
    pub(crate) fn new(iter: Iter) -> Self {
        let mut iter = iter;
        iter.values = mutated(Mutant::KeysReadValues);
        Self { iter }
    }

    /// Makes it go on behind what cannot be read, as [`Iter::past_damage`].
    #[must_use]
    pub fn past_damage(mut self) -> Self {
        self.iter = self.iter.past_damage();
        self
    }
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.iter.next()?.map(|(key, _)| key))
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.iter.next_back()?.map(|(key, _)| key))
    }
}

impl std::iter::FusedIterator for Keys {}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("rest", &self.rest).finish_non_exhaustive()
    }
}
