//! The page cache: least recently used pages leave.

use std::collections::VecDeque;

use super::outcome::Origin;
use crate::access::PAGE_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    /// In a request of this number.
    Loading(u64),
    Resident,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) state: State,
    pub(super) origin: Origin,
    /// Whether it was read since it was loaded.
    pub(super) read: bool,
    /// The kernel's mark: who reads this page has the next window loaded.
    pub(super) marked: bool,
    used_at: u64,
}

const ABSENT: Page = Page { state: State::Absent, origin: Origin::Demand, read: false, marked: false, used_at: 0 };

/// Pages of all files.
pub(super) struct Cache {
    files: Vec<Vec<Page>>,
    /// Every use, the oldest first: only a page's last counts.
    uses: VecDeque<(u64, usize, u64)>,
    resident_pages: usize,
    limit_pages: usize,
    clock: u64,
}

impl Cache {
    pub(super) fn new(file_bytes: &[u64], memory_bytes: u64) -> Self {
        let files = file_bytes.iter().map(|bytes| vec![ABSENT; bytes.div_ceil(PAGE_BYTES) as usize]).collect();
        let limit_pages = (memory_bytes / PAGE_BYTES).max(1) as usize;
        Self { files, uses: VecDeque::new(), resident_pages: 0, limit_pages, clock: 0 }
    }

    /// Pages of a file.
    pub(super) fn pages(&self, file: usize) -> u64 {
        self.files.get(file).map_or(0, |pages| pages.len() as u64)
    }

    pub(super) fn page(&mut self, file: usize, page: u64) -> Option<&mut Page> {
        self.files.get_mut(file)?.get_mut(page as usize)
    }

    pub(super) fn is_absent(&self, file: usize, page: u64) -> bool {
        self.files.get(file).and_then(|pages| pages.get(page as usize)).is_some_and(|page| page.state == State::Absent)
    }

    /// The page is the most recently used.
    pub(super) fn touch(&mut self, file: usize, page: u64) {
        self.clock += 1;
        let clock = self.clock;
        let Some(found) = self.files.get_mut(file).and_then(|pages| pages.get_mut(page as usize)) else { return };
        found.used_at = clock;
        self.uses.push_back((clock, file, page));
        if self.uses.len() > 4 * self.resident_pages + 1024 {
            let files = &self.files;
            self.uses.retain(|(at, file, page)| is_last(files, *at, *file, *page));
        }
    }

    /// The page is on its way in a request.
    pub(super) fn load(&mut self, file: usize, page: u64, request: u64, origin: Origin) {
        if let Some(found) = self.page(file, page) {
            *found = Page { state: State::Loading(request), origin, ..ABSENT };
        }
    }

    /// The page is there. Pages that leave for it.
    pub(super) fn arrive(&mut self, file: usize, page: u64) -> Option<(usize, u64, Page)> {
        self.page(file, page)?.state = State::Resident;
        self.resident_pages += 1;
        self.touch(file, page);
        while self.resident_pages > self.limit_pages {
            let (at, file, page) = self.uses.pop_front()?;
            if is_last(&self.files, at, file, page) {
                return self.leave(file, page).map(|left| (file, page, left));
            }
        }
        None
    }

    /// A resident page leaves.
    pub(super) fn leave(&mut self, file: usize, page: u64) -> Option<Page> {
        let found = self.files.get_mut(file)?.get_mut(page as usize)?;
        if found.state != State::Resident {
            return None;
        }
        let left = std::mem::replace(found, ABSENT);
        self.resident_pages -= 1;
        Some(left)
    }
}

/// Whether this was the last use of a page that is there.
fn is_last(files: &[Vec<Page>], at: u64, file: usize, page: u64) -> bool {
    let found = files.get(file).and_then(|pages| pages.get(page as usize));
    found.is_some_and(|page| page.state == State::Resident && page.used_at == at)
}
