//! What was seen and done.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::policies::PAGE_BYTES;
use crate::shared::Table;

/// What a run came to, or has come to so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// Of windows, what their readers read.
    pub windows_used_bytes: u64,
    /// Of windows, what their readers left behind.
    pub windows_lost_bytes: u64,
    /// Windows whose readers came there.
    pub windows_entered: u64,
    /// Of them, such that were there to their end by then.
    pub windows_in_time: u64,
    /// Bytes of windows that had left memory again when their readers came.
    pub evicted_bytes: u64,
    /// Bytes that were taken from memory to make room.
    pub given_up_bytes: u64,
    /// Bytes of regions of files that were read at random, those that were in memory already among them.
    pub regions_bytes: u64,
    /// Of them, what was read at random, as a sample of the pages says.
    pub regions_used_bytes: u64,
    /// Whole files, regions and mappings that were begun.
    pub bulk_loads: u64,
    /// Requests whose file was gone by then.
    pub files_gone: u64,
    /// Requests for which there was no memory.
    pub refused: u64,
    /// Bytes that storage read for what was prefetched.
    pub device_bytes_prefetched: u64,
    /// Bytes that storage read for the command itself; 0 while it runs.
    pub device_bytes_command: u64,
}

impl Report {
    /// All of it. `ended`: there will be no more reads.
    pub fn of(table: &Table, ended: bool) -> Self {
        let mut seen = [0_u64; 8];
        for (_, file) in table.files() {
            // One that is held is counted as it was when it was last looked at.
            if let Some(guard) = file.try_lock() {
                file.settle(&guard, ended);
            }
        }
        let all = table.files().map(|(_, file)| &file.counts).chain([&table.header.left]);
        for counts in all {
            for (sum, count) in seen.iter_mut().zip(counts.all()) {
                *sum = sum.saturating_add(count.load(Ordering::Relaxed));
            }
        }
        let [accesses, accessed_bytes, requests, dropped, used, lost, regions, regions_used] = seen;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let bytes = |pages: u64| pages.saturating_mul(PAGE_BYTES);
        let done = &table.header.done;
        Self {
            programs: of(&table.header.programs),
            accesses,
            accessed_bytes,
            requests,
            dropped,
            windows_loaded: of(&done.plans),
            loaded_bytes: of(&done.loaded_bytes),
            windows_resident: of(&done.resident_plans),
            resident_bytes: of(&done.resident_bytes),
            windows_used_bytes: bytes(used),
            windows_lost_bytes: bytes(lost),
            windows_entered: of(&done.entered),
            windows_in_time: of(&done.in_time),
            evicted_bytes: of(&done.evicted_bytes),
            given_up_bytes: of(&done.given_up_bytes),
            regions_bytes: bytes(regions),
            regions_used_bytes: bytes(regions_used),
            bulk_loads: of(&done.bulk),
            files_gone: of(&done.gone),
            refused: of(&done.refused),
            device_bytes_prefetched: of(&done.device_bytes),
            device_bytes_command: 0,
        }
    }

    /// Of windows, the share that was read; none where none was loaded: of what was in memory already nobody can say whose work it is.
    pub fn accuracy(&self) -> Option<f64> {
        if self.windows_loaded == 0 {
            return None;
        }
        share(self.windows_used_bytes, self.windows_used_bytes + self.windows_lost_bytes)
    }

    /// Of what storage read, the share that was prefetched; none before the command has ended.
    pub fn coverage(&self) -> Option<f64> {
        let all = self.device_bytes_prefetched + self.device_bytes_command;
        if self.device_bytes_command == 0 { None } else { share(self.device_bytes_prefetched, all) }
    }

    /// Of windows whose readers came, the share that was there to its end by then.
    pub fn timeliness(&self) -> Option<f64> {
        share(self.windows_in_time, self.windows_entered)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
