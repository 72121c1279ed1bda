//! A trace in memory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{Access, FileId};

/// Which ranges of which files were read and written, how, and how often.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// Where it came from: the names of its sources, distinct, sorted and joined by `+`.
    pub source: String,
    /// The files of `accesses`, with the path that each had when it was traced, where
    /// it had one. Paths are hints: [`locate`](super::locate) says what is there now.
    pub files: BTreeMap<FileId, Option<PathBuf>>,
    /// Distinct in file, kind and range; in the order of their first appearance.
    pub accesses: Vec<Access>,
    /// Events that the source dropped because its buffers were full.
    pub lost: u64,
    /// Events to inodes of which no file could be found (deleted meanwhile), or, on
    /// Btrfs, more than one (the same number in two subvolumes).
    pub unresolved: u64,
}

impl Trace {
    /// The accesses to each file, in their order.
    pub fn by_file(&self) -> BTreeMap<FileId, Vec<Access>> {
        let mut files: BTreeMap<FileId, Vec<Access>> = BTreeMap::new();
        for access in &self.accesses {
            files.entry(access.file).or_default().push(*access);
        }
        files
    }

    /// How many accesses there were, equal ones counted each.
    pub fn events(&self) -> u64 {
        self.accesses.iter().fold(0, |sum, access| sum.saturating_add(access.count))
    }
}
