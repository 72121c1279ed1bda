//! A block of sorted entries: the unit of read, checksum, compression and eviction.
//!
//! The same form serves basements of leaves and runs of messages:
//!
//! ```text
//! u32        number of entries
//! entries    key length (varint), key, message
//! u32 each   where each entry begins
//! ```
//!
//! A block is checked whole when it is parsed, so looking into it cannot fail.

use std::cmp::Ordering;

use crate::bytes::message::Message;
use crate::bytes::order::compare;
use crate::bytes::wire::{Malformed, Reader, put_bytes};

const HEADER_BYTES: usize = 4;

/// Where a block has a key.
#[derive(Clone, Copy)]
pub(crate) struct KeyPlace {
    start: u32,
    end: u32,
}

/// Sorted entries, ready to be searched where they lie.
#[derive(Debug)]
pub(crate) struct Block {
    raw: Box<[u8]>,
    count: usize,
}

impl Block {
    /// Checks every entry: form, and keys in ascending order.
    ///
    /// # Errors
    ///
    /// What is wrong first.
    pub fn parse(raw: Box<[u8]>) -> Result<Self, Malformed> {
        let count = Reader::new(&raw).u32()? as usize;
        let table_bytes = count.checked_mul(4).ok_or(Malformed("a block has too many entries"))?;
        let table_at = raw.len().checked_sub(table_bytes).filter(|at| *at >= HEADER_BYTES);
        let table_at = table_at.ok_or(Malformed("a block is shorter than its table"))?;
        let mut table = Reader::new(raw.get(table_at..).unwrap_or_default());
        let mut entries = Reader::new(raw.get(HEADER_BYTES..table_at).unwrap_or_default());
        let mut last: Option<&[u8]> = None;
        for _ in 0..count {
            let at = table_at - entries.remaining();
            if table.u32()? as usize != at {
                return Err(Malformed("an entry is not where the table says"));
            }
            let key = entries.bytes()?;
            if last.is_some_and(|last| compare(last, key) != Ordering::Less) {
                return Err(Malformed("keys are out of order"));
            }
            last = Some(key);
            Message::check(&mut entries)?;
        }
        entries.end()?;
        if count == 0 {
            return Err(Malformed("a block without entries"));
        }
        Ok(Self { raw, count })
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Where the entries end, and the table of their beginnings begins.
    pub fn entries_end(&self) -> usize {
        self.raw.len() - 4 * self.count
    }

    /// Where entry `index` begins, which must be less than [`Block::len`].
    pub fn start(&self, index: usize) -> usize {
        assert!(index < self.count, "entry {index} of {}", self.count);
        Reader::new(&self.raw[self.entries_end() + 4 * index..]).u32().unwrap_or(0) as usize
    }

    /// The first entry at or behind `from` that begins at or behind a place.
    pub fn first_from(&self, place: usize, from: usize) -> usize {
        (from..self.count).find(|index| self.start(*index) >= place).unwrap_or(self.count)
    }

    fn reader(&self, index: usize) -> Reader<'_> {
        Reader::new(&self.raw[self.start(index)..self.entries_end()])
    }

    pub fn key(&self, index: usize) -> &[u8] {
        self.reader(index).bytes().unwrap_or_default()
    }

    pub fn message(&self, index: usize) -> Message<'_> {
        let mut reader = self.reader(index);
        match reader.bytes().and_then(|_| Message::decode(&mut reader)) {
            Ok(message) => message,
            Err(_) => unreachable!("a block was parsed"),
        }
    }

    /// Where the key of an entry is, for who comes back to it.
    #[inline]
    pub fn place(&self, index: usize) -> KeyPlace {
        let end = self.entries_end();
        let mut reader = self.reader(index);
        let len = reader.varint().map_or(0, |len| len as usize);
        let start = end - reader.remaining();
        KeyPlace { start: start as u32, end: (start + len) as u32 }
    }

    #[inline]
    pub fn key_at(&self, place: KeyPlace) -> &[u8] {
        self.raw.get(place.start as usize..place.end as usize).unwrap_or_default()
    }

    /// The message behind a key.
    #[inline]
    pub fn message_at(&self, place: KeyPlace) -> Message<'_> {
        match Message::decode(&mut Reader::new(&self.raw[place.end as usize..self.entries_end()])) {
            Ok(message) => message,
            Err(_) => unreachable!("a block was parsed"),
        }
    }

    /// The first entry whose key is not less than `key`.
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if compare(self.key(middle), key) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    pub fn find(&self, key: &[u8]) -> Option<Message<'_>> {
        let at = self.lower_bound(key);
        (at < self.count && self.key(at) == key).then(|| self.message(at))
    }
}

/// Puts a block together from entries in ascending order.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    raw: Vec<u8>,
    table: Vec<u32>,
    last: Vec<u8>,
}

impl BlockBuilder {
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes of the block so far.
    pub fn bytes(&self) -> usize {
        self.raw.len().max(HEADER_BYTES) + 4 * self.table.len()
    }

    pub fn push(&mut self, key: &[u8], message: &Message<'_>) {
        assert!(self.table.is_empty() || *self.last < *key, "entries in ascending order");
        if self.raw.is_empty() {
            self.raw.extend_from_slice(&[0; HEADER_BYTES]);
        }
        self.table.push(self.raw.len() as u32);
        put_bytes(&mut self.raw, key);
        message.encode(&mut self.raw);
        self.last.clear();
        self.last.extend_from_slice(key);
    }

    /// The block, and an empty builder again. There must be an entry.
    pub fn finish(&mut self) -> Block {
        let mut raw = std::mem::take(&mut self.raw);
        let table = std::mem::take(&mut self.table);
        assert!(!table.is_empty(), "a block without entries");
        raw[..HEADER_BYTES].copy_from_slice(&(table.len() as u32).to_le_bytes());
        raw.reserve_exact(4 * table.len());
        for at in &table {
            raw.extend_from_slice(&at.to_le_bytes());
        }
        Block { raw: raw.into(), count: table.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::borrow::Cow;
    use std::collections::BTreeMap;

    fn built(map: &BTreeMap<Vec<u8>, Vec<u8>>) -> Block {
        let mut builder = BlockBuilder::default();
        for (key, value) in map {
            builder.push(key, &Message::Insert(Cow::Borrowed(value)));
        }
        let bytes = builder.bytes();
        let block = builder.finish();
        assert_eq!(bytes, block.raw.len());
        block
    }

    fn map() -> impl Strategy<Value = BTreeMap<Vec<u8>, Vec<u8>>> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..12);
        prop::collection::btree_map(bytes(), bytes(), 1..40)
    }

    proptest! {
        #[test]
        fn a_block_is_a_map(map in map(), probe in prop::collection::vec(any::<u8>(), 0..12)) {
            let block = Block::parse(built(&map).raw).unwrap();
            prop_assert_eq!(block.len(), map.len());
            for (index, (key, value)) in map.iter().enumerate() {
                prop_assert_eq!(block.key(index), &key[..]);
                prop_assert_eq!(block.find(key), Some(Message::Insert(Cow::Borrowed(value))));
            }
            prop_assert_eq!(block.find(&probe).is_some(), map.contains_key(&probe));
            prop_assert_eq!(block.lower_bound(&probe), map.range(..probe).count());
        }

        /// A block that was changed is refused, or is a sound block.
        #[test]
        fn changed_bytes_are_sound_or_refused(map in map(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), cut in any::<prop::sample::Index>()) {
            let mut raw = built(&map).raw.into_vec();
            for (at, byte) in changes {
                let at = at.index(raw.len());
                raw[at] = byte;
            }
            raw.truncate(cut.index(raw.len() + 1));
            if let Ok(block) = Block::parse(raw.into()) {
                for index in 0..block.len() {
                    let _ = block.message(index);
                    prop_assert!(index == 0 || block.key(index - 1) < block.key(index));
                }
            }
        }

        #[test]
        fn any_bytes_are_a_block_or_an_error(bytes: Vec<u8>) {
            let _ = Block::parse(bytes.into());
        }
    }
}
