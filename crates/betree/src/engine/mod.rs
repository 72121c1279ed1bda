//! The store as a whole: one ordered way for writes, any number of readers beside it.
//!
//! Locks, in the order in which they are taken: `next_in_line`, `trees` (changes and checkpoints), `log`, `commit`, `pool`, `versions`.
//! A reader takes only the last, to get a [`View`].

mod asked;
mod beside;
mod blocked;
mod budget;
mod checkpoint;
mod closed;
mod commit;
mod flight;
mod gone;
mod grow;
mod growth;
mod in_steps;
mod least;
mod maintain;
mod named;
mod open;
mod reads;
mod salvage;
mod trees;
mod trim;
mod values;
mod verify;
mod version;
mod work;

pub(crate) use beside::Shared;
pub(crate) use closed::ClosedStore;
#[cfg(test)]
pub(crate) use gone::in_steps as freed_in_steps;
pub(crate) use salvage::Salvaged;
pub(crate) use trees::Keep;
pub(crate) use verify::Findings;
#[cfg(test)]
pub(crate) use version::COPIED;
pub(crate) use version::{TreeVersion, View};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use stats::Histogram;

use crate::bytes::range::KeyRange;
use crate::bytes::tree_id::TreeId;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::io::{BlockIo, Composer};
use crate::log::Log;
use crate::memtable::Memtable;
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::Edge;
use crate::options::Options;
use crate::space::Space;
use crate::superblock::Superblock;
use crate::tree::{Blocked, FreshBytes};
use crate::turns::{is_scheduled, turn};
use crate::values::Pool;
use beside::Bell;
use checkpoint::Seal;
use flight::Flight;
use version::Versions;

/// What the ordered write path knows.
pub(crate) struct Commit {
    next_msn: u64,
    next_tree: u32,
    names: BTreeMap<String, TreeId>,
    /// What is being moved to another tree: whoever changes it or asks for it waits.
    moving: Option<(TreeId, KeyRange)>,
    /// Batches that are in no frame yet.
    buffer: Vec<u8>,
    /// The newest of them.
    buffered_msn: u64,
}

/// The log, and how far it is written.
pub(crate) struct LogState {
    log: Log,
    written_msn: u64,
    synced_msn: u64,
}

/// What checkpoints know.
pub(crate) struct TreeState {
    space: Space,
    catalog: Catalog,
    /// The last one that is durable.
    superblock: Superblock,
    /// The first version that had its roots: what it refers to and no version behind refers to waits.
    checkpointed_in: u64,
    /// Generation that the next checkpoint has.
    generation: u64,
    /// What is begun.
    flight: Flight,
    /// Where the sealed memtables end, if any were sealed since the last checkpoint.
    sealed_at: Option<Seal>,
    /// Trees whose oldest sealed memtable is to be drained, in this order.
    to_drain: VecDeque<TreeId>,
    /// Trees whose nodes hold more than the flush policy lets them, for want of memory when they were flushed.
    overdue: BTreeSet<TreeId>,
    /// Trees that memtables went into since the last checkpoint.
    unwritten: BTreeSet<TreeId>,
    /// A checkpoint is to follow when no sealed memtable is left.
    checkpoint_due: bool,
    /// Whether others wait: what goes into trees moves down there as far as a step goes, and the rest is overdue.
    in_haste: bool,
    /// Checkpoints that somebody waits for.
    queue: in_steps::Queue,
    /// Memtables that are in the trees, to be given back piece by piece.
    drained: Vec<Arc<Memtable>>,
    /// Roots that were changed, to be given back in the same way.
    gone: Vec<Edge>,
}

/// A store.
pub(crate) struct Engine {
    pub io: Arc<BlockIo>,
    pub options: Options,
    /// Held by whoever waits for the trees and is the next to have them.
    next_in_line: Mutex<()>,
    /// Whether he waits until nobody is at a piece of work; and how he is told.
    wanted: AtomicBool,
    returned: Condvar,
    trees: Mutex<TreeState>,
    log: Mutex<LogState>,
    commit: Mutex<Commit>,
    /// Blocks that are lent for large values.
    pool: Mutex<Pool>,
    versions: Versions,
    read_only: bool,
    /// A write failed: what is on the storage is no longer known.
    failed: AtomicBool,
    log_blocks: u64,
    /// Blocks of the log in use, with those that the commit buffer will take.
    log_used_blocks: AtomicU64,
    /// Those that were written since memtables were last sealed.
    log_unsealed_blocks: AtomicU64,
    /// Blocks of the storage that are free now.
    free_blocks: AtomicU64,
    /// Bytes of changed nodes in memory.
    fresh: Arc<FreshBytes>,
    /// Bytes of memtables that take new messages, and how many range deletes they have.
    active_bytes: AtomicU64,
    active_ranges: AtomicUsize,
    /// Bytes of memtables that are sealed and in no tree yet.
    sealed_bytes: AtomicU64,
    /// Whether anything is owed.
    owing: AtomicBool,
    /// Where as much waits above damage as may, by tree; and whether that is anywhere.
    blocked: Mutex<BTreeMap<TreeId, Vec<Blocked>>>,
    any_blocked: AtomicBool,
    /// For the thread that does what is owed, where there is one.
    bell: Bell,
    /// Work that commits have yet to do for what they added.
    credit_bytes: AtomicI64,
    /// Work that was done.
    pub worked_bytes: AtomicU64,
    pub checkpoints: AtomicU64,
    /// Times that commits took, where there is a clock.
    pub commit_times: Mutex<Histogram>,
    /// The most bytes of changed nodes so far.
    #[cfg(test)]
    most_fresh_bytes: AtomicU64,
    /// Batches that are refused when they are prepared already.
    #[cfg(test)]
    refuse_next: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    turn();
    while is_scheduled() {
        match mutex.try_lock() {
            Err(TryLockError::WouldBlock) => turn(),
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Ok(guard) => return guard,
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// What composing messages takes.
    pub fn composer(&self) -> Composer<'_> {
        Composer::new(&self.io, &self.options.operators)
    }

    /// A consistent view of every tree as of now.
    pub fn view(&self) -> View {
        self.versions.view()
    }

    fn check(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        if self.failed.load(Ordering::Acquire) { Err(Error::PreviousIo) } else { Ok(()) }
    }

    /// After a failed write nothing more is written. Running out of space is no failure.
    fn guard<T>(&self, result: Result<T>) -> Result<T> {
        let is_full = matches!(result, Err(Error::Full)) && !mutated(Mutant::FullStops);
        if !is_full && !matches!(result, Ok(_) | Err(Error::Conflict | Error::PreviousIo)) {
            self.failed.store(!mutated(Mutant::FailureForgotten), Ordering::Release);
        }
        result
    }

    /// The number of the tree with a name.
    pub fn tree_id(&self, name: &str) -> Option<TreeId> {
        locked(&self.commit).names.get(name).copied()
    }

    /// Names of the trees.
    pub fn tree_names(&self) -> Vec<String> {
        locked(&self.commit).names.keys().cloned().collect()
    }

    /// Names of the snapshots.
    pub fn snapshot_names(&self) -> Vec<String> {
        self.hold_trees().catalog.snapshots.keys().cloned().collect()
    }

    /// A saved snapshot as a view.
    pub fn snapshot(&self, name: &str) -> Result<View> {
        let state = self.hold_trees();
        let Some(record) = state.catalog.snapshots.get(name) else {
            return Err(Error::NoSuchName { what: "snapshot", name: name.to_owned() });
        };
        let trees = record.trees.iter().map(|(id, tree)| (*id, TreeVersion::stored(tree.root)));
        Ok(self.versions.detached(trees.collect()))
    }

    /// Free bytes, bytes that wait to be free, bytes of the storage.
    pub fn space_bytes(&self) -> (u64, u64, u64) {
        let state = self.hold_trees();
        let block = storage::BLOCK_BYTES as u64;
        let unused = locked(&self.pool).unused_blocks();
        let free = state.space.free_blocks() + unused;
        (free * block, state.space.waiting_blocks() * block, self.io.capacity_blocks() * block)
    }

    /// Bytes of changed nodes in memory.
    pub fn fresh_bytes(&self) -> u64 {
        self.fresh.seen().max(0) as u64
    }
}

#[cfg(test)]
impl Engine {
    /// Whether somebody changes trees, and nobody else may.
    pub(crate) fn is_changing(&self) -> bool {
        self.trees.try_lock().is_err()
    }

    /// Whether somebody gives a batch its place.
    pub(crate) fn is_entering(&self) -> bool {
        self.commit.try_lock().is_err()
    }

    /// Takes the free space away, but for so many blocks.
    pub(crate) fn take_free_space(&self, left_blocks: u64) -> Vec<crate::extents::Extent> {
        let mut state = self.hold_trees();
        let blocks = state.space.free_blocks().saturating_sub(left_blocks);
        let mut taken = Vec::new();
        for _ in 0..blocks {
            taken.extend(state.space.allocate(1).map(|start| crate::extents::Extent { start, blocks: 1 }));
        }
        taken
    }

    /// Seals memtables and brings the first of them into its tree.
    pub(crate) fn seal_and_drain_one(&self) -> Result<()> {
        let mut state = self.hold_trees();
        self.seal(&mut state)?;
        while state.to_drain.len() > 1 {
            self.advance(&mut state, &mut 1)?;
        }
        Ok(())
    }

    /// Range deletes in memtables that take new messages.
    pub(crate) fn active_ranges(&self) -> usize {
        self.active_ranges.load(Ordering::Acquire)
    }

    /// The most bytes of changed nodes so far.
    pub(crate) fn most_fresh_bytes(&self) -> u64 {
        self.most_fresh_bytes.load(Ordering::Acquire)
    }

    /// Bytes of changed nodes at which a checkpoint is made now.
    pub(crate) fn fresh_bytes_most(&self) -> u64 {
        self.fresh_bytes_max(&self.hold_trees())
    }

    /// Refuses so many batches as late as that is possible, as if others had got in between.
    pub(crate) fn refuse_next(&self, count: u64) {
        self.refuse_next.store(count, Ordering::Release);
    }

    /// Of the newest superblock.
    pub(crate) fn superblock_generation(&self) -> u64 {
        self.hold_trees().superblock.generation
    }

    /// First block and bytes of every frame that recovery would read now.
    pub(crate) fn log_frames(&self) -> Vec<(u64, u64)> {
        locked(&self.log).log.frames(&self.io)
    }

    /// Gives back what was taken.
    pub(crate) fn give_free_space(&self, taken: Vec<crate::extents::Extent>) {
        let mut state = self.hold_trees();
        for extent in taken {
            state.space.release(extent);
        }
        self.free_blocks.store(state.space.free_blocks(), Ordering::Release);
    }
}

impl Drop for Engine {
    /// Nobody is told what fails here: whoever needs his batches durable has synced, and then the log ends where it can be read.
    fn drop(&mut self) {
        if self.check().is_ok() {
            let _ = self.close();
        }
    }
}

/// Shared by everything that refers to a store.
pub(crate) type SharedEngine = Arc<Shared>;
