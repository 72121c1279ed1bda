//! What a file system's server computes.

use serde::{Deserialize, Serialize};

/// What each kind of work of the server of betrfs costs: a linear law of few terms, by request and by byte. `plumb calibrate cpu`
/// measures it, and under `plumb linux --charge` the server sleeps for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerCosts {
    /// A name or an inode that is made, removed, renamed or changed.
    pub change_ns: u32,
    /// A name that is looked up, or attributes that are told.
    pub lookup_ns: u32,
    /// A file that is opened or released, and whatever else is asked.
    pub other_ns: u32,
    /// A read, of no bytes.
    pub read_ns: u32,
    /// What it returns, from memory.
    pub read_ns_per_kib: u32,
    /// A write, of no bytes.
    pub write_ns: u32,
    /// What it takes.
    pub write_ns_per_kib: u32,
    /// What a directory's listing returns.
    pub listing_ns_per_kib: u32,
    /// A sync, besides what the device takes.
    pub sync_ns: u32,
    /// Bytes that move down the trees: merged, packed and written.
    pub worked_ns_per_kib: u32,
    /// Bytes that come from the device: checked and unpacked.
    pub loaded_ns_per_kib: u32,
}

impl ServerCosts {
    /// Names and values, as in the file.
    pub fn entries(&self) -> [(&'static str, u32); 11] {
        [
            ("change_ns", self.change_ns),
            ("lookup_ns", self.lookup_ns),
            ("other_ns", self.other_ns),
            ("read_ns", self.read_ns),
            ("read_ns_per_kib", self.read_ns_per_kib),
            ("write_ns", self.write_ns),
            ("write_ns_per_kib", self.write_ns_per_kib),
            ("listing_ns_per_kib", self.listing_ns_per_kib),
            ("sync_ns", self.sync_ns),
            ("worked_ns_per_kib", self.worked_ns_per_kib),
            ("loaded_ns_per_kib", self.loaded_ns_per_kib),
        ]
    }
}
