//! All trees of a store at one moment.

use std::ops::RangeBounds;

use crate::api::{Iter, Tree, Value};
use crate::engine::{SharedEngine, View};
use crate::error::Result;
use crate::range::KeyRange;

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

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// Damage, and what the storage met.
    pub fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.engine.get(&self.view, tree.id(), key.as_ref())
    }

    /// The entries of a range, in both directions.
    pub fn range<K: AsRef<[u8]>>(&self, tree: &Tree, range: impl RangeBounds<K>) -> Iter {
        Iter::new(self.engine.clone(), self.view.clone(), tree.id(), KeyRange::of(&range))
    }

    /// The entries whose keys begin with `prefix`.
    pub fn prefix(&self, tree: &Tree, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::new(self.engine.clone(), self.view.clone(), tree.id(), KeyRange::prefix(prefix.as_ref()))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot(up to message {})", self.view.msn)
    }
}
