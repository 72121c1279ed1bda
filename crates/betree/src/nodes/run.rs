//! A sorted run: what a flush moves, and what a leaf is.
//!
//! A run *first deletes its ranges and then carries out its entries*. So whatever order the messages came in, one
//! run has at most one entry a key and ranges that do not overlap. A leaf is a run without ranges whose entries are
//! all inserts.

use std::sync::Arc;

use storage::BLOCK_BYTES;

use crate::bytes::block::{Block, BlockBuilder};
use crate::bytes::filter::{Filter, KeyHash};
use crate::bytes::message::Message;
use crate::bytes::order::compare;
use crate::bytes::pages::Pages;
use crate::bytes::pointer::BlockPointer;
use crate::bytes::range::{Key, KeyRange, RangeSet};
use crate::bytes::wire::{Malformed, Reader, VARINT_BYTES_MAX, put_bytes, put_varint};
use crate::mutant::{Mutant, mutated};

/// A block, here or there.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// On the storage.
    Stored(BlockPointer),
    /// Not yet on the storage.
    Fresh(Arc<Block>),
}

impl Part {
    /// Bytes when decompressed.
    pub fn raw_bytes(&self) -> u64 {
        match self {
            Self::Stored(pointer) => u64::from(pointer.raw_bytes),
            Self::Fresh(block) => block.raw().len() as u64,
        }
    }

    /// Bytes that wait to be written, in whole storage blocks.
    pub fn fresh_bytes(&self) -> u64 {
        match self {
            Self::Stored(_) => 0,
            Self::Fresh(block) => block.raw().len().next_multiple_of(BLOCK_BYTES) as u64,
        }
    }
}

/// How many of a block's entries are of interest without the block.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    /// Deletes.
    pub deletes: u32,
    /// Values that lie apart.
    pub places: u32,
}

impl Tally {
    pub fn add(&mut self, message: &Message<'_>) {
        match message {
            Message::Delete => self.deletes += 1,
            Message::Place(_) => self.places += u32::from(!mutated(Mutant::PlacesUncounted)),
            Message::Insert(_) | Message::Upserts(_) => {}
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { deletes: from.u32()?, places: from.u32()? })
    }

    fn encode(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.deletes.to_le_bytes());
        to.extend_from_slice(&self.places.to_le_bytes());
    }
}

/// A block of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunBlock {
    pub first_key: Key,
    pub filter: Arc<Filter>,
    pub tally: Tally,
    pub part: Part,
    /// How to read it in part, where it is stored as it is or may be.
    pub pages: Arc<Pages>,
}

/// Sorted blocks, and ranges to delete before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub tombstones: RangeSet,
    pub blocks: Vec<RunBlock>,
    /// Sequence numbers of its oldest and newest message. In a leaf: 0, and that of the newest message applied.
    pub first_msn: u64,
    pub last_msn: u64,
}

impl Run {
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.tombstones.is_empty()
    }

    /// Bytes of entries and ranges, decompressed.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.part.raw_bytes()).sum::<u64>() + self.tombstones.bytes() as u64
    }

    /// Of these the ones that are not on the storage.
    pub fn fresh_bytes(&self) -> u64 {
        let fresh = self.blocks.iter().filter(|block| matches!(block.part, Part::Fresh(_)));
        fresh.map(|block| block.part.raw_bytes()).sum()
    }

    /// Whether it takes anything away.
    pub fn deletes(&self) -> bool {
        !self.tombstones.is_empty() || self.blocks.iter().any(|block| block.tally.deletes > 0)
    }

    /// The block that has `key`, if any has it.
    pub fn block_of(&self, key: &[u8]) -> Option<usize> {
        self.blocks.partition_point(|block| compare(&block.first_key, key).is_le()).checked_sub(1)
    }

    /// The keys that block `index` alone can have: up to the next block.
    pub fn range_of(&self, index: usize) -> KeyRange {
        let start = if index == 0 { Key::default() } else { self.blocks[index].first_key.clone() };
        KeyRange { start, end: self.blocks.get(index + 1).map(|next| next.first_key.clone()) }
    }

    /// Bytes that it takes in a node's header, at most.
    pub fn header_bytes(&self) -> usize {
        let block = |block: &RunBlock| {
            2 * VARINT_BYTES_MAX
                + block.first_key.len()
                + block.filter.bytes().len()
                + size_of::<Tally>()
                + BlockPointer::ENCODED_BYTES
                + block.pages.encoded_bytes()
        };
        4 * VARINT_BYTES_MAX + self.tombstones.bytes() + self.blocks.iter().map(block).sum::<usize>()
    }

    pub fn encode(&self, to: &mut Vec<u8>) {
        put_varint(to, self.first_msn);
        put_varint(to, self.last_msn);
        self.tombstones.encode(to);
        put_varint(to, self.blocks.len() as u64);
        for block in &self.blocks {
            let Part::Stored(pointer) = &block.part else {
                unreachable!("a node is encoded when its blocks are on the storage")
            };
            put_bytes(to, &block.first_key);
            put_bytes(to, block.filter.bytes());
            block.tally.encode(to);
            pointer.encode(to);
            block.pages.encode(to);
        }
    }

    pub fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (first_msn, last_msn) = (from.varint()?, from.varint()?);
        if first_msn > last_msn {
            return Err(Malformed("a run's sequence numbers are out of order"));
        }
        let tombstones = RangeSet::decode(from)?;
        let mut blocks: Vec<RunBlock> = Vec::new();
        for _ in 0..from.count(3 + size_of::<Tally>() + BlockPointer::ENCODED_BYTES)? {
            let first_key: Key = from.bytes()?.into();
            if blocks.last().is_some_and(|last| last.first_key >= first_key) {
                return Err(Malformed("blocks are out of order"));
            }
            let filter = Arc::new(Filter::from_bytes(from.bytes()?));
            let tally = Tally::decode(from)?;
            let pointer = BlockPointer::decode(from)?;
            let pages = Arc::new(Pages::decode(from, &pointer)?);
            blocks.push(RunBlock { first_key, filter, tally, part: Part::Stored(pointer), pages });
        }
        Ok(Self { tombstones, blocks, first_msn, last_msn })
    }
}

/// Cuts entries in ascending order into blocks.
pub(crate) struct RunBuilder {
    block_bytes: usize,
    filter_bits: usize,
    /// Of the keys in `current`.
    hashes: Vec<KeyHash>,
    current: BlockBuilder,
    tally: Tally,
    first_key: Key,
    blocks: Vec<RunBlock>,
}

impl RunBuilder {
    /// Blocks of about `block_bytes`, with filters of so many bits a key; an entry that is larger gets a block of its
    /// own.
    pub fn new(block_bytes: usize, filter_bits: usize) -> Self {
        Self {
            block_bytes,
            filter_bits,
            hashes: Vec::new(),
            current: BlockBuilder::default(),
            tally: Tally::default(),
            first_key: Key::default(),
            blocks: Vec::new(),
        }
    }

    pub fn push(&mut self, key: &[u8], message: &Message<'_>) {
        if !self.current.is_empty() && self.current.bytes() + key.len() + message.bytes() > self.block_bytes {
            self.cut();
        }
        if self.current.is_empty() {
            self.first_key = key.into();
        }
        self.current.push(key, message);
        self.tally.add(message);
        if self.filter_bits > 0 {
            self.hashes.push(KeyHash::of(key));
        }
    }

    /// Takes a block as it is; its keys are behind all so far.
    pub fn keep(&mut self, block: RunBlock) {
        self.cut();
        self.blocks.push(block);
    }

    /// Bytes of the block that is being filled; 0 where there is none.
    pub fn open_bytes(&self) -> usize {
        if self.current.is_empty() { 0 } else { self.current.bytes() }
    }

    fn cut(&mut self) {
        if !self.current.is_empty() {
            let block = self.current.finish();
            let pages = Arc::new(Pages::of(&block));
            let part = Part::Fresh(Arc::new(block));
            let filter = Arc::new(Filter::of(&self.hashes, self.filter_bits));
            self.hashes.clear();
            let (first_key, tally) = (std::mem::take(&mut self.first_key), std::mem::take(&mut self.tally));
            self.blocks.push(RunBlock { first_key, filter, tally, part, pages });
        }
    }

    /// The blocks, and an empty builder again.
    pub fn finish(&mut self) -> Vec<RunBlock> {
        self.cut();
        std::mem::take(&mut self.blocks)
    }
}
