//! A store.

use std::ops::RangeBounds;
use std::sync::Arc;

use storage::Storage;

use crate::api::Batch;
use crate::api::stats::timed_commit;
use crate::api::{Snapshot, Stats, Ticket, Tree};
use crate::bytes::range::KeyRange;
use crate::engine::{Engine, Findings, Keep, Shared, SharedEngine};
use crate::error::{Error, Result};
use crate::mutant::{Mutant, mutated};
use crate::options::{Durability, Options};

/// A store of named trees. A clone is another handle of the same store.
#[derive(Clone)]
pub struct Database {
    pub(crate) engine: SharedEngine,
}

impl Database {
    /// Makes a store on a storage that has none. `store_id` should differ between stores, so that nothing left over
    /// from one can be taken for the other's: use a random number.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyAStore`], [`Error::TooSmall`], and what the storage met.
    pub fn create(storage: impl Storage + 'static, options: Options, store_id: u128) -> Result<Self> {
        Ok(Self { engine: Shared::of(Engine::create(Box::new(storage), options, store_id)?) })
    }

    /// Opens a store, and recovers every batch that was acknowledged as durable.
    ///
    /// # Errors
    ///
    /// [`Error::NotAStore`], [`Error::Unsupported`], [`Error::UnknownOperator`], [`Error::Corrupt`], and what the
    /// storage met.
    pub fn open(storage: impl Storage + 'static, options: Options) -> Result<Self> {
        Ok(Self { engine: Shared::of(Engine::open(Box::new(storage), options)?) })
    }

    /// Opens a store to read it, and writes nothing: what its log has is replayed in memory. Whatever would write fails with
    /// [`Error::ReadOnly`].
    ///
    /// # Errors
    ///
    /// As [`Database::open`].
    pub fn open_read_only(storage: impl Storage + 'static, options: Options) -> Result<Self> {
        Ok(Self { engine: Shared::of(Engine::open_read_only(Box::new(storage), options)?) })
    }

    /// The tree with this name; makes it, durably, where there is none.
    ///
    /// # Errors
    ///
    /// What making it met.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        let id = match self.engine.tree_id(name) {
            Some(id) => id,
            None => self.engine.create_tree(name)?,
        };
        Ok(Tree::new(Arc::clone(&self.engine), id))
    }

    /// The tree with this name, if there is one: none is made.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchName`].
    pub fn open_tree(&self, name: &str) -> Result<Tree> {
        match self.engine.tree_id(name) {
            Some(id) => Ok(Tree::new(Arc::clone(&self.engine), id)),
            None => Err(Error::NoSuchName { what: "tree", name: name.to_owned() }),
        }
    }

    /// Removes a tree with all its entries, durably: by a checkpoint, which reads the headers of its nodes to free their
    /// blocks. Views and snapshots keep it; whoever writes to a handle of it is told.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchName`], [`Error::Full`], and what the storage met: then it is there as before.
    pub fn remove_tree(&self, name: &str) -> Result<()> {
        self.engine.remove_tree(name)
    }

    /// Makes a tree that begins with all that another has, durably: by a checkpoint, in a time that does not grow with the tree. The
    /// two share their blocks and change each by itself, so a clone is a snapshot of one tree as well, and one that can be written to.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchName`], [`Error::NameTaken`], [`Error::Full`], and what the storage met: then there is no clone.
    pub fn clone_tree(&self, from: &str, to: &str) -> Result<()> {
        self.engine.clone_tree(from, None, to)
    }

    /// Makes a tree that begins with what another has in a range of keys, durably: by two checkpoints, in a time that grows neither with
    /// the range nor with the tree. What lies within the range is shared; what lies across its ends, two nodes a level at most, is copied.
    /// So nothing that is outside of the range is kept for the clone's sake.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchName`], [`Error::NameTaken`], [`Error::Full`], and what the storage met: then there is no clone.
    pub fn clone_range<K: AsRef<[u8]>>(&self, from: &str, range: impl RangeBounds<K>, to: &str) -> Result<()> {
        self.engine.clone_tree(from, Some((KeyRange::of(&range), Keep::All)), to)
    }

    /// Moves what a tree has in a range of keys to a new tree, durably and in one step: whoever looks, and who opens the store after the
    /// power failed, finds the range in the one or in the other. It takes three checkpoints and a time that grows neither with the range
    /// nor with the tree. Batches that change the range or ask for it wait meanwhile; all others go on.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchName`], [`Error::NameTaken`], [`Error::Full`], and what the storage met: then nothing is moved.
    pub fn move_range<K: AsRef<[u8]>>(&self, from: &str, range: impl RangeBounds<K>, to: &str) -> Result<()> {
        if mutated(Mutant::MoveInTwoSteps) {
            self.engine.clone_tree(from, Some((KeyRange::of(&range), Keep::All)), to)?;
            return self.open_tree(from)?.remove_range(range, Durability::Sync);
        }
        self.engine.clone_tree(from, Some((KeyRange::of(&range), Keep::Nothing)), to)
    }

    /// Gives a tree another name, durably: by a checkpoint. Handles of it stay what they are.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchName`], [`Error::NameTaken`], [`Error::Full`], and what the storage met: then it has its old name.
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<()> {
        self.engine.rename_tree(from, to)
    }

    /// Names of the trees, in order.
    pub fn tree_names(&self) -> Vec<String> {
        self.engine.tree_names()
    }

    /// Carries out a batch: whole, or not at all. When this returns, readers see it and it is as safe as `durability`
    /// says.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when a condition does not hold, [`Error::Full`], [`Error::TooLarge`]: then nothing of the
    /// batch happened. After any other error nothing more is written ([`Error::PreviousIo`]) and whether the batch
    /// survived is known when the store is opened again.
    pub fn commit(&self, batch: &Batch, durability: Durability) -> Result<()> {
        timed_commit(&self.engine, batch, durability).map(drop)
    }

    /// Carries out a batch as [`Database::commit`] with [`Durability::None`] does. With the ticket its durability can be asked for
    /// later, by whoever has it.
    ///
    /// # Errors
    ///
    /// As [`Database::commit`].
    pub fn commit_with_ticket(&self, batch: &Batch) -> Result<Ticket> {
        Ok(Ticket::new(&self.engine, timed_commit(&self.engine, batch, Durability::None)?))
    }

    /// Makes everything that was committed by now durable. Of many who wait one flushes for all.
    ///
    /// # Errors
    ///
    /// What the storage met.
    pub fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    /// All trees as they are now: reads from it never change, and it costs nothing until the trees change. It lasts as
    /// long as the value; what it alone refers to keeps its space.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.engine), self.engine.view())
    }

    /// Keeps all trees as they are now under a name, across restarts.
    ///
    /// # Errors
    ///
    /// [`Error::NameTaken`], [`Error::Full`], and what the storage met.
    pub fn save_snapshot(&self, name: &str) -> Result<()> {
        self.engine.save_snapshot(name)
    }

    /// A kept snapshot.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchName`].
    pub fn open_snapshot(&self, name: &str) -> Result<Snapshot> {
        Ok(Snapshot::new(Arc::clone(&self.engine), self.engine.snapshot(name)?))
    }

    /// Gives up a kept snapshot; its space returns with the next checkpoints.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchName`], and what the storage met.
    pub fn remove_snapshot(&self, name: &str) -> Result<()> {
        self.engine.remove_snapshot(name)
    }

    /// Names of the kept snapshots, in order.
    pub fn snapshot_names(&self) -> Vec<String> {
        self.engine.snapshot_names()
    }

    /// Writes everything to its place in the trees, durably, and empties the log.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], and what the storage met.
    pub fn checkpoint(&self) -> Result<()> {
        self.engine.checkpoint()
    }

    /// Takes into use what the storage has become larger since the store was made, durably: by a checkpoint. Returns how many
    /// bytes that were.
    ///
    /// # Errors
    ///
    /// What the storage met: then the store has its old size.
    pub fn grow(&self) -> Result<u64> {
        self.engine.grow()
    }

    /// Tells the storage every block that is free, but for the few that values are about to be written to, a piece at a time so that
    /// others have their turn; how many bytes that is. Who has it told as blocks become free
    /// ([`Options::discard_bytes`](crate::Options::discard_bytes)) need not.
    ///
    /// # Errors
    ///
    /// What the storage met; that it cannot do anything with it is none.
    pub fn trim(&self) -> Result<u64> {
        self.engine.trim()
    }

    /// Does up to `bytes` of the work that commits would do otherwise, for those who have time: a thread of its own, or
    /// the pause between requests. Whether more is owed.
    ///
    /// # Errors
    ///
    /// What the storage met.
    pub fn work(&self, bytes: u64) -> Result<bool> {
        self.engine.work(bytes)
    }

    /// Does all the work that is owed, and makes everything durable in the trees. Deletes have given their space back
    /// then, and of each leaf at most about an eighth is kept twice; other messages go on waiting, which
    /// costs less than rewriting their leaves.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], and what the storage met.
    pub fn quiesce(&self) -> Result<()> {
        self.engine.quiesce()
    }

    /// Moves every message to its leaf, and makes that durable: lookups and scans have the shortest way then. It rewrites
    /// every leaf for which something waits.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], and what the storage met.
    pub fn compact(&self) -> Result<()> {
        self.engine.compact()
    }

    /// Reads every block that the last checkpoint and the kept snapshots refer to, and checks every rule of the
    /// format, while everybody else goes on. The list is empty when nothing is wrong.
    ///
    /// # Errors
    ///
    /// What the storage met, other than damage.
    pub fn verify(&self) -> Result<Vec<String>> {
        let findings: Findings = self.engine.verify()?;
        Ok(findings.list)
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.engine)
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("trees", &self.tree_names()).finish_non_exhaustive()
    }
}

/// An error that leaves the store as it was.
impl Error {
    /// Whether the store goes on as if the call had not been made.
    pub fn is_harmless(&self) -> bool {
        matches!(
            self,
            Self::Full
                | Self::Conflict
                | Self::TooLarge { .. }
                | Self::NameTaken { .. }
                | Self::NoSuchName { .. }
                | Self::OtherStore
                | Self::TreeRemoved
                | Self::ReadOnly
                | Self::UnknownOperator { .. }
                | Self::InvalidOperand { .. }
        )
    }
}
