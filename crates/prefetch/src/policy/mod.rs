//! What to load when a file is opened, mapped or read: sibling files behind one interface, named as the configurations of
//! CrossPrefetch (ASPLOS 2024). A policy has no state of its own; each file has a [`FileState`].

mod app_only;
mod budget;
mod fetch_all;
mod mapping;
mod os_only;
mod predict;

#[cfg(test)]
pub(crate) mod tests;

use crate::access::{Access, Limits, PAGE_BYTES};
use crate::bulk::Bulk;
use crate::mutant::{Mutant, mutated};
use crate::plan::Plan;
use crate::streams::Streams;

/// What a policy knows of one file: plain numbers, of which any are valid. All zero is a file that nobody has read.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FileState {
    /// Its readers.
    pub streams: Streams,
    /// What reading it at random has cost.
    pub bulk: Bulk,
}

impl FileState {
    /// A file that nobody has read.
    pub const NEW: Self = Self { streams: Streams::NEW, bulk: Bulk::NEW };

    /// The plan was not carried out since its pages are there already.
    pub fn resident(&mut self, plan: &Plan) {
        self.streams.resident(plan);
    }

    /// The plan was not carried out since the kernel's own window reaches so far, which is not as far as one here would.
    pub fn reached(&mut self, plan: &Plan) {
        self.streams.reached(plan);
    }

    /// The plan was not carried out for another reason, and may be made again.
    pub fn dropped(&mut self, plan: &Plan, file_bytes: u64) {
        self.streams.dropped(plan);
        self.bulk.dropped(plan, file_bytes);
    }

    /// Bytes that were loaded for the file and left memory before anybody read them.
    pub fn wasted(&mut self, bytes: u64) {
        self.streams.wasted(bytes);
    }
}

/// What a machine is taken for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Of the device, when it reads large requests.
    pub bandwidth_bytes_per_second: u64,
    /// From a small request to its answer.
    pub latency_ns: u64,
    /// The kernel's window (`read_ahead_kb`), beyond which one request loads nothing.
    pub readahead_bytes: u64,
    /// What may be loaded and not read yet, in all: of a memory limit, or of what is available. What is loaded for new readers takes
    /// the place of the oldest.
    pub memory_bytes: u64,
    /// Of that, free now: whole files and mappings take nobody's place.
    pub free_bytes: u64,
}

impl Host {
    /// How long one pass over a file takes.
    pub const fn pass_ns(&self, file_bytes: u64) -> u64 {
        let bandwidth = if self.bandwidth_bytes_per_second == 0 { 1 } else { self.bandwidth_bytes_per_second };
        let ns = file_bytes as u128 * 1_000_000_000 / bandwidth as u128;
        if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
    }

    /// Bounds for a file's readers, with the kernel's window as the largest, or without. `kept`: what they leave behind others will read.
    pub const fn limits(&self, file_bytes: u64, lifted: bool, kept: bool) -> Limits {
        let window_bytes = Limits::window_bytes(self.bandwidth_bytes_per_second, self.latency_ns, self.memory_bytes);
        let forward = window_bytes > self.readahead_bytes;
        let window_bytes = if lifted || !forward { window_bytes } else { self.readahead_bytes };
        let shared = Limits::is_shared(self.latency_ns);
        Limits { file_bytes, window_bytes, ahead_bytes: self.memory_bytes, forward, shared, kept }
    }
}

/// A file's mapping into memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First byte of the file.
    pub offset_bytes: u64,
    /// Bytes mapped.
    pub length_bytes: u64,
    /// Of them, in memory already.
    pub resident_bytes: u64,
    /// Whether it may be written.
    pub writable: bool,
}

/// What a program did to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It opened it.
    Opened,
    /// It mapped it.
    Mapped(Mapping),
    /// It read it.
    Read(Access),
}

/// What becomes of a program's own advice (`readahead`, `posix_fadvise`, `madvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The kernel is told.
    Kept,
    /// It is not.
    Dropped,
}

/// What to load, and when.
pub trait Policy: Sync {
    /// Takes an event into account; what should be loaded now, if anything.
    fn observe(&self, file: &mut FileState, event: &Event, file_bytes: u64, host: &Host) -> Option<Plan>;

    /// What becomes of the program's own advice.
    fn advice(&self) -> Advice {
        Advice::Kept
    }

    /// Whether a plan may go beyond the kernel's window, in more than one request.
    fn lifts_limits(&self) -> bool {
        false
    }

    /// Whether what was loaded and read leaves memory to make room.
    fn evicts(&self) -> bool {
        false
    }
}

/// Every policy and its name.
pub const POLICIES: [(&str, &dyn Policy); 6] = [
    ("app-only", &app_only::AppOnly),
    ("os-only", &os_only::OsOnly),
    ("predict", &predict::Predict { lifted: false }),
    ("predict+opt", &predict::Predict { lifted: true }),
    ("fetchall+opt", &fetch_all::FetchAll),
    ("budget", &budget::Budget),
];

/// The policy of this name.
pub fn named(name: &str) -> Option<&'static dyn Policy> {
    POLICIES.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy)
}

/// The window that a read asks for, if it does.
fn window(file: &mut FileState, access: &Access, file_bytes: u64, lifted: bool, host: &Host) -> Option<Plan> {
    let limits = host.limits(file_bytes, lifted, file.bulk.is_wanted());
    let plan = file.streams.observe(*access, &limits);
    if let Some(passed) = file.streams.passed() {
        file.bulk.passed(passed, file_bytes);
    }
    plan
}

/// A whole file, if it may be loaded.
fn whole(file_bytes: u64, host: &Host) -> Option<Plan> {
    let pages = file_bytes.div_ceil(PAGE_BYTES);
    let fits = pages <= host.free_bytes / PAGE_BYTES || mutated(Mutant::BudgetIgnored);
    (pages > 0 && fits).then(|| Plan::contiguous(0, file_bytes))
}
