//! The bytes of one state at a time: what differs from the one before costs, not what is there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crash::Piece;
use twox_hash::XxHash3_64;

/// Blocks of a file system are not larger here.
pub(crate) const BLOCK_BYTES_MAX: usize = 4096;

/// The bytes of a block.
pub(crate) type Bytes = Arc<[u8]>;

/// Names contents of a block; equal contents have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Id(u32);

impl Id {
    /// Zeroes.
    pub(crate) const ZEROES: Self = Self(0);

    /// A number that no other contents of the same disk have.
    pub(crate) fn name(self) -> u64 {
        u64::from(self.0)
    }
}

/// What a block is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Whatever no one of the others is: contents of files, and what is free.
    Data,
    /// Read and written through the journal.
    Metadata,
    /// The journal itself.
    Journal,
}

/// Exclusive ors of a hash of each block that is not zero, of its place and contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sums {
    /// Of all blocks.
    pub(crate) all: u64,
    /// Of metadata.
    pub(crate) metadata: u64,
    /// Of the journal.
    pub(crate) journal: u64,
}

/// The blocks of a device.
pub(crate) struct Disk {
    block_bytes: usize,
    contents: Vec<(Bytes, u64)>,
    by_hash: BTreeMap<u64, Id>,
    /// By the address of the bytes: a log keeps what it holds where it is.
    by_address: HashMap<usize, Id>,
    now: Vec<Id>,
    classes: Vec<Class>,
    sums: Sums,
    changed: Vec<(u32, Id)>,
}

impl Disk {
    /// Zeroes, in so many blocks of this size.
    pub(crate) fn new(blocks: u32, block_bytes: usize) -> Self {
        let zeroes = (Arc::from(vec![0; block_bytes]), 0);
        Self {
            block_bytes,
            contents: vec![zeroes],
            by_hash: BTreeMap::new(),
            by_address: HashMap::new(),
            now: vec![Id::ZEROES; blocks as usize],
            classes: vec![Class::Data; blocks as usize],
            sums: Sums::default(),
            changed: Vec::new(),
        }
    }

    /// How many blocks.
    pub(crate) fn blocks(&self) -> u32 {
        self.now.len() as u32
    }

    /// Size of a block, and of an [`Id`]'s contents.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    pub(crate) fn id(&self, block: u32) -> Id {
        self.now.get(block as usize).copied().unwrap_or(Id::ZEROES)
    }

    pub(crate) fn bytes(&self, id: Id) -> &Bytes {
        let (bytes, _) = self.contents.get(id.0 as usize).unwrap_or(&self.contents[0]);
        bytes
    }

    pub(crate) fn class(&self, block: u32) -> Class {
        self.classes.get(block as usize).copied().unwrap_or(Class::Data)
    }

    pub(crate) fn sums(&self) -> Sums {
        self.sums
    }

    /// What a block with these contents adds to a sum.
    pub(crate) fn term(&self, block: u32, id: Id) -> u64 {
        let Some((_, hash)) = self.contents.get(id.0 as usize).filter(|_| id != Id::ZEROES) else { return 0 };
        let mixed =
            (hash ^ (u64::from(block) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    /// Says what blocks are for; before any state is made.
    pub(crate) fn classify(&mut self, class: Class, blocks: impl Iterator<Item = u32>) {
        for block in blocks {
            if let Some(slot) = self.classes.get_mut(block as usize) {
                *slot = class;
            }
        }
        self.sums = Sums::default();
        for block in 0..self.blocks() {
            self.add_to_sums(block, self.term(block, self.id(block)));
        }
    }

    fn add_to_sums(&mut self, block: u32, term: u64) {
        self.sums.all ^= term;
        match self.class(block) {
            Class::Metadata => self.sums.metadata ^= term,
            Class::Journal => self.sums.journal ^= term,
            Class::Data => {}
        }
    }

    fn set(&mut self, block: u32, id: Id) {
        let Some(slot) = self.now.get_mut(block as usize) else { return };
        let before = std::mem::replace(slot, id);
        if before != id {
            self.add_to_sums(block, self.term(block, before) ^ self.term(block, id));
            self.changed.push((block, before));
        }
    }

    /// The name of these contents.
    pub(crate) fn intern(&mut self, bytes: &[u8]) -> Id {
        if bytes.iter().all(|byte| *byte == 0) {
            return Id::ZEROES;
        }
        let hash = XxHash3_64::oneshot(bytes).max(1);
        let next = Id(self.contents.len() as u32);
        let id = *self.by_hash.entry(hash).or_insert(next);
        if id == next {
            self.contents.push((Arc::from(bytes), hash));
        }
        id
    }

    /// Puts a piece of a write of the log there, whose contents are in memory.
    pub(crate) fn put(&mut self, piece: &Piece<'_>) {
        let (mut at, end) = (piece.offset_bytes, piece.offset_bytes + piece.len_bytes);
        let block_bytes = self.block_bytes;
        let end = end.min(self.now.len() as u64 * block_bytes as u64);
        while at < end {
            let block = (at / block_bytes as u64) as u32;
            let within = (at % block_bytes as u64) as usize;
            let len = (block_bytes - within).min((end - at) as usize);
            let from = (at - piece.offset_bytes) as usize;
            let bytes = piece.bytes().and_then(|bytes| bytes.get(from..from + len));
            let id = match bytes {
                None if len == block_bytes => Id::ZEROES,
                Some(bytes) if len == block_bytes => self.id_of(bytes),
                bytes => {
                    let mut changed = self.bytes(self.id(block)).to_vec();
                    if let Some(part) = changed.get_mut(within..within + len) {
                        match bytes {
                            Some(bytes) => part.copy_from_slice(bytes),
                            None => part.fill(0),
                        }
                    }
                    self.intern(&changed)
                }
            };
            self.set(block, id);
            at += len as u64;
        }
    }

    /// The name of a whole block of the log, which keeps it where it is.
    fn id_of(&mut self, bytes: &[u8]) -> Id {
        let address = bytes.as_ptr() as usize;
        if let Some(id) = self.by_address.get(&address) {
            return *id;
        }
        let id = self.intern(bytes);
        self.by_address.insert(address, id);
        id
    }

    /// What was put there since stays.
    pub(crate) fn keep(&mut self) {
        self.changed.clear();
    }

    /// Takes back what was put there since the last [`keep`](Self::keep).
    pub(crate) fn undo(&mut self) {
        while let Some((block, before)) = self.changed.pop() {
            let now = self.id(block);
            self.add_to_sums(block, self.term(block, before) ^ self.term(block, now));
            if let Some(slot) = self.now.get_mut(block as usize) {
                *slot = before;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crash::Content;

    use super::*;

    const BLOCK_BYTES: usize = 4096;

    #[test]
    fn what_is_undone_was_never_there() {
        let contents = [vec![1; 3 * BLOCK_BYTES], vec![2; 2 * BLOCK_BYTES], vec![3; 512]]
            .map(|bytes| Content::Bytes(bytes.into()));
        let [base, over, torn] = &contents;
        let mut disk = Disk::new(8, BLOCK_BYTES);
        disk.classify(Class::Metadata, 0..2);
        disk.classify(Class::Journal, 2..3);
        disk.put(&Piece::whole(0, base));
        disk.keep();
        let (sums, ids): (Sums, Vec<Id>) = (disk.sums(), (0..8).map(|block| disk.id(block)).collect());
        disk.put(&Piece::whole(4096, over));
        disk.put(&Piece::whole(512, torn));
        disk.put(&Piece::whole(4096, &Content::Zeroes(1024)));
        disk.put(&Piece::whole(7 * 4096, base));
        assert_eq!(disk.bytes(disk.id(0))[510..514], [1, 1, 3, 3]);
        assert_eq!(disk.bytes(disk.id(1))[1023..1025], [0, 2]);
        assert!(sums.metadata != disk.sums().metadata && sums.journal != disk.sums().journal);
        disk.undo();
        assert_eq!((sums, ids), (disk.sums(), (0..8).map(|block| disk.id(block)).collect()));
        let mut other = Disk::new(8, BLOCK_BYTES);
        other.put(&Piece::whole(0, base));
        other.classify(Class::Metadata, 0..2);
        other.classify(Class::Journal, 2..3);
        assert_eq!(other.sums(), sums);
    }
}
