//! Reading a block in part.
//!
//! A block that is stored as it is takes several storage blocks, its *pages*, and its entries lie there in order. So a lookup needs
//! one page, if it knows which, and what must be in it: beside the pointer to such a block there is for each page where
//! the first entry that begins in it does, a key that tells it from all before, and a checksum. An entry may end in a
//! later page than it begins in.

use std::cmp::Ordering;
use std::sync::Arc;

use storage::BLOCK_BYTES;

use crate::bytes::block::Block;
use crate::bytes::message::Message;
use crate::bytes::pointer::{BlockPointer, Codec, checksum};
use crate::bytes::wire::{Malformed, Reader, VARINT_BYTES_MAX, put_bytes, put_varint};
use crate::mutant::{Mutant, mutated};

/// No entry begins in a page.
const NOWHERE: u16 = u16::MAX;

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
    at: u16,
    /// Bytes of entries in it.
    end: u16,
    /// Whether there are entries behind it.
    continues: bool,
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
    fn page_of(&self, key: &[u8]) -> Option<usize> {
        let begun = self.marks.iter().zip(self.keys()).enumerate().filter(|(_, (mark, _))| mark.at != NOWHERE);
        let past = |own: &[u8]| own > key || (own == key && mutated(Mutant::PageOffByOne));
        begun.take_while(|(index, (_, own))| *index == 0 || !past(own)).last().map(|(index, _)| index)
    }

    /// Where page `index` of a block is.
    fn place(&self, block: &BlockPointer, index: usize) -> Option<PagePlace> {
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

/// One page, with its entries where they lie.
#[derive(Debug)]
pub(crate) struct Page {
    raw: Box<[u8]>,
    starts: Box<[u16]>,
    shape: PageShape,
    /// Whether the last entry goes on in the next page.
    cut: bool,
}

/// What a page has for a key.
enum Found<'a> {
    Entry(Message<'a>),
    Absent,
    /// An entry that may be it begins there, and goes on in the next page.
    Cut(&'a [u8]),
}

fn entry<'a>(from: &mut Reader<'a>) -> Result<(&'a [u8], Message<'a>), Malformed> {
    Ok((from.bytes()?, Message::decode(from)?))
}

impl Page {
    /// Checks every entry that is whole: form, and keys in ascending order.
    ///
    /// # Errors
    ///
    /// What is wrong first.
    pub fn parse(raw: Box<[u8]>, shape: PageShape) -> Result<Self, Malformed> {
        let end = usize::from(shape.end);
        let entries = raw.get(..end).ok_or(Malformed("a page is shorter than its entries"))?;
        let (mut starts, mut cut) = (Vec::new(), false);
        if shape.at != NOWHERE {
            let mut rest = Reader::new(entries.get(usize::from(shape.at)..).unwrap_or_default());
            let mut last: Option<&[u8]> = None;
            while rest.remaining() > 0 && !cut {
                starts.push((end - rest.remaining()) as u16);
                let mut next = rest;
                match entry(&mut next) {
                    Ok((key, _)) if last.is_some_and(|last| last >= key) => {
                        return Err(Malformed("keys are out of order"));
                    }
                    Ok((key, _)) => (last, rest) = (Some(key), next),
                    Err(_) if shape.continues => cut = true,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Self { raw, starts: starts.into(), shape, cut })
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.raw.len() + self.starts.len() * size_of::<u16>()
    }

    /// Keys of the entries that begin and end in it.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let whole = self.starts.len() - usize::from(self.cut);
        self.starts.iter().take(whole).filter_map(|at| Reader::new(self.from(*at)).bytes().ok())
    }

    fn from(&self, at: u16) -> &[u8] {
        self.raw.get(usize::from(at)..usize::from(self.shape.end)).unwrap_or_default()
    }

    fn find(&self, key: &[u8]) -> Found<'_> {
        let (whole, cut) = self.starts.split_at(self.starts.len() - usize::from(self.cut));
        let own = |at: &u16| Reader::new(self.from(*at)).bytes().unwrap_or_default();
        if let Ok(index) = whole.binary_search_by(|at| own(at).cmp(key)) {
            return match entry(&mut Reader::new(self.from(whole[index]))) {
                Ok((_, message)) => Found::Entry(message),
                Err(_) => unreachable!("a page was parsed"),
            };
        }
        match cut {
            // Of this one not even the key may be here.
            [at] if !mutated(Mutant::CutEntryMissed) => match Reader::new(self.from(*at)).bytes() {
                Ok(own) if own.cmp(key) != Ordering::Equal => Found::Absent,
                _ => Found::Cut(self.from(*at)),
            },
            _ => Found::Absent,
        }
    }

    /// What the last entry of the pages before has here, and whether that is its end.
    fn rest_of_last(&self) -> (&[u8], bool) {
        let end = if self.shape.at == NOWHERE { self.shape.end } else { self.shape.at };
        let rest = self.raw.get(..usize::from(end)).unwrap_or_default();
        (rest, self.shape.at != NOWHERE || !self.shape.continues)
    }
}

/// What came of a look into some pages.
pub(crate) enum Looked {
    /// What the block has for the key.
    Found(Option<Message<'static>>),
    /// Whoever looks has no more than what is there, and needs this page.
    Missing(PagePlace),
    /// The block is read whole.
    Whole,
}

/// Looks for a key in the pages of a block, which `page` has or brings.
///
/// # Errors
///
/// What `page` met, and [`Malformed`] pages by `malformed`.
pub(crate) fn look<E>(
    (pages, block): (&Pages, &BlockPointer),
    key: &[u8],
    page: impl Fn(&PagePlace) -> Result<Option<Arc<Page>>, E>,
    malformed: impl Fn(Malformed) -> E,
) -> Result<Looked, E> {
    let Some(mut index) = pages.page_of(key) else { return Ok(Looked::Whole) };
    let Some(place) = pages.place(block, index) else { return Ok(Looked::Whole) };
    let Some(first) = page(&place)? else { return Ok(Looked::Missing(place)) };
    let mut bytes = match first.find(key) {
        Found::Entry(message) => return Ok(Looked::Found(Some(message.into_owned()))),
        Found::Absent => return Ok(Looked::Found(None)),
        Found::Cut(front) => front.to_vec(),
    };
    loop {
        index += 1;
        let Some(place) = pages.place(block, index) else {
            return Err(malformed(Malformed("an entry goes on behind its block")));
        };
        let Some(next) = page(&place)? else { return Ok(Looked::Missing(place)) };
        let (rest, is_end) = next.rest_of_last();
        bytes.extend_from_slice(rest);
        if is_end {
            break;
        }
    }
    let mut whole = Reader::new(&bytes);
    let (own, message) = entry(&mut whole).and_then(|found| whole.end().map(|()| found)).map_err(malformed)?;
    Ok(Looked::Found((own == key).then(|| message.into_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::block::BlockBuilder;
    use crate::bytes::message::Upsert;
    use proptest::prelude::*;
    use std::borrow::Cow;
    use std::collections::BTreeMap;

    fn message(kind: u8, bytes: usize) -> Message<'static> {
        match kind {
            0 => Message::Delete,
            1 => Message::Upserts(vec![Upsert { operator: 1, operand: Cow::Owned(vec![kind; bytes]) }; 2]),
            _ => Message::Insert(Cow::Owned(vec![kind; bytes])),
        }
    }

    fn block(entries: &BTreeMap<Vec<u8>, (u8, usize)>) -> Block {
        let mut builder = BlockBuilder::default();
        for (key, (kind, bytes)) in entries {
            builder.push(key, &message(*kind, *bytes));
        }
        builder.finish()
    }

    fn pointer(block: &Block) -> BlockPointer {
        let bytes = block.raw().len() as u32;
        let checksum = checksum(block.raw());
        BlockPointer { start: 7, stored_bytes: bytes, raw_bytes: bytes, codec: Codec::Plain, birth: 3, checksum }
    }

    fn entries() -> impl Strategy<Value = BTreeMap<Vec<u8>, (u8, usize)>> {
        let key = prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..9);
        let bytes = prop_oneof![4 => 0usize..200, 2 => 0usize..2000, 1 => 3000usize..13_000];
        prop::collection::btree_map(key, (0u8..6, bytes), 1..80)
    }

    /// A page as a read brings it.
    fn read(block: &Block, place: &PagePlace) -> Result<Option<Arc<Page>>, Malformed> {
        let at = (place.pointer.start - 7) as usize * BLOCK_BYTES;
        let bytes = &block.raw()[at..at + place.pointer.stored_bytes as usize];
        assert_eq!(checksum(bytes), place.pointer.checksum);
        Page::parse(bytes.into(), place.shape).map(|page| Some(Arc::new(page)))
    }

    proptest! {
        /// Whatever lies across the ends of pages, they have what the block has.
        #[test]
        fn pages_have_what_the_block_has(entries in entries(), others in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..10), 20)) {
            let block = block(&entries);
            let pages = Pages::of(&block).sealed(block.raw());
            let pointer = pointer(&block);
            let mut bytes = Vec::new();
            pages.encode(&mut bytes);
            prop_assert!(bytes.len() <= pages.encoded_bytes());
            prop_assert_eq!(&Pages::decode(&mut Reader::new(&bytes), &pointer).unwrap(), &pages);
            // A block is asked for keys from its first one on.
            let first = block.key(0);
            for key in entries.keys().chain(&others).filter(|key| &key[..] >= first) {
                let found = look((&pages, &pointer), key, |place| read(&block, place), |error| error).unwrap();
                match found {
                    Looked::Found(found) => prop_assert_eq!(found, block.find(key)),
                    Looked::Whole => prop_assert!(block.raw().len() <= BLOCK_BYTES),
                    Looked::Missing(_) => prop_assert!(false, "every page is there"),
                }
            }
        }

        /// Pages that were changed are refused or give something, and nothing breaks.
        #[test]
        fn changed_pages_do_no_harm(entries in entries(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), shift in any::<u16>()) {
            let block = block(&entries);
            let pages = Pages::of(&block);
            let mut raw = block.raw().to_vec();
            for (at, byte) in changes {
                let at = at.index(raw.len());
                raw[at] = byte;
            }
            let read = |place: &PagePlace| {
                let at = (place.pointer.start - 7) as usize * BLOCK_BYTES;
                let shape = PageShape { at: place.shape.at ^ (shift & 7), ..place.shape };
                Page::parse(raw[at..at + place.pointer.stored_bytes as usize].into(), shape).map(|page| Some(Arc::new(page)))
            };
            for key in entries.keys() {
                let _ = look((&pages, &pointer(&block)), key, read, |error| error);
            }
        }

        #[test]
        fn any_bytes_are_pages_or_an_error(bytes: Vec<u8>, stored_bytes in 1u32..40_000, page: Vec<u8>, at in any::<u16>(), end in 0u16..5000, continues: bool) {
            let pointer = BlockPointer { start: 7, stored_bytes, raw_bytes: stored_bytes, codec: Codec::Plain, birth: 3, checksum: 0 };
            if let Ok(pages) = Pages::decode(&mut Reader::new(&bytes), &pointer) {
                let _ = look((&pages, &pointer), b"key", |_| Ok(None), |error| error);
            }
            let _ = Page::parse(page.into(), PageShape { at, end, continues });
        }
    }

    #[test]
    fn separators_are_short() {
        assert_eq!(separator(b"abc", b"abd"), b"abd");
        assert_eq!(separator(b"abc", b"b"), b"b");
        assert_eq!(separator(b"a", b"abc"), b"ab");
        let numbers: BTreeMap<Vec<u8>, (u8, usize)> = (0u64..140)
            .map(|number| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(), (9, 100)))
            .collect();
        let block = block(&numbers);
        let pages = Pages::of(&block);
        assert_eq!(pages.marks.len(), block.raw().len().div_ceil(BLOCK_BYTES));
        assert!(pages.keys.len() <= 2 * pages.marks.len());
    }
}
