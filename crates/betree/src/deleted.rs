//! Range deletes in memory: which is the newest that a view sees at a key?
//!
//! Deletes come in the order of their sequence numbers. The newest few lie side by side; as many as fill a *page* become one;
//! and two neighbours of the same size become one that has twice as many. A page knows the newest delete of each key, cut
//! into pieces that do not overlap, and keeps the two that it came of, for views that see one half of it. So a million
//! deletes, however they overlap, take memory and a lookup takes time in proportion to their number's logarithm.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::bytes::range::{Key, KeyRange, RangeSet, end_before};

/// Deletes that are looked at one by one.
const PAGE: usize = 32;

/// The keys from `start` up to `end`, and the newest delete that has them.
#[derive(Clone, Debug)]
struct Piece {
    start: Arc<[u8]>,
    end: Option<Arc<[u8]>>,
    msn: u64,
}

impl Piece {
    fn of(msn: u64, range: &KeyRange) -> Self {
        Self { start: (&*range.start).into(), end: range.end.as_ref().map(|end| (&**end).into()), msn }
    }

    fn contains(&self, key: &[u8]) -> bool {
        *self.start <= *key && self.end.as_ref().is_none_or(|end| *key < **end)
    }

    /// Whether it ends at `key` or before.
    fn ends_by(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_some_and(|end| **end <= *key)
    }
}

#[derive(Debug)]
enum Parts {
    /// In the order in which they came.
    Single(Vec<Piece>),
    /// The older and the newer half.
    Halves(Box<Page>, Box<Page>),
}

#[derive(Debug)]
struct Page {
    count: usize,
    first_msn: u64,
    last_msn: u64,
    /// In ascending order; none overlaps another.
    newest: Vec<Piece>,
    parts: Parts,
}

/// The pieces of both, where those of `newer` hide those of `older`.
fn overlay(older: &[Piece], newer: &[Piece]) -> Vec<Piece> {
    let mut all = Vec::with_capacity(older.len() + newer.len());
    let mut newer = newer.iter().peekable();
    for piece in older {
        let mut piece = piece.clone();
        loop {
            let Some(hiding) = newer.peek() else {
                all.push(piece);
                break;
            };
            if hiding.ends_by(&piece.start) {
                all.extend(newer.next().cloned());
                continue;
            }
            // It ends behind the piece's beginning.
            if piece.start < hiding.start {
                if piece.ends_by(&hiding.start) {
                    all.push(piece);
                    break;
                }
                all.push(Piece { end: Some(Arc::clone(&hiding.start)), ..piece.clone() });
            }
            if !end_before(hiding.end.as_deref(), piece.end.as_deref()) {
                break;
            }
            // What is left of it behind.
            match &hiding.end {
                Some(end) => piece.start = Arc::clone(end),
                None => break,
            }
        }
    }
    all.extend(newer.cloned());
    all
}

/// The newest piece that has a key.
fn piece_at<'a>(pieces: &'a [Piece], key: &[u8]) -> Option<&'a Piece> {
    let at = pieces.partition_point(|piece| piece.ends_by(key));
    pieces.get(at).filter(|piece| piece.contains(key))
}

fn collect(pieces: &[Piece], range: &KeyRange, to: &mut RangeSet) {
    let from = pieces.partition_point(|piece| piece.ends_by(&range.start));
    let own = |piece: &Piece| KeyRange {
        start: Key::from(&*piece.start),
        end: piece.end.as_ref().map(|end| Key::from(&**end)),
    };
    let behind = |piece: &&Piece| range.end.as_ref().is_none_or(|end| *piece.start < **end);
    let mut found = RangeSet::default();
    for piece in pieces.get(from..).unwrap_or_default().iter().take_while(behind) {
        found.push(own(piece).intersection(range));
    }
    to.extend(&found);
}

impl Page {
    fn single(pieces: Vec<Piece>) -> Self {
        let mut newest = Vec::new();
        for piece in &pieces {
            newest = overlay(&newest, std::slice::from_ref(piece));
        }
        let msn = |piece: Option<&Piece>| piece.map_or(0, |piece| piece.msn);
        let (first_msn, last_msn) = (msn(pieces.first()), msn(pieces.last()));
        Self { count: pieces.len(), first_msn, last_msn, newest, parts: Parts::Single(pieces) }
    }

    fn of(older: Self, newer: Self) -> Self {
        Self {
            count: older.count + newer.count,
            first_msn: older.first_msn,
            last_msn: newer.last_msn,
            newest: overlay(&older.newest, &newer.newest),
            parts: Parts::Halves(Box::new(older), Box::new(newer)),
        }
    }

    fn newest(&self, key: &[u8], msn: u64) -> Option<u64> {
        match msn.cmp(&self.first_msn) {
            Ordering::Less => None,
            _ if self.last_msn <= msn => piece_at(&self.newest, key).map(|piece| piece.msn),
            _ => match &self.parts {
                Parts::Single(pieces) => newest_of(pieces, key, msn),
                Parts::Halves(older, newer) => newer.newest(key, msn).or_else(|| older.newest(key, msn)),
            },
        }
    }

    fn collect(&self, range: &KeyRange, msn: u64, to: &mut RangeSet) {
        if msn < self.first_msn {
            return;
        }
        match &self.parts {
            _ if self.last_msn <= msn => collect(&self.newest, range, to),
            Parts::Single(pieces) => collect_of(pieces, range, msn, to),
            Parts::Halves(older, newer) => {
                older.collect(range, msn, to);
                newer.collect(range, msn, to);
            }
        }
    }
}

fn newest_of(pieces: &[Piece], key: &[u8], msn: u64) -> Option<u64> {
    pieces.iter().rev().find(|piece| piece.msn <= msn && piece.contains(key)).map(|piece| piece.msn)
}

fn collect_of(pieces: &[Piece], range: &KeyRange, msn: u64, to: &mut RangeSet) {
    for piece in pieces.iter().filter(|piece| piece.msn <= msn) {
        collect(std::slice::from_ref(piece), range, to);
    }
}

/// Range deletes of a memtable.
#[derive(Default, Debug)]
pub(crate) struct Deleted {
    /// Oldest first; each has at least twice as many as the next.
    pages: Vec<Page>,
    recent: Vec<Piece>,
    count: usize,
}

impl Deleted {
    /// Adds a delete; sequence numbers ascend.
    pub fn push(&mut self, msn: u64, range: &KeyRange) {
        self.count += 1;
        self.recent.push(Piece::of(msn, range));
        if self.recent.len() < PAGE {
            return;
        }
        let mut page = Page::single(std::mem::take(&mut self.recent));
        while let Some(older) = self.pages.pop_if(|older| older.count <= page.count) {
            page = Page::of(older, page);
        }
        self.pages.push(page);
    }

    /// The newest delete of a key up to `msn`.
    pub fn newest(&self, key: &[u8], msn: u64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let recent = newest_of(&self.recent, key, msn);
        recent.or_else(|| self.pages.iter().rev().find_map(|page| page.newest(key, msn)))
    }

    /// The keys of `range` that are deleted for a view at `msn`.
    pub fn in_range(&self, range: &KeyRange, msn: u64) -> RangeSet {
        let mut set = RangeSet::default();
        self.pages.iter().for_each(|page| page.collect(range, msn, &mut set));
        collect_of(&self.recent, range, msn, &mut set);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(start: u8, end: u8) -> KeyRange {
        KeyRange { start: Box::new([start]), end: (end < 90).then(|| Key::from([end])) }
    }

    proptest! {
        /// Against looking at each.
        #[test]
        fn the_newest_delete_is_found(ranges in prop::collection::vec((0u8..90, 1u8..30), 1..400), msns in prop::collection::vec(0u64..900, 1..5)) {
            let (mut deleted, mut list) = (Deleted::default(), Vec::new());
            for (number, (start, length)) in ranges.into_iter().enumerate() {
                let range = range(start, start.saturating_add(length).min(95));
                deleted.push(2 * number as u64 + 1, &range);
                list.push((2 * number as u64 + 1, range));
            }
            for msn in msns {
                let newest = |key: &[u8]| list.iter().rev().find(|(at, range)| *at <= msn && range.contains(key)).map(|(at, _)| *at);
                let own = range(20, 60);
                let set = deleted.in_range(&own, msn);
                for key in 0..100u8 {
                    prop_assert_eq!(deleted.newest(&[key], msn), newest(&[key]), "key {} at {}", key, msn);
                    prop_assert_eq!(set.contains(&[key]), newest(&[key]).is_some() && own.contains(&[key]));
                }
            }
        }
    }

    /// Each covers those before it: the worst for whoever cuts keys into pieces.
    #[test]
    fn a_hundred_thousand_that_overlap_take_little() {
        let mut deleted = Deleted::default();
        for number in 0..100_000u32 {
            let (start, end) = ((200_000 - number).to_be_bytes(), (200_001 + number).to_be_bytes());
            deleted.push(u64::from(number) + 1, &KeyRange::new(start.into(), Some(end.into())));
        }
        fn pieces(page: &Page) -> usize {
            page.newest.len()
                + match &page.parts {
                    Parts::Single(single) => single.len(),
                    Parts::Halves(older, newer) => pieces(older) + pieces(newer),
                }
        }
        let held: usize = deleted.pages.iter().map(pieces).sum();
        assert!(held < 100_000 * 2 * 18, "{held} pieces");
        assert_eq!(deleted.newest(&200_000u32.to_be_bytes(), u64::MAX), Some(100_000));
        assert_eq!(deleted.newest(&200_000u32.to_be_bytes(), 50_000), Some(50_000));
        assert_eq!(deleted.newest(&100_001u32.to_be_bytes(), 99_999), None);
    }
}
