//! Entries of a range, from both ends.

use std::borrow::Cow;

use crate::api::Entry;
use crate::bytes::message::Message;
use crate::bytes::range::{Direction, KeyRange, successor};
use crate::bytes::tree_id::TreeId;
use crate::engine::{SharedEngine, View};
use crate::error::{Error, Result};
use crate::io::Composer;
use crate::io::ahead::ReadAhead;
use crate::memtable::MemoryCursor;
use crate::merge::{Layer, LayerCursor, Merge};

/// The entries of a range at one moment, in key order; from the back in reverse. After an error it ends.
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
}

/// The part of the range that one leaf answers for.
struct Window {
    /// Keys of it and of everything behind it, seen from the end it serves.
    bounds: KeyRange,
    merge: Merge,
}

impl Iter {
    pub(crate) fn new(engine: SharedEngine, view: View, tree: TreeId, range: KeyRange) -> Self {
        Self { engine, view, tree, rest: range, front: None, back: None, values: true, ahead: None, refused: None }
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
        Ok(Some(Window { bounds, merge: Merge::new(layers, direction) }))
    }

    fn composer(&self, direction: Direction) -> Composer<'_> {
        let ahead = self.ahead.as_ref().filter(|(of, _)| *of == direction).map(|(_, ahead)| ahead);
        Composer { ahead, ..self.engine.composer() }
    }

    /// The next entry of a window.
    fn step(&self, window: &mut Window, direction: Direction) -> Result<Option<Entry>> {
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
            if !window.merge.step(with, &mut sink)? {
                return Ok(None);
            }
            if let Some((key, message)) = found
                && let Some(value) = with.value(message)?
            {
                return Ok(Some((key, value)));
            }
        }
    }

    fn advance(&mut self, direction: Direction) -> Result<Option<Entry>> {
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
        match self.advance(direction) {
            Ok(Some(entry)) => Some(Ok(entry)),
            Ok(None) => {
                self.end();
                None
            }
            Err(error) => {
                self.end();
                Some(Err(error))
            }
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

/// The keys of a range at one moment, in order; from the back in reverse. After an error it ends.
#[derive(Debug)]
pub struct Keys {
    iter: Iter,
}

impl Keys {
    pub(crate) fn new(iter: Iter) -> Self {
        let mut iter = iter;
        iter.values = false;
        Self { iter }
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
