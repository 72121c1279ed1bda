//! How small a storage may be. It follows from the options alone, so that it is known before there is a storage.

use storage::BLOCK_BYTES;

use crate::options::Options;
use crate::superblock::LOG_START;

/// The least log: a few frames.
const LOG_BLOCKS_MIN: u64 = 16;

/// Blocks that an empty catalog takes.
pub(super) const CATALOG_BLOCKS: u64 = 1;

const BLOCK: u64 = BLOCK_BYTES as u64;

impl Options {
    /// Blocks of the log of a store that is made on a storage of so many; none where that is too small for any.
    pub(super) fn log_blocks(&self, capacity_blocks: u64) -> Option<u64> {
        let wanted = (self.log_bytes / BLOCK).max(LOG_BLOCKS_MIN);
        Some(wanted.min(capacity_blocks / 4)).filter(|blocks| *blocks >= LOG_BLOCKS_MIN)
    }

    /// Bytes that are kept back so that deletes and checkpoints succeed on a full store: half of it for deletes on
    /// their way, half for rewriting leaves, one after the other with a checkpoint in between.
    pub(super) fn reserve_bytes(&self, capacity_bytes: u64) -> u64 {
        let shape = self.shape();
        let least = 2 * (3 * shape.leaf_storage_bytes() + shape.overhead_bytes());
        (capacity_bytes / 16).max(least).min(capacity_bytes / 4)
    }

    /// Bytes that the next checkpoint takes, with so many bytes of messages in memory and of changed nodes.
    pub(super) fn needed_bytes(&self, message_bytes: u64, fresh_bytes: u64) -> u64 {
        let shape = self.shape();
        shape.storage_bytes(message_bytes) + fresh_bytes + shape.overhead_bytes()
    }

    /// Whether a store that is made on so many blocks takes anything: a tree, and a block of messages.
    fn is_enough(&self, blocks: u64) -> bool {
        let Some(log_blocks) = self.log_blocks(blocks) else { return false };
        let free = blocks.saturating_sub(LOG_START + log_blocks + CATALOG_BLOCKS) * BLOCK;
        free > self.reserve_bytes(blocks * BLOCK) + self.needed_bytes(BLOCK, BLOCK)
    }

    /// Bytes of the smallest storage that a store with these options takes anything on.
    pub fn least_capacity_bytes(&self) -> u64 {
        let (mut small, mut enough) = (0, 4 * LOG_BLOCKS_MIN);
        while !self.is_enough(enough) {
            (small, enough) = (enough, enough * 2);
        }
        while enough - small > 1 {
            let middle = small + (enough - small) / 2;
            if self.is_enough(middle) {
                enough = middle;
            } else {
                small = middle;
            }
        }
        enough * BLOCK
    }
}

#[cfg(test)]
mod tests {
    use storage::Memory;

    use super::*;
    use crate::{Database, Durability, Error};

    /// What is said before a store is made is what making one finds.
    #[test]
    fn the_least_size_is_enough_and_a_block_less_is_not() {
        let sizes =
            [(512 << 10, 16 << 10, 32, 256 << 10), (2000, 512, 4, 64 << 10), (4 << 20, 128 << 10, 64, 64 << 20)];
        for (leaf_bytes, basement_bytes, fanout, log_bytes) in sizes {
            let options = Options { leaf_bytes, basement_bytes, fanout, log_bytes, ..Options::default() };
            let least = options.least_capacity_bytes();
            let small = Database::create(Memory::new(least - BLOCK), options.clone(), 1);
            assert!(
                matches!(small, Err(Error::TooSmall { needed_bytes, .. }) if needed_bytes == least),
                "{least} bytes are said to be needed: {small:?}"
            );
            let database = Database::create(Memory::new(least), options, 1).unwrap();
            database.tree("t").unwrap().insert("a", "b", Durability::Sync).unwrap();
        }
    }
}
