//! A write of a log, and the pieces of it that can be there.

use std::ops::Range;

use crate::log::{Content, LogError, WriteId, digest};

/// A discard is there in so many parts at most: it may cover a whole device, and nobody relies on where it was torn.
const DISCARD_PARTS_MAX: u64 = 64;

/// A write of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedWrite {
    /// Its name.
    pub id: WriteId,
    /// Which entry of the log it is.
    pub entry: usize,
    /// Where.
    pub offset_bytes: u64,
    /// What.
    pub content: Content,
    /// Ranges of the device, in order, where it cannot come back, since something newer is durable there.
    pub(crate) overtaken: Vec<Range<u64>>,
}

/// A range of a device and what is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// Where.
    pub offset_bytes: u64,
    /// How long.
    pub len_bytes: u64,
    content: &'a Content,
    /// Where in the content it begins.
    from: u64,
}

impl<'a> Piece<'a> {
    /// All of `content` at `offset_bytes`.
    pub fn whole(offset_bytes: u64, content: &'a Content) -> Self {
        Self { offset_bytes, len_bytes: content.len_bytes(), content, from: 0 }
    }

    /// The bytes, where they are in memory; those of a log that was [opened](crate::LogReader::open) are not, and zeroes are not.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self.content {
            Content::Bytes(bytes) => bytes.get(self.from as usize..(self.from + self.len_bytes) as usize),
            Content::Stored(_) | Content::Zeroes(_) => None,
        }
    }

    /// Calls `each` with all of it piece by piece: where on the device, how long, and what is there, `None` for zeroes.
    ///
    /// # Errors
    /// Where contents that are stored cannot be read.
    pub fn visit(&self, mut each: impl FnMut(u64, u64, Option<&[u8]>)) -> Result<(), LogError> {
        let offset_bytes = self.offset_bytes - self.from;
        self.content.visit(self.from..self.from + self.len_bytes, |at, len, bytes| each(offset_bytes + at, len, bytes))
    }

    /// The number of each of its units that is not zeroes, and a digest of the bytes.
    pub(crate) fn digests(&self, unit_bytes: u64, mut each: impl FnMut(u64, u64)) {
        let first = self.offset_bytes / unit_bytes;
        match self.content {
            Content::Zeroes(_) => {}
            Content::Stored(stored) => {
                let offset_bytes = self.offset_bytes - self.from;
                stored.digests(self.from..self.from + self.len_bytes, |at, digest| {
                    each((offset_bytes + at) / unit_bytes, digest);
                });
            }
            Content::Bytes(_) => {
                let units = self.bytes().unwrap_or_default().chunks(unit_bytes as usize);
                for (number, unit) in (first..).zip(units) {
                    match digest(unit) {
                        0 => {}
                        digest => each(number, digest),
                    }
                }
            }
        }
    }
}

impl LoggedWrite {
    pub(crate) fn new(entry: usize, id: WriteId, offset_bytes: u64, content: &Content) -> Self {
        Self { id, entry, offset_bytes, content: content.clone(), overtaken: Vec::new() }
    }

    /// What it covers.
    pub fn range(&self) -> Range<u64> {
        self.offset_bytes..self.offset_bytes + self.content.len_bytes()
    }

    /// How long the parts are that survive a cut or do not: what the device writes whole or not at all, or more for a long
    /// discard. They begin at multiples of it.
    fn part_bytes(&self, atomic_bytes: u32) -> u64 {
        let atomic = u64::from(atomic_bytes);
        match self.content {
            Content::Bytes(_) | Content::Stored(_) => atomic,
            Content::Zeroes(len_bytes) => len_bytes.div_ceil(DISCARD_PARTS_MAX).next_multiple_of(atomic).max(atomic),
        }
    }

    /// How many parts it has.
    pub fn parts(&self, atomic_bytes: u32) -> usize {
        let part = self.part_bytes(atomic_bytes);
        let Range { start, end } = self.range();
        (end.div_ceil(part) - start / part) as usize
    }

    /// What is there of it when the parts are that `chosen` names; runs of parts are one piece.
    pub fn pieces(&self, atomic_bytes: u32, mut chosen: impl FnMut(usize) -> bool) -> Vec<Piece<'_>> {
        let part = self.part_bytes(atomic_bytes);
        let Range { start, end } = self.range();
        let first = start / part * part;
        let mut runs: Vec<Range<u64>> = Vec::new();
        for number in (0..self.parts(atomic_bytes)).filter(|number| chosen(*number)) {
            let from = first + number as u64 * part;
            let run = from.max(start)..(from + part).min(end);
            match runs.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => runs.push(run),
            }
        }
        let free = runs.into_iter().flat_map(|run| without(run, &self.overtaken));
        free.map(|range| self.piece(range)).collect()
    }

    /// From where to where its parts lie that `chosen` names, if it names any.
    pub fn covered(&self, atomic_bytes: u32, chosen: impl FnMut(usize) -> bool) -> Option<Range<u64>> {
        let pieces = self.pieces(atomic_bytes, chosen);
        let (first, last) = (pieces.first()?, pieces.last()?);
        Some(first.offset_bytes..last.offset_bytes + last.len_bytes)
    }

    /// Where each part is that can come back.
    pub(crate) fn part_ranges(&self, atomic_bytes: u32) -> impl Iterator<Item = Vec<Range<u64>>> {
        let part = self.part_bytes(atomic_bytes);
        let Range { start, end } = self.range();
        let first = start / part * part;
        (0..self.parts(atomic_bytes) as u64).map(move |number| {
            let from = first + number * part;
            without(from.max(start)..(from + part).min(end), &self.overtaken)
        })
    }

    fn piece(&self, range: Range<u64>) -> Piece<'_> {
        let from = range.start - self.offset_bytes;
        Piece { offset_bytes: range.start, len_bytes: range.end - range.start, content: &self.content, from }
    }

    /// All that can be there of it.
    pub fn whole(&self) -> Vec<Piece<'_>> {
        without(self.range(), &self.overtaken).into_iter().map(|range| self.piece(range)).collect()
    }

    /// Something newer is durable in `newer`.
    pub(crate) fn overtake(&mut self, newer: &Range<u64>) {
        let range = self.range();
        let (start, end) = (range.start.max(newer.start), range.end.min(newer.end));
        if start >= end {
            return;
        }
        self.overtaken.push(start..end);
        self.overtaken.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(self.overtaken.len());
        for range in self.overtaken.drain(..) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        self.overtaken = joined;
    }
}

/// `range` without `holes`, which are in order and apart.
fn without(range: Range<u64>, holes: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    let mut at = range.start;
    for hole in holes.iter().filter(|hole| hole.end > range.start && hole.start < range.end) {
        if hole.start > at {
            left.push(at..hole.start);
        }
        at = hole.end.max(at);
    }
    if at < range.end {
        left.push(at..range.end);
    }
    left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_the_chosen_units_that_nothing_overtook(
            start in 0..8_u64,
            units in 1..20_u64,
            newer in proptest::collection::vec((0..30_u64, 1..8_u64), 0..6),
            chosen in proptest::collection::vec(any::<bool>(), 20),
        ) {
            let bytes: Vec<u8> = (0..units).flat_map(|unit| [unit as u8 + 1; 512]).collect();
            let mut write = LoggedWrite::new(0, WriteId(0), start * 512, &Content::Bytes(bytes.into()));
            let mut expected: Vec<u8> = vec![0; 40];
            for unit in 0..units {
                let place = start + unit;
                let overtaken = newer.iter().any(|(from, len)| (*from..from + len).contains(&place));
                if chosen[unit as usize] && !overtaken {
                    expected[place as usize] = unit as u8 + 1;
                }
            }
            for (from, len) in newer {
                write.overtake(&(from * 512..(from + len) * 512));
            }
            let mut found = vec![0; 40];
            for piece in write.pieces(512, |unit| chosen[unit]) {
                let bytes = piece.bytes().unwrap();
                prop_assert_eq!(bytes.len() as u64, piece.len_bytes);
                for (number, unit) in bytes.chunks(512).enumerate() {
                    let place = piece.offset_bytes as usize / 512 + number;
                    prop_assert_eq!(found[place], 0);
                    found[place] = unit[0];
                }
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn parts_begin_where_the_device_s_units_do() {
        let write = LoggedWrite::new(0, WriteId(0), 1024, &Content::Bytes(vec![7; 8192].into()));
        assert_eq!((write.parts(512), write.parts(4096)), (16, 3));
        let ranges = |chosen: fn(usize) -> bool| -> Vec<Range<u64>> {
            let pieces = write.pieces(4096, chosen);
            pieces.iter().map(|piece| piece.offset_bytes..piece.offset_bytes + piece.len_bytes).collect()
        };
        assert_eq!(ranges(|part| part != 1), [1024..4096, 8192..9216]);
        assert_eq!(ranges(|part| part == 1).first(), Some(&(4096..8192)));
        let within = LoggedWrite::new(0, WriteId(0), 1024, &Content::Bytes(vec![7; 1024].into()));
        assert_eq!((within.parts(512), within.parts(4096)), (2, 1));
    }

    #[test]
    fn a_long_discard_has_few_parts() {
        let discard = LoggedWrite::new(0, WriteId(0), 0, &Content::Zeroes(1 << 40));
        assert_eq!(discard.parts(512), 64);
        assert_eq!(discard.pieces(512, |_| true), discard.whole());
        let short = LoggedWrite::new(0, WriteId(0), 0, &Content::Zeroes(1536));
        assert_eq!(short.parts(512), 3);
    }
}
