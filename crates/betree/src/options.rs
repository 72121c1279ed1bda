//! How a store is made and used.

use std::sync::Arc;

use units::Nanos;

use crate::bytes::operator::{Operator, Operators};
use crate::error::{Error, Result};
use crate::flush::FlushPolicy;
use crate::io::Compression;
use crate::pacing::Pacing;
use crate::tree::Shape;

/// Longest key: a path of 4 KiB and 16 bytes behind it.
pub const KEY_BYTES_MAX: usize = 4096 + 16;
/// Longest value.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// When a batch is safe. Whatever it says, batches are ordered: what a power cut leaves is everything up to some batch, in the order in
/// which they were committed. So one that must not survive without another needs to come behind it, and no waiting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Durability {
    /// In memory, until a later batch or a checkpoint takes it along.
    None,
    /// Handed to the storage: it outlives this process, and a power cut once a later batch is synced.
    Batch,
    /// On the storage, flushed.
    #[default]
    Sync,
}

/// Sizes, policies and operators. What is not said here is part of the format and read from the store.
///
/// The defaults are for NVMe devices: `docs/betree-format.md` has what other sizes cost.
#[derive(Clone)]
pub struct Options {
    /// Bytes of a leaf, decompressed, at which it is split.
    pub leaf_bytes: u64,
    /// Bytes of a basement and of a run's block: what one read fetches.
    pub basement_bytes: usize,
    /// Bits a key in the filters that spare lookups the reading of blocks without their key; 0 for none. 12 let four
    /// such blocks in 1,000 through.
    pub filter_bits: usize,
    /// Children of a node, at most.
    pub fanout: usize,
    /// Bytes that may wait in a node.
    pub buffer_bytes: u64,
    /// Bytes of new messages in memory before they go into the trees. While they do, up to twice as many more.
    pub memtable_bytes: u64,
    /// Bytes of changed nodes in memory before a checkpoint writes them; twice as many at most.
    pub fresh_bytes: u64,
    /// Bytes of clean blocks and nodes in memory.
    pub cache_bytes: usize,
    /// Bytes of the log, when a store is made.
    pub log_bytes: u64,
    /// Bytes from which on a value lies apart: it is written once, to whole blocks of its own, and log and nodes have its
    /// place. `usize::MAX`: none does.
    pub large_value_bytes: usize,
    /// Whether lookups and the beginnings of scans read the pages of a block that they need, where it can be read in part; else a block is
    /// read whole.
    pub reads_pages: bool,
    /// Bytes of freed blocks after which the storage is told that they are free; `None`: never. In a file that makes
    /// holes, which its file system has to fill again later.
    pub discard_bytes: Option<u64>,
    /// How blocks are compressed.
    pub compression: Compression,
    /// Which messages move down.
    pub flush_policy: FlushPolicy,
    /// Who does the work that is owed, and when.
    pub pacing: Pacing,
    /// A clock that never goes back, for [`Stats::commit_latency`](crate::Stats::commit_latency). The engine does
    /// nothing else with it.
    pub clock: Option<Arc<dyn Fn() -> Nanos + Send + Sync>>,
    /// Open a store whose log is damaged, which is refused otherwise. Batches from the damaged place on are lost; what
    /// is left is everything up to some batch.
    pub accept_log_damage: bool,
    /// What upserts do, by number.
    pub operators: Operators,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            leaf_bytes: 512 << 10,
            basement_bytes: 16 << 10,
            filter_bits: 12,
            fanout: 32,
            buffer_bytes: 8 << 20,
            memtable_bytes: 32 << 20,
            fresh_bytes: 64 << 20,
            cache_bytes: 256 << 20,
            log_bytes: 64 << 20,
            large_value_bytes: 16 << 10,
            reads_pages: true,
            discard_bytes: None,
            compression: Compression::default(),
            flush_policy: FlushPolicy::default(),
            pacing: Pacing::default(),
            clock: None,
            accept_log_damage: false,
            operators: Operators::default(),
        }
    }
}

impl Options {
    /// Registers an upsert operator under a number. A store that has its upserts cannot be read without it.
    #[must_use]
    pub fn operator(mut self, id: u16, operator: impl Operator + 'static) -> Self {
        self.operators.register(id, Arc::new(operator));
        self
    }

    /// Measures the times that commits take.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Nanos + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(now));
        self
    }

    /// The sizes, brought into the bounds in which a tree works.
    pub(crate) fn shape(&self) -> Shape {
        let basement_bytes = self.basement_bytes.clamp(256, 1 << 20);
        Shape {
            leaf_bytes: self.leaf_bytes.max(basement_bytes as u64),
            basement_bytes,
            filter_bits: self.filter_bits.min(64),
            fanout: self.fanout.clamp(4, 1024),
            buffer_bytes: self.buffer_bytes,
            policy: self.flush_policy,
        }
    }
}

/// Refuses what is too long.
pub(crate) fn check_length(what: &'static str, bytes: usize, max_bytes: usize) -> Result<()> {
    if bytes > max_bytes { Err(Error::TooLarge { what, bytes, max_bytes }) } else { Ok(()) }
}
