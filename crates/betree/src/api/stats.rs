//! Counters of a store.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use stats::Histogram;
use units::Nanos;

use crate::api::Batch;
use crate::engine::{Engine, SharedEngine};
use crate::error::{Error, Result};
use crate::io::Purpose;
use crate::options::Durability;

/// How long something took, over all times it was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Latency {
    /// How often it was done.
    pub count: u64,
    /// Half took no longer.
    pub p50: Nanos,
    /// 99 of 100 took no longer.
    pub p99: Nanos,
    /// 999 of 1000 took no longer.
    pub p999: Nanos,
    /// None took longer.
    pub max: Nanos,
}

impl Latency {
    fn of(times: &Histogram) -> Self {
        Self {
            count: times.count(),
            p50: times.percentile(50.0),
            p99: times.percentile(99.0),
            p999: times.percentile(99.9),
            max: times.max(),
        }
    }
}

/// What a store has done since it was opened, and what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Bytes written for the entries of leaves.
    pub leaf_bytes: u64,
    /// Bytes written for messages that wait in nodes.
    pub run_bytes: u64,
    /// Bytes written for the headers of nodes.
    pub header_bytes: u64,
    /// Bytes written for values that lie apart.
    pub value_bytes: u64,
    /// Bytes written for catalogs.
    pub catalog_bytes: u64,
    /// Bytes written for superblocks.
    pub superblock_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes that the storage was told to be free.
    pub discarded_bytes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes that flushes and checkpoints merged, packed and wrote: what pacing counts.
    pub worked_bytes: u64,
    /// Times of commits; all 0 without [`Options::clock`](crate::Options::clock).
    pub commit_latency: Latency,
    /// Bytes of messages in memory that are in no tree yet.
    pub memory_bytes: u64,
    /// Bytes of changed nodes that no checkpoint has written yet.
    pub fresh_bytes: u64,
    /// Bytes in the cache.
    pub cache_bytes: u64,
    /// Lookups that the cache answered.
    pub cache_hits: u64,
    /// Lookups that it did not.
    pub cache_misses: u64,
    /// Blocks that filters spared lookups.
    pub filtered: u64,
    /// Bytes of memory that the store takes at most, by its options and its catalog: cache, memtables, changed nodes, what is read
    /// ahead and written later, and what is known of trees, snapshots and free space.
    pub budget_bytes: u64,
    /// Bytes of the storage that are free.
    pub free_bytes: u64,
    /// Bytes that will be free after a checkpoint, or once no reader needs them.
    pub waiting_bytes: u64,
    /// Bytes of the free ones that neither the next checkpoint needs, with full memtables, nor the reserve.
    pub spare_bytes: u64,
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
            leaf_bytes: counters.written(Purpose::Leaves),
            run_bytes: counters.written(Purpose::Runs),
            header_bytes: counters.written(Purpose::Headers),
            value_bytes: counters.written(Purpose::Values),
            catalog_bytes: counters.written(Purpose::Catalog),
            superblock_bytes: counters.written(Purpose::Superblock),
            read_bytes: counters.read.load(Ordering::Relaxed),
            flushes: counters.flushes.load(Ordering::Relaxed),
            discarded_bytes: counters.discarded.load(Ordering::Relaxed),
            checkpoints: engine.checkpoints.load(Ordering::Relaxed),
            worked_bytes: engine.worked_bytes.load(Ordering::Relaxed),
            commit_latency: Latency::of(&engine.commit_times.lock().unwrap_or_else(PoisonError::into_inner)),
            memory_bytes: engine.memory_bytes(),
            fresh_bytes: engine.fresh_bytes(),
            cache_bytes,
            cache_hits,
            cache_misses,
            filtered: counters.filtered.load(Ordering::Relaxed),
            budget_bytes: engine.budget_bytes(),
            free_bytes,
            waiting_bytes,
            spare_bytes: engine.spare_bytes(),
            capacity_bytes,
        }
    }

    /// Bytes written for any purpose.
    pub fn written_bytes(&self) -> u64 {
        self.log_bytes
            + self.leaf_bytes
            + self.run_bytes
            + self.header_bytes
            + self.value_bytes
            + self.catalog_bytes
            + self.superblock_bytes
    }
}

/// Carries out a batch and notes how long it took; returns its last number.
pub(super) fn timed_commit(engine: &SharedEngine, batch: &Batch, durability: Durability) -> Result<u64> {
    if !batch.is_of(engine) {
        return Err(Error::OtherStore);
    }
    let Some(clock) = &engine.options.clock else { return engine.commit(&batch.changes, durability) };
    let began = clock();
    let result = engine.commit(&batch.changes, durability);
    let time = clock().since(began);
    engine.commit_times.lock().unwrap_or_else(PoisonError::into_inner).record(time);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, Options};
    use std::sync::atomic::AtomicU64;

    #[test]
    fn commits_are_timed_by_the_callers_clock() {
        let reads = AtomicU64::new(0);
        // The n-th commit takes n microseconds.
        let clock = move || {
            let read = reads.fetch_add(1, Ordering::Relaxed);
            Nanos(read / 2 * 1_000_000 + (read % 2) * (read / 2 + 1) * 1000)
        };
        let options = Options::default().clock(clock);
        let database = Database::create(storage::Memory::new(256 << 20), options, 1).unwrap();
        let tree = database.tree("t").unwrap();
        assert_eq!(database.stats().commit_latency, Latency::default());
        for number in 0..1000u64 {
            tree.insert(number.to_le_bytes(), "", Durability::None).unwrap();
        }
        let latency = database.stats().commit_latency;
        assert_eq!((latency.count, latency.max), (1000, Nanos(1_000_000)));
        let about = |time: Nanos, microseconds: u64| (microseconds * 999..microseconds * 1003).contains(&time.0);
        assert!(about(latency.p50, 500) && about(latency.p99, 990) && about(latency.p999, 999), "{latency:?}");
    }
}
