//! Writes that are not durable yet: what all rules keep.

use std::collections::BTreeMap;

use crate::log::{Content, WriteId};
use crate::write::LoggedWrite;

/// A write and which entry says that it completed.
#[derive(Clone, Debug)]
struct Write {
    logged: LoggedWrite,
    completed: Option<usize>,
}

/// Writes in order of submission.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    /// By entry of the log: a name that is used again after its completion is another write.
    writes: BTreeMap<usize, Write>,
    outstanding: BTreeMap<WriteId, usize>,
}

impl Pending {
    /// Entry `index` submits a write.
    pub(super) fn submit(&mut self, index: usize, id: WriteId, offset_bytes: u64, content: &Content) {
        let logged = LoggedWrite::new(index, id, offset_bytes, content);
        self.writes.insert(index, Write { logged, completed: None });
        self.outstanding.insert(id, index);
    }

    /// Entry `index` completes a write; which entry submitted it.
    pub(super) fn complete(&mut self, index: usize, id: WriteId) -> Option<usize> {
        let entry = self.outstanding.remove(&id)?;
        self.writes.get_mut(&entry)?.completed = Some(index);
        Some(entry)
    }

    /// How long the write of an entry is.
    pub(super) fn len_bytes(&self, entry: usize) -> u64 {
        self.writes.get(&entry).map_or(0, |write| write.logged.content.len_bytes())
    }

    /// Those that have completed, by entry.
    pub(super) fn completed(&self) -> Vec<usize> {
        self.writes.iter().filter(|(_, write)| write.completed.is_some()).map(|(entry, _)| *entry).collect()
    }

    /// A write is durable. What had completed before it was submitted cannot come back in its place.
    pub(super) fn settle(&mut self, entry: usize, settled: &mut Vec<LoggedWrite>) {
        let Some(write) = self.writes.remove(&entry) else { return };
        let range = write.logged.range();
        for (_, older) in self.writes.range_mut(..entry) {
            if older.completed.is_some_and(|completed| completed < entry) {
                older.logged.overtake(&range);
            }
        }
        settled.push(write.logged);
    }

    pub(super) fn undecided(&self) -> Vec<&LoggedWrite> {
        self.writes.values().map(|write| &write.logged).collect()
    }
}
