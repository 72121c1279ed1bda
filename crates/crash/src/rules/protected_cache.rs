//! A device that a power cut takes nothing from that it acknowledged.

use super::Rule;
use super::pending::Pending;
use crate::log::Event;
use crate::write::LoggedWrite;

/// A device without a volatile write cache, or with capacitors behind it: a write is durable when it completes. Of what had not
/// completed any units may be there.
#[derive(Clone, Debug, Default)]
pub struct ProtectedCache {
    pending: Pending,
}

impl Rule for ProtectedCache {
    fn step(&mut self, index: usize, event: &Event, settled: &mut Vec<LoggedWrite>) -> bool {
        match event {
            Event::Write { id, offset_bytes, content, .. } => {
                self.pending.submit(index, *id, *offset_bytes, content);
                true
            }
            Event::Completed(id) => {
                if let Some(entry) = self.pending.complete(index, *id) {
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
