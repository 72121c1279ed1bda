//! Durable bytes under volatile writes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use crash::order::Places;
use nvme::{Lba, LbaRange, NamespaceId};

use super::extent_map::ExtentMap;
use super::failures::StoreFailures;
use super::media::{Image, Media, MediaError};
use super::sparse::SparseMemory;
use crate::ftl::flash_contents::UnitContents;
use crate::{Payload, VolatileWrite};

/// Where a device's bytes are to live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// Nowhere: reads return no data.
    #[default]
    None,
    /// Sparse, in memory; gone with the process.
    Memory,
    /// In a raw image file that other tools read as a disk. A device of several
    /// namespaces keeps one file each: `PATH.ns1`, `PATH.ns2`, ...
    File(PathBuf),
    /// In new files of such names, deleted as soon as they are open: gone with the process, as in memory, but
    /// bounded by the disk.
    Scratch(PathBuf),
}

/// A device's bytes: what is on the media, and what is still in its cache.
///
/// Writes are numbered in the order of acceptance. A block reads as the latest
/// write of it whatever layer that write is in, and the media never goes back:
/// a write that reaches it after a later write of the same block changes nothing.
#[derive(Debug)]
pub struct Store {
    lba_bytes: u64,
    /// First block of each namespace in the device's own numbering, and the end.
    bases: Vec<u64>,
    media: Media,
    next_sequence: u64,
    /// `None` where nobody asks what is volatile: no contents, no power cuts.
    cache: Option<Cache>,
    /// Volatile writes that the device has moved to the media and the media have not taken: they still read as
    /// written, and are not durable.
    stuck: BTreeSet<u64>,
    failures: RefCell<StoreFailures>,
}

/// A part of an accepted write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WritePart {
    /// The write's position in the order of acceptance.
    pub sequence: u64,
    pub nsid: NamespaceId,
    pub range: LbaRange,
}

impl WritePart {
    /// Makes one of those that touch within a write: an image is then written in few pieces.
    pub(crate) fn join(parts: &mut Vec<Self>) {
        parts.sort_unstable_by_key(|part| (part.sequence, part.nsid, part.range.start));
        parts.dedup_by(|next, before| {
            let touches = before.range.start.0 + u64::from(before.range.count) == next.range.start.0;
            let same = (before.sequence, before.nsid) == (next.sequence, next.nsid);
            let joined = before.range.count.checked_add(next.range.count).filter(|_| touches && same);
            joined.inspect(|count| before.range.count = *count).is_some()
        });
    }
}

/// The volatile layer.
#[derive(Default, Debug)]
struct Cache {
    writes: BTreeMap<u64, CachedWrite>,
    /// Which volatile write each block reads from, where it is the latest.
    newest: ExtentMap,
    /// Which write is on the media, for blocks that an older (or partly
    /// committed) volatile write covers; others may be missing.
    committed: ExtentMap,
    /// Bytes that the writes hold.
    data_bytes: u64,
    /// Size of the two at which they are next tidied.
    tidy_at: usize,
}

#[derive(Debug)]
struct CachedWrite {
    blocks: Range<u64>,
    /// Blocks not committed yet.
    remaining: u64,
    data: Payload,
    places: Places,
}

const TIDY_MIN: usize = 256;

impl Store {
    /// A store for namespaces of `namespace_blocks` blocks of `lba_bytes` each.
    ///
    /// `power_cuts` asks for volatile writes to be tracked even where no
    /// contents are kept; with contents they always are.
    pub fn new(
        contents: &Contents,
        lba_bytes: u32,
        namespace_blocks: &[u64],
        power_cuts: bool,
    ) -> Result<Self, MediaError> {
        let mut bases = vec![0];
        for blocks in namespace_blocks {
            bases.push(bases[bases.len() - 1] + blocks);
        }
        let lba_bytes = u64::from(lba_bytes);
        let media = match contents {
            Contents::None => Media::Nowhere,
            Contents::Memory => Media::Memory(SparseMemory::default()),
            Contents::File(path) | Contents::Scratch(path) => {
                let open = if matches!(contents, Contents::File(_)) { Image::open } else { Image::scratch };
                let mut images = Vec::with_capacity(namespace_blocks.len());
                for (index, blocks) in namespace_blocks.iter().enumerate() {
                    let mut path = path.clone();
                    if namespace_blocks.len() > 1 {
                        path.as_mut_os_string().push(format!(".ns{}", index + 1));
                    }
                    images.push(open(&path, bases[index] * lba_bytes, blocks * lba_bytes)?);
                }
                Media::Images(images)
            }
        };
        let cache = (power_cuts || media.keeps()).then(Cache::default);
        let (stuck, failures) = Default::default();
        Ok(Self { lba_bytes, bases, media, next_sequence: 1, cache, stuck, failures })
    }

    /// Whether reads return the bytes written.
    pub fn keeps_contents(&self) -> bool {
        self.media.keeps()
    }

    /// Whether it knows which accepted writes a power cut may take.
    pub(crate) fn tracks_volatile(&self) -> bool {
        self.cache.is_some()
    }

    /// Accepts a write into the cache and returns its sequence number.
    ///
    /// `data` is exactly `count * lba_bytes` long; `None` writes zeroes, as
    /// Write Zeroes and Deallocate do. The range is inside the namespace.
    pub fn write_volatile(&mut self, nsid: NamespaceId, range: LbaRange, data: Payload) -> u64 {
        self.write_ordered(nsid, range, data, [None, None])
    }

    /// The same of a write that belongs to `places`.
    pub fn write_ordered(&mut self, nsid: NamespaceId, range: LbaRange, data: Payload, places: Places) -> u64 {
        let sequence = self.take_sequence();
        if self.cache.is_none() || range.count == 0 {
            return sequence;
        }
        let blocks = self.flat(nsid, range);
        debug_assert!(
            data.as_ref().is_none_or(|data| data.len() as u64 == (blocks.end - blocks.start) * self.lba_bytes)
        );
        if let Some(cache) = &mut self.cache {
            cache.newest.set(blocks.clone(), sequence);
            let data = data.filter(|_| self.media.keeps());
            cache.data_bytes += data.as_ref().map_or(0, |data| data.len() as u64);
            let remaining = blocks.end - blocks.start;
            cache.writes.insert(sequence, CachedWrite { remaining, blocks, data, places });
        }
        sequence
    }

    /// Writes straight to the media (no cache, or FUA) and returns the write's
    /// sequence number. `data` as for [`Store::write_volatile`].
    pub fn write_durable(&mut self, nsid: NamespaceId, range: LbaRange, data: Payload) -> Result<u64, MediaError> {
        let sequence = self.take_sequence();
        if self.cache.is_none() || range.count == 0 {
            return Ok(sequence);
        }
        let blocks = self.flat(nsid, range);
        apply(&mut self.media, self.lba_bytes, &blocks, data.as_deref(), blocks.clone()).inspect_err(|error| {
            let failures = self.failures.get_mut();
            failures.note(error);
            failures.lost += 1;
        })?;
        if let Some(cache) = &mut self.cache {
            cache.newest.remove(blocks.clone());
            cache.note_committed(blocks, sequence);
        }
        Ok(sequence)
    }

    /// Moves a volatile write to the media. One that is there already, or was
    /// never volatile, is left alone.
    pub fn commit(&mut self, sequence: u64) -> Result<(), MediaError> {
        match self.cache.as_mut().and_then(|cache| cache.writes.get_mut(&sequence)) {
            Some(write) => {
                // Parts committed before are on the media and stay as they are.
                let blocks = write.blocks.clone();
                write.remaining = blocks.end - blocks.start;
                self.commit_flat(sequence, blocks)
            }
            None => Ok(()),
        }
    }

    /// Moves a part of a volatile write to the media, as when the flash pages
    /// of one command are programmed one after another.
    pub fn commit_blocks(&mut self, sequence: u64, nsid: NamespaceId, range: LbaRange) -> Result<(), MediaError> {
        match self.cache.as_ref().and_then(|cache| cache.writes.get(&sequence)) {
            Some(write) => {
                let part = self.flat(nsid, range);
                let blocks = part.start.max(write.blocks.start)..part.end.min(write.blocks.end);
                self.commit_flat(sequence, blocks)
            }
            None => Ok(()),
        }
    }

    /// Moves every volatile write up to and including `sequence` to the media.
    pub fn commit_through(&mut self, sequence: u64) -> Result<(), MediaError> {
        while let Some(cache) = &self.cache
            && let Some((&oldest, _)) = cache.writes.first_key_value()
            && oldest <= sequence
        {
            self.commit(oldest)?;
        }
        Ok(())
    }

    /// Whether everything that the device has moved to the media is there.
    pub fn is_settled(&self) -> bool {
        self.stuck.is_empty()
    }

    /// Tries again what the media have not taken. Until that succeeds, no flush may: it would promise what is not
    /// there.
    pub fn settle(&mut self) -> Result<(), MediaError> {
        while let Some(&sequence) = self.stuck.first() {
            self.commit(sequence)?;
            self.stuck.remove(&sequence);
        }
        Ok(())
    }

    /// Puts everything on the media, and has the system put images on its own: nothing is left to lose.
    pub fn finish(&mut self) -> Result<(), MediaError> {
        self.settle()?;
        self.commit_through(self.last_sequence())?;
        self.media.sync().inspect_err(|error| self.failures.get_mut().note(error))
    }

    /// What the system has refused so far.
    pub fn failures(&self) -> StoreFailures {
        self.failures.borrow().clone()
    }

    /// How many times the system has refused something: cheap to watch.
    pub fn failure_count(&self) -> u64 {
        let failures = self.failures.borrow();
        failures.reads.count + failures.writes.count
    }

    /// Memory taken for contents, those of volatile writes included.
    pub fn memory_bytes(&self) -> u64 {
        self.media.memory_bytes() + self.cache.as_ref().map_or(0, |cache| cache.data_bytes)
    }

    /// Memory that the media would take more if the range, inside the namespace, were written.
    pub fn absent_bytes(&self, nsid: NamespaceId, range: LbaRange) -> u64 {
        let blocks = self.flat(nsid, range);
        self.media.absent_bytes(&(blocks.start * self.lba_bytes..blocks.end * self.lba_bytes))
    }

    /// The sequence number of the latest write accepted; 0 before the first.
    pub fn last_sequence(&self) -> u64 {
        self.next_sequence - 1
    }

    /// Reads a range inside the namespace, newest bytes first; `None` where no
    /// contents are kept.
    pub fn read(&self, nsid: NamespaceId, range: LbaRange) -> Result<Payload, MediaError> {
        if !self.media.keeps() {
            return Ok(None);
        }
        self.read_kept(nsid, range).inspect_err(|error| self.failures.borrow_mut().note(error))
    }

    fn read_kept(&self, nsid: NamespaceId, range: LbaRange) -> Result<Payload, MediaError> {
        let blocks = self.flat(nsid, range);
        let mut buffer = vec![0; (u64::from(range.count) * self.lba_bytes) as usize].into_boxed_slice();
        let bytes_of = |part: &Range<u64>| {
            ((part.start - blocks.start) * self.lba_bytes) as usize
                ..((part.end - blocks.start) * self.lba_bytes) as usize
        };
        let mut at = blocks.start;
        if let Some(cache) = &self.cache {
            for (part, sequence) in cache.newest.overlapping(blocks.clone()) {
                if at < part.start {
                    self.media.read(at * self.lba_bytes, &mut buffer[bytes_of(&(at..part.start))])?;
                }
                if let Some(data) = cache.writes.get(&sequence).and_then(|write| write.slice(&part, self.lba_bytes)) {
                    buffer[bytes_of(&part)].copy_from_slice(data);
                }
                at = part.end;
            }
        }
        if at < blocks.end {
            self.media.read(at * self.lba_bytes, &mut buffer[bytes_of(&(at..blocks.end))])?;
        }
        Ok(Some(buffer))
    }

    /// What the blocks of a unit hold without the volatile writes.
    pub(crate) fn durable(&self, nsid: NamespaceId, range: LbaRange) -> Result<UnitContents, MediaError> {
        let mut bytes = vec![0; (u64::from(range.count) * self.lba_bytes) as usize].into_boxed_slice();
        self.media.read(self.flat(nsid, range).start * self.lba_bytes, &mut bytes)?;
        Ok(UnitContents { bytes, sequences: vec![0; range.count as usize] })
    }

    /// The same with them, newest bytes first.
    pub(crate) fn newest(&self, nsid: NamespaceId, range: LbaRange) -> Result<UnitContents, MediaError> {
        let blocks = self.flat(nsid, range);
        let mut sequences = vec![0; range.count as usize];
        for (part, sequence) in self.cache.iter().flat_map(|cache| cache.newest.overlapping(blocks.clone())) {
            let (first, last) = (part.start - blocks.start, part.end - blocks.start);
            sequences[first as usize..last as usize].fill(sequence);
        }
        let bytes = self.read_kept(nsid, range)?.unwrap_or_default();
        Ok(UnitContents { bytes, sequences })
    }

    /// Recovery found this on flash: the media hold it, and the writes that it is of are volatile no more.
    pub(crate) fn restore(
        &mut self,
        nsid: NamespaceId,
        range: LbaRange,
        contents: &UnitContents,
    ) -> Result<(), MediaError> {
        let blocks = self.flat(nsid, range);
        for (block, sequence) in blocks.clone().zip(&contents.sequences).filter(|(_, sequence)| **sequence > 0) {
            self.cache.iter_mut().for_each(|cache| cache.note_committed(block..block + 1, *sequence));
        }
        self.media.write(blocks.start * self.lba_bytes, &contents.bytes)
    }

    /// Cuts the power: drops the volatile writes and returns them, oldest first.
    ///
    /// Blocks that a later write has already put on the media are left out, so
    /// one write may come back as several of the same sequence number.
    pub fn cut(&mut self) -> Vec<VolatileWrite> {
        let Some(cache) = self.cache.take() else { return Vec::new() };
        self.cache = Some(Cache::default());
        self.stuck.clear();
        let mut undecided = Vec::with_capacity(cache.writes.len());
        for (&sequence, write) in &cache.writes {
            for part in cache.committed.pieces_below(write.blocks.clone(), sequence) {
                let (nsid, start) = self.unflat(part.start);
                let data = write.slice(&part, self.lba_bytes).map(Box::from);
                // A part of one command's range, whose count is 32 bits.
                let blocks = (part.end - part.start) as u32;
                undecided.push(VolatileWrite { sequence, nsid, start, blocks, data, places: write.places });
            }
        }
        undecided
    }

    /// Puts one write of the last cut on the media.
    pub fn survive(&mut self, write: &VolatileWrite) -> Result<(), MediaError> {
        let blocks = self.flat(write.nsid, LbaRange { start: write.start, count: write.blocks });
        apply(&mut self.media, self.lba_bytes, &blocks, write.data.as_deref(), blocks.clone())
            .inspect_err(|error| self.failures.get_mut().note(error))
    }

    fn commit_flat(&mut self, sequence: u64, blocks: Range<u64>) -> Result<(), MediaError> {
        let Some(cache) = &mut self.cache else { return Ok(()) };
        let Some(write) = cache.writes.get_mut(&sequence) else { return Ok(()) };
        for part in cache.committed.pieces_below(blocks.clone(), sequence) {
            if let Err(error) = apply(&mut self.media, self.lba_bytes, &write.blocks, write.data.as_deref(), part) {
                self.failures.get_mut().note(&error);
                self.stuck.insert(sequence);
                return Err(error);
            }
        }
        debug_assert!(write.remaining >= blocks.end - blocks.start, "a block of write {sequence} was committed twice");
        write.remaining -= (blocks.end - blocks.start).min(write.remaining);
        if write.remaining == 0 {
            cache.data_bytes -= write.data_bytes();
            cache.writes.remove(&sequence);
        }
        cache.newest.remove_labelled(blocks.clone(), sequence);
        cache.note_committed(blocks, sequence);
        Ok(())
    }

    fn take_sequence(&mut self) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        sequence
    }

    /// The range in the device's own block numbering.
    fn flat(&self, nsid: NamespaceId, range: LbaRange) -> Range<u64> {
        let index = (nsid.0 as usize).wrapping_sub(1);
        debug_assert!(index + 1 < self.bases.len(), "no namespace {nsid:?}");
        let start = self.bases[index] + range.start.0;
        debug_assert!(start + u64::from(range.count) <= self.bases[index + 1], "{range:?} is outside {nsid:?}");
        start..start + u64::from(range.count)
    }

    fn unflat(&self, block: u64) -> (NamespaceId, Lba) {
        let after = self.bases.partition_point(|base| *base <= block);
        (NamespaceId(after as u32), Lba(block - self.bases[after - 1]))
    }
}

impl Cache {
    /// Remembers that `blocks` on the media now come from `sequence` or later.
    fn note_committed(&mut self, blocks: Range<u64>, sequence: u64) {
        match self.writes.first_key_value() {
            None => self.committed.clear(),
            // Later writes need no reminder: they win by being applied later.
            Some((&oldest, _)) if oldest > sequence => {}
            Some(_) => {
                self.committed.raise(blocks, sequence);
                if self.committed.len() + self.writes.len() >= self.tidy_at.max(TIDY_MIN) {
                    self.tidy();
                }
            }
        }
    }

    /// Drops writes that later ones have replaced on the media altogether (a
    /// cache that overwrites in place never commits them itself), and reminders
    /// that no volatile write can need. The threshold then doubles, so tidying
    /// costs a constant per commit on average.
    fn tidy(&mut self) {
        let Self { writes, committed, data_bytes, .. } = self;
        writes.retain(|&sequence, write| !committed.pieces_below(write.blocks.clone(), sequence).is_empty());
        *data_bytes = writes.values().map(CachedWrite::data_bytes).sum();
        let mut covered = ExtentMap::default();
        for (&sequence, write) in writes.iter().rev() {
            covered.set(write.blocks.clone(), sequence);
        }
        committed.retain(|blocks, sequence| covered.overlapping(blocks).any(|(_, oldest)| oldest <= sequence));
        self.tidy_at = 2 * (self.committed.len() + self.writes.len());
    }
}

impl CachedWrite {
    fn data_bytes(&self) -> u64 {
        self.data.as_ref().map_or(0, |data| data.len() as u64)
    }

    /// The bytes of `part`, which lies inside the write; `None` for zeroes.
    fn slice(&self, part: &Range<u64>, lba_bytes: u64) -> Option<&[u8]> {
        let first = ((part.start - self.blocks.start) * lba_bytes) as usize;
        let last = ((part.end - self.blocks.start) * lba_bytes) as usize;
        self.data.as_deref().map(|data| &data[first..last])
    }
}

/// Puts `part` of a write of `blocks` on the media.
fn apply(
    media: &mut Media,
    lba_bytes: u64,
    blocks: &Range<u64>,
    data: Option<&[u8]>,
    part: Range<u64>,
) -> Result<(), MediaError> {
    match data {
        Some(data) => {
            let first = ((part.start - blocks.start) * lba_bytes) as usize;
            let last = ((part.end - blocks.start) * lba_bytes) as usize;
            media.write(part.start * lba_bytes, &data[first..last])
        }
        None => media.clear(part.start * lba_bytes..part.end * lba_bytes),
    }
}
