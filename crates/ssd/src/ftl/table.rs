//! Large tables of zeroes, of which the system provides what is touched.
//!
//! Small pages keep a short run on a large device small: a hundred thousand
//! random writes to 1 TiB touch a third of the small pages of its map, and all of
//! the large ones. A long run wants large pages, since its look-ups at random
//! addresses otherwise wait for page-table walks as long as for the entries
//! themselves. So a table begins in small pages, and each stretch of it that could
//! be one large page becomes one when half of its small ones are in use: a table
//! never takes more than twice what it would in small pages alone.

/// Bytes of a small page, and of a large one (x86-64; arm64 with small pages of 4 KiB).
const PAGE_BYTES: usize = 4096;
const LARGE_BYTES: usize = 2 << 20;
const PAGES_PER_LARGE: usize = LARGE_BYTES / PAGE_BYTES;
/// Small pages in use with which a stretch becomes a large page.
const ENOUGH: u16 = PAGES_PER_LARGE as u16 / 2;

/// A table of zeroes.
pub(crate) struct Table<T> {
    items: Vec<T>,
    /// For each small page's worth of items, whether one of them was ever set.
    written: Vec<bool>,
    /// For each stretch that could be a large page, how much of it was.
    in_use: Vec<u16>,
    /// Bytes between the start of the first stretch and the items.
    lead: usize,
}

impl<T: Copy + Default> Table<T> {
    /// Items to a small page.
    pub const PER_PAGE: usize = PAGE_BYTES / size_of::<T>();

    /// So many items, all of them zero; takes no memory to speak of.
    pub fn new(len: usize) -> Self {
        let items = vec![T::default(); len];
        let bytes = size_of_val(items.as_slice());
        let lead = items.as_ptr() as usize % LARGE_BYTES;
        let mut table = Self {
            written: vec![false; len.div_ceil(Self::PER_PAGE)],
            in_use: vec![0; (lead + bytes).div_ceil(LARGE_BYTES)],
            items,
            lead,
        };
        if bytes >= LARGE_BYTES {
            large_pages::refuse(&mut table.items);
        }
        table
    }

    /// The item, whether it was ever set or not.
    #[inline]
    pub fn get(&self, index: usize) -> T {
        self.items[index]
    }

    /// The item's place, if there is one, for a prefetch.
    #[inline]
    pub fn place(&self, index: usize) -> Option<&T> {
        self.items.get(index)
    }

    /// The item, to be set.
    #[inline]
    pub fn at(&mut self, index: usize) -> &mut T {
        let page = index / Self::PER_PAGE;
        if !self.written[page] {
            self.first_write(page);
        }
        &mut self.items[index]
    }

    /// Whether any item of the small page's worth number `page` was ever set.
    #[inline]
    pub fn is_written(&self, page: usize) -> bool {
        self.written[page]
    }

    /// Bytes of address space.
    pub fn bytes(&self) -> usize {
        size_of_val(self.items.as_slice()) + self.written.len() + size_of_val(self.in_use.as_slice())
    }

    #[cold]
    fn first_write(&mut self, page: usize) {
        self.written[page] = true;
        let stretch = (self.lead + page * PAGE_BYTES) / LARGE_BYTES;
        self.in_use[stretch] += 1;
        if self.in_use[stretch] == ENOUGH {
            // Only what lies in the table altogether; its ends stay in small pages.
            let bytes = size_of_val(self.items.as_slice());
            if let Some(start) = (stretch * LARGE_BYTES).checked_sub(self.lead)
                && start + LARGE_BYTES <= bytes
            {
                let per_large = LARGE_BYTES / size_of::<T>();
                let first = start / size_of::<T>();
                let written = &self.written;
                let is_written = |item: usize| written[(first + item) / Self::PER_PAGE];
                large_pages::take(&mut self.items[first..first + per_large], is_written);
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod large_pages {
    use rustix::mm::{Advice, madvise};

    use super::PAGE_BYTES;

    /// Asks for small pages, where the system would give large ones unasked.
    pub fn refuse<T: Copy>(items: &mut [T]) {
        advise(items, Advice::LinuxNoHugepage);
    }

    /// Puts the items, which lie as a large page would, into one, if the system has
    /// one. Those for which `is_written` does not hold are zero.
    pub fn take<T: Copy>(items: &mut [T], is_written: impl Fn(usize) -> bool) {
        if !advise(items, Advice::LinuxHugepage) {
            return;
        }
        // What is there stays in small pages; the next first touch gets a large one.
        // Pages that nobody wrote are not read either: the system would provide them.
        let per_page = PAGE_BYTES / size_of::<T>();
        let (mut places, mut kept) = (Vec::new(), Vec::with_capacity(items.len()));
        for (number, page) in items.chunks(per_page).enumerate() {
            let first = number * per_page;
            // The pages that the table counts end a few items before or after these.
            if is_written(first) || is_written(first + page.len() - 1) {
                places.push(first);
                kept.extend_from_slice(page);
            }
        }
        advise(items, Advice::LinuxDontNeed);
        for (first, page) in places.into_iter().zip(kept.chunks(per_page)) {
            items[first..first + page.len()].copy_from_slice(page);
        }
    }

    /// Whether the system took the advice for the whole pages in `items`.
    fn advise<T: Copy>(items: &mut [T], advice: Advice) -> bool {
        let start = items.as_mut_ptr().cast::<u8>();
        let skip = start.align_offset(PAGE_BYTES);
        let whole = size_of_val(items).saturating_sub(skip) / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: the range is whole pages inside `items`, which are borrowed
        // exclusively and plain numbers; the kinds of page leave the contents as
        // they are, and what `LinuxDontNeed` takes away the caller writes again.
        unsafe { madvise(start.wrapping_add(skip).cast(), whole, advice) }.is_ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod large_pages {
    pub fn refuse<T>(_items: &mut [T]) {}
    pub fn take<T>(_items: &mut [T], _is_written: impl Fn(usize) -> bool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident bytes of this process's memory from `/proc/self/smaps`, of the
    /// mappings that `items` lie in.
    #[cfg(target_os = "linux")]
    fn resident<T>(items: &[T]) -> usize {
        let range = items.as_ptr_range();
        let (from, to) = (range.start as usize, range.end as usize);
        let mut inside = false;
        let mut resident = 0;
        for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
            let bounds = line.split(' ').next().and_then(|bounds| bounds.split_once('-'));
            if let Some((start, end)) = bounds
                && let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
            {
                inside = start < to && end > from;
            } else if inside && let Some(rest) = line.strip_prefix("Rss:") {
                resident += rest.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10;
            }
        }
        resident
    }

    #[test]
    fn items_survive_the_change_of_pages() {
        let len = (9 * LARGE_BYTES + 12_345) / 8;
        let mut table = Table::<u64>::new(len);
        let mut expected = vec![0; len];
        let mut at = 1_u64;
        for round in 1..200_000_u64 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = ((u128::from(at) * len as u128) >> 64) as usize;
            *table.at(index) = round;
            expected[index] = round;
        }
        assert!(table.in_use.iter().filter(|in_use| **in_use >= ENOUGH).count() >= 8, "{:?}", table.in_use);
        assert!((0..len).all(|index| table.get(index) == expected[index]));
        assert!((0..len).all(|index| expected[index] == 0 || table.is_written(index / Table::<u64>::PER_PAGE)));
    }

    /// What a few writes here and there take does not depend on the size of pages
    /// that the system has.
    #[test]
    #[cfg(target_os = "linux")]
    fn few_writes_take_few_small_pages() {
        let mut table = Table::<u32>::new(256 << 20 >> 2);
        for stretch in 0..120 {
            for page in 0..200 {
                *table.at((stretch * LARGE_BYTES + page * PAGE_BYTES) / 4) = 1;
            }
        }
        let (took, touched) = (resident(&table.items), 120 * 200 * PAGE_BYTES);
        assert!(took < touched * 5 / 4, "{took} bytes resident for {touched} touched");
    }
}
