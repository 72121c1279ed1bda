//! Counters of a store.

use std::sync::atomic::Ordering;

use crate::engine::Engine;
use crate::io::Purpose;

/// What a store has done since it was opened, and what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Bytes written for nodes, runs and basements.
    pub block_bytes: u64,
    /// Bytes written for catalogs.
    pub catalog_bytes: u64,
    /// Bytes written for superblocks.
    pub superblock_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes of changed nodes that no checkpoint has written yet.
    pub fresh_bytes: u64,
    /// Bytes in the cache.
    pub cache_bytes: u64,
    /// Lookups that the cache answered.
    pub cache_hits: u64,
    /// Lookups that it did not.
    pub cache_misses: u64,
    /// Bytes of the storage that are free.
    pub free_bytes: u64,
    /// Bytes that will be free after a checkpoint, or once no reader needs them.
    pub waiting_bytes: u64,
    /// Bytes of the storage.
    pub capacity_bytes: u64,
}

impl Stats {
    pub(crate) fn of(engine: &Engine) -> Self {
        let counters = &engine.io.counters;
        let (cache_bytes, cache_hits, cache_misses) = engine.io.cache.counters();
        let (free_bytes, waiting_bytes, capacity_bytes) = engine.space_bytes();
        Self {
            log_bytes: counters.written(Purpose::Log),
            block_bytes: counters.written(Purpose::Blocks),
            catalog_bytes: counters.written(Purpose::Catalog),
            superblock_bytes: counters.written(Purpose::Superblock),
            read_bytes: counters.read.load(Ordering::Relaxed),
            flushes: counters.flushes.load(Ordering::Relaxed),
            checkpoints: engine.checkpoints.load(Ordering::Relaxed),
            fresh_bytes: engine.fresh_bytes(),
            cache_bytes,
            cache_hits,
            cache_misses,
            free_bytes,
            waiting_bytes,
            capacity_bytes,
        }
    }

    /// Bytes written for any purpose.
    pub fn written_bytes(&self) -> u64 {
        self.log_bytes + self.block_bytes + self.catalog_bytes + self.superblock_bytes
    }
}
