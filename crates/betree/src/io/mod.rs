//! Blocks on the storage: checked on the way in, compressed on the way out.

pub(crate) mod ahead;
mod composer;
mod content;
pub(crate) mod later;
mod parts;

pub(crate) use composer::Composer;
pub(crate) use content::Kind;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use storage::{BLOCK_BYTES, Buffer, Completion, Queue, QueueExt, Request, Storage, StorageError, Tag};

use crate::bytes::block::Block;
use crate::bytes::filter::{Filter, KeyHash};
use crate::bytes::page::Page;
use crate::bytes::pages::PagePlace;
use crate::bytes::parts::are_sound;
use crate::bytes::pointer::{BlockPointer, Codec};
use crate::bytes::wire::Malformed;
use crate::cache::{Cache, Cached};
use crate::error::{Error, Result};
use crate::extents::Extent;
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Edge, Node};
use crate::nodes::run::Part;
use content::Content;
use later::Later;

/// How new blocks are compressed. A block that does not get smaller is stored as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: fast.
    #[default]
    Lz4,
    /// Zstandard at level 1: smaller.
    #[cfg(feature = "zstandard")]
    Zstd,
}

/// What a write is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Log,
    /// Entries of leaves.
    Leaves,
    /// Messages that wait.
    Runs,
    /// Headers of nodes.
    Headers,
    /// Values that lie apart.
    Values,
    Catalog,
    Superblock,
}

const PURPOSES: usize = 7;

/// Bytes written and read so far.
#[derive(Default)]
pub(crate) struct IoCounters {
    written: [AtomicU64; PURPOSES],
    pub read: AtomicU64,
    pub flushes: AtomicU64,
    pub discarded: AtomicU64,
    /// Blocks that filters spared lookups.
    pub filtered: AtomicU64,
}

impl IoCounters {
    pub fn written(&self, purpose: Purpose) -> u64 {
        self.written[purpose as usize].load(Ordering::Relaxed)
    }
}

/// Largest block that is believed: a larger length is damage.
const RAW_BYTES_MAX: u32 = 1 << 30;

/// Requests that are outstanding at once.
const DEPTH_MAX: usize = 32;

/// The storage with its cache.
pub(crate) struct BlockIo {
    storage: Box<dyn Storage>,
    queues: Mutex<Vec<Box<dyn Queue>>>,
    /// What reads were made into, for the next ones: so they need not be zeroed.
    buffers: Mutex<Vec<Buffer>>,
    later: Mutex<Later>,
    /// Whether anything of that may be on its way.
    unsettled: AtomicBool,
    reads_pages: bool,
    pub cache: Cache,
    pub counters: IoCounters,
}

pub(crate) fn corrupt(pointer: &BlockPointer, what: impl Into<String>) -> Error {
    Error::Corrupt {
        what: what.into(),
        offset_bytes: pointer.offset_bytes(),
        stored_bytes: u64::from(pointer.stored_bytes),
    }
}

/// The bytes to store for `raw`, with how.
pub(crate) fn compress(raw: &[u8], compression: Compression) -> (Codec, Vec<u8>) {
    let (codec, packed) = match compression {
        Compression::None => return (Codec::Plain, raw.to_vec()),
        Compression::Lz4 => (Codec::Lz4, lz4_flex::block::compress(raw)),
        #[cfg(feature = "zstandard")]
        Compression::Zstd => match zstd::bulk::compress(raw, 1) {
            Ok(packed) => (Codec::Zstd, packed),
            Err(_) => return (Codec::Plain, raw.to_vec()),
        },
    };
    // Only whole storage blocks count.
    if packed.len().div_ceil(BLOCK_BYTES) < raw.len().div_ceil(BLOCK_BYTES) {
        (codec, packed)
    } else {
        (Codec::Plain, raw.to_vec())
    }
}

/// Buffers that are kept for the next reads, and bytes of one.
const SPARES_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 64 << 10;

/// Whether compression makes bytes shorter by an eighth, be it only beside others.
pub(crate) fn shrinks(raw: &[u8], compression: Compression) -> bool {
    let packed = match compression {
        Compression::None => return false,
        Compression::Lz4 => lz4_flex::block::compress(raw).len(),
        #[cfg(feature = "zstandard")]
        Compression::Zstd => zstd::bulk::compress(raw, 1).map_or(raw.len(), |packed| packed.len()),
    };
    packed * 8 < raw.len() * 7
}

/// The bytes that were stored.
fn decompress(stored: &[u8], pointer: &BlockPointer) -> Result<Box<[u8]>, Malformed> {
    if pointer.raw_bytes > RAW_BYTES_MAX {
        return Err(Malformed("a block is impossibly long"));
    }
    let len = pointer.raw_bytes as usize;
    let raw = match pointer.codec {
        Codec::Plain => stored.to_vec(),
        Codec::Parts => stored.get(..len).ok_or(Malformed("a value is shorter than it says"))?.to_vec(),
        Codec::Lz4 => lz4_flex::block::decompress(stored, len).map_err(|_| Malformed("LZ4 data is damaged"))?,
        #[cfg(feature = "zstandard")]
        Codec::Zstd => zstd::bulk::decompress(stored, len).map_err(|_| Malformed("Zstandard data is damaged"))?,
        #[cfg(not(feature = "zstandard"))]
        Codec::Zstd => return Err(Malformed("Zstandard data, which a build with `--features zstandard` reads")),
    };
    if raw.len() == len { Ok(raw.into()) } else { Err(Malformed("a block has another length")) }
}

impl BlockIo {
    pub fn new(storage: Box<dyn Storage>, cache_bytes: usize) -> Self {
        let (queues, later, unsettled) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        let (cache, counters) = (Cache::new(cache_bytes), IoCounters::default());
        let buffers = Mutex::default();
        Self { storage, queues, buffers, later, unsettled, reads_pages: true, cache, counters }
    }

    /// The same, with blocks read in part or always whole.
    pub fn reading_pages(self, reads_pages: bool) -> Self {
        Self { reads_pages, ..self }
    }

    /// Whether of a block that can be read in part no more is read than is asked for.
    pub fn reads_pages(&self) -> bool {
        self.reads_pages && !mutated(Mutant::WholeBlocksRead)
    }

    /// Takes room for the first so many blocks.
    pub fn reserve(&self, blocks: u64) -> Result<()> {
        Ok(self.storage.reserve(blocks * BLOCK_BYTES as u64)?)
    }

    /// Looks how many blocks there are now.
    pub fn measure_blocks(&self) -> Result<u64> {
        Ok(self.storage.measure()? / BLOCK_BYTES as u64)
    }

    pub fn capacity_blocks(&self) -> u64 {
        self.storage.capacity_bytes() / BLOCK_BYTES as u64
    }

    /// Works with a queue that nobody else uses meanwhile. One that failed is not used again: something may be
    /// outstanding on it.
    pub fn with_queue<T>(&self, work: impl FnOnce(&mut dyn Queue) -> Result<T>) -> Result<T> {
        let mut queue = self.take_queue()?;
        let result = work(&mut *queue)?;
        self.give_queue(queue);
        Ok(result)
    }

    /// A queue that nobody else uses.
    pub fn take_queue(&self) -> Result<Box<dyn Queue>> {
        let spare = self.queues.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match spare {
            Some(queue) => Ok(queue),
            None => Ok(self.storage.open_queue()?),
        }
    }

    /// Gives a queue back on which nothing is outstanding.
    pub fn give_queue(&self, queue: Box<dyn Queue>) {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).push(queue);
    }

    /// The bytes of a block, checked.
    pub fn read_raw(&self, pointer: &BlockPointer) -> Result<Box<[u8]>> {
        self.wait_for(pointer.offset_bytes());
        self.look_at(pointer, pointer.blocks(), |stored| self.unpack(pointer, &stored[..pointer.stored_bytes as usize]))
    }

    /// Looks at the storage blocks of a block, or at so many from its first one on.
    fn look_at<T>(&self, first: &BlockPointer, blocks: u64, look: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        if first.start + blocks > self.capacity_blocks() {
            return Err(corrupt(first, "a pointer leads behind the end of the storage"));
        }
        let spare = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = spare.unwrap_or_default();
        buffer.resize(blocks as usize * BLOCK_BYTES);
        let buffer = self.with_queue(|queue| Ok(queue.read_into(first.offset_bytes(), buffer)?))?;
        let result = look(&buffer);
        let mut spare = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.len() <= SPARE_BYTES_MAX && spare.len() < SPARES_MAX {
            spare.push(buffer);
        }
        result
    }

    fn count_read(&self, bytes: usize) {
        self.counters.read.fetch_add(bytes.next_multiple_of(BLOCK_BYTES) as u64, Ordering::Relaxed);
    }

    /// Bytes that were read, checked and decompressed.
    fn unpack(&self, pointer: &BlockPointer, stored: &[u8]) -> Result<Box<[u8]>> {
        self.count_read(stored.len());
        if !are_sound(pointer, stored) && !mutated(Mutant::BlockChecksumIgnored) {
            return Err(corrupt(pointer, "the checksum differs"));
        }
        decompress(stored, pointer).map_err(|error| corrupt(pointer, error.to_string()))
    }

    /// Whether a lookup has to look into a block.
    pub fn admits(&self, filter: &Filter, key: KeyHash) -> bool {
        let admits = filter.admits(key);
        if !admits {
            self.counters.filtered.fetch_add(1, Ordering::Relaxed);
        }
        admits
    }

    /// The block behind a part.
    pub fn block(&self, part: &Part) -> Result<Arc<Block>> {
        let pointer = match part {
            Part::Fresh(block) => return Ok(Arc::clone(block)),
            Part::Stored(pointer) => pointer,
        };
        self.content(pointer, ())
    }

    /// A part of a block.
    pub fn page(&self, place: &PagePlace) -> Result<Arc<Page>> {
        self.content(&place.pointer, place.shape)
    }

    /// A page of `places`, which lie side by side, and whether it was read: then those around it that were not there either
    /// came with it.
    pub fn pages(&self, places: &[PagePlace], wanted: usize) -> Result<(Arc<Page>, bool)> {
        if let Some(Cached::Page(page)) = self.cache.get(&places[wanted].pointer) {
            return Ok((page, false));
        }
        let missing = |place: &&PagePlace| self.cache.peek(&place.pointer).is_none();
        let (before, behind) = (&places[..wanted], &places[wanted + 1..]);
        let from = wanted - before.iter().rev().take_while(missing).count();
        let to = wanted + 1 + behind.iter().take_while(missing).count();
        let (read, first) = (&places[from..to], &places[from].pointer);
        let blocks: u64 = read.iter().map(|place| place.pointer.blocks()).sum();
        let page = self.look_at(first, blocks, |buffer| {
            let mut found = Err(corrupt(first, "it was not read"));
            for (place, stored) in read.iter().zip(buffer.chunks(BLOCK_BYTES)) {
                let stored = stored.get(..place.pointer.stored_bytes as usize).unwrap_or(stored);
                let kept = self.unpack(&place.pointer, stored);
                let kept = kept.and_then(|raw| self.keep(&place.pointer, place.shape, raw));
                if *place == places[wanted] {
                    found = kept;
                }
            }
            found
        })?;
        Ok((page, true))
    }

    /// A block, if it is in memory whole.
    pub fn cached_block(&self, pointer: &BlockPointer) -> Option<Arc<Block>> {
        match self.cache.get_or_part(pointer) {
            Some(Cached::Block(block)) => Some(block),
            _ => None,
        }
    }

    /// Takes what was read into the cache, where it is what it should be.
    pub fn admit(&self, pointer: &BlockPointer, kind: Kind, stored: &[u8]) -> Result<Cached> {
        let content = kind.parse(self.unpack(pointer, stored)?).map_err(|error| corrupt(pointer, error.to_string()))?;
        self.cache.put_ahead(pointer, content.clone());
        Ok(content)
    }

    /// What is at a place, read where it is not in memory.
    fn content<T: Content + ?Sized>(&self, pointer: &BlockPointer, shape: T::Shape) -> Result<Arc<T>> {
        match self.cache.get(pointer).and_then(T::of_cached) {
            Some(content) => Ok(content),
            None => self.keep(pointer, shape, self.read_raw(pointer)?),
        }
    }

    fn keep<T: Content + ?Sized>(&self, pointer: &BlockPointer, shape: T::Shape, raw: Box<[u8]>) -> Result<Arc<T>> {
        let content = T::of_raw(raw, shape).map_err(|error| corrupt(pointer, error.to_string()))?;
        self.cache.put(pointer, Arc::clone(&content).into_cached());
        Ok(content)
    }

    /// The node behind an edge.
    pub fn node(&self, edge: &Edge) -> Result<Arc<Node>> {
        let pointer = match edge {
            Edge::Fresh(node) => return Ok(Arc::clone(node)),
            Edge::Stored(pointer) => pointer,
        };
        self.content(pointer, ())
    }

    /// The value that lies at a place.
    pub fn value(&self, pointer: &BlockPointer) -> Result<Arc<[u8]>> {
        self.content(pointer, ())
    }

    /// Tells the device that blocks are free.
    pub fn discard(&self, extent: Extent) -> Result<()> {
        let (offset_bytes, len_bytes) = (extent.start * BLOCK_BYTES as u64, extent.blocks * BLOCK_BYTES as u64);
        self.counters.discarded.fetch_add(len_bytes, Ordering::Relaxed);
        self.with_queue(|queue| Ok(queue.call(Request::Discard { offset_bytes, len_bytes }).map(drop)?))
    }

    /// Writes, many at a time, and waits for all.
    pub fn write(&self, writes: impl IntoIterator<Item = (Purpose, u64, Buffer)>) -> Result<()> {
        self.with_queue(|queue| {
            let mut outstanding = 0;
            let mut completions: Vec<Completion> = Vec::new();
            let mut failed = None;
            let mut settle = |queue: &mut dyn Queue, outstanding: &mut usize, until: usize| {
                while *outstanding > until {
                    queue.complete(&mut completions);
                    if completions.is_empty() {
                        failed.get_or_insert(StorageError::Closed);
                        *outstanding = 0;
                    }
                    *outstanding = outstanding.saturating_sub(completions.len());
                    for completion in completions.drain(..) {
                        if let Err(error) = completion.result {
                            failed.get_or_insert(error);
                        }
                    }
                }
            };
            for (number, (purpose, start, buffer)) in writes.into_iter().enumerate() {
                self.counters.written[purpose as usize].fetch_add(buffer.len() as u64, Ordering::Relaxed);
                let offset_bytes = start * BLOCK_BYTES as u64;
                queue.submit(Tag(number as u64), Request::Write { offset_bytes, buffer });
                outstanding += 1;
                settle(queue, &mut outstanding, DEPTH_MAX - 1);
            }
            settle(queue, &mut outstanding, 0);
            failed.map_or(Ok(()), |error| Err(error.into()))
        })
    }

    /// Hands writes over, and does not wait for them.
    pub fn write_later(&self, writes: impl IntoIterator<Item = (Purpose, u64, Buffer)>) -> Result<()> {
        let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        if !later.has_queue() {
            later.use_queue(self.take_queue()?);
        }
        self.unsettled.store(true, Ordering::Release);
        for (purpose, start, buffer) in writes {
            self.counters.written[purpose as usize].fetch_add(buffer.len() as u64, Ordering::Relaxed);
            later.submit(start * BLOCK_BYTES as u64, buffer);
        }
        Ok(())
    }

    /// Waits for all that was handed over.
    ///
    /// # Errors
    ///
    /// What one of them met; and [`Error::PreviousIo`] from then on.
    pub fn settle(&self) -> Result<()> {
        let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        later.wait();
        self.unsettled.store(false, Ordering::Release);
        match later.take_error() {
            Some(error) => Err(error.into()),
            None if later.failed => Err(Error::PreviousIo),
            None => Ok(()),
        }
    }

    /// Waits for what is on its way to a place that is to be read.
    pub fn wait_for(&self, offset_bytes: u64) {
        if self.unsettled.load(Ordering::Acquire) {
            let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
            if later.is_flying(offset_bytes) {
                later.wait();
            }
        }
    }

    /// Makes every write durable that has completed.
    pub fn flush(&self) -> Result<()> {
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.with_queue(|queue| Ok(queue.flush()?))
    }

    /// Reads storage blocks without a checksum of their own.
    pub fn read_blocks(&self, start: u64, count: u64) -> Result<Buffer> {
        self.counters.read.fetch_add(count * BLOCK_BYTES as u64, Ordering::Relaxed);
        self.with_queue(|queue| Ok(queue.read(start * BLOCK_BYTES as u64, count as usize * BLOCK_BYTES)?))
    }
}
