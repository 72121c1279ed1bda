//! Which files may be loaded whole, or region by region: all that are read so, or none.
//!
//! What is loaded of one file stays in memory only if the others do not push it out. So a file's size is counted when it first wants to
//! be loaded, and when what all of them want does not fit, nothing more is loaded for any.

use std::collections::BTreeMap;

use crate::ledger::FileNumber;

/// Files that want to be loaded.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    wanted: BTreeMap<FileNumber, u64>,
    bytes: u64,
}

impl Whole {
    /// Counts a file of this size; whether all fits into `budget_bytes`.
    pub fn admits(&mut self, file: FileNumber, file_bytes: u64, budget_bytes: u64) -> bool {
        let before = self.wanted.insert(file, file_bytes).unwrap_or(0);
        self.bytes = self.bytes.saturating_sub(before).saturating_add(file_bytes);
        self.bytes <= budget_bytes
    }

    /// What is left of a budget.
    pub fn free_bytes(&self, budget_bytes: u64) -> u64 {
        if self.bytes > budget_bytes { 0 } else { budget_bytes }
    }

    /// Forgets files that are not read any more.
    pub fn retain(&mut self, mut is_read: impl FnMut(FileNumber) -> bool) {
        self.wanted.retain(|file, _| is_read(*file));
        self.bytes = self.wanted.values().fold(0, |sum, bytes| sum.saturating_add(*bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fit_or_none() {
        let mut whole = Whole::default();
        assert!(whole.admits(1, 60, 100) && whole.admits(1, 60, 100) && whole.admits(2, 40, 100));
        assert_eq!(whole.free_bytes(100), 100);
        assert!(!whole.admits(3, 1, 100) && !whole.admits(1, 60, 100));
        assert_eq!(whole.free_bytes(100), 0);
        whole.retain(|file| file != 2);
        assert!(whole.admits(1, 60, 100));
    }
}
