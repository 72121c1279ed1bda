//! What was loaded here and, as far as is known, not read yet: what makes room when the budget is used up, the oldest first.
//!
//! Of windows it is known when their readers come there. Of regions, whole files and mappings it is not; they stay until they are the
//! oldest.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use prefetch::{FileNumber, Ledger, Plan, Range};
use rustix::fs::{Advice, fadvise};

use super::open;
use crate::shared::{Done, Request};

/// Ranges that are known at once; beyond, the oldest are left to the kernel.
const MOST_RANGES: usize = 65_536;

/// Files that are remembered; all are forgotten when there are more.
const MOST_FILES: usize = 16_384;

/// Whose descriptor a file is found by.
#[derive(Clone, Copy)]
struct Owner {
    request: Request,
    dev: u64,
    ino: u64,
}

/// Ranges, and how their files are found again.
pub struct Loaded {
    ledger: Ledger,
    numbers: HashMap<(u64, u64), FileNumber>,
    owners: HashMap<FileNumber, Owner>,
}

impl Default for Loaded {
    fn default() -> Self {
        Self { ledger: Ledger::new(0, MOST_RANGES), numbers: HashMap::new(), owners: HashMap::new() }
    }
}

impl Loaded {
    /// A plan that a request asked for is being loaded.
    pub fn load(&mut self, request: &Request, dev: u64, ino: u64, plan: &Plan) {
        if self.numbers.len() >= MOST_FILES {
            *self = Self::default();
        }
        let next = self.numbers.len() as FileNumber;
        let number = *self.numbers.entry((dev, ino)).or_insert(next);
        self.owners.insert(number, Owner { request: *request, dev, ino });
        plan.ranges().for_each(|range| self.ledger.load(number, range));
    }

    /// A plan's reader has come there.
    pub fn read(&mut self, dev: u64, ino: u64, plan: &Plan) {
        if let Some(number) = self.numbers.get(&(dev, ino)) {
            plan.ranges().for_each(|range| self.ledger.remove(*number, range));
        }
    }

    /// Takes the oldest ranges from memory until so much more is within the budget.
    pub fn make_room(&mut self, bytes: u64, budget_bytes: u64, done: &Done) {
        self.ledger.set_limit(budget_bytes);
        for (number, range) in self.ledger.make_room(bytes) {
            let Some(owner) = self.owners.get(&number) else { continue };
            give_up(owner, range, done);
        }
    }
}

/// What a program has mapped or written, or is being read, the kernel keeps.
fn give_up(owner: &Owner, range: Range, done: &Done) {
    let Some(opened) = open::open(&owner.request, owner.dev, owner.ino) else { return };
    let length = std::num::NonZeroU64::new(range.bytes());
    if length.is_some() && fadvise(&opened.file, range.start_bytes, length, Advice::DontNeed).is_ok() {
        done.given_up_bytes.fetch_add(range.bytes(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;
    use crate::residency::cachestat;

    #[test]
    fn the_oldest_leaves_memory_and_what_was_read_stays() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&[1; 64 * 4096], 0).unwrap();
        file.as_file().sync_all().unwrap();
        let opened = File::open(file.path()).unwrap();
        let status = opened.metadata().unwrap();
        let plan = |page: u64| Plan::contiguous(page * 4096, (page + 16) * 4096);
        let request =
            Request { plan: plan(0), process: std::process::id() as i32, fd: opened.as_raw_fd(), kind: 0, lane: 0 };
        let (mut loaded, done) = (Loaded::default(), Done::default());
        for page in [0, 16, 32] {
            loaded.load(&request, status.dev(), status.ino(), &plan(page));
        }
        loaded.read(status.dev(), status.ino(), &plan(0));
        loaded.make_room(16 * 4096, 32 * 4096, &done);
        assert_eq!(done.given_up_bytes.load(Ordering::Relaxed), 32 * 4096, "neighbours are one");
        let opened = OwnedFd::from(opened);
        let there = |page: u64| cachestat::resident_pages(opened.as_fd(), plan(page).ranges().next().unwrap());
        match there(0) {
            Some(16) => {}
            other => return println!("skipped: the kernel does not say ({other:?})"),
        }
        // Where a file system keeps everything in memory, it stays.
        assert!(there(16) == Some(0) || there(16) == Some(16));
    }
}
