//! The bytes of a device as a value that is cheap to copy.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit in which images share bytes.
pub const BLOCK_BYTES: usize = 4096;
/// Blocks of a chunk: what a copy of an image counts as one.
const CHUNK_BLOCKS: u64 = 256;

type Block = Arc<[u8; BLOCK_BYTES]>;

#[derive(Clone)]
struct Chunk([Option<Block>; CHUNK_BLOCKS as usize]);

impl Default for Chunk {
    fn default() -> Self {
        Self([const { None }; CHUNK_BLOCKS as usize])
    }
}

/// A sparse array of blocks. A clone shares the blocks until one of the two writes to them, and costs a step for each
/// megabyte that was ever written: a state after a power cut is a fork of an image.
#[derive(Clone, Default)]
pub struct Image {
    capacity_blocks: u64,
    chunks: BTreeMap<u64, Arc<Chunk>>,
}

impl Image {
    /// Zeroes, in `capacity_bytes` rounded down to whole blocks.
    pub fn new(capacity_bytes: u64) -> Self {
        Self { capacity_blocks: capacity_bytes / BLOCK_BYTES as u64, chunks: BTreeMap::new() }
    }

    /// Size; a multiple of [`BLOCK_BYTES`].
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_blocks * BLOCK_BYTES as u64
    }

    fn block(&self, number: u64) -> Option<&Block> {
        self.chunks.get(&(number / CHUNK_BLOCKS))?.0.get((number % CHUNK_BLOCKS) as usize)?.as_ref()
    }

    /// The slot of a block inside of the capacity.
    fn slot(&mut self, number: u64) -> Option<&mut Option<Block>> {
        if number >= self.capacity_blocks {
            return None;
        }
        let chunk = self.chunks.entry(number / CHUNK_BLOCKS).or_default();
        Arc::make_mut(chunk).0.get_mut((number % CHUNK_BLOCKS) as usize)
    }

    /// Fills `bytes` from `offset_bytes`; zeroes behind the end.
    pub fn read(&self, offset_bytes: u64, bytes: &mut [u8]) {
        let mut at = offset_bytes;
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = (at % BLOCK_BYTES as u64) as usize;
            let len = rest.len().min(BLOCK_BYTES - within);
            let (now, later) = rest.split_at_mut(len);
            match self.block(at / BLOCK_BYTES as u64) {
                Some(block) => now.copy_from_slice(&block[within..within + len]),
                None => now.fill(0),
            }
            rest = later;
            at += len as u64;
        }
    }

    /// Puts `bytes` at `offset_bytes`; what is behind the end is left out.
    pub fn write(&mut self, offset_bytes: u64, bytes: &[u8]) {
        let mut at = offset_bytes;
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = (at % BLOCK_BYTES as u64) as usize;
            let (now, later) = rest.split_at(rest.len().min(BLOCK_BYTES - within));
            if let Some(slot) = self.slot(at / BLOCK_BYTES as u64) {
                let block = slot.get_or_insert_with(|| Arc::new([0; BLOCK_BYTES]));
                Arc::make_mut(block)[within..within + now.len()].copy_from_slice(now);
            }
            rest = later;
            at += now.len() as u64;
        }
    }

    /// Zeroes `len_bytes` from `offset_bytes`; whole blocks give their memory back.
    pub fn zero(&mut self, offset_bytes: u64, len_bytes: u64) {
        const ZEROES: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
        let block_bytes = BLOCK_BYTES as u64;
        let end = offset_bytes.saturating_add(len_bytes).min(self.capacity_bytes());
        let mut at = offset_bytes;
        while at < end {
            let number = at / block_bytes;
            let within = at % block_bytes;
            let len = (block_bytes - within).min(end - at);
            if self.block(number).is_some() {
                if len < block_bytes {
                    self.write(at, &ZEROES[..len as usize]);
                } else if let Some(slot) = self.slot(number) {
                    *slot = None;
                }
                at += len;
            } else if within == 0
                && number.is_multiple_of(CHUNK_BLOCKS)
                && !self.chunks.contains_key(&(number / CHUNK_BLOCKS))
            {
                at += CHUNK_BLOCKS * block_bytes;
            } else {
                at += len;
            }
        }
    }

    /// Zeroes the whole blocks within a range, as a device does that ignores the rest of a discard.
    pub fn discard(&mut self, offset_bytes: u64, len_bytes: u64) {
        let block_bytes = BLOCK_BYTES as u64;
        let first = offset_bytes.div_ceil(block_bytes) * block_bytes;
        let end = offset_bytes.saturating_add(len_bytes) / block_bytes * block_bytes;
        self.zero(first, end.saturating_sub(first));
    }

    /// Turns one bit over: byte `offset_bytes`, bit `bit` (0 to 7).
    pub fn flip(&mut self, offset_bytes: u64, bit: u8) {
        let mut byte = [0];
        self.read(offset_bytes, &mut byte);
        byte[0] ^= 1 << (bit & 7);
        self.write(offset_bytes, &byte);
    }

    /// The blocks that were written and not zeroed since: number and bytes, in order.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &[u8; BLOCK_BYTES])> {
        self.chunks.iter().flat_map(|(chunk, blocks)| {
            let first = chunk * CHUNK_BLOCKS;
            blocks.0.iter().zip(first..).filter_map(|(block, number)| block.as_deref().map(|bytes| (number, bytes)))
        })
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Self) -> bool {
        const ZERO: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
        let within = |one: &Self, two: &Self| {
            one.blocks().all(|(number, bytes)| match two.block(number) {
                Some(block) => std::ptr::eq(bytes, &**block) || *bytes == **block,
                None => *bytes == ZERO,
            })
        };
        self.capacity_blocks == other.capacity_blocks && within(self, other) && within(other, self)
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({} bytes, {} blocks)", self.capacity_bytes(), self.blocks().count())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: usize = 3 << 20;

    #[derive(Clone, Debug)]
    enum Step {
        Write(usize, usize, u8),
        Zero(usize, usize),
        Discard(usize, usize),
        Fork,
        Back,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let range = || (0..CAPACITY + 9000, 0..3 * BLOCK_BYTES);
        let far = (0..CAPACITY, 0..CAPACITY);
        proptest::collection::vec(
            prop_oneof![
                (range(), any::<u8>()).prop_map(|((at, len), value)| Step::Write(at, len, value)),
                range().prop_map(|(at, len)| Step::Zero(at, len)),
                far.prop_map(|(at, len)| Step::Zero(at, len)),
                range().prop_map(|(at, len)| Step::Discard(at, len)),
                Just(Step::Fork),
                Just(Step::Back),
            ],
            1..40,
        )
    }

    fn put(bytes: &mut [u8], from: usize, to: usize, value: u8) {
        let to = to.min(bytes.len());
        if from < to {
            bytes[from..to].fill(value);
        }
    }

    proptest! {
        #[test]
        fn an_image_is_an_array_of_bytes_and_a_fork_its_copy(steps in steps()) {
            let mut image = Image::new(CAPACITY as u64);
            let mut bytes = vec![0_u8; CAPACITY];
            let mut kept = (image.clone(), bytes.clone());
            for step in steps {
                match step {
                    Step::Write(at, len, value) => {
                        image.write(at as u64, &vec![value; len]);
                        put(&mut bytes, at, at + len, value);
                    }
                    Step::Zero(at, len) => {
                        image.zero(at as u64, len as u64);
                        put(&mut bytes, at, at + len, 0);
                    }
                    Step::Discard(at, len) => {
                        image.discard(at as u64, len as u64);
                        put(&mut bytes, at.div_ceil(BLOCK_BYTES) * BLOCK_BYTES, (at + len) / BLOCK_BYTES * BLOCK_BYTES, 0);
                    }
                    Step::Fork => kept = (image.clone(), bytes.clone()),
                    Step::Back => (image, bytes) = kept.clone(),
                }
            }
            let mut read = vec![1; CAPACITY];
            image.read(0, &mut read);
            prop_assert!(read == bytes);
            let mut again = Image::new(CAPACITY as u64);
            again.write(0, &bytes);
            prop_assert_eq!(&again, &image);
            again.flip(0, 3);
            prop_assert_ne!(&again, &image);
            prop_assert_eq!(image.blocks().count() <= CAPACITY / BLOCK_BYTES, true);
        }
    }
}
