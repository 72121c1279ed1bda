//! What was seen and done.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::shared::Table;

/// Counted by the executor.
#[derive(Default)]
pub struct Counts {
    /// Windows that were loaded.
    pub plans: AtomicU64,
    /// Bytes of them, and of whole files and mappings.
    pub loaded_bytes: AtomicU64,
    /// Windows that were in memory already.
    pub resident_plans: AtomicU64,
    /// Bytes of them.
    pub resident_bytes: AtomicU64,
    /// Whole files and mappings that were begun.
    pub bulk: AtomicU64,
    /// Requests whose file was gone.
    pub gone: AtomicU64,
    /// Requests for which there was no memory or no room.
    pub refused: AtomicU64,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Programs that the library was active in.
    pub programs: u64,
    /// Reads of files that were followed.
    pub accesses: u64,
    /// Bytes of them.
    pub accessed_bytes: u64,
    /// Requests of programs.
    pub requests: u64,
    /// Plans for which there was no room.
    pub dropped: u64,
    /// Windows that were loaded.
    pub windows_loaded: u64,
    /// Bytes that were asked of the kernel, in windows, whole files and mappings.
    pub loaded_bytes: u64,
    /// Windows that were in memory already.
    pub windows_resident: u64,
    /// Bytes of them.
    pub resident_bytes: u64,
    /// Whole files and mappings that were begun.
    pub bulk_loads: u64,
    /// Requests whose file was gone by then.
    pub files_gone: u64,
    /// Requests for which there was no memory.
    pub refused: u64,
}

impl Counts {
    /// All of it, with what programs counted.
    pub fn report(&self, table: &Table) -> Report {
        let mut seen = [0_u64; 4];
        let all = table.files().iter().map(|file| &file.counts).chain([&table.header.left]);
        for counts in all {
            for (sum, count) in seen.iter_mut().zip(counts.all()) {
                *sum = sum.saturating_add(count.load(Ordering::Relaxed));
            }
        }
        let [accesses, accessed_bytes, requests, dropped] = seen;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Report {
            programs: of(&table.header.programs),
            accesses,
            accessed_bytes,
            requests,
            dropped,
            windows_loaded: of(&self.plans),
            loaded_bytes: of(&self.loaded_bytes),
            windows_resident: of(&self.resident_plans),
            resident_bytes: of(&self.resident_bytes),
            bulk_loads: of(&self.bulk),
            files_gone: of(&self.gone),
            refused: of(&self.refused),
        }
    }
}
