//! What readers see: trees that do not change, and memtables of which they see a prefix.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use rpds::RedBlackTreeMapSync;

use crate::bytes::pointer::BlockPointer;
use crate::bytes::tree_id::TreeId;
use crate::memtable::Memtable;
use crate::mutant::{Mutant, between, mutated};
use crate::nodes::node::{Edge, Node};
use crate::nodes::run::Run;
use crate::turns::turn;

/// One tree of a version.
#[cfg_attr(not(test), derive(Clone))]
pub(crate) struct TreeVersion {
    pub root: Edge,
    /// Takes new messages.
    pub active: Arc<Memtable>,
    /// Take no more, newest first.
    pub sealed: Vec<Arc<Memtable>>,
    /// Generation by which what a range of it had is another tree's, for the range that was moved last; 0: none was.
    pub moved_at: u64,
}

impl TreeVersion {
    /// What an empty tree adds to the bytes of changed nodes: its leaf's header.
    pub const EMPTY_BYTES: i64 = storage::BLOCK_BYTES as i64;

    pub fn empty() -> Self {
        Self::of(Edge::Fresh(Arc::new(Node::Leaf(Run::default()))))
    }

    fn of(root: Edge) -> Self {
        Self { root, active: Arc::default(), sealed: Vec::new(), moved_at: 0 }
    }

    /// As a checkpoint left it.
    pub fn stored(root: Option<BlockPointer>) -> Self {
        root.map_or_else(Self::empty, |root| Self::of(Edge::Stored(root)))
    }

    /// Where it is, if all of it is on the storage.
    pub fn stored_root(&self) -> Option<BlockPointer> {
        match &self.root {
            Edge::Stored(root) => Some(*root),
            Edge::Fresh(_) => None,
        }
    }

    /// Memtables, newest first.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}

#[cfg(test)]
thread_local! {
    /// How many trees' versions this thread has copied.
    pub(crate) static COPIED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
impl Clone for TreeVersion {
    fn clone(&self) -> Self {
        COPIED.set(COPIED.get() + 1);
        Self {
            root: self.root.clone(),
            active: Arc::clone(&self.active),
            sealed: self.sealed.clone(),
            moved_at: self.moved_at,
        }
    }
}

/// Trees by number. A version shares with the one before all but what changed.
pub(crate) type Trees = RedBlackTreeMapSync<TreeId, TreeVersion>;

/// The trees between two changes.
pub(crate) struct Version {
    pub number: u64,
    pub trees: Trees,
}

/// A version, up to a sequence number: nothing in it changes.
#[derive(Clone)]
pub(crate) struct View {
    pub version: Arc<Version>,
    pub msn: u64,
}

struct Current {
    version: Arc<Version>,
    /// Older ones that a reader may still hold, oldest first.
    older: VecDeque<(u64, Weak<Version>)>,
}

/// The current version, and who still looks at older ones.
pub(crate) struct Versions {
    current: RwLock<Current>,
    visible_msn: AtomicU64,
}

impl Versions {
    pub fn new(trees: Trees, msn: u64) -> Self {
        let current = Current { version: Arc::new(Version { number: 1, trees }), older: VecDeque::new() };
        Self { current: RwLock::new(current), visible_msn: AtomicU64::new(msn) }
    }

    pub fn view(&self) -> View {
        turn();
        if mutated(Mutant::ViewNumberFirst) {
            let msn = self.visible_msn.load(Ordering::Acquire);
            turn();
            between();
            return View { msn, ..self.together() };
        }
        between();
        self.together()
    }

    fn together(&self) -> View {
        // Under one lock: a memtable is sealed only while nobody is in here, so all that is visible is in the version.
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let msn = self.visible_msn.load(Ordering::Acquire);
        let msn = if mutated(Mutant::ViewNotBounded) { u64::MAX } else { msn };
        View { version: Arc::clone(&current.version), msn }
    }

    /// A view of other trees that keeps the current blocks alive.
    pub fn detached(&self, trees: Trees) -> View {
        self.detached_as_of(u64::MAX, trees)
    }

    /// The same with the blocks of an older version, if they were not given back yet.
    pub fn detached_as_of(&self, number: u64, trees: Trees) -> View {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let number = number.min(current.version.number);
        let version = Arc::new(Version { number, trees });
        current.older.push_back((number, Arc::downgrade(&version)));
        View { version, msn: u64::MAX }
    }

    /// Everything up to `msn` is in the memtables.
    pub fn show(&self, msn: u64) {
        turn();
        self.visible_msn.store(msn, Ordering::Release);
    }

    /// Makes the next version; returns its number.
    pub fn publish(&self, change: impl FnOnce(&mut Trees)) -> u64 {
        turn();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut trees = current.version.trees.clone();
        change(&mut trees);
        let number = current.version.number + 1;
        let old = std::mem::replace(&mut current.version, Arc::new(Version { number, trees }));
        current.older.push_back((old.number, Arc::downgrade(&old)));
        drop(old);
        current.older.retain(|(_, version)| version.strong_count() > 0);
        number
    }

    /// The oldest version that anybody may look at.
    pub fn oldest(&self) -> u64 {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.older.retain(|(_, version)| version.strong_count() > 0);
        let oldest = current.older.iter().map(|(number, _)| *number).min();
        oldest.unwrap_or(current.version.number).min(current.version.number)
    }
}
