//! Pages of blocks: entries where they lie, of which the last may go on in the next page.

use std::cmp::Ordering;
use std::sync::Arc;

use super::message::Message;
use super::order::compare;
use super::pages::{NOWHERE, PagePlace, PageShape, Pages};
use super::pointer::BlockPointer;
use super::wire::{Malformed, Reader};
use crate::mutant::{Mutant, mutated};

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

/// Checks the bytes of one entry.
///
/// # Errors
///
/// What is wrong with them.
pub(crate) fn check_entry(bytes: &[u8]) -> Result<(), Malformed> {
    let mut whole = Reader::new(bytes);
    entry(&mut whole)?;
    whole.end()
}

/// The entry that such bytes are.
pub(crate) fn entry_of(bytes: &[u8]) -> (&[u8], Message<'_>) {
    match entry(&mut Reader::new(bytes)) {
        Ok(found) => found,
        Err(_) => unreachable!("an entry was checked"),
    }
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
        // As many as most pages have.
        let (mut starts, mut cut) = (Vec::with_capacity(end / 64), false);
        if shape.at != NOWHERE {
            let mut rest = Reader::new(entries.get(usize::from(shape.at)..).unwrap_or_default());
            let mut last: Option<&[u8]> = None;
            while rest.remaining() > 0 && !cut {
                starts.push((end - rest.remaining()) as u16);
                let mut next = rest;
                match next.bytes().and_then(|key| Message::check(&mut next).map(|()| key)) {
                    Ok(key) if last.is_some_and(|last| compare(last, key) != Ordering::Less) => {
                        return Err(Malformed("keys are out of order"));
                    }
                    Ok(key) => (last, rest) = (Some(key), next),
                    Err(_) if shape.continues => cut = true,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Self { raw, starts: starts.into(), shape, cut })
    }

    /// Entries that begin in it.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether an entry goes on in the next page.
    pub fn is_cut(&self, index: usize) -> bool {
        self.cut && index + 1 == self.starts.len()
    }

    /// What there is of an entry that goes on in the next page.
    pub fn cut(&self) -> &[u8] {
        self.starts.last().filter(|_| self.cut).map_or(&[], |at| self.from(*at))
    }

    /// Entry `index`, which must be one that ends in the page.
    fn entry(&self, index: usize) -> (&[u8], Message<'_>) {
        assert!(index < self.starts.len() && !self.is_cut(index), "entry {index} of {}", self.starts.len());
        match entry(&mut Reader::new(self.from(self.starts[index]))) {
            Ok(found) => found,
            Err(_) => unreachable!("a page was parsed"),
        }
    }

    pub fn key(&self, index: usize) -> &[u8] {
        self.starts.get(index).map_or(&[], |at| Reader::new(self.from(*at)).bytes().unwrap_or_default())
    }

    pub fn message(&self, index: usize) -> Message<'_> {
        self.entry(index).1
    }

    /// The first entry whose key is not less than `key`, or else the one that goes on in the next page, or none.
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        let whole = &self.starts[..self.starts.len() - usize::from(self.cut)];
        whole.partition_point(|at| compare(Reader::new(self.from(*at)).bytes().unwrap_or_default(), key).is_lt())
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
        if let Ok(index) = whole.binary_search_by(|at| compare(own(at), key)) {
            return Found::Entry(self.message(index));
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
    pub fn rest_of_last(&self) -> (&[u8], bool) {
        let end = if self.shape.at == NOWHERE { self.shape.end } else { self.shape.at };
        let rest = self.raw.get(..usize::from(end)).unwrap_or_default();
        (rest, self.shape.at != NOWHERE || !self.shape.continues)
    }
}

/// Keys of every entry of a block that the pages which could be read have whole.
pub(crate) fn keys_of_pages(pages: &[Option<Arc<Page>>]) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    // What there is of an entry that goes on in the next page.
    let mut cut: Option<Vec<u8>> = None;
    for page in pages {
        let Some(page) = page else {
            cut = None;
            continue;
        };
        let (rest, is_end) = page.rest_of_last();
        if let Some(mut bytes) = cut.take() {
            bytes.extend_from_slice(rest);
            if !is_end {
                cut = Some(bytes);
                continue;
            }
            let key = Reader::new(&bytes).bytes().map(<[u8]>::to_vec);
            keys.extend(key.ok().filter(|_| check_entry(&bytes).is_ok()));
        }
        keys.extend(page.keys().map(<[u8]>::to_vec));
        cut = page.cut.then(|| page.cut().to_vec());
    }
    keys
}

/// What came of a look into some pages.
pub(crate) enum Looked {
    /// What the block has for the key.
    Found(Option<Message<'static>>),
    /// Whoever looks has no more than what is there, and needs the first of these pages, and perhaps the others.
    Missing(Vec<PagePlace>),
    /// The block is read whole.
    Whole,
}

/// Looks for a key in the pages of a block. The first of some `page` has or brings, and perhaps the others with it.
///
/// # Errors
///
/// What `page` met, and [`Malformed`] pages by `malformed`.
pub(crate) fn look<E>(
    (pages, block): (&Pages, &BlockPointer),
    key: &[u8],
    page: impl Fn(&[PagePlace]) -> Result<Option<Arc<Page>>, E>,
    malformed: impl Fn(Malformed) -> E,
) -> Result<Looked, E> {
    let Some(mut index) = pages.page_of(key) else { return Ok(Looked::Whole) };
    let Some(place) = pages.place(block, index) else { return Ok(Looked::Whole) };
    let several: Vec<PagePlace>;
    // Short entries are many, and cost no list.
    let places = match pages.likely_behind(index) {
        0 => std::slice::from_ref(&place),
        behind => {
            several = (index..=index + behind).filter_map(|index| pages.place(block, index)).collect();
            &several
        }
    };
    let Some(first) = page(places)? else { return Ok(Looked::Missing(places.to_vec())) };
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
        let Some(next) = page(&[place])? else { return Ok(Looked::Missing(vec![place])) };
        let (rest, is_end) = next.rest_of_last();
        bytes.extend_from_slice(rest);
        if is_end {
            break;
        }
    }
    check_entry(&bytes).map_err(malformed)?;
    let (own, message) = entry_of(&bytes);
    Ok(Looked::Found((own == key).then(|| message.into_owned())))
}

#[cfg(test)]
mod tests {
    use super::super::pages::PageShape;
    use super::*;
    use crate::bytes::block::{Block, BlockBuilder};
    use crate::bytes::message::Upsert;
    use crate::bytes::pointer::{Codec, checksum};
    use proptest::prelude::*;
    use std::borrow::Cow;
    use std::collections::BTreeMap;
    use storage::BLOCK_BYTES;

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
                let found = look((&pages, &pointer), key, |places| read(&block, &places[0]), |error| error).unwrap();
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
                let _ = look((&pages, &pointer(&block)), key, |places| read(&places[0]), |error| error);
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
}
