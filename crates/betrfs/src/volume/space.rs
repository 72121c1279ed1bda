//! Who may still write when little space is left: removing things always.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Volume;
use crate::mutant::{Mutant, mutated};
use crate::operations::{Error, Result, Statistics};
use crate::refusal::{Refuser, is_refused};
use crate::rules::BLOCK_BYTES;

/// Of the storage one part in so many is for what removes things, besides the store's own reserve.
const RESERVE_PART: u64 = 32;
/// Bytes that operations may add before the store is asked again how much is free.
const ASK_PART: u64 = 512;
/// What an operation adds besides its data, about.
const OPERATION_BYTES: usize = 1024;

/// What was added since the store was asked.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Bytes that may be added before it is asked again.
    admitted: AtomicU64,
}

impl Volume {
    /// Refuses an operation that adds something where only the reserve is left.
    pub(super) fn admit(&self, bytes: usize) -> Result<()> {
        self.admit_beside(0, bytes)
    }

    /// The same beside bytes that were admitted and that the store does not have yet.
    pub(super) fn admit_beside(&self, held_bytes: usize, bytes: usize) -> Result<()> {
        if is_refused(Refuser::Admission) {
            return Err(Error::NoSpace);
        }
        let bytes = (bytes + OPERATION_BYTES) as u64;
        let take = |admitted: u64| admitted.checked_sub(bytes);
        if self.space.admitted.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok() {
            return Ok(());
        }
        let held = if mutated(Mutant::HeldNotCounted) { 0 } else { held_bytes as u64 };
        let spare_bytes = || self.spare_bytes().saturating_sub(held);
        let mut spare = spare_bytes();
        if spare < bytes {
            // What was removed comes back when the deletes have reached it.
            self.store.database.quiesce()?;
            spare = spare_bytes();
        }
        if spare < bytes {
            return Err(Error::NoSpace);
        }
        let ask = self.store.database.stats().capacity_bytes / ASK_PART;
        self.space.admitted.store((spare - bytes).min(ask), Ordering::Release);
        Ok(())
    }

    /// Whether so much may be added.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.spare_bytes() >= bytes as u64
    }

    /// Bytes that may be added.
    fn spare_bytes(&self) -> u64 {
        let stats = self.store.database.stats();
        if mutated(Mutant::ReserveIgnored) {
            return u64::MAX;
        }
        stats.spare_bytes.saturating_sub(stats.capacity_bytes / RESERVE_PART)
    }

    pub(super) fn statistics(&self) -> Statistics {
        let stats = self.store.database.stats();
        let free = (stats.free_bytes + stats.waiting_bytes) / BLOCK_BYTES;
        let available = self.spare_bytes() / BLOCK_BYTES;
        // Inodes have no table: there may be as many as there is room for.
        let free_inodes = available * (BLOCK_BYTES / OPERATION_BYTES as u64);
        Statistics {
            block_bytes: BLOCK_BYTES as u32,
            blocks: stats.capacity_bytes / BLOCK_BYTES,
            free_blocks: free,
            available_blocks: available.min(free),
            inodes: stats.capacity_bytes / OPERATION_BYTES as u64,
            free_inodes,
            name_bytes_max: 255,
        }
    }
}
