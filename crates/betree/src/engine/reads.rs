//! Looking keys up: in the memtables, and then in the tree.

use std::ops::RangeBounds;

use crate::bytes::message::Message;
use crate::bytes::parts::within;
use crate::bytes::range::KeyRange;
use crate::bytes::tree_id::TreeId;
use crate::error::Result;
use crate::io::Kind;
use crate::io::ahead::{ReadAhead, Wanted};
use crate::mutant::{Mutant, mutated};
use crate::shared::SharedValue;

use super::{Engine, TreeVersion, View};

/// Keys that are looked up together.
const KEYS: usize = 256;

/// Levels of a tree, runs that wait in them, and values apart: more rounds no lookup takes.
const ROUNDS: usize = 64;

impl Engine {
    /// What the memtables have for a key; whether nothing below matters.
    fn in_memory(&self, view: &View, version: &TreeVersion, key: &[u8]) -> Result<Option<Message<'static>>> {
        let with = &self.composer();
        let mut folded: Option<Message<'static>> = None;
        for table in version.tables() {
            let (message, covered) = table.find(key, view.msn, with)?;
            if let Some(message) = message {
                folded = Some(match folded {
                    None => message,
                    Some(newer) => newer.over(message, with)?,
                });
            }
            if !folded.as_ref().is_some_and(Message::is_final) && covered {
                folded = Some(folded.unwrap_or(Message::Delete).over_nothing(with)?);
            }
            if folded.as_ref().is_some_and(Message::is_final) {
                break;
            }
        }
        Ok(folded)
    }

    fn find(&self, view: &View, tree: TreeId, key: &[u8]) -> Result<Option<Message<'static>>> {
        let Some(version) = view.version.trees.get(&tree) else { return Ok(None) };
        let folded = self.in_memory(view, version, key)?;
        if folded.as_ref().is_some_and(Message::is_final) {
            return Ok(folded);
        }
        crate::tree::find(&self.composer(), &version.root, key, folded)
    }

    /// The value of a key in a view.
    pub fn get(&self, view: &View, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.find(view, tree, key)? {
            Some(message) => self.composer().value(message),
            None => Ok(None),
        }
    }

    /// The value of a key. One that lies apart is what the cache has.
    pub fn get_shared(&self, view: &View, tree: TreeId, key: &[u8]) -> Result<Option<SharedValue>> {
        match self.find(view, tree, key)? {
            Some(Message::Place(pointer)) => Ok(Some(SharedValue::cached(self.io.value(&pointer)?))),
            Some(message) => Ok(self.composer().value(message)?.map(SharedValue::own)),
            None => Ok(None),
        }
    }

    /// The bytes that the value of a key has of a range of them. Of one that lies apart no more is read than that takes.
    pub fn get_part(
        &self,
        view: &View,
        tree: TreeId,
        key: &[u8],
        range: &impl RangeBounds<usize>,
    ) -> Result<Option<Vec<u8>>> {
        match self.find(view, tree, key)? {
            Some(Message::Place(pointer)) => self.io.value_part(&pointer, range).map(Some),
            Some(message) => {
                let value = self.composer().value(message)?;
                let part = |value: Vec<u8>| value.get(within(range, value.len())).unwrap_or_default().to_vec();
                Ok(value.map(part))
            }
            None => Ok(None),
        }
    }

    /// Bytes of keys and values in a range, roughly; no blocks are read.
    pub fn approximate_bytes(&self, view: &View, tree: TreeId, range: &KeyRange) -> Result<u64> {
        let Some(version) = view.version.trees.get(&tree) else { return Ok(0) };
        let in_memory: u64 = version.tables().map(|table| table.bytes_in(range)).sum();
        Ok(in_memory + crate::tree::estimate(&self.io, &version.root, range)?)
    }

    /// Whether a key has a value. One that lies apart is not read.
    pub fn has(&self, view: &View, tree: TreeId, key: &[u8]) -> Result<bool> {
        match self.find(view, tree, key)? {
            Some(Message::Place(pointer)) if mutated(Mutant::ContainsReadsValues) => {
                self.io.value(&pointer).map(|_| true)
            }
            Some(Message::Insert(_) | Message::Place(_)) => Ok(true),
            Some(upserts @ Message::Upserts(_)) => Ok(self.composer().value(upserts)?.is_some()),
            Some(Message::Delete) | None => Ok(false),
        }
    }

    /// The values of keys in a view. What they take is read together.
    pub fn get_many<K: AsRef<[u8]>>(&self, view: &View, tree: TreeId, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        for some in keys.chunks(KEYS) {
            if !mutated(Mutant::ManyOneByOne) {
                self.fetch(view, tree, some)?;
            }
            for key in some {
                values.push(self.get(view, tree, key.as_ref())?);
            }
        }
        Ok(values)
    }

    /// Brings what lookups of these keys will read into the cache, as much as it can keep.
    pub fn fetch<K: AsRef<[u8]>>(&self, view: &View, tree: TreeId, keys: &[K]) -> Result<()> {
        let Some(version) = view.version.trees.get(&tree).filter(|_| keys.len() > 1) else { return Ok(()) };
        self.fetch_in_rounds(|wanted| {
            for key in keys {
                match self.in_memory(view, version, key.as_ref())? {
                    Some(Message::Place(place)) if self.io.cache.peek(&place).is_none() => {
                        wanted.push(Wanted::new(place, Kind::Value));
                    }
                    Some(message) if message.is_final() => {}
                    _ => crate::tree::missing(&self.io, &version.root, key.as_ref(), wanted),
                }
            }
            Ok(())
        })
    }

    /// The same of what scans will read first that begin where these ranges do.
    pub fn fetch_ranges(&self, view: &View, tree: TreeId, ranges: &[KeyRange]) -> Result<()> {
        let Some(version) = view.version.trees.get(&tree) else { return Ok(()) };
        self.fetch_in_rounds(|wanted| {
            ranges.iter().for_each(|range| crate::tree::missing_at_start(&self.io, &version.root, range, wanted));
            Ok(())
        })
    }

    /// In each round what the one before has made known.
    fn fetch_in_rounds(&self, missing: impl Fn(&mut Vec<Wanted>) -> Result<()>) -> Result<()> {
        let mut first = None;
        for _ in 0..ROUNDS {
            let mut wanted: Vec<Wanted> = Vec::new();
            missing(&mut wanted)?;
            wanted.sort_by_key(|wanted| wanted.pointer.start);
            wanted.dedup_by_key(|wanted| wanted.pointer.start);
            let mut bytes = 0;
            wanted.retain(|wanted| {
                bytes += wanted.bytes();
                bytes <= self.io.cache.budget_bytes() as u64 / 4
            });
            // What came and is not there is damaged, or the cache is too small: whoever needs it reads it by himself.
            let next = wanted.first().map(|wanted| wanted.pointer.start);
            if next.is_none() || next == first {
                return Ok(());
            }
            first = next;
            ReadAhead::of(wanted).finish(&self.io);
        }
        Ok(())
    }
}
