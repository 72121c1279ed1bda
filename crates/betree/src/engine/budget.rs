//! What a store takes in memory.

use super::Engine;
use super::maintain::SLIGHT_MORE;
use crate::io::{ahead, later};

/// Bytes that a tree takes: its version with an empty memtable, its name, its place in the catalog.
const TREE_BYTES: u64 = 1024;

/// Of a tree in a snapshot.
const SNAPSHOT_TREE_BYTES: u64 = 256;

/// Of a free extent, by place and by length, for the allocator and for discards, and once more while a checkpoint is written.
const EXTENT_BYTES: u64 = 256;

impl Engine {
    /// Bytes of memory at most, but for what the allocator takes for itself.
    pub fn budget_bytes(&self) -> u64 {
        let options = &self.options;
        let cache_bytes = options.cache_bytes as u64;
        let state = self.hold_trees();
        let nodes = 2 * self.fresh_bytes_max(&state);
        let snapshots = state.catalog.snapshots.values().map(|snapshot| snapshot.trees.len() as u64).sum::<u64>();
        let catalog = state.catalog.trees.len() as u64 * TREE_BYTES
            + snapshots * SNAPSHOT_TREE_BYTES
            + state.space.extents() as u64 * EXTENT_BYTES;
        let moved = (cache_bytes / 8).min(ahead::WINDOW_BYTES_MAX) + later::BYTES_MAX as u64;
        // Those that are sealed, twice as many that are not, and what trees that have little of them have beyond.
        let memtables = ((3.0 + SLIGHT_MORE) * options.memtable_bytes as f64) as u64;
        cache_bytes + memtables + nodes + moved + catalog
    }
}
