//! Where a block is, and what it must be.

use storage::BLOCK_BYTES;
use twox_hash::XxHash3_128;

use crate::bytes::range::Key;
use crate::bytes::wire::{Malformed, Reader};
use crate::mutant::{Mutant, mutated};

/// The 128-bit checksum of stored bytes (XXH3).
pub(crate) fn checksum(bytes: &[u8]) -> u128 {
    let covered = if mutated(Mutant::ChecksumOfFirstBlock) { BLOCK_BYTES } else { usize::MAX };
    XxHash3_128::oneshot(bytes.get(..covered).unwrap_or(bytes))
}

/// Bytes of the checksums of the parts of so many bytes: of each block's worth one.
pub(crate) const fn sums_bytes(raw_bytes: u64) -> u64 {
    raw_bytes.div_ceil(BLOCK_BYTES as u64) * 16
}

/// How a block's bytes are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Codec {
    /// As they are: what does not compress.
    Plain,
    Lz4,
    Zstd,
    /// As they are, and checksums of the parts behind them ([`super::parts`]).
    Parts,
}

impl Codec {
    fn number(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
            Self::Parts => 3,
        }
    }

    fn of(number: u8) -> Result<Self, Malformed> {
        match number {
            0 => Ok(Self::Plain),
            1 => Ok(Self::Lz4),
            2 => Ok(Self::Zstd),
            3 => Ok(Self::Parts),
            _ => Err(Malformed("a codec is unknown")),
        }
    }
}

/// Names a block on the storage. Whoever holds the pointer can tell whether what is read there is the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockPointer {
    /// First storage block.
    pub start: u64,
    /// Bytes on the storage, without padding.
    pub stored_bytes: u32,
    /// Bytes when decompressed.
    pub raw_bytes: u32,
    /// How they are stored.
    pub codec: Codec,
    /// Generation that wrote it.
    pub birth: u64,
    /// Of the stored bytes.
    pub checksum: u128,
}

/// A block that a tree has no use for any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Freed {
    pub pointer: BlockPointer,
    /// A key in it, if there is one: of the block of a run its first, of a node any that is of the node alone, of a value its own.
    pub key: Option<Key>,
}

impl Freed {
    pub fn new(pointer: BlockPointer, key: Option<&[u8]>) -> Self {
        Self { pointer, key: key.map(Into::into) }
    }
}

impl BlockPointer {
    /// Length of the encoded form.
    pub const ENCODED_BYTES: usize = 41;

    /// Storage blocks it takes.
    pub fn blocks(&self) -> u64 {
        u64::from(self.stored_bytes).div_ceil(BLOCK_BYTES as u64)
    }

    /// Names it in the cache: a place has one content for each generation, as a whole or in part.
    pub fn name(&self) -> (u64, u64, u32) {
        (self.start, self.birth, self.stored_bytes)
    }

    pub fn offset_bytes(&self) -> u64 {
        self.start * BLOCK_BYTES as u64
    }

    pub fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.start.to_le_bytes());
        to.extend_from_slice(&self.stored_bytes.to_le_bytes());
        to.extend_from_slice(&self.raw_bytes.to_le_bytes());
        to.push(self.codec.number());
        to.extend_from_slice(&self.birth.to_le_bytes());
        to.extend_from_slice(&self.checksum.to_le_bytes());
    }

    pub fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let start = from.u64()?;
        let (stored_bytes, raw_bytes) = (from.u32()?, from.u32()?);
        let codec = Codec::of(from.u8()?)?;
        let (birth, checksum) = (from.u64()?, from.u128()?);
        if stored_bytes == 0 || start > u64::MAX / BLOCK_BYTES as u64 - u64::from(stored_bytes) {
            return Err(Malformed("a block pointer has no place"));
        }
        if codec == Codec::Plain && stored_bytes != raw_bytes {
            return Err(Malformed("a plain block has two lengths"));
        }
        if codec == Codec::Parts && u64::from(stored_bytes) != u64::from(raw_bytes) + sums_bytes(u64::from(raw_bytes)) {
            return Err(Malformed("a value of parts has not a checksum for each"));
        }
        Ok(Self { start, stored_bytes, raw_bytes, codec, birth, checksum })
    }
}
