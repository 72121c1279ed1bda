//! The bytes of a storage as a value that is cheap to copy.

use std::sync::Arc;

use crate::BLOCK_BYTES;

type Page = Arc<[u8; BLOCK_BYTES]>;

/// A sparse array of blocks. A clone shares the blocks until one of the two writes to them, so a test can look at
/// thousands of states of one storage.
#[derive(Clone, Default)]
pub struct Image {
    pages: Vec<Option<Page>>,
}

impl Image {
    /// Zeroes, in `capacity_bytes` rounded down to whole blocks.
    pub fn new(capacity_bytes: u64) -> Self {
        Self { pages: vec![None; (capacity_bytes / BLOCK_BYTES as u64) as usize] }
    }

    /// Size; a multiple of [`BLOCK_BYTES`].
    pub fn capacity_bytes(&self) -> u64 {
        (self.pages.len() * BLOCK_BYTES) as u64
    }

    /// Fills `bytes` from `offset_bytes`; zeroes behind the end.
    pub fn read(&self, offset_bytes: u64, bytes: &mut [u8]) {
        let mut at = offset_bytes as usize;
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = at % BLOCK_BYTES;
            let len = rest.len().min(BLOCK_BYTES - within);
            let (now, later) = rest.split_at_mut(len);
            match self.pages.get(at / BLOCK_BYTES) {
                Some(Some(page)) => now.copy_from_slice(&page[within..within + len]),
                _ => now.fill(0),
            }
            rest = later;
            at += len;
        }
    }

    /// Puts `bytes` at `offset_bytes`; what is behind the end is left out.
    pub fn write(&mut self, offset_bytes: u64, bytes: &[u8]) {
        let mut at = offset_bytes as usize;
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = at % BLOCK_BYTES;
            let (now, later) = rest.split_at(rest.len().min(BLOCK_BYTES - within));
            if let Some(slot) = self.pages.get_mut(at / BLOCK_BYTES) {
                let page = slot.get_or_insert_with(|| Arc::new([0; BLOCK_BYTES]));
                Arc::make_mut(page)[within..within + now.len()].copy_from_slice(now);
            }
            rest = later;
            at += now.len();
        }
    }

    /// Zeroes whole blocks.
    pub fn discard(&mut self, offset_bytes: u64, len_bytes: u64) {
        let first = (offset_bytes as usize).div_ceil(BLOCK_BYTES);
        let end = ((offset_bytes.saturating_add(len_bytes)) as usize / BLOCK_BYTES).min(self.pages.len());
        for page in self.pages.get_mut(first..end).unwrap_or_default() {
            *page = None;
        }
    }

    /// Turns one bit over: byte `offset_bytes`, bit `bit` (0 to 7).
    pub fn flip(&mut self, offset_bytes: u64, bit: u8) {
        let mut byte = [0];
        self.read(offset_bytes, &mut byte);
        byte[0] ^= 1 << (bit & 7);
        self.write(offset_bytes, &byte);
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Self) -> bool {
        const ZERO: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
        self.pages.len() == other.pages.len()
            && self.pages.iter().zip(&other.pages).all(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
                (Some(page), None) | (None, Some(page)) => **page == ZERO,
                (None, None) => true,
            })
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({} bytes, {} pages)", self.capacity_bytes(), self.pages.iter().flatten().count())
    }
}
