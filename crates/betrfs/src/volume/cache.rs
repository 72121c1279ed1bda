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
    generation_inodes: usize,
}

impl InodeCache {
    pub fn new(budget_bytes: usize) -> Self {
        let generation_inodes = (budget_bytes / INODE_BYTES / 2).max(1);
        Self { young: BTreeMap::new(), old: BTreeMap::new(), generation_inodes }
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
        if self.young.len() >= self.generation_inodes {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(inode.attributes.inode, inode);
    }

    pub fn remove(&mut self, number: InodeNumber) {
        self.young.remove(&number);
        self.old.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Timestamp;
    use crate::rules::root_attributes;
    use crate::schema::{Locality, Place};

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
                locality: Locality::of_number(InodeNumber(number)),
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
