//! The kernel's own readahead, as mm/readahead.c of Linux 6.12 decides it for one open file: windows that grow for sequential reads up
//! to a maximum, the next one asked for when a marked page is read; nothing extra for others.

/// Pages to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) first_page: u64,
    pub(super) pages: u64,
    /// Who reads this page has the next window loaded.
    pub(super) mark: Option<u64>,
}

/// What the kernel remembers of an open file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Readahead {
    first_page: u64,
    pages: u64,
    /// Behind the last page read.
    next_page: u64,
    /// Faults that found nothing, less those that found something.
    misses: u32,
}

/// After so many faults that found nothing, no page around one is loaded (`MMAP_LOTSAMISS`).
const LOTS_OF_MISSES: u32 = 100;

impl Readahead {
    /// A page was read.
    pub(super) fn passed(&mut self, page: u64) {
        self.next_page = page + 1;
    }

    /// A read of `wanted` pages finds the first of them absent. Up to `most` pages just before it are there: `cached_before`.
    pub(super) fn miss(&mut self, page: u64, wanted: u64, cached_before: u64, most: u64) -> Window {
        let sequential = page == 0 || page == self.next_page || page + 1 == self.next_page;
        let (pages, ahead) = if sequential || wanted > most {
            let pages = Self::first(wanted, most);
            (pages, if pages > wanted { pages - wanted } else { pages / 2 })
        } else if cached_before > wanted {
            // Somebody read up to here before, from the beginning perhaps.
            let history = if cached_before == page { cached_before * 2 } else { cached_before };
            ((history + wanted).min(most), 1)
        } else {
            return Window { first_page: page, pages: wanted, mark: None };
        };
        (self.first_page, self.pages) = (page, pages);
        Window { first_page: page, pages, mark: Some(page + pages - ahead.min(pages)) }
    }

    /// A marked page is read, behind which `absent` is the first that is not there.
    pub(super) fn marked(&mut self, page: u64, absent: u64, most: u64) -> Window {
        if !(self.first_page..self.first_page + self.pages).contains(&page) {
            // Another reader's mark: its window is taken over.
            (self.first_page, self.pages) = (page, absent - page);
        }
        self.next(most)
    }

    /// A fault finds its page absent.
    pub(super) fn fault(&mut self, page: u64, most: u64) -> Window {
        self.misses = (self.misses + 1).min(LOTS_OF_MISSES * 10);
        if self.misses > LOTS_OF_MISSES {
            return Window { first_page: page, pages: 1, mark: None };
        }
        let first_page = page.saturating_sub(most / 2);
        (self.first_page, self.pages) = (first_page, most);
        Window { first_page, pages: most, mark: Some(first_page + most - most / 4) }
    }

    /// A fault finds its page.
    pub(super) fn fault_found(&mut self) {
        self.misses = self.misses.saturating_sub(1);
    }

    fn next(&mut self, most: u64) -> Window {
        self.first_page += self.pages;
        self.pages = if self.pages < most / 16 { self.pages * 4 } else { (self.pages * 2).min(most) }.max(1);
        Window { first_page: self.first_page, pages: self.pages, mark: Some(self.first_page) }
    }

    fn first(wanted: u64, most: u64) -> u64 {
        let rounded = wanted.next_power_of_two();
        let pages = if rounded <= most / 32 {
            rounded * 4
        } else if rounded <= most / 4 {
            rounded * 2
        } else {
            most
        };
        pages.clamp(1, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_for_a_sequential_reader_and_not_for_others() {
        let mut file = Readahead::default();
        assert_eq!(file.miss(0, 1, 0, 32), Window { first_page: 0, pages: 4, mark: Some(1) });
        assert_eq!(file.marked(1, 4, 32), Window { first_page: 4, pages: 8, mark: Some(4) });
        assert_eq!(file.marked(4, 12, 32), Window { first_page: 12, pages: 16, mark: Some(12) });
        assert_eq!(file.marked(12, 28, 32).pages, 32);
        assert_eq!(file.marked(28, 60, 32).pages, 32);
        let mut file = Readahead::default();
        assert_eq!(file.miss(100, 4, 0, 32), Window { first_page: 100, pages: 4, mark: None });
    }
}
