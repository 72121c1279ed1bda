//! What is asked of the journal and of the tasks that write.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use units::Nanos;

/// How a transaction is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommitMode {
    /// Data, then the journal's blocks, then the record with PREFLUSH and FUA, each waited for.
    #[default]
    Stock,
    /// `journal_async_commit,data=writeback`: the record goes with the journal's blocks, and a flush after them.
    AsyncCommit,
    /// Fast commits: a block that says what changed, with PREFLUSH and FUA.
    FastCommit,
    /// Data, the journal's blocks and the record go in order without a wait, and one flush after them.
    Ordered,
    /// The same, and the next transaction commits while the flush of this one is under way (BarrierFS's two threads).
    OrderedDual,
}

/// What a task calls after it has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncCall {
    /// Returns when data and metadata are durable.
    #[default]
    Fsync,
    /// Returns when data and metadata are in order: at the dispatch of the commit record.
    Fbarrier,
    /// Returns when the data is in order: at its dispatch. The metadata is committed later.
    Fdatabarrier,
}

/// Tasks that write blocks of their files and have them committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JournalOptions {
    /// How a transaction is committed.
    pub commit: CommitMode,
    /// What follows each write.
    pub call: SyncCall,
    /// Tasks, each with a file of its own.
    pub tasks: NonZeroU32,
    /// Calls of each task.
    pub calls: NonZeroU32,
    /// Blocks of 4 KiB that a task writes before each call.
    pub data_blocks: NonZeroU32,
    /// Blocks of metadata in a transaction of one task: with the descriptor and 8 the journal writes 36 KiB, as in the raw logs of
    /// the OPIMQ artifact. Each further task of the transaction adds its inode's.
    pub metadata_blocks: NonZeroU32,
    /// Size of the journal in blocks of 4 KiB: where three quarters are full, metadata is written home and the log begins again.
    pub journal_blocks: NonZeroU32,
    /// What a task computes between two calls.
    pub think_time: Nanos,
}

/// Blocks of the area of fast commits (`JBD2_DEFAULT_FAST_COMMIT_BLOCKS`).
pub(super) const FAST_COMMIT_BLOCKS: u32 = 256;

impl JournalOptions {
    /// Blocks of the journal that full commits have.
    pub(super) fn log_blocks(&self) -> u32 {
        let area = if self.commit == CommitMode::FastCommit { FAST_COMMIT_BLOCKS } else { 0 };
        self.journal_blocks.get().saturating_sub(area)
    }
}

impl Default for JournalOptions {
    fn default() -> Self {
        const fn number(number: u32) -> NonZeroU32 {
            NonZeroU32::new(number).expect("not zero")
        }
        Self {
            commit: CommitMode::default(),
            call: SyncCall::default(),
            tasks: const { number(1) },
            calls: const { number(1000) },
            data_blocks: const { number(1) },
            metadata_blocks: const { number(8) },
            journal_blocks: const { number(32_768) },
            think_time: Nanos::ZERO,
        }
    }
}
