//! Inodes in memory, as many as a budget allows. Everything in it is in the store, too.

use std::collections::BTreeMap;

use crate::operations::InodeNumber;
use crate::schema::Inode;

/// What an inode takes, with its name and what the map needs for it, about.
const INODE_BYTES: usize = 400;

/// Two generations: what was not used while the younger one filled up goes.
#[derive(Debug)]
pub(super) struct InodeCache {
    young: BTreeMap<InodeNumber, Inode>,
    old: BTreeMap<InodeNumber, Inode>,
    /// What the younger one takes.
    young_bytes: usize,
    generation_bytes: usize,
}

impl InodeCache {
    pub fn new(budget_bytes: usize) -> Self {
        let generation_bytes = (budget_bytes / 2).max(INODE_BYTES);
        Self { young: BTreeMap::new(), old: BTreeMap::new(), young_bytes: 0, generation_bytes }
    }

    pub fn get(&mut self, number: InodeNumber) -> Option<Inode> {
        if let Some(inode) = self.young.get(&number) {
            return Some(inode.clone());
        }
        let inode = self.old.remove(&number)?;
        self.put(inode.clone());
        Some(inode)
    }

    pub fn put(&mut self, inode: Inode) {
        let bytes = INODE_BYTES + inode.locality.bytes();
        if self.young_bytes + bytes > self.generation_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        if let Some(before) = self.young.insert(inode.attributes.inode, inode) {
            self.young_bytes = self.young_bytes.saturating_sub(INODE_BYTES + before.locality.bytes());
        }
    }

    pub fn remove(&mut self, number: InodeNumber) {
        if let Some(before) = self.young.remove(&number) {
            self.young_bytes = self.young_bytes.saturating_sub(INODE_BYTES + before.locality.bytes());
        }
        self.old.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Timestamp;
    use crate::rules::root_attributes;
    use crate::schema::{Locality, Place, Schema};

    #[test]
    fn it_keeps_to_its_budget_and_what_is_used() {
        let mut cache = InodeCache::new(20 * INODE_BYTES);
        let inode = |number| {
            let mut attributes = root_attributes(Timestamp::default());
            attributes.inode = InodeNumber(number);
            Inode {
                attributes,
                entries: 0,
                is_patched: false,
                is_sparse: false,
                has_xattrs: false,
                beside: None,
                place: Place::Side,
                locality: Locality::unnamed(Schema::Inode, InodeNumber(number)),
                owes: false,
            }
        };
        for number in 0..1000 {
            cache.put(inode(number));
            assert!(cache.get(InodeNumber(0)).is_some());
            assert!(cache.young.len() + cache.old.len() <= 20);
        }
        assert!(cache.get(InodeNumber(5)).is_none() && cache.get(InodeNumber(999)).is_some());
        cache.remove(InodeNumber(999));
        assert!(cache.get(InodeNumber(999)).is_none());
    }
}
