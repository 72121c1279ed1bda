//! All trees of a store at one moment.

use std::ops::RangeBounds;
use std::sync::Arc;

use crate::api::{Iter, Keys, Tree, Value};
use crate::bytes::range::KeyRange;
use crate::engine::{Salvaged, SharedEngine, View};
use crate::error::{Error, Result};
use crate::shared::SharedValue;

/// All trees at one moment. A clone is another handle of the same moment.
#[derive(Clone)]
pub struct Snapshot {
    engine: SharedEngine,
    view: View,
}

impl Snapshot {
    pub(crate) fn new(engine: SharedEngine, view: View) -> Self {
        Self { engine, view }
    }

    /// Whether a tree is of the same store.
    fn has(&self, tree: &Tree) -> bool {
        Arc::ptr_eq(&self.engine, tree.engine())
    }

    fn iter(&self, tree: &Tree, range: KeyRange) -> Iter {
        let iter = Iter::new(self.engine.clone(), self.view.clone(), tree.id(), range);
        if self.has(tree) { iter } else { iter.refused(Error::OtherStore) }
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// Damage, with the tree and the keys that cannot be read for it, and what the storage met.
    pub fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        if !self.has(tree) {
            return Err(Error::OtherStore);
        }
        let (id, key) = (tree.id(), key.as_ref());
        self.engine.named_at(self.engine.get(&self.view, id, key), &self.view, id, key)
    }

    /// The value of a key to look at, as [`Tree::get_shared`].
    ///
    /// # Errors
    ///
    /// Damage, what the storage met, and [`Error::OtherStore`].
    pub fn get_shared(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<SharedValue>> {
        if !self.has(tree) {
            return Err(Error::OtherStore);
        }
        let (id, key) = (tree.id(), key.as_ref());
        self.engine.named_at(self.engine.get_shared(&self.view, id, key), &self.view, id, key)
    }

    /// Bytes of a key's value, as [`Tree::get_part`].
    ///
    /// # Errors
    ///
    /// Damage in what is read, what the storage met, and [`Error::OtherStore`].
    pub fn get_part(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        bytes: impl RangeBounds<usize>,
    ) -> Result<Option<Value>> {
        if !self.has(tree) {
            return Err(Error::OtherStore);
        }
        let (id, key) = (tree.id(), key.as_ref());
        self.engine.named_at(self.engine.get_part(&self.view, id, key, &bytes), &self.view, id, key)
    }

    /// The values of keys, in their order: what they take is read from the storage together.
    ///
    /// # Errors
    ///
    /// Damage, and what the storage met.
    pub fn get_many<K: AsRef<[u8]>>(&self, tree: &Tree, keys: &[K]) -> Result<Vec<Option<Value>>> {
        if !self.has(tree) {
            return Err(Error::OtherStore);
        }
        self.engine.get_many(&self.view, tree.id(), keys)
    }

    /// Brings what lookups of keys will read into the cache, as much of it as it can keep, with many requests at the device.
    ///
    /// # Errors
    ///
    /// As [`get_many`](Self::get_many).
    pub fn read_ahead<K: AsRef<[u8]>>(&self, tree: &Tree, keys: &[K]) -> Result<()> {
        if !self.has(tree) {
            return Err(Error::OtherStore);
        }
        self.engine.fetch(&self.view, tree.id(), keys)
    }

    /// The same of what scans will read first that begin where these ranges do: for who knows that he will look at many small ranges.
    ///
    /// # Errors
    ///
    /// As [`get_many`](Self::get_many).
    pub fn read_ahead_ranges<K: AsRef<[u8]>>(&self, tree: &Tree, ranges: &[impl RangeBounds<K>]) -> Result<()> {
        if !self.has(tree) {
            return Err(Error::OtherStore);
        }
        let ranges: Vec<KeyRange> = ranges.iter().map(|range| KeyRange::of(range)).collect();
        self.engine.fetch_ranges(&self.view, tree.id(), &ranges)
    }

    /// Everything of a tree that can be read, and what cannot.
    pub(crate) fn salvage(&self, tree: &Tree, each: &mut dyn FnMut(Salvaged) -> Result<()>) -> Result<()> {
        self.engine.salvage(&self.view, tree.id(), each)
    }

    /// Whether a key has a value; one that lies apart is not read.
    ///
    /// # Errors
    ///
    /// Damage, and what the storage met.
    pub fn contains(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<bool> {
        if !self.has(tree) {
            return Err(Error::OtherStore);
        }
        let (id, key) = (tree.id(), key.as_ref());
        self.engine.named_at(self.engine.has(&self.view, id, key), &self.view, id, key)
    }

    /// The keys of a range, in both directions: values that lie apart are not read.
    pub fn keys<K: AsRef<[u8]>>(&self, tree: &Tree, range: impl RangeBounds<K>) -> Keys {
        Keys::new(self.iter(tree, KeyRange::of(&range)))
    }

    /// The entries of a range, in both directions.
    pub fn range<K: AsRef<[u8]>>(&self, tree: &Tree, range: impl RangeBounds<K>) -> Iter {
        self.iter(tree, KeyRange::of(&range))
    }

    /// The entries whose keys begin with `prefix`.
    pub fn prefix(&self, tree: &Tree, prefix: impl AsRef<[u8]>) -> Iter {
        self.iter(tree, KeyRange::prefix(prefix.as_ref()))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot(up to message {})", self.view.msn)
    }
}
