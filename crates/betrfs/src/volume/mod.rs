//! The file system on the trees of a store.
//!
//! Calls that change something go one after the other, each as one atomic batch; calls that read go beside each other. Nothing
//! is in memory alone but which files are open.

mod accesses;
mod attributes;
mod cache;
mod clone;
mod data;
mod dictionary;
mod directory;
mod gather;
mod mount;
mod names;
mod numbers;
mod operations;
mod recent;
mod rekey;
mod snapshots;
mod space;
mod store;
mod sync;
mod transaction;
mod trees;
mod xattrs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use betree::Snapshot;

use crate::mutant::{Mutant, mutated};
use crate::operations::{Error, InodeNumber, Result};
use crate::schema::Inode;
use crate::served::Moved;
use cache::InodeCache;
use numbers::Numbers;
pub(crate) use store::Store;
use transaction::Transaction;

#[cfg(test)]
pub(crate) use clone::Cloning;
pub use mount::VolumeOptions;
pub(crate) use mount::open_store;

/// Of an open inode: its number and how often it is open, in a tree.
const OPEN_BYTES: u64 = 48;

/// A file system on a store.
pub struct Volume {
    store: Store,
    options: VolumeOptions,
    /// Held for writing while something changes, for reading while a call looks at more than one key.
    gate: RwLock<Exclusive>,
    /// Never held while the store is asked.
    cache: Mutex<InodeCache>,
    /// Never held while the store is asked.
    recent: Mutex<recent::Recent>,
    /// Never held while the store is asked.
    file_walks: Mutex<data::Walks>,
    directory_walks: Mutex<data::Walks>,
    /// Users of each open inode.
    opened: Mutex<BTreeMap<InodeNumber, u32>>,
    /// Locked before the gate.
    gather: Mutex<gather::Gather>,
    /// Something is held there.
    is_gathering: AtomicBool,
    syncing: sync::Syncing,
    space: space::Space,
    removed_orphans: u64,
    /// Copies of whole trees that are being made.
    building: Mutex<BTreeSet<InodeNumber>>,
    /// There may be removed trees that are to be taken apart.
    may_reap: AtomicBool,
    /// There may be something that is to be moved to where its path says.
    may_move: AtomicBool,
    /// Before this number nothing was, when that was last looked for.
    owed_from: AtomicU64,
}

/// What only calls that change something look at.
#[derive(Debug)]
struct Exclusive {
    numbers: Numbers,
    /// How many there were, so that who looked at a moment knows whether it is over.
    changes: u64,
}

/// The file system at one moment.
struct Moment {
    at: Snapshot,
    /// How many changes there had been.
    changes: u64,
}

impl Volume {
    /// The store, and the first inode number that no directory has.
    pub(crate) fn now(&self) -> (&Store, u64) {
        (&self.store, self.shared().numbers.next())
    }

    /// Bytes of memory at most, but for what the allocator takes for itself: the store's, what is kept of inodes and of data, and
    /// what open inodes take.
    pub fn budget_bytes(&self) -> u64 {
        let kept = self.options.inode_cache_bytes + self.options.recent_bytes;
        let open = self.opened().len() as u64 * OPEN_BYTES;
        self.store.database.stats().budget_bytes + kept as u64 + open
    }

    /// What the store has moved since it was opened.
    pub fn moved(&self) -> Moved {
        let stats = self.store.database.stats();
        Moved { worked_bytes: stats.worked_bytes, loaded_bytes: stats.read_bytes }
    }

    /// Keeps changes out.
    fn shared(&self) -> RwLockReadGuard<'_, Exclusive> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps everybody out.
    fn exclusive(&self) -> RwLockWriteGuard<'_, Exclusive> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> MutexGuard<'_, InodeCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) -> MutexGuard<'_, BTreeMap<InodeNumber, u32>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn building(&self) -> MutexGuard<'_, BTreeSet<InodeNumber>> {
        self.building.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_open(&self, number: InodeNumber) -> bool {
        self.opened().contains_key(&number) && !mutated(Mutant::OpenNotCounted)
    }

    /// An inode as it is now. The caller holds the gate.
    fn inode(&self, number: InodeNumber) -> Result<Inode> {
        if let Some(inode) = self.cache().get(number) {
            return Ok(inode);
        }
        let inode = self.store.inode_from(&self.store.moment(), number, |number| self.cache().get(number))?;
        self.cache().put(inode.clone());
        Ok(inode)
    }

    /// An inode and everything else as they are now: what the store is asked for then nobody waits for.
    fn moment_of(&self, number: InodeNumber) -> Result<(Moment, Inode)> {
        let gate = self.shared();
        Ok((self.moment(&gate), self.inode(number)?))
    }

    /// The file system as it is now. The caller holds the gate.
    fn moment(&self, gate: &Exclusive) -> Moment {
        Moment { at: self.store.moment(), changes: gate.changes }
    }

    fn walks(&self, goal: data::Goal) -> MutexGuard<'_, data::Walks> {
        let walks = match goal {
            data::Goal::Files => &self.file_walks,
            data::Goal::Directories => &self.directory_walks,
        };
        walks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, recent::Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an inode in memory that the store was just asked for. The caller holds the gate.
    fn remember(&self, inode: Inode) {
        self.cache().put(inode);
    }

    /// Carries out an operation: all its changes, or none. `adds`: it needs room beyond the reserve.
    fn change<T>(&self, adds_bytes: Option<usize>, work: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        if self.store.is_past() {
            return Err(Error::ReadOnly);
        }
        let mut exclusive = self.exclusive();
        if let Some(bytes) = adds_bytes {
            self.admit(bytes)?;
        }
        let mut transaction = Transaction::new(self, &mut exclusive);
        let result = work(&mut transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// Counts one more user.
    fn count_open(&self, number: InodeNumber) {
        *self.opened().entry(number).or_insert(0) += 1;
    }

    /// Counts one user less; whether it was the last.
    fn count_release(&self, number: InodeNumber) -> Result<bool> {
        let mut opened = self.opened();
        let users = opened.get_mut(&number).ok_or(Error::Invalid)?;
        *users -= 1;
        if *users > 0 {
            return Ok(false);
        }
        opened.remove(&number);
        Ok(true)
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("store", &self.store).finish_non_exhaustive()
    }
}
