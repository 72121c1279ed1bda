//! The write-ahead log: a preallocated circle of frames.
//!
//! A frame is one write of whole blocks and holds the batches of one group commit. It names its place, its number and
//! the checksum of the frame before it, so that reading stops at the first frame that is torn, missing, or left over
//! from an earlier round. It names its epoch as well, and the superblock says where the newest epoch begins: from there
//! on, no frame of a run of the program whose end was lost comes back.

use storage::{BLOCK_BYTES, Buffer};

use crate::bytes::pointer::checksum;
use crate::bytes::wire::Reader;
use crate::error::{Error, Result};
use crate::extents::Extent;
use crate::io::{BlockIo, Purpose};
use crate::mutant::{Mutant, mutated};
use crate::superblock::{Epoch, LogHead, Superblock};

const MAGIC: u32 = 0x676f_4c42;

/// Magic, store, epoch, position, sequence, durable, chain, payload length, checksum.
const HEADER_BYTES: usize = 4 + 16 + 8 + 8 + 8 + 8 + 16 + 4 + 16;
const CHECKSUM_AT: usize = HEADER_BYTES - 16;

/// Blocks of a frame with this payload.
pub(crate) fn frame_blocks(payload_bytes: usize) -> u64 {
    (HEADER_BYTES + payload_bytes).div_ceil(BLOCK_BYTES) as u64
}

/// A store's log, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    extent: Extent,
    store_id: u128,
    epoch: Epoch,
    /// Nothing was written in the epoch.
    is_closed: bool,
    /// The oldest frame that recovery needs.
    pub head: LogHead,
    /// Where the next frame goes.
    pub tail: LogHead,
    /// Frames with lesser sequence numbers are durable.
    durable: u64,
}

/// What a frame says of itself.
#[derive(Clone, Copy)]
struct Header {
    epoch: u64,
    position: u64,
    sequence: u64,
    durable: u64,
    chain: u128,
    payload_bytes: usize,
}

/// One frame's worth.
struct Frame {
    payload: Vec<u8>,
    epoch: u64,
    sum: u128,
}

/// Blocks read at once in search of a frame.
const SEARCH_BLOCKS: u64 = 256;

impl Log {
    /// That of the store with this superblock, before it is read.
    pub fn of(superblock: &Superblock) -> Self {
        let log = Self::new(superblock.log_extent(), superblock.store_id, superblock.epoch, superblock.log);
        Self { is_closed: superblock.is_closed, ..log }
    }

    fn new(extent: Extent, store_id: u128, epoch: Epoch, head: LogHead) -> Self {
        Self { extent, store_id, epoch, is_closed: false, head, tail: head, durable: head.sequence }
    }

    /// Blocks in use.
    pub fn used_blocks(&self) -> u64 {
        self.tail.position - self.head.position
    }

    /// The next epoch, which begins behind the last frame. What was replayed and the epoch, in a superblock, must be
    /// durable before its first frame is written.
    pub fn begin_epoch(&mut self) -> Epoch {
        self.epoch = Epoch { number: self.epoch.number + 1, first_sequence: self.tail.sequence };
        self.is_closed = false;
        self.epoch
    }

    /// Every frame so far was flushed.
    pub fn flushed(&mut self) {
        self.durable = self.tail.sequence;
    }

    /// A range of the circle as one or two pieces of the storage: start and count of blocks.
    fn pieces(&self, position: u64, count: u64) -> Vec<(u64, u64)> {
        let at = position % self.extent.blocks;
        let first = count.min(self.extent.blocks - at);
        let mut pieces = vec![(self.extent.start + at, first)];
        if first < count {
            pieces.push((self.extent.start, count - first));
        }
        pieces
    }

    /// Writes a frame. The caller has made sure that it fits; not durable before a flush.
    pub fn append(&mut self, io: &BlockIo, payload: &[u8]) -> Result<()> {
        let blocks = frame_blocks(payload.len());
        assert!(self.used_blocks() + blocks <= self.extent.blocks, "a frame fits into the log");
        let mut bytes = Vec::with_capacity(blocks as usize * BLOCK_BYTES);
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        let durable = if mutated(Mutant::DurableTooFar) { self.tail.sequence } else { self.durable };
        for number in [self.epoch.number, self.tail.position, self.tail.sequence, durable] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.tail.chain.to_le_bytes());
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 16]);
        bytes.extend_from_slice(payload);
        let sum = checksum(&bytes);
        bytes[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes.resize(blocks as usize * BLOCK_BYTES, 0);
        let mut rest = &bytes[..];
        let mut writes = Vec::new();
        for (start, count) in self.pieces(self.tail.position, blocks) {
            let (piece, later) = rest.split_at(count as usize * BLOCK_BYTES);
            writes.push((Purpose::Log, start, Buffer::padded(piece)));
            rest = later;
        }
        io.write(writes)?;
        self.tail = LogHead { position: self.tail.position + blocks, sequence: self.tail.sequence + 1, chain: sum };
        Ok(())
    }

    /// Reads the frame at `tail`, if it is the one that belongs there.
    fn read_frame(&self, io: &BlockIo, oldest_epoch: u64) -> Result<Option<Frame>> {
        if self.used_blocks() >= self.extent.blocks {
            return Ok(None);
        }
        let (start, _) = self.pieces(self.tail.position, 1)[0];
        let first = io.read_blocks(start, 1)?;
        let Some(header) = self.parse(&first) else { return Ok(None) };
        let here = (header.position, header.sequence, header.chain)
            == (self.tail.position, self.tail.sequence, self.tail.chain);
        let here = here || mutated(Mutant::ChainIgnored);
        let now = header.epoch >= oldest_epoch || mutated(Mutant::EpochIgnored);
        let blocks = frame_blocks(header.payload_bytes);
        if !here || !now || self.used_blocks() + blocks > self.extent.blocks {
            return Ok(None);
        }
        self.read_body(io, self.tail.position, &header)
    }

    /// The frame with this header at a position, if its checksum is right.
    fn read_body(&self, io: &BlockIo, position: u64, header: &Header) -> Result<Option<Frame>> {
        let blocks = frame_blocks(header.payload_bytes);
        let mut bytes = Vec::with_capacity(blocks as usize * BLOCK_BYTES);
        for (start, count) in self.pieces(position, blocks) {
            bytes.extend_from_slice(&io.read_blocks(start, count)?);
        }
        bytes.truncate(HEADER_BYTES + header.payload_bytes);
        let written = u128::from_le_bytes(bytes[CHECKSUM_AT..HEADER_BYTES].try_into().unwrap_or_default());
        bytes[CHECKSUM_AT..HEADER_BYTES].fill(0);
        if checksum(&bytes) != written && !mutated(Mutant::FrameChecksumIgnored) {
            return Ok(None);
        }
        Ok(Some(Frame { payload: bytes.split_off(HEADER_BYTES), epoch: header.epoch, sum: written }))
    }

    /// The header of a frame of this store.
    fn parse(&self, bytes: &[u8]) -> Option<Header> {
        let mut from = Reader::new(bytes);
        let (magic, store_id) = (from.u32().ok()?, from.u128().ok()?);
        let (epoch, position, sequence) = (from.u64().ok()?, from.u64().ok()?, from.u64().ok()?);
        let (durable, chain) = (from.u64().ok()?, from.u128().ok()?);
        let payload_bytes = from.u32().ok()? as usize;
        let ours = magic == MAGIC && store_id == self.store_id;
        ours.then_some(Header { epoch, position, sequence, durable, chain, payload_bytes })
    }

    /// Whether the frame at `tail` was durable once: the epoch begins behind it, or a frame behind it says so. After a
    /// replay that means damage, since what is durable is read, and stays in its place until the head has passed it.
    fn is_damaged(&self, io: &BlockIo) -> Result<bool> {
        if mutated(Mutant::DamagedLogEnds) {
            return Ok(false);
        }
        if self.tail.sequence < self.epoch.first_sequence && !mutated(Mutant::FoundMayBeLost) {
            return Ok(true);
        }
        // Nothing is behind the end of a store that was closed; otherwise all of the circle is searched.
        if self.is_closed && self.tail.sequence == self.epoch.first_sequence {
            return Ok(false);
        }
        // Where the epoch has begun, frames of older ones may lie behind damage that was accepted.
        let is_witness = |header: &Header| {
            header.epoch >= self.epoch.number
                || header.sequence < self.epoch.first_sequence
                || mutated(Mutant::AcceptedDamageReturns)
        };
        let end = self.head.position + self.extent.blocks;
        let mut position = self.tail.position;
        while position < end {
            // Not across the end of the circle.
            let (start, count) = self.pieces(position, SEARCH_BLOCKS.min(end - position))[0];
            let blocks = io.read_blocks(start, count)?;
            for (number, block) in blocks.chunks(BLOCK_BYTES).enumerate() {
                let at = position + number as u64;
                let Some(header) = self.parse(block) else { continue };
                if is_witness(&header)
                    && header.position == at
                    && header.sequence > self.tail.sequence
                    && header.durable > self.tail.sequence
                    && at + frame_blocks(header.payload_bytes) <= end
                    && self.read_body(io, at, &header)?.is_some()
                {
                    return Ok(true);
                }
            }
            position += count;
        }
        Ok(false)
    }

    /// Gives the payload of every frame from `head` on, and leaves `tail` behind the last. A frame that `each` does not
    /// accept was not durable, or is damaged: the log ends before it.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when the last is followed by a frame that was durable and is damaged; then everything before
    /// was given.
    pub fn replay(&mut self, io: &BlockIo, mut each: impl FnMut(&[u8]) -> Result<bool>) -> Result<()> {
        self.tail = self.head;
        let mut newest = 0;
        loop {
            // What an older epoch left here was torn. With the end of a frame that was written over it, and was torn
            // itself, it may be whole again.
            let begun = self.tail.sequence >= self.epoch.first_sequence && !mutated(Mutant::EpochBeginForgotten);
            let oldest = if begun { newest.max(self.epoch.number) } else { newest };
            let Some(frame) = self.read_frame(io, oldest)? else { break };
            if !each(&frame.payload)? {
                break;
            }
            newest = frame.epoch;
            self.tail = LogHead {
                position: self.tail.position + frame_blocks(frame.payload.len()),
                sequence: self.tail.sequence + 1,
                chain: frame.sum,
            };
        }
        // Newer than the superblock's where both copies of a later one are damaged.
        self.epoch.number = self.epoch.number.max(newest);
        if self.is_damaged(io)? {
            let (start, _) = self.pieces(self.tail.position, 1)[0];
            return Err(Error::Corrupt {
                what: format!("log: frame {} was durable and cannot be read", self.tail.sequence),
                offset_bytes: start * BLOCK_BYTES as u64,
                stored_bytes: BLOCK_BYTES as u64,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
impl Log {
    /// First block and bytes of every frame from the head on.
    pub fn frames(&self, io: &BlockIo) -> Vec<(u64, u64)> {
        let mut reader = Self::new(self.extent, self.store_id, Epoch { number: 0, first_sequence: 0 }, self.head);
        let mut frames = Vec::new();
        let mut epoch = 0;
        while let Ok(Some(frame)) = reader.read_frame(io, epoch) {
            let (start, _) = reader.pieces(reader.tail.position, 1)[0];
            frames.push((start, (HEADER_BYTES + frame.payload.len()) as u64));
            epoch = frame.epoch;
            let position = reader.tail.position + frame_blocks(frame.payload.len());
            reader.tail = LogHead { position, sequence: reader.tail.sequence + 1, chain: frame.sum };
        }
        frames
    }
}

/// The frame behind a lost one must not come back after its place was written again, not even behind equal bytes.
#[cfg(test)]
pub(crate) fn behind_a_lost_frame() -> Result<(), String> {
    let head = LogHead { position: 0, sequence: 0, chain: 0 };
    let log = |number| Log::new(Extent { start: 2, blocks: 8 }, 77, Epoch { number, first_sequence: 0 }, head);
    let io = BlockIo::new(Box::new(storage::Memory::new(10 * BLOCK_BYTES as u64)), 0);
    let failed = |error: crate::Error| error.to_string();
    // The second frame of the first epoch follows a frame that is lost. Its chain fits behind any frame with that
    // frame's checksum, so it is made to fit behind the second epoch's.
    let mut second = log(2);
    second.append(&io, b"one").map_err(failed)?;
    let mut first = log(1);
    first.tail = second.tail;
    first.append(&io, b"two").map_err(failed)?;
    let mut frames = 0;
    let count = |_: &[u8]| {
        frames += 1;
        Ok(true)
    };
    // Read from a superblock of the first epoch, as after damage to both copies of the second's.
    let mut reader = log(1);
    reader.replay(&io, count).map_err(failed)?;
    match (frames, reader.begin_epoch().number) {
        (1, 3) => Ok(()),
        (frames, next) => Err(format!("{frames} frames, not 1, and then epoch {next}, not 3")),
    }
}

/// Frames of an earlier round are not read again, though they are of the same epoch.
#[cfg(test)]
pub(crate) fn of_an_earlier_round() -> Result<(), String> {
    let head = LogHead { position: 0, sequence: 0, chain: 0 };
    let mut log = Log::new(Extent { start: 2, blocks: 8 }, 77, Epoch { number: 1, first_sequence: 0 }, head);
    let io = BlockIo::new(Box::new(storage::Memory::new(10 * BLOCK_BYTES as u64)), 0);
    let failed = |error: crate::Error| error.to_string();
    for _ in 0..8 {
        log.append(&io, b"one").map_err(failed)?;
    }
    log.head = log.tail;
    let mut frames = 0;
    let count = |_: &[u8]| {
        frames += 1;
        Ok(true)
    };
    log.replay(&io, count).map_err(failed)?;
    if frames == 0 { Ok(()) } else { Err(format!("{frames} frames of an earlier round")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use storage::Memory;

    const HEAD: LogHead = LogHead { position: 0, sequence: 0, chain: 0 };
    const EPOCH: Epoch = Epoch { number: 1, first_sequence: 0 };

    fn log() -> Log {
        Log::new(Extent { start: 2, blocks: 8 }, 77, EPOCH, HEAD)
    }

    /// The frames, and whether they end as they should.
    fn replay(log: &Log, io: &BlockIo) -> (Vec<Vec<u8>>, bool) {
        let mut reader = Log::new(log.extent, log.store_id, EPOCH, log.head);
        let mut frames = Vec::new();
        let result = reader.replay(io, |payload| {
            frames.push(payload.to_vec());
            Ok(true)
        });
        (frames, result.is_ok())
    }

    fn replayed(log: &Log, io: &BlockIo) -> Vec<Vec<u8>> {
        let (frames, whole) = replay(log, io);
        assert!(whole, "damaged behind frame {}", frames.len());
        frames
    }

    proptest! {
        /// Round after round, what is behind the head comes back, and nothing older.
        #[test]
        fn frames_come_back(payloads in prop::collection::vec((0usize..9000, any::<u8>()), 1..40)) {
            let memory = Memory::new(10 * BLOCK_BYTES as u64);
            let io = BlockIo::new(Box::new(memory), 0);
            let mut log = log();
            let mut kept: Vec<(Vec<u8>, LogHead)> = Vec::new();
            for (len, byte) in payloads {
                while log.used_blocks() + frame_blocks(len) > 8 {
                    kept.remove(0);
                    log.head = kept.first().map_or(log.tail, |(_, head)| *head);
                }
                kept.push((vec![byte; len], log.tail));
                log.append(&io, &vec![byte; len]).unwrap();
                let expected: Vec<Vec<u8>> = kept.iter().map(|(payload, _)| payload.clone()).collect();
                prop_assert_eq!(replayed(&log, &io), expected);
            }
        }

        /// One flipped bit ends the log before its frame. It is damage where a later frame says that the flipped one
        /// was durable, and otherwise may be a torn end.
        #[test]
        fn a_damaged_frame_ends_the_log(bit in 0u64..3 * 4096 * 8, flushed in prop::collection::vec(any::<bool>(), 3)) {
            let memory = Memory::new(10 * BLOCK_BYTES as u64);
            let io = BlockIo::new(Box::new(memory.clone()), 0);
            let mut log = log();
            for byte in 0..3u8 {
                log.append(&io, &[byte; 3000]).unwrap();
                if flushed[usize::from(byte)] {
                    log.flushed();
                }
            }
            let mut image = memory.image();
            image.flip(2 * 4096 + bit / 8, (bit % 8) as u8);
            let io = BlockIo::new(Box::new(Memory::from_image(image)), 0);
            let (frame, at) = ((bit / 8 / 4096) as usize, (bit / 8 % 4096) as usize);
            let hit = at < HEADER_BYTES + 3000;
            let known = hit && flushed.iter().take(2).skip(frame).any(|flushed| *flushed);
            let (frames, whole) = replay(&log, &io);
            prop_assert_eq!(frames.len(), if hit { frame } else { 3 });
            prop_assert_eq!(whole, !known);
        }
    }

    #[test]
    fn frames_behind_a_lost_one_stay_lost() {
        assert_eq!(behind_a_lost_frame(), Ok(()));
    }

    #[test]
    fn frames_of_an_earlier_round_end_the_log() {
        assert_eq!(of_an_earlier_round(), Ok(()));
        crate::mutant::set(Some(Mutant::ChainIgnored));
        let noticed = of_an_earlier_round().is_err();
        crate::mutant::set(None);
        assert!(noticed);
    }
}
