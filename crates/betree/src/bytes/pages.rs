//! Reading a block in part.
//!
//! A block that is stored as it is takes several storage blocks, its *pages*, and its entries lie there in order. So a lookup needs
//! one page, if it knows which, and what must be in it: beside the pointer to such a block there is for each page where
//! the first entry that begins in it does, a key that tells it from all before, and a checksum. An entry may end in a
//! later page than it begins in.

use storage::BLOCK_BYTES;

use crate::bytes::block::Block;
use crate::bytes::pointer::{BlockPointer, Codec, checksum};
use crate::bytes::wire::{Malformed, Reader, VARINT_BYTES_MAX, put_bytes, put_varint};
use crate::mutant::{Mutant, mutated};

/// No entry begins in a page.
pub(super) const NOWHERE: u16 = u16::MAX;

/// The end of an entry is long from here on: then a page has hardly more than eight entries, half of them longer than what it has of one.
const LONG_END_BYTES: usize = BLOCK_BYTES / 4;

/// Bytes of a page's mark besides the key.
const MARK_BYTES: usize = size_of::<u16>() + size_of::<u128>();

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    /// Low and high half; as they are, so that a mark takes 24 bytes.
    checksum: [u64; 2],
    /// Where its key ends among the keys of all marks.
    key_end: u32,
    /// Where in the page the first entry that begins there does.
    at: u16,
}

/// The pages of a block; none where it is read whole.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Pages {
    marks: Box<[Mark]>,
    keys: Box<[u8]>,
    /// Bytes of the block up to the end of its last entry.
    entries_end: u32,
}

/// What a page of a block has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageShape {
    pub(super) at: u16,
    /// Bytes of entries in it.
    pub(super) end: u16,
    /// Whether there are entries behind it.
    pub(super) continues: bool,
}

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PagePlace {
    pub pointer: BlockPointer,
    pub shape: PageShape,
}

/// The shortest beginning of `key` that is greater than `before`, which is less than `key`.
fn separator<'a>(before: &[u8], key: &'a [u8]) -> &'a [u8] {
    let common = before.iter().zip(key).take_while(|(one, other)| one == other).count();
    key.get(..=common).unwrap_or(key)
}

impl Pages {
    /// Of a block that may be stored as it is; the checksums come when it is.
    pub fn of(block: &Block) -> Self {
        let count = block.raw().len().div_ceil(BLOCK_BYTES);
        if count < 2 {
            return Self::default();
        }
        let (mut marks, mut keys) = (Vec::with_capacity(count), Vec::new());
        let mut next = 0;
        for page in 0..count {
            let bounds = page * BLOCK_BYTES..(page + 1) * BLOCK_BYTES;
            next = block.first_from(bounds.start, next);
            let begins = (next < block.len()).then(|| block.start(next)).filter(|start| bounds.contains(start));
            if begins.is_some() && next > 0 {
                keys.extend_from_slice(separator(block.key(next - 1), block.key(next)));
            }
            let at = begins.map_or(NOWHERE, |start| (start - bounds.start) as u16);
            marks.push(Mark { checksum: [0; 2], key_end: keys.len() as u32, at });
        }
        Self { marks: marks.into(), keys: keys.into(), entries_end: block.entries_end() as u32 }
    }

    /// The same with the checksums of a block that is stored as it is.
    pub fn sealed(&self, stored: &[u8]) -> Self {
        let mut sealed = self.clone();
        for (mark, page) in sealed.marks.iter_mut().zip(stored.chunks(BLOCK_BYTES)) {
            let sum = checksum(page);
            mark.checksum = [sum as u64, (sum >> 64) as u64];
        }
        sealed
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.marks.iter().map(move |mark| {
            let key = self.keys.get(start..mark.key_end as usize).unwrap_or_default();
            start = mark.key_end as usize;
            key
        })
    }

    /// The page in which an entry for `key` begins, if there is one; `None` where the block is read whole.
    pub fn page_of(&self, key: &[u8]) -> Option<usize> {
        let begun = self.marks.iter().zip(self.keys()).enumerate().filter(|(_, (mark, _))| mark.at != NOWHERE);
        let past = |own: &[u8]| own > key || (own == key && mutated(Mutant::PageOffByOne));
        begun.take_while(|(index, (_, own))| *index == 0 || !past(own)).last().map(|(index, _)| index)
    }

    /// Where page `index` of a block is.
    pub fn place(&self, block: &BlockPointer, index: usize) -> Option<PagePlace> {
        let mark = self.marks.get(index)?;
        let before = index * BLOCK_BYTES;
        let bytes = (block.stored_bytes as usize).checked_sub(before)?.min(BLOCK_BYTES) as u32;
        let pointer = BlockPointer {
            start: block.start + index as u64,
            stored_bytes: bytes,
            raw_bytes: bytes,
            codec: Codec::Plain,
            birth: block.birth,
            checksum: u128::from(mark.checksum[0]) | u128::from(mark.checksum[1]) << 64,
        };
        let end = (self.entries_end as usize).saturating_sub(before);
        let shape = PageShape { at: mark.at, end: end.min(BLOCK_BYTES) as u16, continues: end > BLOCK_BYTES };
        Some(PagePlace { pointer, shape })
    }

    /// How many pages behind page `index` a lookup there is likely to need: where much of an entry lies in them, entries are long, and it
    /// may well be this one.
    pub fn likely_behind(&self, index: usize) -> usize {
        let behind = self.marks.iter().skip(index + 1);
        let whole = behind.clone().take_while(|mark| mark.at == NOWHERE).count();
        let last = behind.skip(whole).take(1).filter(|mark| usize::from(mark.at) >= LONG_END_BYTES).count();
        if mutated(Mutant::LongEntriesReadTwice) { 0 } else { whole + last }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether the block is read whole.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// A key that tells what begins in page `number` from all before.
    pub fn key(&self, number: usize) -> &[u8] {
        let end = |number: usize| self.marks.get(number).map_or(0, |mark| mark.key_end as usize);
        let start = number.checked_sub(1).map_or(0, end);
        self.keys.get(start..end(number)).unwrap_or_default()
    }

    fn begins_in(&self, number: usize) -> bool {
        self.marks.get(number).is_some_and(|mark| mark.at != NOWHERE)
    }

    /// The last page in which an entry begins.
    pub fn last_begun(&self) -> Option<usize> {
        self.begun_before(self.marks.len())
    }

    /// The page before `number` in which the last entry begins that does so before it.
    pub fn begun_before(&self, number: usize) -> Option<usize> {
        (0..number).rev().find(|number| self.begins_in(*number))
    }

    /// The first page behind `number` in which an entry begins.
    pub fn begun_behind(&self, number: usize) -> Option<usize> {
        (number + 1..self.marks.len()).find(|number| self.begins_in(*number))
    }

    /// Where all pages of a block are.
    pub fn places(&self, block: &BlockPointer) -> impl Iterator<Item = PagePlace> {
        (0..self.marks.len()).filter_map(|index| self.place(block, index))
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.marks.len() * size_of::<Mark>() + self.keys.len()
    }

    /// Bytes in a header, at most.
    pub fn encoded_bytes(&self) -> usize {
        let marks = self.keys().map(|key| MARK_BYTES + key.len() + if key.len() < 0x80 { 1 } else { VARINT_BYTES_MAX });
        VARINT_BYTES_MAX + size_of::<u32>() + marks.sum::<usize>()
    }

    pub fn encode(&self, to: &mut Vec<u8>) {
        put_varint(to, self.marks.len() as u64);
        if self.marks.is_empty() {
            return;
        }
        to.extend_from_slice(&self.entries_end.to_le_bytes());
        for (mark, key) in self.marks.iter().zip(self.keys()) {
            to.extend_from_slice(&mark.at.to_le_bytes());
            mark.checksum.iter().for_each(|half| to.extend_from_slice(&half.to_le_bytes()));
            put_bytes(to, key);
        }
    }

    /// The pages of the block behind a pointer.
    ///
    /// # Errors
    ///
    /// What is wrong first.
    pub fn decode(from: &mut Reader<'_>, pointer: &BlockPointer) -> Result<Self, Malformed> {
        let count = from.count(MARK_BYTES + 1)?;
        if count == 0 {
            return Ok(Self::default());
        }
        if pointer.codec != Codec::Plain || count as u64 != pointer.blocks() || count < 2 {
            return Err(Malformed("a block has other pages than it takes"));
        }
        let entries_end = from.u32()?;
        if entries_end > pointer.stored_bytes {
            return Err(Malformed("entries end behind their block"));
        }
        let (mut marks, mut keys) = (Vec::with_capacity(count), Vec::new());
        let mut last: Option<&[u8]> = None;
        for page in 0..count {
            let (at, checksum) = (from.u16()?, [from.u64()?, from.u64()?]);
            let key = from.bytes()?;
            if at != NOWHERE {
                if usize::from(at) >= BLOCK_BYTES || page * BLOCK_BYTES + usize::from(at) >= entries_end as usize {
                    return Err(Malformed("an entry begins outside of its page"));
                }
                if last.is_some_and(|last| last >= key) {
                    return Err(Malformed("pages are out of order"));
                }
                last = Some(key);
            }
            // Every key that the block may have is in some page.
            let first_is_all = at != NOWHERE && key.is_empty();
            if (page == 0) != first_is_all || (at == NOWHERE && !key.is_empty()) {
                return Err(Malformed("a page has no key"));
            }
            keys.extend_from_slice(key);
            let key_end = u32::try_from(keys.len()).map_err(|_| Malformed("pages have too many keys"))?;
            marks.push(Mark { checksum, key_end, at });
        }
        Ok(Self { marks: marks.into(), keys: keys.into(), entries_end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::block::BlockBuilder;
    use crate::bytes::message::Message;
    use std::borrow::Cow;

    #[test]
    fn separators_are_short() {
        assert_eq!(separator(b"abc", b"abd"), b"abd");
        assert_eq!(separator(b"abc", b"b"), b"b");
        assert_eq!(separator(b"a", b"abc"), b"ab");
        let mut numbers: Vec<u64> = (0u64..140).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        numbers.sort_unstable();
        let mut builder = BlockBuilder::default();
        for number in numbers {
            builder.push(&number.to_be_bytes(), &Message::Insert(Cow::Owned(vec![9; 100])));
        }
        let block = builder.finish();
        let pages = Pages::of(&block);
        assert_eq!(pages.marks.len(), block.raw().len().div_ceil(BLOCK_BYTES));
        assert!(pages.keys.len() <= 2 * pages.marks.len());
    }
}
