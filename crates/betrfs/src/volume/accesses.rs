//! Times of access that are held, in the order of the reads.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::operations::{Attributes, InodeNumber, Timestamp};
use crate::rules;

/// So many files' at most.
const FILES_MAX: usize = 256;

/// When files were read, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Accesses {
    order: Vec<InodeNumber>,
    times: BTreeMap<InodeNumber, Timestamp>,
}

impl Accesses {
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Holds that a file was read; `false` where there is no room.
    pub fn hold(&mut self, inode: InodeNumber, now: Timestamp) -> bool {
        if self.len() == FILES_MAX {
            return false;
        }
        if let Entry::Vacant(place) = self.times.entry(inode) {
            place.insert(now);
            self.order.push(inode);
        }
        true
    }

    /// The first of them.
    pub fn first(&self, count: usize) -> impl Iterator<Item = (InodeNumber, Timestamp)> {
        self.order.iter().take(count).filter_map(|inode| Some((*inode, *self.times.get(inode)?)))
    }

    /// The first of them are in the store.
    pub fn forget_first(&mut self, count: usize) {
        for inode in self.order.drain(..count.min(self.order.len())) {
            self.times.remove(&inode);
        }
    }

    /// Attributes that the store has, as they are with what is held.
    pub fn seen(&self, attributes: Attributes) -> Attributes {
        let access = self.times.get(&attributes.inode).filter(|now| rules::notes_access(&attributes, **now));
        Attributes { accessed: access.copied().unwrap_or(attributes.accessed), ..attributes }
    }
}
