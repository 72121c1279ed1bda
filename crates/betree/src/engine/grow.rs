//! A storage that became larger.

use std::sync::atomic::Ordering;

use storage::BLOCK_BYTES;

use super::Engine;
use super::checkpoint::CatalogChange;
use crate::error::Result;
use crate::extents::Extent;
use crate::mutant::{Mutant, mutated};

impl Engine {
    /// Takes into use what the storage has behind the store's end; how many bytes.
    pub fn grow(&self) -> Result<u64> {
        let mut state = self.hold_trees();
        self.check()?;
        let (had, has) = (state.superblock.capacity_blocks, self.io.measure_blocks()?);
        let Some(blocks) = has.checked_sub(had).filter(|blocks| *blocks > 0) else { return Ok(0) };
        // Nothing is in flight afterwards that has its own idea of the free space.
        self.checkpoint_with(&mut state, CatalogChange::None)?;
        state.space.release(Extent { start: had, blocks });
        if !mutated(Mutant::GrowsSilently) {
            state.superblock.capacity_blocks = has;
        }
        self.free_blocks.store(state.space.free_blocks(), Ordering::Release);
        // The superblock that says how large the store is comes with the catalog that has the blocks.
        self.checkpoint_with(&mut state, CatalogChange::None)?;
        Ok(blocks * BLOCK_BYTES as u64)
    }
}
