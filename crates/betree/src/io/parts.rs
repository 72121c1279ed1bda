//! Reading a part of a value that lies apart.

use std::ops::RangeBounds;
use std::sync::Arc;

use storage::BLOCK_BYTES;

use super::{BlockIo, corrupt};
use crate::bytes::parts::{part, tail, within};
use crate::bytes::pointer::{BlockPointer, Codec, checksum};
use crate::cache::Cached;
use crate::error::Result;
use crate::mutant::{Mutant, mutated};

impl BlockIo {
    /// The bytes that a value has of a range. Where its parts have checksums, no other parts are read.
    pub fn value_part(&self, pointer: &BlockPointer, range: &impl RangeBounds<usize>) -> Result<Vec<u8>> {
        let own = within(range, pointer.raw_bytes as usize);
        if own.is_empty() {
            return Ok(Vec::new());
        }
        let has_parts = pointer.codec == Codec::Parts && !mutated(Mutant::PartsReadWhole);
        if !has_parts || self.cache.peek(pointer).is_some() {
            let value = self.value(pointer)?;
            return Ok(value.get(own).unwrap_or_default().to_vec());
        }
        self.wait_for(pointer.offset_bytes());
        let sums = self.sums(pointer)?;
        let numbers = own.start / BLOCK_BYTES..=(own.end - 1) / BLOCK_BYTES;
        let parts: Option<Vec<BlockPointer>> = numbers.map(|number| part(pointer, &sums, number)).collect();
        let parts = parts.ok_or_else(|| corrupt(pointer, "a value has fewer parts than bytes"))?;
        let mut bytes = Vec::with_capacity(parts.len() * BLOCK_BYTES);
        let mut rest = &parts[..];
        while let [first, behind @ ..] = rest {
            if let Some(Cached::Value(part)) = self.cache.get(first) {
                bytes.extend_from_slice(&part);
                rest = behind;
                continue;
            }
            // Those beside it that are not there either come with it.
            let missing = 1 + behind.iter().take_while(|part| self.cache.peek(part).is_none()).count();
            let (read, behind) = rest.split_at(missing);
            let blocks = read.iter().map(BlockPointer::blocks).sum();
            self.look_at(first, blocks, |buffer| {
                for (part, stored) in read.iter().zip(buffer.chunks(BLOCK_BYTES)) {
                    let stored = stored.get(..part.stored_bytes as usize).unwrap_or(stored);
                    let kept: Arc<[u8]> = self.keep(part, (), self.unpack(part, stored)?)?;
                    bytes.extend_from_slice(&kept);
                }
                Ok(())
            })?;
            rest = behind;
        }
        let begin = own.start % BLOCK_BYTES;
        Ok(bytes.get(begin..begin + own.len()).unwrap_or_default().to_vec())
    }

    /// The checksums of a value's parts.
    fn sums(&self, pointer: &BlockPointer) -> Result<Arc<[u8]>> {
        let (tail, begin) = tail(pointer);
        if let Some(Cached::Value(sums)) = self.cache.get(&tail) {
            return Ok(sums);
        }
        let sums: Arc<[u8]> = self.look_at(&tail, tail.blocks(), |buffer| {
            self.count_read(buffer.len());
            let sums = buffer.get(begin..tail.stored_bytes as usize).unwrap_or_default();
            if checksum(sums) != pointer.checksum && !mutated(Mutant::BlockChecksumIgnored) {
                return Err(corrupt(pointer, "the checksum differs"));
            }
            Ok(sums.into())
        })?;
        self.cache.put(&tail, Cached::Value(Arc::clone(&sums)));
        Ok(sums)
    }
}
