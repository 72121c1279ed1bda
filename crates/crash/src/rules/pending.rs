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

/// Writes in the order in which they replace each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    /// By turn, which is the entry of the log where a rule knows of no other order: a name that is used again after its
    /// completion is another write.
    writes: BTreeMap<usize, Write>,
    outstanding: BTreeMap<WriteId, usize>,
}

impl Pending {
    /// Entry `index` submits a write.
    pub(super) fn submit(&mut self, index: usize, id: WriteId, offset_bytes: u64, content: &Content) {
        self.accept(index, LoggedWrite::new(index, id, offset_bytes, content));
    }

    /// A write that was submitted has this turn.
    pub(super) fn accept(&mut self, turn: usize, logged: LoggedWrite) {
        self.outstanding.insert(logged.id, turn);
        self.writes.insert(turn, Write { logged, completed: None });
    }

    /// Entry `index` completes a write; its turn.
    pub(super) fn complete(&mut self, index: usize, id: WriteId) -> Option<usize> {
        let turn = self.outstanding.remove(&id)?;
        self.writes.get_mut(&turn)?.completed = Some(index);
        Some(turn)
    }

    /// How long a write is.
    pub(super) fn len_bytes(&self, turn: usize) -> u64 {
        self.writes.get(&turn).map_or(0, |write| write.logged.content.len_bytes())
    }

    /// Those that have completed, by turn.
    pub(super) fn completed(&self) -> Vec<usize> {
        self.writes.iter().filter(|(_, write)| write.completed.is_some()).map(|(turn, _)| *turn).collect()
    }

    /// A write is durable. What had completed before it was submitted cannot come back in its place.
    pub(super) fn settle(&mut self, turn: usize, settled: &mut Vec<LoggedWrite>) {
        let Some(write) = self.writes.remove(&turn) else { return };
        let range = write.logged.range();
        for (_, older) in self.writes.range_mut(..turn) {
            if older.completed.is_some_and(|completed| completed < write.logged.entry) {
                older.logged.overtake(&range);
            }
        }
        settled.push(write.logged);
    }

    pub(super) fn undecided(&self) -> Vec<&LoggedWrite> {
        self.writes.values().map(|write| &write.logged).collect()
    }
}
