//! Where files, metadata and the journal lie.

use block::{Limits, Sector};

use super::JournalOptions;

/// A block of the file system in bytes, and in sectors.
pub(super) const BLOCK_BYTES: u64 = 4096;
const BLOCK_SECTORS: u64 = BLOCK_BYTES / Sector::BYTES;
/// Blocks of each task's file, written in turn.
const FILE_BLOCKS: u64 = 1024;
/// Blocks between the files, so that none is a neighbour of another.
const FILE_STRIDE: u64 = 2 * FILE_BLOCKS;

/// The areas of the device, one behind the other: superblock and metadata, journal, files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    journal_first: u64,
    files_first: u64,
}

impl Places {
    /// Of a device with these limits, or how many bytes it would have to have.
    pub fn new(options: &JournalOptions, limits: &Limits) -> Result<Self, u64> {
        let tasks = u64::from(options.tasks.get());
        // The superblock, what all tasks share, and an inode block for each.
        let journal_first = 1 + u64::from(options.metadata_blocks.get()) + tasks;
        let files_first = journal_first + u64::from(options.journal_blocks.get());
        let needed = (files_first + tasks * FILE_STRIDE) * BLOCK_BYTES;
        let there = limits.capacity_sectors * Sector::BYTES;
        if there < needed { Err(needed) } else { Ok(Self { journal_first, files_first }) }
    }

    pub fn superblock(self) -> Sector {
        Sector(0)
    }

    /// A block of metadata in its place.
    pub fn home(self, block: u32) -> Sector {
        Sector((1 + u64::from(block)) * BLOCK_SECTORS)
    }

    /// A block of the journal.
    pub fn journal(self, block: u32) -> Sector {
        Sector((self.journal_first + u64::from(block)) * BLOCK_SECTORS)
    }

    /// Where a task writes for the `n`-th time, so many blocks.
    pub fn file(self, task: u32, n: u64, blocks: u32) -> Sector {
        let turns = (FILE_BLOCKS / u64::from(blocks)).max(1);
        let first = self.files_first + u64::from(task) * FILE_STRIDE + n % turns * u64::from(blocks);
        Sector(first * BLOCK_SECTORS)
    }
}
