//! Bytes in memory, given as they are written and returned as they are cleared.

use std::collections::BTreeMap;
use std::ops::Range;

/// What is given at once: a page of the machine.
pub(super) const CHUNK_BYTES: u64 = 4096;
/// Chunks that one leaf of the map names.
const LEAF_CHUNKS: usize = 64;
const LEAF_BYTES: u64 = CHUNK_BYTES * LEAF_CHUNKS as u64;
/// Chunks in one allocation: large enough that an allocator can give its pages back to the system.
const SLAB_CHUNKS: usize = 64;
const SLAB_BYTES: usize = SLAB_CHUNKS * CHUNK_BYTES as usize;
/// No slot.
const ABSENT: u32 = u32::MAX;
/// A chunk as it reads where none is.
const ZEROS: [u8; CHUNK_BYTES as usize] = [0; CHUNK_BYTES as usize];

/// Bytes in memory. What was never written, was cleared, or got nothing but zeros takes none and reads as zero.
///
/// Chunks lie densely in slabs, in no order: when one is cleared, the last one takes its place. So memory is
/// that of the chunks that exist, up to two slabs, however many of which addresses were cleared. Where each chunk
/// lies is written in leaves of 64, so that clearing a large range visits only what exists.
#[derive(Default, Debug)]
pub(super) struct SparseMemory {
    /// By chunk number divided by [`LEAF_CHUNKS`].
    leaves: BTreeMap<u64, Box<[u32; LEAF_CHUNKS]>>,
    slabs: Vec<Box<[u8]>>,
    /// The chunk that each slot holds; all slots from the first on are in use.
    owners: Vec<u64>,
}

impl SparseMemory {
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) {
        for (chunk, within, part) in pieces(offset, buffer.len()) {
            match self.slot(chunk) {
                Some(slot) => buffer[part.clone()].copy_from_slice(&self.chunk(slot)[within..within + part.len()]),
                None => buffer[part].fill(0),
            }
        }
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        for (chunk, within, part) in pieces(offset, data.len()) {
            let written = &data[part];
            let slot = match self.slot(chunk) {
                Some(slot) => slot,
                // Tools that fill a device fill it with zeros more often than not.
                None if *written == ZEROS[..written.len()] => continue,
                None => self.take_slot(chunk, written.len()),
            };
            self.chunk_mut(slot)[within..within + written.len()].copy_from_slice(written);
        }
    }

    pub(super) fn clear(&mut self, range: Range<u64>) {
        let first = range.start / LEAF_BYTES;
        let (mut emptied, mut freed, mut zeroed) = (Vec::new(), Vec::new(), Vec::new());
        for (&index, leaf) in self.leaves.range_mut(first..range.end.div_ceil(LEAF_BYTES)) {
            let start = range.start.max(index * LEAF_BYTES);
            let end = range.end.min((index + 1) * LEAF_BYTES);
            for (chunk, within, part) in pieces(start, (end - start) as usize) {
                let slot = &mut leaf[place_of(chunk)];
                if *slot == ABSENT {
                } else if part.len() as u64 == CHUNK_BYTES {
                    freed.push(std::mem::replace(slot, ABSENT));
                } else {
                    zeroed.push((*slot, within..within + part.len()));
                }
            }
            if leaf.iter().all(|slot| *slot == ABSENT) {
                emptied.push(index);
            }
        }
        for (slot, part) in zeroed {
            self.chunk_mut(slot)[part].fill(0);
        }
        for index in emptied {
            self.leaves.remove(&index);
        }
        // From the last one on, so that none that goes is moved first.
        freed.sort_unstable_by(|a, b| b.cmp(a));
        for slot in freed {
            self.free_slot(slot);
        }
        // One slab more than needed stays, for whoever writes and clears in turn.
        let spare = usize::from(!self.owners.is_empty());
        self.slabs.truncate(self.owners.len().div_ceil(SLAB_CHUNKS) + spare);
        if self.owners.capacity() > 4 * self.owners.len() + SLAB_CHUNKS {
            self.owners.shrink_to_fit();
            self.slabs.shrink_to_fit();
        }
    }

    /// Memory taken for contents.
    pub(super) fn bytes(&self) -> u64 {
        self.slabs.len() as u64 * SLAB_BYTES as u64
    }

    /// Memory that writing `range` would take more, at most: zeros take none.
    pub(super) fn absent_bytes(&self, range: &Range<u64>) -> u64 {
        let chunks = range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES);
        let mut present = 0;
        let leaves = chunks.start / LEAF_CHUNKS as u64..chunks.end.div_ceil(LEAF_CHUNKS as u64);
        for (&index, leaf) in self.leaves.range(leaves) {
            let at = |chunk: u64| chunk.saturating_sub(index * LEAF_CHUNKS as u64).min(LEAF_CHUNKS as u64) as usize;
            present += leaf[at(chunks.start)..at(chunks.end)].iter().filter(|slot| **slot != ABSENT).count() as u64;
        }
        (chunks.end - chunks.start - present) * CHUNK_BYTES
    }

    fn slot(&self, chunk: u64) -> Option<u32> {
        self.leaves.get(&leaf_of(chunk)).map(|leaf| leaf[place_of(chunk)]).filter(|slot| *slot != ABSENT)
    }

    /// A slot for a chunk of which `written` bytes are about to be written; the others are zero.
    fn take_slot(&mut self, chunk: u64, written: usize) -> u32 {
        let slot = self.owners.len();
        assert!(slot < ABSENT as usize, "16 TiB of contents in memory");
        if slot / SLAB_CHUNKS == self.slabs.len() {
            self.slabs.push(vec![0; SLAB_BYTES].into());
        }
        self.owners.push(chunk);
        let leaf = self.leaves.entry(leaf_of(chunk)).or_insert_with(|| Box::new([ABSENT; LEAF_CHUNKS]));
        leaf[place_of(chunk)] = slot as u32;
        if written < CHUNK_BYTES as usize {
            self.chunk_mut(slot as u32).fill(0);
        }
        slot as u32
    }

    /// Gives back a slot whose chunk has gone: the last slot's chunk moves there.
    fn free_slot(&mut self, slot: u32) {
        let Some(moved) = self.owners.pop() else { return };
        let last = self.owners.len() as u32;
        if slot == last {
            return;
        }
        let mut bytes = [0; CHUNK_BYTES as usize];
        bytes.copy_from_slice(self.chunk(last));
        self.chunk_mut(slot).copy_from_slice(&bytes);
        self.owners[slot as usize] = moved;
        if let Some(leaf) = self.leaves.get_mut(&leaf_of(moved)) {
            leaf[place_of(moved)] = slot;
        }
    }

    fn chunk(&self, slot: u32) -> &[u8] {
        let (slab, range) = within_slab(slot);
        &self.slabs[slab][range]
    }

    fn chunk_mut(&mut self, slot: u32) -> &mut [u8] {
        let (slab, range) = within_slab(slot);
        &mut self.slabs[slab][range]
    }
}

fn within_slab(slot: u32) -> (usize, Range<usize>) {
    let start = slot as usize % SLAB_CHUNKS * CHUNK_BYTES as usize;
    (slot as usize / SLAB_CHUNKS, start..start + CHUNK_BYTES as usize)
}

fn leaf_of(chunk: u64) -> u64 {
    chunk / LEAF_CHUNKS as u64
}

fn place_of(chunk: u64) -> usize {
    (chunk % LEAF_CHUNKS as u64) as usize
}

/// Cuts `len` bytes at `offset` along chunk borders: (chunk, offset in the
/// chunk, range of the caller's bytes).
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % CHUNK_BYTES) as usize;
        let count = (CHUNK_BYTES as usize - within).min(len - done);
        let part = done..done + count;
        done += count;
        Some((at / CHUNK_BYTES, within, part))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn memory_grows_with_what_is_written_and_shrinks_with_what_is_cleared() {
        let mut memory = SparseMemory::default();
        let far = 900 << 30;
        assert_eq!(memory.absent_bytes(&(far + 100..far + 5100)), 8192);
        memory.write(far + 100, &[7; 5000]);
        assert_eq!((memory.owners.len(), memory.absent_bytes(&(far + 100..far + 5100))), (2, 0));
        let mut back = [1; 5200];
        memory.read(far, &mut back);
        assert!(back[..100].iter().all(|byte| *byte == 0));
        assert!(back[100..5100].iter().all(|byte| *byte == 7));
        assert!(back[5100..].iter().all(|byte| *byte == 0));
        memory.clear(0..far + 4096);
        assert_eq!(memory.owners.len(), 1);
        memory.clear(0..u64::MAX / 2);
        assert_eq!((memory.bytes(), memory.leaves.len()), (0, 0));
    }

    /// Every second chunk of a lot is cleared: half of the memory is free, not none of it.
    #[test]
    fn scattered_clearing_gives_memory_back() {
        let mut memory = SparseMemory::default();
        let chunks = 10_000;
        for chunk in 0..chunks {
            memory.write(chunk * CHUNK_BYTES, &[chunk as u8; CHUNK_BYTES as usize]);
        }
        let full = memory.bytes();
        for chunk in (0..chunks).step_by(2) {
            memory.clear(chunk * CHUNK_BYTES..(chunk + 1) * CHUNK_BYTES);
        }
        assert!(memory.bytes() <= full / 2 + 2 * SLAB_BYTES as u64, "{} of {full}", memory.bytes());
        let mut back = [1; CHUNK_BYTES as usize];
        for chunk in 0..chunks {
            memory.read(chunk * CHUNK_BYTES, &mut back);
            let expected = if chunk % 2 == 0 { 0 } else { chunk as u8 };
            assert!(back.iter().all(|byte| *byte == expected), "chunk {chunk}");
        }
    }

    const SPACE: u64 = 600 * CHUNK_BYTES;

    proptest! {
        /// Held against a flat array: bytes, and memory within two slabs of the chunks that are not empty.
        #[test]
        fn as_a_flat_array(
            steps in prop::collection::vec((any::<bool>(), 0..SPACE, 1..120_000_u64, 0..=255_u8), 1..60),
        ) {
            let mut memory = SparseMemory::default();
            let mut flat = vec![0_u8; SPACE as usize];
            for (writes, start, length, fill) in steps {
                let end = (start + length).min(SPACE);
                let part = &mut flat[start as usize..end as usize];
                let before = (memory.owners.len() as u64, memory.absent_bytes(&(start..end)));
                if writes {
                    part.fill(fill);
                    memory.write(start, part);
                    let taken = if fill == 0 { 0 } else { before.1 / CHUNK_BYTES };
                    prop_assert_eq!(memory.owners.len() as u64, before.0 + taken);
                } else {
                    part.fill(0);
                    memory.clear(start..end);
                }
                let mut back = vec![9; SPACE as usize];
                memory.read(0, &mut back);
                prop_assert!(back == flat);
                let slabs = memory.owners.len().div_ceil(SLAB_CHUNKS) as u64;
                prop_assert!(memory.bytes() <= (slabs + 1) * SLAB_BYTES as u64);
                let full = flat.chunks(CHUNK_BYTES as usize).filter(|chunk| chunk.iter().any(|byte| *byte != 0));
                prop_assert!(memory.owners.len() >= full.count());
            }
            memory.clear(0..SPACE);
            prop_assert_eq!((memory.bytes(), memory.leaves.len()), (0, 0));
        }
    }
}
