//! Making a file system, and mounting it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, RwLock};

use betree::{Batch, Database, Durability};
use storage::Storage;

use super::cache::InodeCache;
use super::numbers::Numbers;
use super::recent::Recent;
use super::space::Space;
use super::{Exclusive, Store, Volume};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Error, InodeNumber, Result, Timestamp};
use crate::patch::{PATCH, Patches};
use crate::rules::root_attributes;
use crate::schema::{self, Format, Inode, Locality, Place, Schema, damaged};
use crate::steps::Steps;

/// How a file system is made and mounted.
#[derive(Clone)]
pub struct VolumeOptions {
    /// Of the store below. Operators are added; what it may have in memory and in its log is bounded by the storage's capacity.
    pub store: betree::Options,
    /// Bytes for inodes in memory.
    pub inode_cache_bytes: usize,
    /// Bytes for what was written last.
    pub recent_bytes: usize,
    /// Most bytes of a write that happen together; longer ones are several. It must fit a quarter of the log several times.
    pub write_bytes_max: usize,
    /// Whether reads of files are noted in their access times, by `relatime`'s rule.
    pub notes_accesses: bool,
    /// What is left out, to be measured.
    pub steps: Steps,
    /// Of a file system that is made; one that is mounted says its own.
    pub schema: Schema,
    /// Where keys begin with paths: entries of a directory that its rename moves along; more are moved in the background.
    pub moved_entries_max: u64,
}

/// Granules from this length on lie apart in the store. Patches on one block, which are as long at most unless they are in pieces, do
/// not, or each would take two blocks.
const APART_BYTES: usize = 5 << 10;

impl Default for VolumeOptions {
    fn default() -> Self {
        let store = betree::Options { large_value_bytes: APART_BYTES, ..betree::Options::default() };
        Self {
            store,
            inode_cache_bytes: 32 << 20,
            recent_bytes: 16 << 20,
            write_bytes_max: 1 << 20,
            notes_accesses: true,
            steps: Steps::default(),
            schema: Schema::default(),
            moved_entries_max: 100,
        }
    }
}

impl VolumeOptions {
    /// What the store is opened with: its own options, with the operators of the schema, and no more in memory and in the log
    /// than suits the storage.
    pub(crate) fn store(&self, storage: &impl Storage) -> betree::Options {
        let capacity_bytes = storage.capacity_bytes();
        let mut options = self.store.clone().operator(PATCH, Patches);
        options.reads_pages = self.steps.query_path;
        if !self.steps.page_sharing {
            options.large_value_bytes = usize::MAX;
        }
        options.memtable_bytes = options.memtable_bytes.min(capacity_bytes / 64);
        options.fresh_bytes = options.fresh_bytes.min(capacity_bytes / 32);
        options.log_bytes = options.log_bytes.min(capacity_bytes / 16);
        options
    }
}

impl Volume {
    /// Makes an empty file system on a storage without a store, durably. `id` should be a random number: it tells the store from
    /// others and is the seed by which names are hashed.
    ///
    /// # Errors
    ///
    /// Where the storage is too small or has a store already ([`Error::Io`](crate::Error::Io)), and what it met.
    pub fn create(storage: impl Storage + 'static, options: VolumeOptions, id: u128, now: Timestamp) -> Result<Self> {
        let of_store = options.store(&storage);
        let database = Database::create(storage, of_store, id)?;
        let format = Format::new(options.schema, id as u64);
        let store = Store::new(database, format, None)?;
        let root = Inode {
            attributes: root_attributes(now),
            entries: 0,
            is_patched: false,
            is_sparse: false,
            has_xattrs: false,
            beside: None,
            place: Place::Side,
            locality: Locality::unnamed(format.schema(), InodeNumber::ROOT),
            owes: false,
        };
        let next = InodeNumber::ROOT.0 + 1;
        let mut batch = Batch::new();
        batch.insert(&store.inodes, schema::number_key(InodeNumber::ROOT), schema::here(format.schema(), &root));
        batch.insert(&store.system, schema::NEXT_KEY, next.to_le_bytes());
        // What makes it a file system comes with all the rest.
        batch.insert(&store.system, schema::FORMAT_KEY, format.encode());
        store.database.commit(&batch, Durability::Sync)?;
        Ok(Self::new(store, options, next))
    }

    /// Mounts a file system, and removes the inodes without names that were open when it ended.
    ///
    /// # Errors
    ///
    /// Where there is none or one of a newer version ([`Error::Corrupt`](crate::Error::Corrupt)), and what the storage met.
    pub fn open(storage: impl Storage + 'static, options: VolumeOptions) -> Result<Self> {
        let of_store = options.store(&storage);
        let database = Database::open(storage, of_store)?;
        let (store, next) = open_store(database, None)?;
        let mut volume = Self::new(store, options, next);
        volume.renew_format()?;
        volume.removed_orphans = volume.remove_orphans()?;
        Ok(volume)
    }

    /// Shows a file system as it is. It cannot be changed, and nothing is written, not even what recovery would: inodes without names
    /// stay, and reads are not noted.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_read_only(storage: impl Storage + 'static, options: VolumeOptions) -> Result<Self> {
        Self::open_at(storage, options, |database| Ok(database.snapshot()))
    }

    /// Shows a file system as it was when a snapshot of it was kept ([`keep_snapshot`](crate::Operations::keep_snapshot)). It cannot be
    /// changed, and nothing is written, not even what recovery would.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); [`Error::NotFound`](crate::Error::NotFound) where there is no such snapshot.
    pub fn open_snapshot(storage: impl Storage + 'static, options: VolumeOptions, name: &str) -> Result<Self> {
        Self::open_at(storage, options, |database| {
            database.open_snapshot(&snapshot_name(name)).map_err(|error| match error {
                betree::Error::NoSuchName { .. } => Error::NotFound,
                error => error.into(),
            })
        })
    }

    /// Shows one moment of a file system, to which nothing is written.
    fn open_at(
        storage: impl Storage + 'static,
        options: VolumeOptions,
        moment: impl FnOnce(&Database) -> Result<betree::Snapshot>,
    ) -> Result<Self> {
        let of_store = options.store(&storage);
        let database = Database::open_read_only(storage, of_store)?;
        let at = moment(&database)?;
        let (store, next) = open_store(database, Some(at))?;
        Ok(Self::new(store, options, next))
    }

    /// Names of the snapshots that are kept, in order.
    pub fn snapshot_names(&self) -> Vec<String> {
        let names = self.store.database.snapshot_names();
        names.iter().filter_map(|name| name.strip_prefix(SNAPSHOT_PREFIX).map(str::to_owned)).collect()
    }

    fn new(store: Store, options: VolumeOptions, next: u64) -> Self {
        Self {
            store,
            gate: RwLock::new(Exclusive { numbers: Numbers::new(next), changes: 0 }),
            cache: Mutex::new(InodeCache::new(options.inode_cache_bytes)),
            recent: Mutex::new(Recent::new(options.recent_bytes)),
            file_walks: Mutex::default(),
            directory_walks: Mutex::default(),
            opened: Mutex::new(BTreeMap::new()),
            gather: Mutex::default(),
            is_gathering: AtomicBool::new(false),
            syncing: super::sync::Syncing::default(),
            space: Space::default(),
            removed_orphans: 0,
            building: Mutex::default(),
            may_reap: AtomicBool::new(true),
            may_move: AtomicBool::new(true),
            owed_from: AtomicU64::new(0),
            options,
        }
    }

    /// Makes a file system of the version before one of this version. The next sync makes it durable, with the first thing that only this
    /// version has.
    fn renew_format(&self) -> Result<()> {
        let format = read_format(&self.store.database)?;
        if format.version == schema::VERSION {
            return Ok(());
        }
        let format = Format { version: schema::VERSION, ..format };
        let mut batch = Batch::new();
        batch.insert(&self.store.system, schema::FORMAT_KEY, format.encode());
        self.store.commit(&batch)
    }

    /// Removes what nobody can have open any more, but for trees, which `reap` takes apart.
    fn remove_orphans(&self) -> Result<u64> {
        let mut removed = 0;
        if mutated(Mutant::OrphansStay) {
            return Ok(removed);
        }
        for found in self.store.orphans.iter() {
            let (key, _) = found?;
            let (number, _) = schema::key_number(&key)?;
            self.change(None, |transaction| {
                if Self::is_to_reap(transaction.inode(number)?) {
                    return Ok(());
                }
                removed += 1;
                transaction.purge(number)?;
                transaction.batch.remove(&self.store.orphans, &key);
                Ok(())
            })?;
        }
        Ok(removed)
    }

    /// How its keys are made.
    pub fn schema(&self) -> Schema {
        self.store.schema
    }

    /// How many inodes without names the mount found and removed.
    pub fn removed_orphans(&self) -> u64 {
        self.removed_orphans
    }

    /// The store below, for its counters, snapshots and background work. What is held back ([`settle`](Self::settle)) it does not have.
    pub fn database(&self) -> &Database {
        &self.store.database
    }
}

/// What stands in the store before the names of the file system's snapshots.
const SNAPSHOT_PREFIX: &str = "snapshot ";

/// The name of a snapshot in the store.
pub(super) fn snapshot_name(name: &str) -> String {
    format!("{SNAPSHOT_PREFIX}{name}")
}

/// What a store says of the file system in it.
fn read_format(database: &Database) -> Result<Format> {
    let format = database.tree(schema::SYSTEM)?.get(schema::FORMAT_KEY)?;
    Format::decode(&format.ok_or_else(|| damaged("a store without a file system"))?)
}

/// The trees of a file system now or at a moment, and the first inode number that was never used.
pub(crate) fn open_store(database: Database, at: Option<betree::Snapshot>) -> Result<(Store, u64)> {
    let names = database.tree_names();
    if !names.iter().any(|name| name == schema::SYSTEM) {
        return Err(damaged("a store without a file system"));
    }
    let format = read_format(&database)?;
    let is_known = [schema::VERSION, schema::VERSION_WITHOUT_BESIDE].contains(&format.version);
    if !is_known || format.features & !schema::FEATURES != 0 {
        let Format { version, features, .. } = format;
        return Err(damaged(&format!(
            "format {version} with features {features:#x}, which this program does not know"
        )));
    }
    let store = Store::new(database, format, at)?;
    let next = store.system.get(schema::NEXT_KEY)?.ok_or_else(|| damaged("no next inode number"))?;
    Ok((store, schema::decode_next(&next)?))
}
