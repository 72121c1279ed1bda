//! Telling the storage what is free.

use storage::BLOCK_BYTES;

use super::Engine;
use crate::error::Result;

/// Blocks that it is told of before others have their turn.
const PIECE_BLOCKS: u64 = (64 << 20) / BLOCK_BYTES as u64;

impl Engine {
    /// Tells the storage everything that is free; how many bytes.
    pub fn trim(&self) -> Result<u64> {
        let (mut block, mut told) = (0, 0);
        loop {
            // Nothing of a piece is used again before the storage has heard of it.
            let mut state = self.hold_trees();
            self.check()?;
            // A piece of work that holds the space has its own idea of what is free.
            if state.flight.holds_space() {
                self.drain(&mut state)?;
            }
            let piece = state.space.free_from(block, PIECE_BLOCKS);
            let Some(last) = piece.last() else { return Ok(told) };
            block = last.end();
            for extent in &piece {
                self.io.discard(*extent)?;
                state.space.discarded(*extent);
                told += extent.blocks * BLOCK_BYTES as u64;
            }
        }
    }
}
