//! Granules that were written last, in memory: the store writes long values to places of their own and does not keep them, and who reads
//! what was just written should not wait for the device.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::mutant::{Mutant, mutated};
use crate::operations::InodeNumber;

/// Which granule.
type Which = (InodeNumber, u64);

/// What a change did to the bytes of granules.
#[derive(Debug)]
pub(super) enum Touched {
    Written(Which, Arc<[u8]>),
    /// From one to before another.
    Gone(InodeNumber, Range<u64>),
}

/// As many as a budget allows, the newest.
#[derive(Debug)]
pub(super) struct Recent {
    /// With the number of the change that wrote it, since which nothing has happened to it.
    granules: BTreeMap<Which, (u64, Arc<[u8]>)>,
    order: VecDeque<(u64, Which)>,
    bytes: usize,
    budget_bytes: usize,
}

impl Recent {
    pub fn new(budget_bytes: usize) -> Self {
        Self { granules: BTreeMap::new(), order: VecDeque::new(), bytes: 0, budget_bytes }
    }

    /// The bytes of a granule after so many changes, without patches; none where they are not known, or are of later.
    pub fn get(&self, which: Which, changes: u64) -> Option<Arc<[u8]>> {
        let (since, bytes) = self.granules.get(&which)?;
        (*since <= changes || mutated(Mutant::RecentOfLater)).then(|| Arc::clone(bytes))
    }

    /// What the change with this number did.
    pub fn note(&mut self, touched: Vec<Touched>, change: u64) {
        for touched in touched {
            match touched {
                Touched::Written(which, bytes) => {
                    self.remove(which);
                    self.bytes += bytes.len();
                    self.granules.insert(which, (change, bytes));
                    self.order.push_back((change, which));
                }
                Touched::Gone(..) if mutated(Mutant::RecentStays) => {}
                Touched::Gone(inode, granules) => {
                    let range = (inode, granules.start)..(inode, granules.end);
                    let gone: Vec<Which> = self.granules.range(range).map(|(which, _)| *which).collect();
                    gone.into_iter().for_each(|which| self.remove(which));
                }
            }
        }
        while self.bytes > self.budget_bytes || self.order.len() > 2 * self.granules.len() + 64 {
            let Some((change, which)) = self.order.pop_front() else { break };
            let is_last = self.granules.get(&which).is_some_and(|(since, _)| *since == change);
            if is_last && self.bytes > self.budget_bytes {
                self.remove(which);
            } else if is_last {
                self.order.push_back((change, which));
            }
        }
    }

    fn remove(&mut self, which: Which) {
        if let Some((_, bytes)) = self.granules.remove(&which) {
            self.bytes -= bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_newest_within_its_budget() {
        let mut recent = Recent::new(1000);
        let which = |number| (InodeNumber(number % 7), number);
        for number in 0..500u64 {
            recent.note(vec![Touched::Written(which(number), vec![number as u8; 90].into())], number);
            recent.note(vec![Touched::Gone(InodeNumber(number % 5), number..number + 1)], number);
            assert!(recent.bytes <= 1000 && recent.order.len() <= 2 * recent.granules.len() + 64);
        }
        // Granule 499 is of inode 2, and what went then was of inode 4.
        assert_eq!(recent.get(which(499), 499).as_deref(), Some(&[499u64 as u8; 90][..]));
        assert_eq!(recent.get(which(499), 498), None, "it is of later");
        assert_eq!(recent.get(which(3), 499), None);
        recent.note(vec![Touched::Gone(InodeNumber(2), 0..u64::MAX)], 500);
        assert_eq!(recent.get(which(499), 500), None);
    }
}
