//! A tree of the store: as it is now, or as it was when a snapshot was kept.

use std::ops::{Deref, RangeBounds};

use betree::{Iter, Snapshot, Tree, Value};

/// Reads go to one moment or to what is there now; what changes it is the tree's.
#[derive(Clone, Debug)]
pub(crate) struct Dictionary {
    tree: Tree,
    at: Option<Snapshot>,
}

impl Dictionary {
    /// A tree now, or at a moment.
    pub fn new(tree: Tree, at: Option<Snapshot>) -> Self {
        Self { tree, at }
    }

    /// The value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> betree::Result<Option<Value>> {
        match &self.at {
            Some(at) => at.get(&self.tree, key),
            None => self.tree.get(key),
        }
    }

    /// The entries of a range.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        match &self.at {
            Some(at) => at.range(&self.tree, range),
            None => self.tree.range(range),
        }
    }

    /// All entries.
    pub fn iter(&self) -> Iter {
        self.range::<&[u8]>(..)
    }
}

impl Deref for Dictionary {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.tree
    }
}
