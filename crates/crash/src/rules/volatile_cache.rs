//! A write cache that a power cut empties.

use std::collections::{BTreeMap, BTreeSet};

use super::Rule;
use super::pending::Pending;
use crate::log::{Event, FlushId};
use crate::write::LoggedWrite;

/// A device with a volatile write cache (Identify Controller, VWC): a flush that completed makes every write durable that had
/// *completed before the flush was submitted*, and a write with FUA is durable when it completes (NVM command set, Flush and
/// Write). Of the other writes any units may be there, also of those that did not complete. Writes that are outstanding together
/// have no order.
#[derive(Clone, Debug, Default)]
pub struct VolatileCache {
    pending: Pending,
    /// Submitted with FUA and not completed, by entry.
    forced: BTreeSet<usize>,
    /// Of each outstanding flush, which writes it covers.
    flushes: BTreeMap<FlushId, Vec<usize>>,
}

impl Rule for VolatileCache {
    fn step(&mut self, index: usize, event: &Event, settled: &mut Vec<LoggedWrite>) -> bool {
        match event {
            Event::Write { id, offset_bytes, content, fua, .. } => {
                self.pending.submit(index, *id, *offset_bytes, content);
                if *fua {
                    self.forced.insert(index);
                }
                true
            }
            Event::Completed(id) => {
                let entry = self.pending.complete(index, *id);
                match entry.filter(|entry| self.forced.remove(entry)) {
                    Some(entry) => {
                        self.pending.settle(entry, settled);
                        true
                    }
                    None => false,
                }
            }
            Event::FlushSubmitted(flush) => {
                self.flushes.insert(*flush, self.pending.completed());
                false
            }
            Event::FlushCompleted(flush) => {
                for entry in self.flushes.remove(flush).unwrap_or_default() {
                    self.pending.settle(entry, settled);
                }
                true
            }
            _ => false,
        }
    }

    fn undecided(&self) -> Vec<&LoggedWrite> {
        self.pending.undecided()
    }
}
