//! The newest messages, in memory: every version of a key until the table is drained into the tree.
//!
//! A reader gives the sequence number of its view and does not see what is newer.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::bytes::message::Message;
use crate::bytes::pointer::Freed;
use crate::bytes::range::{Direction, Key, KeyRange, RangeSet, successor};
use crate::deleted::Deleted;
use crate::error::Result;
use crate::io::Composer;
use crate::mutant::{Mutant, mutated};
use crate::step::Quota;

/// Bytes of a key or a range besides its own, in maps and allocations.
const ENTRY_BYTES: u64 = 112;

/// Bytes of a range delete besides its own: it is in as many pages as their number has binary digits.
const RANGE_BYTES: u64 = 640;

/// More ranges than this make the longest step of [`Deleted::push`] long.
pub(crate) const RANGES_MAX: usize = 1 << 14;

#[derive(Default)]
struct State {
    /// Versions of each key, oldest first.
    keys: BTreeMap<Key, Vec<(u64, Message<'static>)>>,
    ranges: Deleted,
    /// Bytes that values have at most, of keys whose values grow by their operands.
    lengths: BTreeMap<Key, usize>,
    bytes: u64,
    msns: Option<(u64, u64)>,
    /// Messages whose values lie apart.
    places: usize,
}

impl State {
    /// Counts a message; returns what it added.
    fn note(&mut self, msn: u64, bytes: u64) -> u64 {
        assert!(self.msns.is_none_or(|(_, last)| last < msn), "sequence numbers ascend");
        self.bytes += bytes;
        self.msns = Some((self.msns.map_or(msn, |(first, _)| first), msn));
        bytes
    }

    /// What a key's versions up to `msn` come to in this table; none where all are deleted by a range.
    fn fold(
        &self,
        key: &[u8],
        versions: &[(u64, Message<'static>)],
        msn: u64,
        with: &Composer<'_>,
    ) -> Result<Option<Message<'static>>> {
        let deleted = self.ranges.newest(key, msn).unwrap_or(0);
        let mut newest_first: Vec<Message<'static>> = Vec::new();
        for (_, message) in versions
            .iter()
            .rev()
            .filter(|(at, _)| *at <= msn)
            .take_while(|(at, _)| *at > deleted && (deleted == 0 || !mutated(Mutant::RangeHidesNewer)))
        {
            newest_first.push(message.clone());
            if message.is_final() {
                break;
            }
        }
        let folded = Message::fold(newest_first, with)?;
        match folded {
            Some(message) if deleted > 0 => Ok(Some(message.over_nothing(with)?)),
            folded => Ok(folded),
        }
    }
}

/// A range that is not empty, as a map takes it.
fn bounds(range: &KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(&*range.start), range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&**end)))
}

/// One table.
#[derive(Default)]
pub(crate) struct Memtable {
    state: RwLock<State>,
}

impl Memtable {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message; sequence numbers ascend. Returns the bytes that it takes.
    pub fn put(&self, msn: u64, key: &[u8], message: Message<'static>) -> u64 {
        let mut state = self.write();
        let added = state.note(msn, (key.len() + message.bytes()) as u64 + ENTRY_BYTES);
        state.places += usize::from(message.place().is_some());
        match state.keys.get_mut(key) {
            Some(versions) => versions.push((msn, message)),
            None => {
                state.keys.insert(key.into(), vec![(msn, message)]);
            }
        }
        added
    }

    /// Deletes what is in a range; sequence numbers ascend. Returns the bytes that it takes.
    pub fn delete_range(&self, msn: u64, range: KeyRange) -> u64 {
        let mut state = self.write();
        let bytes = range.start.len() + range.end.as_ref().map_or(0, |end| end.len());
        let added = state.note(msn, bytes as u64 + RANGE_BYTES);
        state.ranges.push(msn, &range);
        added
    }

    /// Whether a key has a message with a greater sequence number.
    pub fn has_newer(&self, key: &[u8], msn: u64) -> bool {
        let state = self.read();
        let newest = state.keys.get(key).and_then(|versions| versions.last()).map(|(newest, _)| *newest);
        newest.max(state.ranges.newest(key, u64::MAX)).is_some_and(|newest| newest > msn)
    }

    /// Bytes that the value of a key has at most, where that was noted.
    pub fn length_of(&self, key: &[u8]) -> Option<usize> {
        self.read().lengths.get(key).copied()
    }

    /// Notes how long the value of a key is at most.
    pub fn note_length(&self, key: &[u8], bytes_max: usize) {
        let mut state = self.write();
        match state.lengths.get_mut(key) {
            Some(bytes) => *bytes = bytes_max,
            None => {
                state.lengths.insert(key.into(), bytes_max);
            }
        }
    }

    pub fn bytes(&self) -> u64 {
        self.read().bytes
    }

    /// Sequence numbers of its oldest and newest message.
    pub fn msns(&self) -> Option<(u64, u64)> {
        self.read().msns
    }

    /// Bytes of keys and values of a range, of each key those of its newest message.
    pub fn bytes_in(&self, range: &KeyRange) -> u64 {
        let state = self.read();
        let newest = |(_, message): &(u64, Message<'static>)| message.bytes();
        let of_key = |(key, versions): (&Key, &Vec<_>)| (key.len() + versions.last().map_or(0, newest)) as u64;
        let found = (!range.is_empty()).then(|| state.keys.range::<[u8], _>(bounds(range)).map(of_key));
        found.map_or(0, Iterator::sum)
    }

    /// The keys of a range that have messages, old and new.
    pub fn keys(&self, range: &KeyRange) -> Vec<Vec<u8>> {
        if range.is_empty() {
            return Vec::new();
        }
        self.read().keys.range::<[u8], _>(bounds(range)).map(|(key, _)| key.to_vec()).collect()
    }

    /// What a view at `msn` has for a key, and whether a range delete hides everything older.
    pub fn find(&self, key: &[u8], msn: u64, with: &Composer<'_>) -> Result<(Option<Message<'static>>, bool)> {
        let state = self.read();
        let up_to = if mutated(Mutant::LastRangeInvisible) { msn.saturating_sub(1) } else { msn };
        let covered = state.ranges.newest(key, up_to).is_some();
        match state.keys.get(key) {
            Some(versions) => Ok((state.fold(key, versions, msn, with)?, covered)),
            None => Ok((None, covered)),
        }
    }

    /// The keys of `range` that range deletes of a view at `msn` have.
    pub fn tombstones(&self, range: &KeyRange, msn: u64) -> RangeSet {
        self.read().ranges.in_range(range, msn)
    }

    /// The places of values that nobody sees who sees the whole table.
    pub fn superseded(&self, with: &Composer<'_>) -> Result<Vec<Freed>> {
        let state = self.read();
        let mut superseded = Vec::new();
        if state.places == 0 {
            return Ok(superseded);
        }
        for (key, versions) in &state.keys {
            let mut places = versions.iter().filter_map(|(_, message)| message.place()).peekable();
            if places.peek().is_some() {
                let kept = match state.fold(key, versions, u64::MAX, with) {
                    // A value that cannot be read is kept.
                    Err(error) if error.is_damage() => continue,
                    folded => folded?.and_then(|message| message.place()),
                };
                let places = places.filter(|place| Some(*place) != kept);
                superseded.extend(places.map(|place| Freed::new(place, Some(key))));
            }
        }
        Ok(superseded)
    }

    /// Gives the memory back piece by piece: all at once takes as long as filling it.
    pub async fn clear(self, quota: &Quota) {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        while state.keys.pop_first().is_some() {
            quota.spend(ENTRY_BYTES).await;
        }
    }

    /// Up to `limit` keys of `range` in a direction, for a view at `msn`, and the range that is left behind them.
    fn fetch(
        &self,
        range: &KeyRange,
        direction: Direction,
        msn: u64,
        limit: usize,
        with: &Composer<'_>,
    ) -> Result<(Fetched, Option<KeyRange>)> {
        if range.is_empty() {
            return Ok((VecDeque::new(), None));
        }
        let state = self.read();
        let end = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut keys = state.keys.range::<[u8], _>((Bound::Included(&*range.start), end));
        let mut found = VecDeque::new();
        for _ in 0..limit {
            let next = match direction {
                Direction::Forward => keys.next(),
                Direction::Backward => keys.next_back(),
            };
            let Some((key, versions)) = next else { return Ok((found, None)) };
            if let Some(message) = state.fold(key, versions, msn, with)? {
                found.push_back((key.clone(), message));
            }
            if found.len() == limit {
                break;
            }
        }
        let next = match direction {
            Direction::Forward => keys.next().map(|(key, _)| KeyRange::new(key.clone(), range.end.clone())),
            Direction::Backward => {
                keys.next_back().map(|(key, _)| KeyRange::new(range.start.clone(), Some(successor(key))))
            }
        };
        Ok((found, next))
    }
}

/// Keys with what they come to.
type Fetched = VecDeque<(Key, Message<'static>)>;

/// Goes through a table in batches, so that no lock is held in between.
pub(crate) struct MemoryCursor {
    table: std::sync::Arc<Memtable>,
    direction: Direction,
    msn: u64,
    fetched: Fetched,
    rest: Option<KeyRange>,
}

/// Keys fetched at once.
const FETCH: usize = 64;

impl MemoryCursor {
    pub fn new(
        table: std::sync::Arc<Memtable>,
        range: KeyRange,
        direction: Direction,
        msn: u64,
        with: &Composer<'_>,
    ) -> Result<Self> {
        let mut cursor = Self { table, direction, msn, fetched: VecDeque::new(), rest: Some(range) };
        cursor.fill(with)?;
        Ok(cursor)
    }

    fn fill(&mut self, with: &Composer<'_>) -> Result<()> {
        while self.fetched.is_empty()
            && let Some(range) = self.rest.take()
        {
            (self.fetched, self.rest) = self.table.fetch(&range, self.direction, self.msn, FETCH, with)?;
        }
        Ok(())
    }

    pub fn peek(&self) -> Option<(&[u8], &Message<'static>)> {
        self.fetched.front().map(|(key, message)| (&**key, message))
    }

    pub fn advance(&mut self, with: &Composer<'_>) -> Result<()> {
        self.fetched.pop_front();
        self.fill(with)
    }
}
