//! What a file holds.

use std::collections::BTreeMap;

use crate::operations::{Error, Result, Seek};
use crate::rules::BLOCK_BYTES;

const BLOCK: usize = BLOCK_BYTES as usize;

/// Blocks that have data; the others are holes. Beyond the file's size everything is zero.
#[derive(Clone, Default, Debug)]
pub(super) struct Content {
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Content {
    /// The part of each block that a range touches: block, where in it, how much.
    fn parts(offset: u64, end: u64) -> impl Iterator<Item = (u64, usize, usize)> {
        (offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).map(move |block| {
            let begin = (offset.max(block * BLOCK_BYTES) - block * BLOCK_BYTES) as usize;
            let end = (end.min((block + 1) * BLOCK_BYTES) - block * BLOCK_BYTES) as usize;
            (block, begin, end - begin)
        })
    }

    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        let mut rest = buffer;
        let end = offset + rest.len() as u64;
        for (block, begin, length) in Self::parts(offset, end) {
            let (part, after) = rest.split_at_mut(length);
            match self.blocks.get(&block) {
                Some(data) => part.copy_from_slice(&data[begin..begin + length]),
                None => part.fill(0),
            }
            rest = after;
        }
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (block, begin, length) in Self::parts(offset, offset + data.len() as u64) {
            let (part, after) = rest.split_at(length);
            let block = self.blocks.entry(block).or_insert_with(|| vec![0; BLOCK]);
            block[begin..begin + length].copy_from_slice(part);
            rest = after;
        }
    }

    /// Zeroes a range; blocks that lie in it whole become holes.
    pub fn punch(&mut self, offset: u64, end: u64) {
        let touched: Vec<u64> =
            self.blocks.range(offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).map(|(n, _)| *n).collect();
        for block in touched {
            let begin = block * BLOCK_BYTES;
            if offset <= begin && begin + BLOCK_BYTES <= end {
                self.blocks.remove(&block);
            } else if let Some(data) = self.blocks.get_mut(&block) {
                let from = offset.max(begin) - begin;
                let to = end.min(begin + BLOCK_BYTES) - begin;
                data[from as usize..to as usize].fill(0);
            }
        }
    }

    /// Moves everything from a block on to other blocks.
    pub fn shift(&mut self, from_block: u64, by_blocks: i64) {
        let moved = self.blocks.split_off(&from_block);
        self.blocks.extend(moved.into_iter().map(|(block, data)| (block.wrapping_add_signed(by_blocks), data)));
    }

    /// What `seek` finds in a file of this size.
    pub fn seek(&self, offset: u64, size: u64, what: Seek) -> Result<u64> {
        if offset >= size {
            return Err(Error::NoSuchAddress);
        }
        let first = offset / BLOCK_BYTES;
        match what {
            Seek::Data => match self.blocks.range(first..).next() {
                Some((block, _)) if block * BLOCK_BYTES < size => Ok(offset.max(block * BLOCK_BYTES)),
                _ => Err(Error::NoSuchAddress),
            },
            Seek::Hole => {
                let mut hole = first;
                while self.blocks.contains_key(&hole) {
                    hole += 1;
                }
                Ok(offset.max(hole * BLOCK_BYTES).min(size))
            }
        }
    }

    /// Units of 512 bytes.
    pub fn units(&self) -> u64 {
        self.blocks.len() as u64 * (BLOCK_BYTES / 512)
    }
}
