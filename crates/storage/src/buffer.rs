//! Memory that a device can transfer from and to directly.

use std::fmt;
use std::ops::{Deref, DerefMut};

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::BLOCK_BYTES;

/// One block, aligned to its size as direct I/O wants it.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK_BYTES]);

/// Bytes in whole blocks, aligned to a block.
#[derive(Clone, Default)]
pub struct Buffer {
    blocks: Vec<Block>,
}

impl Buffer {
    /// Zeroes, at least `len_bytes` of them: rounded up to whole blocks.
    ///
    /// # Panics
    ///
    /// When the memory is not available, as any collection.
    pub fn zeroed(len_bytes: usize) -> Self {
        let count = len_bytes.div_ceil(BLOCK_BYTES);
        match Block::new_vec_zeroed(count) {
            Ok(blocks) => Self { blocks },
            Err(_) => Self { blocks: vec![Block([0; BLOCK_BYTES]); count] },
        }
    }

    /// At least `len_bytes` of it, rounded up to whole blocks: what it has already stays as it is, and zeroes come behind.
    pub fn resize(&mut self, len_bytes: usize) {
        self.blocks.resize(len_bytes.div_ceil(BLOCK_BYTES), Block([0; BLOCK_BYTES]));
    }

    /// A copy of `bytes`, followed by zeroes up to a whole block.
    pub fn padded(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.blocks.as_bytes()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.blocks.as_mut_bytes()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_aligned() {
        for len in [0, 1, 4095, 4096, 4097, 1 << 20] {
            let buffer = Buffer::zeroed(len);
            assert_eq!(buffer.len(), len.next_multiple_of(BLOCK_BYTES));
            assert_eq!(buffer.as_ptr() as usize % BLOCK_BYTES, 0);
            assert!(buffer.iter().all(|byte| *byte == 0));
        }
        let mut again = Buffer::padded(&[7; 5000]);
        again.resize(9000);
        assert_eq!((again.len(), again[4999], again[5000], again[9000]), (12_288, 7, 0, 0));
        again.resize(1);
        assert_eq!((again.len(), again[0]), (4096, 7));
        let padded = Buffer::padded(b"abc");
        assert_eq!((&padded[..3], padded[3], padded.len()), (&b"abc"[..], 0, 4096));
    }
}
