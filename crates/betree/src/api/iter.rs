//! Entries of a range, from both ends.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::api::left::Left;
use crate::api::{Entry, Value};
use crate::bytes::message::Message;
use crate::bytes::range::{Direction, KeyRange};
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
    left: Left,
    front: Option<Box<Window>>,
    back: Option<Box<Window>>,
    /// Whether values are of interest.
    values: bool,
    /// What is read before it is needed, for the end that was read first.
    ahead: Option<(Direction, ReadAhead)>,
    /// Instead of anything else.
    refused: Option<Error>,
    /// Whether it goes on behind what cannot be read.
    past_damage: bool,
    /// What each end has met behind the entry that it gave last.
    met: [Option<Error>; 2],
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
            left: Left::of(range),
            front: None,
            back: None,
            values: true,
            ahead: None,
            refused: None,
            past_damage: false,
            met: [None, None],
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
        self.left.end();
        (self.front, self.back) = (None, None);
    }

    /// The same, with what is read ahead.
    fn open_ahead(&mut self, direction: Direction) -> Result<Option<Box<Window>>> {
        let rest = self.left.range().clone();
        if let (None, Some(version)) = (&self.ahead, self.view.version.trees.get(&self.tree)) {
            let ahead = ReadAhead::along(version.root.clone(), rest.clone(), direction, self.values);
            self.ahead = Some((direction, ahead));
        }
        self.open(&rest, direction)
    }

    /// The window at one end of what is left.
    fn open(&self, rest: &KeyRange, direction: Direction) -> Result<Option<Box<Window>>> {
        let Some(version) = self.view.version.trees.get(&self.tree) else { return Ok(None) };
        let with = &self.composer(direction);
        with.ahead.into_iter().for_each(ReadAhead::next_leaf);
        let (bounds, below) = crate::tree::window(with, &version.root, rest, direction)?;
        let own = bounds.intersection(rest);
        let mut layers = Vec::new();
        for table in version.tables() {
            let cursor = MemoryCursor::new(table.clone(), own.clone(), direction, self.view.msn, with)?;
            let tombstones = table.tombstones(&own, self.view.msn);
            layers.push(Layer { tombstones, cursor: LayerCursor::Memory(cursor) });
        }
        layers.extend(below);
        // A window must bring the end that it serves further, or reading would not end.
        let stuck = match direction {
            Direction::Forward => bounds.end.as_ref().is_some_and(|end| *end <= rest.start),
            Direction::Backward => rest.end.as_ref().is_some_and(|end| *end <= bounds.start),
        };
        if stuck {
            let what = "a leaf that does not have the keys it was found by".to_owned();
            return Err(Error::Corrupt { what, offset_bytes: 0, stored_bytes: 0 });
        }
        Ok(Some(Box::new(Window { bounds, source: Source::Merge(Merge::new(layers, &own, direction)) })))
    }

    fn composer(&self, direction: Direction) -> Composer<'_> {
        let ahead = self.ahead.as_ref().filter(|(of, _)| *of == direction).map(|(_, ahead)| ahead);
        Composer { ahead, ..self.engine.composer() }
    }

    /// Gives the next entry of a window; whether there was one.
    fn step(
        &mut self,
        window: &mut Window,
        direction: Direction,
        see: &mut impl FnMut(&[u8], Result<&[u8]>),
    ) -> Result<bool> {
        match &mut window.source {
            Source::Merge(merge) => self.merged(merge, direction, see),
            Source::Keys { keys, is_told } => {
                let Some((key, value)) = self.looked_up(keys, *is_told, direction)? else { return Ok(false) };
                if !self.left.range().contains(&key) {
                    return Ok(false);
                }
                self.left.pass(&key, direction);
                match value {
                    Ok(value) => see(&key, Ok(&value)),
                    Err(error) => see(&key, Err(error)),
                }
                Ok(true)
            }
        }
    }

    fn merged(
        &mut self,
        merge: &mut Merge,
        direction: Direction,
        see: &mut impl FnMut(&[u8], Result<&[u8]>),
    ) -> Result<bool> {
        let ahead = self.ahead.as_ref().filter(|(of, _)| *of == direction).map(|(_, ahead)| ahead);
        let with = &Composer { ahead, ..self.engine.composer() };
        let (left, values, past_damage) = (&mut self.left, self.values, self.past_damage);
        loop {
            let (mut outcome, mut is_over) = (Ok(false), false);
            let sink = |key: &[u8], message: Message<'_>| {
                is_over = !left.is_before_end(key, direction);
                if is_over {
                    return;
                }
                let message = match message {
                    Message::Insert(_) | Message::Place(_) if !values => Message::Insert(Cow::Borrowed(&[][..])),
                    message => message,
                };
                let mut give = |value: Result<&[u8]>| {
                    left.pass(key, direction);
                    see(key, value);
                    true
                };
                outcome = match with.look_at(message, |value| value.is_some_and(|value| give(Ok(value)))) {
                    Err(error) if past_damage && error.is_damage() => Ok(give(Err(error))),
                    outcome => outcome,
                };
            };
            let stepped = merge.step(with, sink);
            let is_given = outcome?;
            match stepped {
                Ok(true) if is_over => return Ok(false),
                Ok(true) if !is_given => {}
                // What is behind the entry is for whoever asks for more.
                Err(error) if is_given => {
                    self.met[direction as usize] = Some(error);
                    if mutated(Mutant::OneEndMeets) {
                        self.met[direction.opposite() as usize] = None;
                    }
                    return Ok(true);
                }
                stepped => return stepped,
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
        let cell = self.engine.cell(&self.view, self.tree, self.left.range(), direction)?;
        let Some(cell) = cell.filter(|cell| !cell.range.is_empty()) else { return Err(error) };
        let source = Source::Keys { keys: cell.keys, is_told: cell.damage.is_some() };
        let damage = cell.damage.map(|damage| self.engine.name(damage, self.tree, &cell.range));
        let window = Some(Box::new(Window { bounds: cell.range, source }));
        match direction {
            Direction::Forward => self.front = window,
            Direction::Backward => self.back = window,
        }
        Ok(damage)
    }

    /// Gives the next entry of an end; whether there was one.
    fn advance(&mut self, direction: Direction, see: &mut impl FnMut(&[u8], Result<&[u8]>)) -> Result<bool> {
        if let Some(error) = self.met[direction as usize].take() {
            return Err(error);
        }
        loop {
            let kept = match direction {
                Direction::Forward => self.front.take(),
                Direction::Backward => self.back.take(),
            };
            let mut window = match kept {
                Some(window) => window,
                None if self.left.range().is_empty() => return Ok(false),
                None => match self.open_ahead(direction)? {
                    Some(window) => window,
                    None => return Ok(false),
                },
            };
            if self.step(&mut window, direction, see)? {
                match direction {
                    Direction::Forward => self.front = Some(window),
                    Direction::Backward => self.back = Some(window),
                }
                return Ok(true);
            }
            // The window is at its end: on to the next leaf.
            let rest = self.left.range();
            match direction {
                Direction::Forward => match window.bounds.end {
                    Some(end) => rest.start = end.max(rest.start.clone()),
                    None => return Ok(false),
                },
                Direction::Backward => {
                    if window.bounds.start.is_empty() || window.bounds.start <= rest.start {
                        return Ok(false);
                    }
                    rest.end = Some(window.bounds.start);
                }
            }
        }
    }

    /// The same to the end, with what it has to say of damage; nothing at the end.
    fn take(&mut self, direction: Direction, see: &mut impl FnMut(&[u8], Result<&[u8]>)) -> Option<Result<()>> {
        if let Some(error) = self.refused.take() {
            self.end();
            return Some(Err(error));
        }
        loop {
            let (error, of) = match self.advance(direction, see) {
                Ok(true) => return Some(Ok(())),
                // What the other end has met lies between the two.
                Ok(false) => match self.met[direction.opposite() as usize].take() {
                    Some(error) if !mutated(Mutant::OneEndMeets) => (error, direction.opposite()),
                    _ => {
                        self.end();
                        return None;
                    }
                },
                Err(error) => (error, direction),
            };
            let error = match self.passes(&error) {
                false => error,
                true => match self.go_past(error, of) {
                    // All of it can be read, one by one.
                    Ok(None) => continue,
                    Ok(Some(lost)) => return Some(Err(lost)),
                    Err(error) => error,
                },
            };
            let error = self.engine.named_in(error, &self.view, self.tree, self.left.range(), of);
            self.end();
            return Some(Err(error));
        }
    }

    fn take_owned(&mut self, direction: Direction) -> Option<Result<Entry>> {
        let mut found = None;
        let see = &mut |key: &[u8], value: Result<&[u8]>| found = Some((key.to_vec(), value.map(<[u8]>::to_vec)));
        match self.take(direction, see)? {
            Ok(()) => {
                let (key, value) = found?;
                let value = self.engine.named_at(value, &self.view, self.tree, &key);
                Some(value.map(|value| (key, value)))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl Iterator for Iter {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take_owned(Direction::Forward)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take_owned(Direction::Backward)
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
        f.debug_struct("Iter").field("left", &self.left).finish_non_exhaustive()
    }
}
