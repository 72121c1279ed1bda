//! Making a store, and coming back to one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use storage::{BLOCK_BYTES, Buffer, Storage};

use super::beside::Bell;
use super::flight::Flight;
use super::least::CATALOG_BLOCKS;
use super::values::are_whole;
use super::version::Versions;
use super::{Commit, Engine, LogState, TreeState, TreeVersion, locked};
use crate::bytes::pointer::{BlockPointer, Codec, checksum};
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::extents::Extent;
use crate::io::{BlockIo, Purpose};
use crate::log::Log;
use crate::mutant::{Mutant, mutated};
use crate::options::Options;
use crate::space::Space;
use crate::superblock::{Epoch, LOG_START, LogHead, Superblock};
use crate::tree::FreshBytes;

pub(super) fn read_catalog(io: &BlockIo, superblock: &Superblock) -> Result<(Catalog, Space)> {
    let pointer = &superblock.catalog;
    let raw = io.read_raw(pointer)?;
    let corrupt = |error: crate::bytes::wire::Malformed| Error::Corrupt {
        what: format!("catalog: {error}"),
        offset_bytes: pointer.offset_bytes(),
        stored_bytes: u64::from(pointer.stored_bytes),
    };
    Catalog::decode(&raw, superblock.data()).map_err(corrupt)
}

impl Engine {
    /// Makes an empty store. What is on the storage is lost.
    pub fn create(storage: Box<dyn Storage>, options: Options, store_id: u128) -> Result<Self> {
        let io = BlockIo::new(storage, options.cache_bytes).reading_pages(options.reads_pages);
        let capacity_blocks = io.capacity_blocks();
        let capacity_bytes = capacity_blocks * BLOCK_BYTES as u64;
        let needed_bytes = options.least_capacity_bytes();
        let log_blocks = options.log_blocks(capacity_blocks).filter(|_| capacity_bytes >= needed_bytes);
        let log_blocks = log_blocks.ok_or(Error::TooSmall { capacity_bytes, needed_bytes })?;
        if !matches!(Superblock::read(&io), Err(Error::NotAStore)) {
            return Err(Error::AlreadyAStore);
        }
        let data_start = LOG_START + log_blocks;
        // What every batch needs is never short of room.
        io.reserve(data_start)?;
        let data = Extent { start: data_start, blocks: capacity_blocks - data_start };
        let mut space = Space::new(data);
        let start = space.allocate(CATALOG_BLOCKS).ok_or(Error::Full)?;
        let catalog = Catalog::default();
        let raw = catalog.encode_padded(&space, 1);
        let pointer = BlockPointer {
            start,
            stored_bytes: BLOCK_BYTES as u32,
            raw_bytes: BLOCK_BYTES as u32,
            codec: Codec::Plain,
            birth: 0,
            checksum: checksum(&raw),
        };
        let superblock = Superblock {
            store_id,
            generation: 0,
            epoch: Epoch { number: 1, first_sequence: 0 },
            capacity_blocks,
            log_blocks,
            log: LogHead { position: 0, sequence: 0, chain: store_id },
            last_msn: 0,
            catalog: pointer,
            is_closed: false,
        };
        let engine = Self::of(io, options, superblock.clone(), catalog, space);
        engine.io.write([(Purpose::Catalog, start, Buffer::padded(&raw))])?;
        engine.io.flush()?;
        superblock.write(&engine.io)?;
        engine.io.flush()?;
        Ok(engine)
    }

    /// Opens a store and recovers what was acknowledged.
    pub fn open(storage: Box<dyn Storage>, options: Options) -> Result<Self> {
        Self::open_for(storage, options, false)
    }

    /// The same without a write.
    pub fn open_read_only(storage: Box<dyn Storage>, options: Options) -> Result<Self> {
        Self::open_for(storage, options, true)
    }

    fn open_for(storage: Box<dyn Storage>, options: Options, read_only: bool) -> Result<Self> {
        let io = BlockIo::new(storage, options.cache_bytes).reading_pages(options.reads_pages);
        let (superblock, _) = Superblock::read(&io)?;
        let (catalog, space) = read_catalog(&io, &superblock)?;
        let mut engine = Self::of(io, options, superblock, catalog, space);
        engine.read_only = read_only;
        if let Err(error) = engine.recover() {
            // What of the log was not read may not count as what is behind its end.
            engine.failed.store(!mutated(Mutant::HalfOpenedCloses), Ordering::Release);
            return Err(error);
        }
        Ok(engine)
    }

    fn of(io: BlockIo, options: Options, superblock: Superblock, catalog: Catalog, space: Space) -> Self {
        let trees = catalog.trees.iter().map(|(id, tree)| (*id, TreeVersion::stored(tree.root))).collect();
        let empty = catalog.trees.values().filter(|tree| tree.root.is_none()).count() as i64;
        let names: BTreeMap<String, _> = catalog.trees.iter().map(|(id, tree)| (tree.name.clone(), *id)).collect();
        let last_msn = superblock.last_msn;
        let commit = Commit {
            next_msn: last_msn + 1,
            // A number that a snapshot has is of another tree.
            next_tree: names
                .values()
                .chain(catalog.snapshots.values().flat_map(|snapshot| snapshot.trees.keys()))
                .chain(catalog.families.highest().as_ref())
                .map(|id| id.0.saturating_add(1))
                .max()
                .unwrap_or(0),
            names,
            moving: None,
            buffer: Vec::new(),
            buffered_msn: last_msn,
        };
        let log = Log::of(&superblock);
        Self {
            io: Arc::new(io),
            options,
            log: Mutex::new(LogState { log, written_msn: last_msn, synced_msn: last_msn }),
            commit: Mutex::new(commit),
            pool: Mutex::default(),
            versions: Versions::new(trees, last_msn),
            read_only: false,
            failed: AtomicBool::new(false),
            log_blocks: superblock.log_blocks,
            log_used_blocks: AtomicU64::new(0),
            free_blocks: AtomicU64::new(space.free_blocks()),
            log_unsealed_blocks: AtomicU64::new(0),
            fresh: FreshBytes::of(empty * TreeVersion::EMPTY_BYTES),
            active_bytes: AtomicU64::new(0),
            active_ranges: AtomicUsize::new(0),
            sealed_bytes: AtomicU64::new(0),
            owing: AtomicBool::new(false),
            blocked: Mutex::default(),
            any_blocked: AtomicBool::new(false),
            bell: Bell::default(),
            credit_bytes: AtomicI64::new(0),
            worked_bytes: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            commit_times: Mutex::default(),
            #[cfg(test)]
            most_fresh_bytes: AtomicU64::new(0),
            #[cfg(test)]
            refuse_next: AtomicU64::new(0),
            next_in_line: Mutex::default(),
            wanted: AtomicBool::new(false),
            returned: Condvar::new(),
            trees: Mutex::new(TreeState {
                space,
                catalog,
                generation: superblock.generation + 1,
                superblock,
                checkpointed_in: 1,
                flight: Flight::default(),
                sealed_at: None,
                to_drain: VecDeque::new(),
                overdue: BTreeSet::new(),
                unwritten: BTreeSet::new(),
                checkpoint_due: false,
                in_haste: false,
                queue: Default::default(),
                gone: Vec::new(),
                drained: Vec::new(),
            }),
        }
    }

    /// Makes what is buffered durable, and says where the log ends: from then on a frame that is missing there is damage.
    pub(super) fn close(&self) -> Result<()> {
        self.write_log(u64::MAX, true)?;
        let mut trees = self.hold_trees();
        let mut state = locked(&self.log);
        if mutated(Mutant::CloseSaysNothing) {
            return Ok(());
        }
        let epoch = state.log.begin_epoch();
        self.write_epoch(&mut trees, epoch, true)
    }

    /// Makes an epoch durable: all frames before it are. With `is_closed` nothing is written in it.
    fn write_epoch(&self, trees: &mut TreeState, epoch: Epoch, is_closed: bool) -> Result<()> {
        let superblock = Superblock { epoch, is_closed, generation: trees.generation, ..trees.superblock.clone() };
        superblock.write(&self.io)?;
        self.io.flush()?;
        trees.superblock = superblock;
        trees.generation += 1;
        Ok(())
    }

    /// Replays the log, and makes a new epoch durable before anything is written to it.
    fn recover(&self) -> Result<()> {
        let mut trees = self.hold_trees();
        let mut state = locked(&self.log);
        let after_msn = trees.superblock.last_msn;
        let space = &mut trees.space;
        let replayed = state.log.replay(&self.io, |payload| {
            if !are_whole(&self.io, payload, after_msn)? {
                return Ok(false);
            }
            self.replay(payload, after_msn, space).map(|()| true)
        });
        self.free_blocks.store(trees.space.free_blocks(), Ordering::Release);
        match replayed {
            Err(Error::Corrupt { .. }) if self.options.accept_log_damage => {}
            result => result?,
        }
        let last_msn = {
            let mut commit = locked(&self.commit);
            commit.buffered_msn = commit.next_msn - 1;
            commit.buffered_msn
        };
        if self.read_only {
            return Ok(());
        }
        // What was replayed is on the storage but perhaps only in its cache.
        self.io.flush()?;
        state.log.flushed();
        (state.written_msn, state.synced_msn) = (last_msn, last_msn);
        // All of it is in the memtables now.
        self.log_used_blocks.store(state.log.used_blocks(), Ordering::Release);
        self.log_unsealed_blocks.store(state.log.used_blocks(), Ordering::Release);
        let epoch = state.log.begin_epoch();
        let is_closed = mutated(Mutant::OpenStaysClosed) && trees.superblock.is_closed;
        self.write_epoch(&mut trees, epoch, is_closed)
    }
}
