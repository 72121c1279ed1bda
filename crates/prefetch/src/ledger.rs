//! What was loaded and nobody has read yet: the ranges of all files, within a budget.
//!
//! What is read leaves the ledger, since it is the program's and the kernel's from then on; what was in memory before never gets in.
//! So what is given up to make room is only what was loaded here, and the oldest first: it is the likeliest to have been a mistake.
//! The number of ranges is bounded: neighbours are merged, and beyond the bound the oldest are forgotten, which leaves them to the
//! kernel's reclaim.

use std::collections::BTreeMap;

use crate::mutant::{Mutant, mutated};
use crate::plan::Range;

/// Neighbours are not merged beyond, so that what is given up at once stays small.
const MOST_MERGED_BYTES: u64 = 2 << 20;

/// Which file.
pub type FileNumber = u64;

/// Loaded and unread ranges.
#[derive(Clone, Debug)]
pub struct Ledger {
    limit_bytes: u64,
    most_ranges: usize,
    bytes: u64,
    clock: u64,
    /// By file and first byte: the byte behind the last, and when it was loaded.
    ranges: BTreeMap<(FileNumber, u64), (u64, u64)>,
    by_age: BTreeMap<u64, (FileNumber, u64)>,
}

impl Ledger {
    /// An empty ledger of `limit_bytes`, that knows `most_ranges` ranges at most.
    pub fn new(limit_bytes: u64, most_ranges: usize) -> Self {
        Self { limit_bytes, most_ranges, bytes: 0, clock: 0, ranges: BTreeMap::new(), by_age: BTreeMap::new() }
    }

    /// Bytes loaded and unread.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Another budget from now on.
    pub fn set_limit(&mut self, limit_bytes: u64) {
        self.limit_bytes = limit_bytes;
    }

    /// What may be loaded without giving anything up.
    pub fn free_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.bytes)
    }

    /// Gives up the oldest ranges until `bytes` more are within the budget (or nothing is left): the caller takes them from memory.
    pub fn make_room(&mut self, bytes: u64) -> Vec<(FileNumber, Range)> {
        let mut given_up = Vec::new();
        while self.bytes.saturating_add(bytes) > self.limit_bytes {
            let Some(oldest) = self.forget_oldest() else { break };
            given_up.push(oldest);
        }
        given_up
    }

    /// The range was not in memory and is being loaded.
    pub fn load(&mut self, file: FileNumber, range: Range) {
        self.remove(file, range);
        let Range { mut start_bytes, mut end_bytes } = range;
        if start_bytes >= end_bytes {
            return;
        }
        let before = self.ranges.range(..(file, start_bytes)).next_back().map(|(key, value)| (*key, *value));
        if let Some(((of, start), (end, age))) = before
            && of == file
            && end == start_bytes
            && end_bytes - start <= MOST_MERGED_BYTES
        {
            self.take((of, start), end, age);
            start_bytes = start;
        }
        if let Some((end, age)) = self.ranges.get(&(file, end_bytes)).copied()
            && end - start_bytes <= MOST_MERGED_BYTES
        {
            self.take((file, end_bytes), end, age);
            end_bytes = end;
        }
        self.clock += 1;
        self.put((file, start_bytes), end_bytes, self.clock);
        while self.ranges.len() > self.most_ranges {
            self.forget_oldest();
        }
    }

    /// The range was read, or has left memory.
    pub fn remove(&mut self, file: FileNumber, range: Range) {
        if range.start_bytes >= range.end_bytes || self.bytes == 0 || mutated(Mutant::ReadStays) {
            return;
        }
        // Each turn takes one range that overlaps, and puts its rest back, which does not.
        loop {
            let last = self.ranges.range(..(file, range.end_bytes)).next_back().map(|(key, value)| (*key, *value));
            let Some(((of, start), (end, age))) = last else { return };
            if of != file || end <= range.start_bytes {
                return;
            }
            self.take((of, start), end, age);
            if end > range.end_bytes {
                // Its age stays with the first part, if there is one; two cannot share it.
                self.clock += 1;
                let age = if start < range.start_bytes { self.clock } else { age };
                self.put((file, range.end_bytes), end, age);
            }
            if start < range.start_bytes {
                self.put((file, start), range.start_bytes, age);
            }
        }
    }

    fn forget_oldest(&mut self) -> Option<(FileNumber, Range)> {
        let newest = mutated(Mutant::NewestGoes).then(|| self.by_age.last_key_value()).flatten();
        let (age, key) = newest.or(self.by_age.first_key_value()).map(|(age, key)| (*age, *key))?;
        let end_bytes = self.ranges.get(&key).map_or(key.1, |(end, _)| *end);
        self.take(key, end_bytes, age);
        Some((key.0, Range { start_bytes: key.1, end_bytes }))
    }

    fn put(&mut self, key: (FileNumber, u64), end_bytes: u64, age: u64) {
        self.ranges.insert(key, (end_bytes, age));
        self.by_age.insert(age, key);
        self.bytes += end_bytes - key.1;
    }

    fn take(&mut self, key: (FileNumber, u64), end_bytes: u64, age: u64) {
        self.ranges.remove(&key);
        self.by_age.remove(&age);
        self.bytes -= end_bytes - key.1;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn range(start_bytes: u64, length_bytes: u64) -> Range {
        Range { start_bytes, end_bytes: start_bytes + length_bytes }
    }

    #[test]
    pub(crate) fn the_oldest_gives_way_and_neighbours_are_one() {
        let mut ledger = Ledger::new(100, 8);
        ledger.load(1, range(0, 30));
        ledger.load(2, range(0, 30));
        ledger.load(2, range(30, 30));
        assert_eq!((ledger.bytes(), ledger.free_bytes()), (90, 10));
        assert_eq!(ledger.make_room(10), []);
        assert_eq!(ledger.make_room(20), [(1, range(0, 30))]);
        ledger.remove(2, range(10, 10));
        assert_eq!(ledger.make_room(1000), [(2, range(0, 10)), (2, range(20, 40))]);
        assert_eq!(ledger.bytes(), 0);
    }

    proptest! {
        #[test]
        fn a_ledger_is_a_set_of_bytes(
            steps in prop::collection::vec((any::<bool>(), 0..3u64, 0..60u64, 0..20u64), 1..80),
            room in 0..200u64,
        ) {
            let mut ledger = Ledger::new(120, 1000);
            let mut model = BTreeSet::new();
            for (load, file, start, length) in steps {
                let bytes = (start..start + length).map(|byte| (file, byte));
                if load {
                    ledger.load(file, range(start, length));
                    model.extend(bytes);
                } else {
                    ledger.remove(file, range(start, length));
                    bytes.for_each(|byte| { model.remove(&byte); });
                }
                prop_assert_eq!(ledger.bytes(), model.len() as u64);
                prop_assert_eq!(ledger.by_age.len(), ledger.ranges.len());
            }
            for (file, given_up) in ledger.make_room(room) {
                for byte in given_up.start_bytes..given_up.end_bytes {
                    prop_assert!(model.remove(&(file, byte)), "what is given up was loaded");
                }
            }
            prop_assert_eq!(ledger.bytes(), model.len() as u64);
            prop_assert!(ledger.bytes() + room <= 120 || ledger.bytes() == 0);
        }

        #[test]
        fn a_ledger_is_bounded(starts in prop::collection::vec((0..3u64, 0..10_000u64), 1..200)) {
            let mut ledger = Ledger::new(u64::MAX, 16);
            for (file, start) in starts {
                ledger.load(file, range(start * 10, 5));
                prop_assert!(ledger.ranges.len() <= 16);
            }
        }
    }
}
