//! Events become accesses: one that was reported several times is made one again.
//!
//! What tracepoints leave to be found out (all seen in Linux 6.18):
//!
//! - `mm_filemap_get_pages` (`mm/filemap.c`) comes once for each batch of page-cache
//!   folios of one read. The later events of a read have the same end, a later start,
//!   and are as many as the first at most. A range is dropped if an event to the same
//!   end that starts earlier was at least as frequent: that one covers it.
//! - `page_cache_ra_order` (`mm/readahead.c`) falls back to `page_cache_ra_unbounded`
//!   where large folios are not available: the latter's ranges are dropped where the former
//!   has one around them.
//! - Where neither is there (before Linux 6.18), what readahead asked for is put together from the
//!   folios that `mm_filemap_add_to_page_cache` (`mm/filemap.c`) reports ([`added`]).

mod added;

use std::collections::{BTreeMap, HashMap};

use super::recorder::{RawFile, RawKind, Seen};
use crate::{ByteRange, IoKind};

/// Windows looked at, from the nearest start on, for one that lies around a range.
const MAX_LOOK_BACK: usize = 64;

/// What the recorder has, as accesses of the trace.
pub fn fold(seen: HashMap<(RawFile, RawKind, ByteRange), Seen>) -> Vec<(RawFile, IoKind, ByteRange, Seen)> {
    let mut reads: BTreeMap<(RawFile, u64), Vec<(u64, Seen)>> = BTreeMap::new();
    let mut windows: BTreeMap<(RawFile, u64, u64), ()> = BTreeMap::new();
    let (mut pages, mut folios) = (Vec::new(), Vec::new());
    let mut folded: BTreeMap<(RawFile, IoKind, ByteRange), Seen> = BTreeMap::new();
    for ((file, kind, range), seen) in seen {
        match kind {
            RawKind::PagesRead => reads.entry((file, range.end)).or_default().push((range.start, seen)),
            RawKind::ReadaheadPages => pages.push((file, range, seen)),
            RawKind::PagesAdded => folios.push((file, range, seen)),
            RawKind::Io(kind) => {
                if kind == IoKind::Readahead {
                    windows.insert((file, range.start, range.end), ());
                }
                add(&mut folded, (file, kind, range), seen);
            }
        }
    }
    for ((file, end), mut starts) in reads {
        starts.sort_unstable_by_key(|&(start, _)| start);
        let mut before = 0;
        for (start, seen) in starts {
            if seen.count > before {
                before = seen.count;
                add(&mut folded, (file, IoKind::BufferedRead, ByteRange { start, end }), seen);
            }
        }
    }
    for (file, range, seen) in pages {
        let nearest = windows.range((file, 0, 0)..=(file, range.start, u64::MAX)).rev().take(MAX_LOOK_BACK);
        let is_inside = nearest.into_iter().any(|((_, _, end), ())| *end >= range.end);
        if !is_inside {
            add(&mut folded, (file, IoKind::Readahead, range), seen);
        }
    }
    let writes = folded.keys().filter(|(_, kind, _)| *kind == IoKind::BufferedWrite);
    let written = added::Written::of(writes.map(|&(file, _, range)| (file, range)).collect());
    for (file, range, seen) in added::windows(folios, &written) {
        add(&mut folded, (file, IoKind::Readahead, range), seen);
    }
    let mut all: Vec<_> = folded.into_iter().map(|((file, kind, range), seen)| (file, kind, range, seen)).collect();
    all.sort_by_key(|(.., seen)| seen.first);
    all
}

fn add(folded: &mut BTreeMap<(RawFile, IoKind, ByteRange), Seen>, key: (RawFile, IoKind, ByteRange), seen: Seen) {
    let entry = folded.entry(key).or_insert(Seen { count: 0, ..seen });
    entry.first = entry.first.min(seen.first);
    entry.count = entry.count.saturating_add(seen.count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: RawFile = RawFile { device: 1, inode: 2 };

    fn folded(list: &[(RawKind, u64, u64, u64)]) -> Vec<(IoKind, u64, u64, u64)> {
        let numbered = list.iter().zip(0..);
        let seen = numbered
            .map(|(&(kind, start, end, count), first)| ((FILE, kind, ByteRange { start, end }), Seen { first, count }))
            .collect();
        fold(seen).into_iter().map(|(_, kind, range, seen)| (kind, range.start, range.end, seen.count)).collect()
    }

    #[test]
    fn batches_of_one_read_are_one_read() {
        use RawKind::PagesRead;
        let list =
            [(PagesRead, 0, 1024, 3), (PagesRead, 124, 1024, 3), (PagesRead, 248, 1024, 2), (PagesRead, 0, 512, 1)];
        assert_eq!(folded(&list), [(IoKind::BufferedRead, 0, 1024, 3), (IoKind::BufferedRead, 0, 512, 1)]);
    }

    #[test]
    fn a_more_frequent_read_to_the_same_end_stays() {
        use RawKind::PagesRead;
        let list = [(PagesRead, 0, 1024, 3), (PagesRead, 1020, 1024, 9), (PagesRead, 1022, 1024, 9)];
        assert_eq!(folded(&list), [(IoKind::BufferedRead, 0, 1024, 3), (IoKind::BufferedRead, 1020, 1024, 9)]);
    }

    #[test]
    fn pages_inside_a_window_are_that_window() {
        use RawKind::{Io, ReadaheadPages};
        let ahead = Io(IoKind::Readahead);
        let list = [
            (ahead, 0, 512, 1),
            (ReadaheadPages, 0, 300, 1),
            (ReadaheadPages, 400, 600, 2),
            (ReadaheadPages, 900, 904, 1),
        ];
        let expected = [(0, 512, 1), (400, 600, 2), (900, 904, 1)];
        assert_eq!(folded(&list), expected.map(|(a, b, count)| (IoKind::Readahead, a, b, count)));
    }

    proptest! {
        /// Every page that was reported stays covered, as often as its most frequent report.
        #[test]
        fn nothing_reported_is_uncovered(
            list in prop::collection::vec((0u64..12, 1u64..12, 1u64..5, 0usize..3), 1..40)
        ) {
            let kinds = [RawKind::PagesRead, RawKind::ReadaheadPages, RawKind::Io(IoKind::Readahead)];
            let distinct: BTreeMap<_, _> = list.into_iter().map(|(a, n, count, kind)| ((a, n, kind), count)).collect();
            let list: Vec<_> = distinct.into_iter().map(|((a, n, kind), count)| (kinds[kind], a, a + n, count)).collect();
            let after = folded(&list);
            for &(kind, start, end, _) in &list {
                let wanted = if kind == RawKind::PagesRead { IoKind::BufferedRead } else { IoKind::Readahead };
                prop_assert!(after.iter().any(|&(kind, a, b, _)| kind == wanted && a <= start && end <= b));
            }
            for &(_, start, end, count) in list.iter().filter(|(kind, ..)| *kind == RawKind::PagesRead) {
                prop_assert!(after.iter().any(|&(kind, a, b, c)| kind == IoKind::BufferedRead && a <= start && end == b && c >= count));
            }
        }
    }
}
