//! One tree of a store.

use std::ops::RangeBounds;
use std::sync::Arc;

use crate::api::Batch;
use crate::api::stats::timed_commit;
use crate::api::{Iter, Keys, Snapshot, Value};
use crate::bytes::range::KeyRange;
use crate::bytes::tree_id::TreeId;
use crate::engine::SharedEngine;
use crate::error::Result;
use crate::options::Durability;
use crate::shared::SharedValue;

/// An ordered map from keys to values. A clone is another handle of the same tree.
#[derive(Clone)]
pub struct Tree {
    engine: SharedEngine,
    id: TreeId,
}

impl Tree {
    pub(crate) fn new(engine: SharedEngine, id: TreeId) -> Self {
        Self { engine, id }
    }

    pub(crate) fn id(&self) -> TreeId {
        self.id
    }

    pub(crate) fn engine(&self) -> &SharedEngine {
        &self.engine
    }

    fn now(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.engine), self.engine.view())
    }

    fn alone(&self, change: impl FnOnce(&mut Batch), durability: Durability) -> Result<()> {
        let mut batch = Batch::new();
        change(&mut batch);
        timed_commit(&self.engine, &batch, durability).map(drop)
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// Damage, and what the storage met.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let (view, key) = (self.engine.view(), key.as_ref());
        self.engine.named_at(self.engine.get(&view, self.id, key), &view, self.id, key)
    }

    /// The value of a key to look at: one that lies apart is not copied.
    ///
    /// # Errors
    ///
    /// Damage, and what the storage met.
    pub fn get_shared(&self, key: impl AsRef<[u8]>) -> Result<Option<SharedValue>> {
        let (view, key) = (self.engine.view(), key.as_ref());
        self.engine.named_at(self.engine.get_shared(&view, self.id, key), &view, self.id, key)
    }

    /// Bytes of a key's value, those of a range of places from 0 on; `None` where the key has no value. What the range has behind the
    /// value's end is left out, so the result is empty where it begins there, or ends before it begins.
    ///
    /// Of a value that lies apart, and is not compressed, the 4 KiB that have the bytes are read, each checked, and the block or two that
    /// have the checksums; of one for which these would take more than one block of 32 (up to 128 KiB, where its last block has no room
    /// for them), of one that is compressed, and of one that upserts wait for, all is read.
    ///
    /// # Errors
    ///
    /// Damage in what is read, and what the storage met.
    pub fn get_part(&self, key: impl AsRef<[u8]>, bytes: impl RangeBounds<usize>) -> Result<Option<Value>> {
        let (view, key) = (self.engine.view(), key.as_ref());
        self.engine.named_at(self.engine.get_part(&view, self.id, key, &bytes), &view, self.id, key)
    }

    /// The values of keys as they are now, in their order: what they take is read from the storage together.
    ///
    /// # Errors
    ///
    /// Damage, and what the storage met.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.now().get_many(self, keys)
    }

    /// Whether a key has a value; one that lies apart is not read.
    ///
    /// # Errors
    ///
    /// Damage, and what the storage met.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.now().contains(self, key)
    }

    /// Bytes of the keys and values in a range, roughly: values that lie apart do not count, and what a newer value or a delete that
    /// waits will replace does. It reads headers of nodes alone, and of a large range not all.
    ///
    /// # Errors
    ///
    /// Damage, and what the storage met.
    pub fn approximate_bytes<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.engine.approximate_bytes(&self.engine.view(), self.id, &KeyRange::of(&range))
    }

    /// The keys of a range as they are now, in both directions: values that lie apart are not read.
    pub fn keys<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Keys {
        self.now().keys(self, range)
    }

    /// The entries of a range as they are now, in both directions.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        self.now().range(self, range)
    }

    /// The entries whose keys begin with `prefix`, as they are now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.now().prefix(self, prefix)
    }

    /// All entries as they are now.
    pub fn iter(&self) -> Iter {
        self.range::<&[u8]>(..)
    }

    /// Gives a key a value: a batch of one.
    ///
    /// # Errors
    ///
    /// As [`Database::commit`](crate::Database::commit).
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>, durability: Durability) -> Result<()> {
        self.alone(|batch| batch.insert(self, key, value), durability)
    }

    /// Takes a key's value away: a batch of one.
    ///
    /// # Errors
    ///
    /// As [`Database::commit`](crate::Database::commit).
    pub fn remove(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        self.alone(|batch| batch.remove(self, key), durability)
    }

    /// Takes the values of a range of keys away: a batch of one.
    ///
    /// # Errors
    ///
    /// As [`Database::commit`](crate::Database::commit).
    pub fn remove_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>, durability: Durability) -> Result<()> {
        self.alone(|batch| batch.remove_range(self, range), durability)
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tree({})", self.id.0)
    }
}
