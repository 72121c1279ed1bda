//! The root of everything: two slots that checkpoints write in turn, each twice.
//!
//! ```text
//! block 0   slot 0      block 1   slot 1
//! block 2   slot 0      block 3   slot 1      (second copies)
//! ```
//!
//! A checkpoint writes the slot that the last one did not, after everything that it refers to is durable. So a cut
//! leaves the old superblock or the new one, and a damaged copy is told from its twin.

use storage::{BLOCK_BYTES, Buffer};

use crate::bytes::pointer::{BlockPointer, checksum};
use crate::bytes::wire::{Malformed, Reader};
use crate::error::{Error, FORMAT_VERSION, Result};
use crate::extents::Extent;
use crate::io::{BlockIo, Purpose};
use crate::mutant::{Mutant, mutated};

const MAGIC: [u8; 8] = *b"plumbBe1";

/// Values may have checksums of their parts.
const FEATURE_PARTS: u64 = 1;

/// Features that a program must know to read a store. Every superblock that is written names all of them, whatever is in use.
const FEATURES_KNOWN: u64 = FEATURE_PARTS;

/// First block of the log; the ones before are the superblocks' and reserved.
pub(crate) const LOG_START: u64 = 16;

/// Where the log is to be read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogHead {
    /// Blocks written to the log in the store's life, before this place.
    pub position: u64,
    /// Frames written before.
    pub sequence: u64,
    /// Checksum of the frame before.
    pub chain: u128,
}

/// One time that the store was opened for writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Epoch {
    /// Counts the times.
    pub number: u64,
    /// Sequence number of its first frame. What is older was found by its recovery, and made durable.
    pub first_sequence: u64,
}

/// What a checkpoint leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    /// Names the store among all stores.
    pub store_id: u128,
    /// Counts checkpoints.
    pub generation: u64,
    /// Of whoever wrote it.
    pub epoch: Epoch,
    /// Size of the storage.
    pub capacity_blocks: u64,
    /// Size of the log.
    pub log_blocks: u64,
    pub log: LogHead,
    /// Messages up to this one are in the trees.
    pub last_msn: u64,
    pub catalog: BlockPointer,
    /// The store was closed: nothing is written to the log in this epoch, so that it ends where the epoch begins.
    pub is_closed: bool,
}

impl Superblock {
    /// Where blocks may be.
    pub fn data(&self) -> Extent {
        let start = LOG_START + self.log_blocks;
        Extent { start, blocks: self.capacity_blocks.saturating_sub(start) }
    }

    pub fn log_extent(&self) -> Extent {
        Extent { start: LOG_START, blocks: self.log_blocks }
    }

    fn encode(&self) -> Buffer {
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&FEATURES_KNOWN.to_le_bytes());
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        let numbers = [
            self.generation,
            self.epoch.number,
            self.epoch.first_sequence,
            self.capacity_blocks,
            self.log_blocks,
            self.log.position,
            self.log.sequence,
            self.last_msn,
        ];
        for number in numbers {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.log.chain.to_le_bytes());
        self.catalog.encode(&mut bytes);
        bytes.push(u8::from(self.is_closed));
        bytes.resize(BLOCK_BYTES - 16, 0);
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        Buffer::padded(&bytes)
    }

    /// `Ok(None)`: no superblock of any version.
    fn decode(bytes: &[u8]) -> Result<Option<Self>, Error> {
        let Some((body, sum)) = bytes.split_last_chunk::<16>() else { return Ok(None) };
        let intact = checksum(body) == u128::from_le_bytes(*sum) || mutated(Mutant::SuperblockChecksumIgnored);
        if !intact || !body.starts_with(&MAGIC) {
            return Ok(None);
        }
        Self::fields(&mut Reader::new(&body[MAGIC.len()..])).map_err(|error| Error::Corrupt {
            what: format!("superblock: {error}"),
            offset_bytes: 0,
            stored_bytes: BLOCK_BYTES as u64,
        })?
    }

    #[allow(clippy::type_complexity)]
    fn fields(from: &mut Reader<'_>) -> Result<Result<Option<Self>, Error>, Malformed> {
        let version = from.u32()?;
        let features = from.u64()?;
        if version != FORMAT_VERSION || features & !FEATURES_KNOWN != 0 {
            return Ok(Err(Error::Unsupported { version, features }));
        }
        let store_id = from.u128()?;
        let generation = from.u64()?;
        let epoch = Epoch { number: from.u64()?, first_sequence: from.u64()? };
        let (capacity_blocks, log_blocks) = (from.u64()?, from.u64()?);
        let (position, sequence) = (from.u64()?, from.u64()?);
        let last_msn = from.u64()?;
        let log = LogHead { position, sequence, chain: from.u128()? };
        let catalog = BlockPointer::decode(from)?;
        let is_closed = from.u8()? == 1;
        if log_blocks == 0 || LOG_START.checked_add(log_blocks).is_none_or(|end| end >= capacity_blocks) {
            return Err(Malformed("the log does not fit into the storage"));
        }
        Ok(Ok(Some(Self {
            store_id,
            generation,
            epoch,
            capacity_blocks,
            log_blocks,
            log,
            last_msn,
            catalog,
            is_closed,
        })))
    }

    /// Blocks of the two copies.
    fn places(generation: u64) -> [u64; 2] {
        let slot = if mutated(Mutant::OneSlot) { 0 } else { generation % 2 };
        [slot, slot + 2]
    }

    /// Writes both copies; durable after a flush.
    pub fn write(&self, io: &BlockIo) -> Result<()> {
        let image = self.encode();
        io.write(Self::places(self.generation).map(|place| (Purpose::Superblock, place, image.clone())))
    }

    /// The newest superblock, and how many of its copies are damaged.
    pub fn read(io: &BlockIo) -> Result<(Self, usize)> {
        if io.capacity_blocks() < LOG_START {
            return Err(Error::NotAStore);
        }
        let blocks = io.read_blocks(0, 4)?;
        let mut found: Vec<Self> = Vec::new();
        let mut unusable = None;
        for (place, bytes) in blocks.chunks(BLOCK_BYTES).enumerate() {
            match Self::decode(bytes) {
                Ok(Some(one)) if Self::places(one.generation).contains(&(place as u64)) => found.push(one),
                Ok(_) => {}
                Err(error) => unusable = Some(error),
            }
        }
        let newest = found.iter().max_by_key(|one| one.generation).cloned();
        match newest {
            Some(newest) => {
                if newest.capacity_blocks > io.capacity_blocks() {
                    return Err(Error::TooSmall {
                        capacity_bytes: io.capacity_blocks() * BLOCK_BYTES as u64,
                        needed_bytes: newest.capacity_blocks * BLOCK_BYTES as u64,
                    });
                }
                let copies = found.iter().filter(|one| **one == newest).count();
                // Where the other slot has none, that may have been of a later time: of one that wrote to the log.
                let has_older = found.iter().any(|one| one.generation + 1 == newest.generation);
                let is_closed = newest.is_closed && (has_older || mutated(Mutant::ClosedBeforeIsClosed));
                Ok((Self { is_closed, ..newest }, 2 - copies.min(2)))
            }
            None => Err(unusable.unwrap_or(Error::NotAStore)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::pointer::Codec;
    use proptest::prelude::*;

    fn superblock() -> Superblock {
        Superblock {
            store_id: 7,
            generation: 5,
            epoch: Epoch { number: 2, first_sequence: 8 },
            capacity_blocks: 1000,
            log_blocks: 64,
            log: LogHead { position: 70, sequence: 9, chain: 1 << 100 },
            last_msn: 12,
            catalog: BlockPointer {
                start: 99,
                stored_bytes: 10,
                raw_bytes: 10,
                codec: Codec::Plain,
                birth: 5,
                checksum: 3,
            },
            is_closed: true,
        }
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_seen(bit in 0usize..BLOCK_BYTES * 8) {
            let mut image = superblock().encode();
            prop_assert_eq!(Superblock::decode(&image).unwrap(), Some(superblock()));
            image[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Superblock::decode(&image).unwrap(), None);
        }
    }
}
