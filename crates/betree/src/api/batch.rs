//! Several changes that happen together or not at all.

use std::borrow::Cow;
use std::ops::RangeBounds;
use std::sync::{Arc, Weak};

use crate::api::Tree;
use crate::bytes::message::{Message, Upsert};
use crate::bytes::range::{KeyRange, successor};
use crate::changes::{Change, Changes, Condition};
use crate::engine::{Shared, SharedEngine};

/// Changes of one or several trees, in order. Nothing happens before [`Database::commit`](crate::Database::commit).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(super) changes: Changes,
    /// The store of its trees.
    store: Option<Weak<Shared>>,
    /// It has trees of several stores.
    mixed: bool,
}

impl Batch {
    /// Without any change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.changes.list.len()
    }

    /// Whether there is no change.
    pub fn is_empty(&self) -> bool {
        self.changes.list.is_empty()
    }

    fn note_store(&mut self, tree: &Tree) {
        let of = Arc::downgrade(tree.engine());
        self.mixed |= self.store.as_ref().is_some_and(|store| !store.ptr_eq(&of));
        self.store = Some(of);
    }

    /// Whether all its trees are of this store.
    pub(super) fn is_of(&self, engine: &SharedEngine) -> bool {
        !self.mixed && self.store.as_ref().is_none_or(|store| store.ptr_eq(&Arc::downgrade(engine)))
    }

    fn point(&mut self, tree: &Tree, key: &[u8], message: Message<'static>) {
        self.note_store(tree);
        self.changes.list.push(Change::Point { tree: tree.id(), key: key.into(), message });
    }

    /// Gives a key a value.
    pub fn insert(&mut self, tree: &Tree, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) {
        self.point(tree, key.as_ref(), Message::Insert(Cow::Owned(value.into())));
    }

    /// Takes a key's value away, if it has one.
    pub fn remove(&mut self, tree: &Tree, key: impl AsRef<[u8]>) {
        self.point(tree, key.as_ref(), Message::Delete);
    }

    /// Changes a key's value by a registered operator, without reading it.
    pub fn upsert(&mut self, tree: &Tree, key: impl AsRef<[u8]>, operator: u16, operand: impl Into<Vec<u8>>) {
        let upsert = Upsert { operator, operand: Cow::Owned(operand.into()) };
        self.point(tree, key.as_ref(), Message::Upserts(vec![upsert]));
    }

    /// Takes the values of all keys in a range away: one small message, however many keys there are.
    pub fn remove_range<K: AsRef<[u8]>>(&mut self, tree: &Tree, range: impl RangeBounds<K>) {
        let range = KeyRange::of(&range);
        if range.end.as_ref().is_some_and(|end| *end == successor(&range.start)) {
            // One key.
            self.point(tree, &range.start, Message::Delete);
        } else if !range.is_empty() {
            self.note_store(tree);
            self.changes.list.push(Change::DeleteRange { tree: tree.id(), range });
        }
    }

    /// The batch happens only if the key has this value (`None`: no value) when it is committed.
    pub fn require(&mut self, tree: &Tree, key: impl AsRef<[u8]>, value: Option<&[u8]>) {
        self.note_store(tree);
        let (key, value) = (key.as_ref().into(), value.map(<[u8]>::to_vec));
        self.changes.conditions.push(Condition { tree: tree.id(), key, value });
    }
}
