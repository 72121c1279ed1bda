//! What readahead asked for, put together from the folios that went into the page cache.
//!
//! Readahead adds the folios of a window one right after the other, in the order of the file
//! (`page_cache_ra_unbounded` of `mm/readahead.c`), and so does the reading around a fault. Windows that follow each
//! other as fast cannot be told apart and become one: more is then held to be asked for at once
//! than was, and never a part of it. Folios that are added for a write look the same; they are left out
//! where a write is known.

use std::collections::BTreeMap;

use super::super::recorder::{RawFile, Seen};
use crate::ByteRange;

/// The longest time between two folios of one window. One takes a microsecond or two.
const GAP_NS: u64 = 100_000;

/// Parts of files that were written, joined where they touch.
#[derive(Default)]
pub struct Written {
    ranges: BTreeMap<(RawFile, u64), u64>,
}

impl Written {
    /// Of writes in any order.
    pub fn of(mut writes: Vec<(RawFile, ByteRange)>) -> Self {
        writes.sort_unstable_by_key(|(file, range)| (*file, range.start));
        let mut ranges: BTreeMap<(RawFile, u64), u64> = BTreeMap::new();
        let mut last: Option<(RawFile, u64)> = None;
        for (file, range) in writes {
            if let Some(key) = last.filter(|(of, _)| *of == file)
                && let Some(end) = ranges.get_mut(&key).filter(|end| **end >= range.start)
            {
                *end = range.end.max(*end);
                continue;
            }
            ranges.insert((file, range.start), range.end);
            last = Some((file, range.start));
        }
        Self { ranges }
    }

    fn touch(&self, file: RawFile, range: ByteRange) -> bool {
        let before = self.ranges.range((file, 0)..(file, range.end)).next_back();
        before.is_some_and(|(_, &end)| end > range.start)
    }
}

/// The windows, in the order in which they began.
pub fn windows(mut folios: Vec<(RawFile, ByteRange, Seen)>, written: &Written) -> Vec<(RawFile, ByteRange, Seen)> {
    folios.retain(|(file, range, _)| !written.touch(*file, *range));
    folios.sort_unstable_by_key(|(file, range, seen)| (seen.first, *file, range.start, range.end));
    let mut windows: Vec<(RawFile, ByteRange, Seen)> = Vec::new();
    // By where they end: the window's number, and when its last folio came.
    let mut ends: BTreeMap<(RawFile, u64), (usize, u64)> = BTreeMap::new();
    for (file, range, seen) in folios {
        let before = ends.remove(&(file, range.start)).filter(|(_, at)| seen.first - at <= GAP_NS);
        let known = before.and_then(|(number, _)| Some((number, windows.get_mut(number)?)));
        let number = match known {
            Some((number, (_, window, of))) => {
                window.end = range.end;
                of.count = of.count.max(seen.count);
                number
            }
            None => {
                windows.push((file, range, seen));
                windows.len() - 1
            }
        };
        ends.insert((file, range.end), (number, seen.first));
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: RawFile = RawFile { device: 1, inode: 2 };
    const OTHER: RawFile = RawFile { device: 1, inode: 3 };

    fn joined(folios: &[(RawFile, u64, u64, u64)], written: &[(u64, u64)]) -> Vec<(RawFile, u64, u64)> {
        let folios =
            folios.iter().map(|&(file, start, end, first)| (file, ByteRange { start, end }, Seen { first, count: 1 }));
        let written = written.iter().map(|&(start, end)| (FILE, ByteRange { start, end })).collect();
        let windows = windows(folios.collect(), &Written::of(written));
        windows.into_iter().map(|(file, range, _)| (file, range.start, range.end)).collect()
    }

    #[test]
    fn folios_one_after_the_other_are_a_window() {
        // Two readers at once, and folios of several sizes.
        let list =
            [(FILE, 0, 4, 1000), (OTHER, 0, 4, 1500), (FILE, 4, 12, 2000), (OTHER, 4, 8, 2500), (FILE, 40, 44, 3000)];
        assert_eq!(joined(&list, &[]), [(FILE, 0, 12), (OTHER, 0, 8), (FILE, 40, 44)]);
        // The same page later is another request.
        assert_eq!(joined(&[(FILE, 0, 4, 0), (FILE, 4, 8, 200_000)], &[]), [(FILE, 0, 4), (FILE, 4, 8)]);
        // Backwards is not one after the other.
        assert_eq!(joined(&[(FILE, 4, 8, 0), (FILE, 0, 4, 1)], &[]), [(FILE, 4, 8), (FILE, 0, 4)]);
    }

    #[test]
    fn what_is_written_was_not_asked_for() {
        let list = [(FILE, 0, 4, 0), (FILE, 4, 8, 1), (FILE, 8, 12, 2), (OTHER, 4, 8, 3)];
        assert_eq!(joined(&list, &[(7, 8), (5, 7)]), [(FILE, 0, 4), (FILE, 8, 12), (OTHER, 4, 8)]);
        assert_eq!(joined(&list, &[(0, 100)]), [(OTHER, 4, 8)]);
        assert_eq!(joined(&list[..1], &[(4, 8)]), [(FILE, 0, 4)]);
    }

    proptest! {
        /// Every folio is in a window as long as nothing was written there, and nothing else is.
        #[test]
        fn windows_are_their_folios(
            list in prop::collection::vec((0_u64..40, 1_u64..4, 0_u64..400_000), 0..60),
            written in prop::collection::vec((0_u64..40, 1_u64..6), 0..6),
        ) {
            let distinct: BTreeMap<_, _> = list.into_iter().map(|(start, length, first)| ((start, start + length), first)).collect();
            let folios: Vec<_> = distinct.iter().map(|(&(start, end), &first)| (FILE, start, end, first)).collect();
            let written: Vec<_> = written.into_iter().map(|(start, length)| (start, start + length)).collect();
            let is_written = |start: u64, end: u64| written.iter().any(|&(a, b)| a < end && start < b);
            let windows = joined(&folios, &written);
            for &(_, start, end, _) in &folios {
                let is_in = windows.iter().any(|&(_, a, b)| a <= start && end <= b);
                prop_assert!(is_in || is_written(start, end));
            }
            for &(_, a, b) in &windows {
                for unit in a..b {
                    let from = |&(_, start, end, _): &(RawFile, u64, u64, u64)| start <= unit && unit < end && !is_written(start, end);
                    prop_assert!(folios.iter().any(from));
                }
            }
        }
    }
}
