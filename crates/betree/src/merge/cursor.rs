//! Going through the entries of a run.
//!
//! A reader that begins reads pages: who wants a few entries takes a part of each run's block, and no more. One that goes
//! on takes blocks whole, which are on their way by then ([`crate::io::ahead`]).

use std::ops::Range;
use std::sync::Arc;

use storage::BLOCK_BYTES;

use crate::bytes::block::{Block, KeyPlace};
use crate::bytes::message::Message;
use crate::bytes::page::{Page, entry_of};
use crate::bytes::pages::PagePlace;
use crate::bytes::pointer::BlockPointer;
use crate::bytes::range::{Direction, KeyRange};
use crate::error::Result;
use crate::io::ahead::Wanted;
use crate::io::{BlockIo, Composer, Kind, corrupt};
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::RunHandle;
use crate::nodes::run::{Part, RunBlock};

/// Of a block's pages, a reader begins with one part in so many.
const FIRST_SHARE: usize = 4;

/// An entry.
enum At {
    /// Of a block that is there whole.
    Block {
        block: Arc<Block>,
        entry: usize,
        /// Those of the block that are in the range.
        entries: Range<usize>,
        key: KeyPlace,
    },
    /// One that begins in a page.
    Page {
        number: usize,
        page: Arc<Page>,
        entry: usize,
        /// Its bytes, where it ends in another page.
        joined: Option<Vec<u8>>,
    },
}

impl At {
    fn key(&self) -> &[u8] {
        match self {
            Self::Block { block, key, .. } => block.key_at(*key),
            Self::Page { joined: Some(bytes), .. } => entry_of(bytes).0,
            Self::Page { page, entry, .. } => page.key(*entry),
        }
    }

    fn message(&self) -> Message<'_> {
        match self {
            Self::Block { block, key, .. } => block.message_at(*key),
            Self::Page { joined: Some(bytes), .. } => entry_of(bytes).1,
            Self::Page { page, entry, .. } => page.message(*entry),
        }
    }
}

/// Where there may be an entry: there is none behind the last.
enum Place {
    Block(Arc<Block>, Option<usize>),
    Page(usize, Arc<Page>, Option<usize>),
}

/// Goes through the entries of a run that are in a range.
pub(crate) struct RunCursor {
    run: RunHandle,
    range: KeyRange,
    direction: Direction,
    index: usize,
    /// In the block at `index`; none at the end.
    at: Option<At>,
    /// Pages that were read together last.
    pages: usize,
}

impl RunCursor {
    /// One that stands nowhere yet.
    pub fn new(run: RunHandle, range: KeyRange, direction: Direction) -> Self {
        Self { run, range, direction, index: 0, at: None, pages: 0 }
    }

    /// The block that it begins with.
    fn first(&self) -> Option<usize> {
        let blocks = &self.run.blocks;
        let index = match (self.direction, &self.range.end) {
            _ if self.range.is_empty() => return None,
            (Direction::Forward, _) => self.run.block_of(&self.range.start).unwrap_or(0),
            (Direction::Backward, Some(end)) => {
                blocks.partition_point(|block| block.first_key < *end).checked_sub(1)?
            }
            (Direction::Backward, None) => blocks.len().checked_sub(1)?,
        };
        (index < blocks.len()).then_some(index)
    }

    /// The page of a block that it begins with; none where the block is read whole.
    fn first_page(&self, block: &RunBlock) -> Option<usize> {
        match (self.direction, &self.range.end) {
            (Direction::Forward, _) => block.pages.page_of(&self.range.start),
            (Direction::Backward, Some(end)) => block.pages.page_of(end),
            (Direction::Backward, None) => block.pages.last_begun(),
        }
    }

    /// What it will read first, as far as that is not in memory.
    pub fn wanted(&self, io: &BlockIo) -> Vec<Wanted> {
        let Some(block) = self.first().and_then(|index| self.run.blocks.get(index)) else { return Vec::new() };
        let Part::Stored(pointer) = &block.part else { return Vec::new() };
        if io.cached_block(pointer).is_some() {
            return Vec::new();
        }
        let Some(number) = self.first_page(block).filter(|_| io.reads_pages()) else {
            return vec![Wanted::new(*pointer, Kind::Block)];
        };
        let (places, _) = self.together(block, pointer, number);
        places.iter().map(|place| Wanted::new(place.pointer, Kind::Page(place.shape))).collect()
    }

    /// Goes to its first entry.
    pub fn begin(&mut self, with: &Composer<'_>) -> Result<()> {
        let Some(index) = self.first() else { return Ok(()) };
        self.index = index;
        let Some(found) = self.run.blocks.get(index) else { return Ok(()) };
        let place = match self.whole(with, found)? {
            Some(block) => {
                let entry = match (self.direction, &self.range.end) {
                    (Direction::Forward, _) => Some(block.lower_bound(&self.range.start)),
                    (Direction::Backward, Some(end)) => block.lower_bound(end).checked_sub(1),
                    (Direction::Backward, None) => block.len().checked_sub(1),
                };
                Place::Block(block, entry)
            }
            None => {
                let number = self.first_page(found).unwrap_or(0);
                let page = self.page(with, number)?;
                let entry = match (self.direction, &self.range.end) {
                    (Direction::Forward, _) => Some(page.lower_bound(&self.range.start)),
                    // What the entry that is cut has for a key is seen then.
                    (Direction::Backward, Some(end)) => {
                        let before = page.lower_bound(end);
                        if page.is_cut(before) { Some(before) } else { before.checked_sub(1) }
                    }
                    (Direction::Backward, None) => page.len().checked_sub(1),
                };
                Place::Page(number, page, entry)
            }
        };
        self.settle(with, place)
    }

    /// A block whole, where it is there or the reader takes blocks whole.
    fn whole(&self, with: &Composer<'_>, found: &RunBlock) -> Result<Option<Arc<Block>>> {
        match &found.part {
            Part::Stored(pointer) if with.begins() && with.io.reads_pages() && !found.pages.is_empty() => {
                Ok(with.io.cached_block(pointer))
            }
            part => with.block(part).map(Some),
        }
    }

    /// A page with those that are read together with it, and which of them it is.
    fn together(&self, block: &RunBlock, pointer: &BlockPointer, number: usize) -> (Vec<PagePlace>, usize) {
        let all = block.pages.len();
        let count = (2 * self.pages).max(all / FIRST_SHARE).max(1);
        let (from, to) = match self.direction {
            Direction::Forward => (number, (number + count).min(all)),
            Direction::Backward => ((number + 1).saturating_sub(count), number + 1),
        };
        let places = (from..to).filter_map(|number| block.pages.place(pointer, number)).collect();
        (places, number - from)
    }

    /// A page of the current block. Each time that one has to be read, twice as many as before come with it.
    fn page(&mut self, with: &Composer<'_>, number: usize) -> Result<Arc<Page>> {
        let Some((block, pointer)) = self.stored() else { unreachable!("a block with pages is on the storage") };
        let (places, own) = self.together(block, pointer, number);
        if own >= places.len() {
            return Err(corrupt(pointer, "an entry goes on behind its block"));
        }
        let (page, was_read) = with.io.pages(&places, own)?;
        if was_read {
            self.pages = places.len();
        }
        Ok(page)
    }

    fn stored(&self) -> Option<(&RunBlock, &BlockPointer)> {
        let block = self.run.blocks.get(self.index)?;
        match &block.part {
            Part::Stored(pointer) => Some((block, pointer)),
            Part::Fresh(_) => None,
        }
    }

    /// The bytes of an entry that begins in a page and ends in another.
    fn join(&mut self, with: &Composer<'_>, number: usize, page: &Page) -> Result<Vec<u8>> {
        let mut bytes = page.cut().to_vec();
        for number in number + 1.. {
            let next = self.page(with, number)?;
            let (rest, is_end) = next.rest_of_last();
            bytes.extend_from_slice(rest);
            if is_end {
                break;
            }
        }
        if let (Err(error), Some((_, pointer))) = (crate::bytes::page::check_entry(&bytes), self.stored()) {
            return Err(corrupt(pointer, error.to_string()));
        }
        Ok(bytes)
    }

    /// Stands at an entry, or at the next one that there is.
    fn settle(&mut self, with: &Composer<'_>, place: Place) -> Result<()> {
        let mut place = place;
        let at = loop {
            place = match place {
                Place::Block(block, Some(entry)) if entry < block.len() => {
                    let (entries, key) = (self.entries_of(&block), block.place(entry));
                    self.at = entries.contains(&entry).then_some(At::Block { block, entry, entries, key });
                    return Ok(());
                }
                Place::Page(number, page, Some(entry)) if entry < page.len() => {
                    let is_cut = page.is_cut(entry);
                    if is_cut && mutated(Mutant::ScanMissesCutEntries) {
                        place = Place::Page(number, page, self.behind(entry));
                        continue;
                    }
                    let joined = if is_cut { Some(self.join(with, number, &page)?) } else { None };
                    let at = At::Page { number, page, entry, joined };
                    if !self.is_before(at.key()) {
                        break at;
                    }
                    self.next(at)
                }
                Place::Block(block, _) => match self.next_block(with, block.raw().len())? {
                    Some(place) => place,
                    None => return Ok(()),
                },
                Place::Page(number, ..) => match self.next_page(with, number)? {
                    Some(place) => place,
                    None => return Ok(()),
                },
            }
        };
        self.at = self.range.contains(at.key()).then_some(at);
        Ok(())
    }

    /// The entries of a block that are in the range: most blocks are all.
    fn entries_of(&self, block: &Block) -> Range<usize> {
        let count = block.len();
        let start = if *self.range.start <= *block.key(0) { 0 } else { block.lower_bound(&self.range.start) };
        let end = match &self.range.end {
            Some(end) if *block.key(count - 1) >= **end => block.lower_bound(end),
            _ => count,
        };
        start..end
    }

    /// Whether a key is one of those before the first of the range, seen from where the cursor begins.
    fn is_before(&self, key: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => *key < *self.range.start,
            Direction::Backward => self.range.end.as_ref().is_some_and(|end| *key >= **end),
        }
    }

    /// The entry of the same block or page that comes next.
    fn behind(&self, entry: usize) -> Option<usize> {
        match self.direction {
            Direction::Forward => Some(entry + 1),
            Direction::Backward => entry.checked_sub(1),
        }
    }

    fn next(&self, at: At) -> Place {
        match at {
            At::Block { block, entry, .. } => Place::Block(block, self.behind(entry)),
            At::Page { number, page, entry, .. } => Place::Page(number, page, self.behind(entry)),
        }
    }

    /// What comes behind a page.
    fn next_page(&mut self, with: &Composer<'_>, number: usize) -> Result<Option<Place>> {
        let Some((found, _)) = self.stored() else { return Ok(None) };
        let next = match self.direction {
            Direction::Forward => found.pages.begun_behind(number),
            Direction::Backward => found.pages.begun_before(number),
        };
        let Some(next) = next else { return self.next_block(with, BLOCK_BYTES) };
        with.go_on(BLOCK_BYTES);
        if let Some(block) = self.whole(with, found)? {
            // What begins in a page is from its key on.
            let entry = match self.direction {
                Direction::Forward => Some(block.lower_bound(found.pages.key(next))),
                Direction::Backward => block.lower_bound(found.pages.key(number)).checked_sub(1),
            };
            return Ok(Some(Place::Block(block, entry)));
        }
        let page = self.page(with, next)?;
        let entry = self.first_of(page.len());
        Ok(Some(Place::Page(next, page, entry)))
    }

    /// The entry that comes first of so many.
    fn first_of(&self, count: usize) -> Option<usize> {
        match self.direction {
            Direction::Forward => Some(0),
            Direction::Backward => count.checked_sub(1),
        }
    }

    /// What comes behind a block, of which the reader leaves so many bytes behind.
    fn next_block(&mut self, with: &Composer<'_>, bytes: usize) -> Result<Option<Place>> {
        let next = match self.direction {
            Direction::Forward => self.index.checked_add(1),
            Direction::Backward => self.index.checked_sub(1),
        };
        let Some((next, found)) = next.and_then(|next| Some((next, self.run.blocks.get(next)?))) else {
            return Ok(None);
        };
        // A block that cannot have a key of the range is not read.
        if self.direction == Direction::Forward && self.range.end.as_ref().is_some_and(|end| found.first_key >= *end) {
            return Ok(None);
        }
        with.go_on(bytes);
        let whole = self.whole(with, found)?;
        let last = found.pages.last_begun();
        self.index = next;
        if let Some(block) = whole {
            let entry = self.first_of(block.len());
            return Ok(Some(Place::Block(block, entry)));
        }
        let number = match self.direction {
            Direction::Forward => 0,
            Direction::Backward => last.unwrap_or(0),
        };
        let page = self.page(with, number)?;
        let entry = self.first_of(page.len());
        Ok(Some(Place::Page(number, page, entry)))
    }

    pub fn peek(&self) -> Option<&[u8]> {
        self.at.as_ref().map(At::key)
    }

    pub fn message(&self) -> Option<Message<'_>> {
        self.at.as_ref().map(At::message)
    }

    #[inline]
    pub fn advance(&mut self, with: &Composer<'_>) -> Result<()> {
        if let Some(At::Block { block, entry, entries, key }) = &mut self.at {
            let next = match self.direction {
                Direction::Forward => entry.wrapping_add(1),
                Direction::Backward => entry.wrapping_sub(1),
            };
            if entries.contains(&next) {
                (*entry, *key) = (next, block.place(next));
                return Ok(());
            }
        }
        self.go_on(with)
    }

    fn go_on(&mut self, with: &Composer<'_>) -> Result<()> {
        match self.at.take() {
            Some(at) => {
                let next = self.next(at);
                self.settle(with, next)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::operator::Operators;
    use crate::bytes::pointer::{Codec, checksum};
    use crate::io::Purpose;
    use crate::io::ahead::ReadAhead;
    use crate::nodes::node::{Edge, Node};
    use crate::nodes::run::{Run, RunBuilder};
    use proptest::prelude::*;
    use std::borrow::Cow;
    use std::collections::BTreeMap;
    use storage::{Buffer, Memory};

    type Entries = BTreeMap<Vec<u8>, usize>;

    /// A run of blocks that are on the storage as they are.
    fn stored(io: &BlockIo, entries: &Entries) -> Run {
        let mut builder = RunBuilder::new(16 << 10, 0);
        for (key, bytes) in entries {
            builder.push(key, &Message::Insert(Cow::Owned(vec![*bytes as u8; *bytes])));
        }
        let mut start = 1;
        let store = |block: RunBlock| {
            let Part::Fresh(content) = &block.part else { unreachable!("a block that was just built") };
            let raw = content.raw();
            let bytes = raw.len() as u32;
            let (codec, checksum) = (Codec::Plain, checksum(raw));
            let pointer = BlockPointer { start, stored_bytes: bytes, raw_bytes: bytes, codec, birth: 1, checksum };
            io.write([(Purpose::Runs, start, Buffer::padded(raw))]).unwrap();
            start += pointer.blocks();
            RunBlock { pages: Arc::new(block.pages.sealed(raw)), part: Part::Stored(pointer), ..block }
        };
        let blocks = builder.finish().into_iter().map(store).collect();
        Run { blocks, ..Run::default() }
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..9)
    }

    proptest! {
        /// From the first page to whole blocks, whatever lies across the ends of pages: it comes to every entry of the range,
        /// in order, with what is on the storage or with an empty cache.
        #[test]
        fn a_reader_that_begins_comes_to_every_entry(
            entries in prop::collection::btree_map(key(), prop_oneof![4 => 0usize..200, 2 => 0usize..2000, 1 => 3000usize..13_000], 1..120),
            start in key(),
            end in prop::option::of(key()),
            backward: bool,
            cached: bool,
        ) {
            let io = BlockIo::new(Box::new(Memory::new(4 << 20)), if cached { 4 << 20 } else { 0 });
            let run = stored(&io, &entries);
            let operators = Operators::default();
            let range = KeyRange { start: start.into(), end: end.map(Into::into) };
            let direction = if backward { Direction::Backward } else { Direction::Forward };
            let node = Arc::new(Node::Leaf(run));
            let ahead = ReadAhead::along(Edge::Fresh(Arc::clone(&node)), range.clone(), direction, true);
            let with = Composer { ahead: Some(&ahead), ..Composer::new(&io, &operators) };
            let mut cursor = RunCursor::new(RunHandle::Leaf(node), range.clone(), direction);
            cursor.begin(&with).unwrap();
            let mut found = Vec::new();
            while let Some(key) = cursor.peek() {
                let Some(Message::Insert(value)) = cursor.message() else { panic!("another message") };
                prop_assert!(value.iter().all(|byte| *byte == value.len() as u8));
                found.push((key.to_vec(), value.len()));
                cursor.advance(&with).unwrap();
            }
            let mut expected: Vec<(Vec<u8>, usize)> =
                entries.into_iter().filter(|(key, _)| range.contains(key)).collect();
            if backward {
                expected.reverse();
            }
            prop_assert_eq!(found, expected);
        }
    }
}
