//! Reads a log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use units::Nanos;

use super::super::stored::{Run, Source, Stored};
use super::{
    CONTENT_BYTES_MAX, FRAME_BYTES, HEADER_BYTES, MAGIC, PART_BYTES, PARTS_HEAD_BYTES, VERSION, VERSION_WITHOUT_ORDER,
    VERSION_WITHOUT_PARTS,
};
use crate::log::{Content, Event, FlushId, Log, LogError, WriteId, digest};
use crate::order::OrderTuple;

/// A log that was read.
#[derive(Debug)]
pub struct LogReader {
    /// What it holds.
    pub log: Log,
    /// Where each entry begins in the file, and at last where the last one ends.
    pub positions_bytes: Vec<u64>,
}

impl LogReader {
    /// Reads all of `from`, contents too. A torn last frame is left out.
    ///
    /// # Errors
    /// For a file that is no log, a damaged frame before the last, and what `from` says.
    pub fn read(from: impl Read) -> Result<Self, LogError> {
        Self::with(from, |_| Kept::Memory(BTreeMap::new()))
    }

    /// The same of a file in which contents stay until somebody asks for them: a log takes memory for its entries, and an eighth
    /// of a byte for each that was written.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let failed = |error: io::Error| LogError::Io(error.to_string());
        let source: Arc<dyn Source> = Arc::new(File::open(path).map_err(failed)?);
        let from = BufReader::with_capacity(1 << 20, File::open(path).map_err(failed)?);
        Self::with(from, |unit_bytes| Kept::Source { source, unit_bytes, digests: BTreeMap::new() })
    }

    fn with(mut from: impl Read, kept: impl FnOnce(u32) -> Kept) -> Result<Self, LogError> {
        let mut header = [0; HEADER_BYTES];
        from.read_exact(&mut header).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => LogError::Format("it ends within its header".to_owned()),
            _ => LogError::Io(error.to_string()),
        })?;
        if &header[..8] != MAGIC {
            return Err(LogError::Format("it does not begin with PLUMBLOG".to_owned()));
        }
        let version = u32_at(&header, 8);
        if !(VERSION_WITHOUT_ORDER..=VERSION).contains(&version) {
            return Err(LogError::Format(format!(
                "its version is {version}, and this program reads versions {VERSION_WITHOUT_ORDER} to {VERSION}"
            )));
        }
        let unit_bytes = u32_at(&header, 12);
        let mut read = Self { log: Log::new(u64_at(&header, 16), unit_bytes)?, positions_bytes: Vec::new() };
        let mut frames =
            Frames { from, version, at_bytes: HEADER_BYTES as u64, kept: kept(unit_bytes), behind: Vec::new() };
        loop {
            let at_bytes = frames.at_bytes;
            read.positions_bytes.push(at_bytes);
            match frames.next()? {
                Some((at, event)) => {
                    let damaged = |error: LogError| LogError::Damaged { at_bytes, what: error.to_string() };
                    read.log.push(at, event).map_err(damaged)?;
                }
                None => return Ok(read),
            }
        }
    }

    /// How many entries were there when the file had `position_bytes`.
    pub fn entries_at(&self, position_bytes: u64) -> usize {
        self.positions_bytes.partition_point(|start| *start < position_bytes).min(self.log.entries().len())
    }
}

/// Where contents are, and what is known of them by their place in the file.
enum Kept {
    /// Here: the new bytes of each entry.
    Memory(BTreeMap<u64, Arc<[u8]>>),
    /// In the file: of the new bytes of each entry the digests of units.
    Source { source: Arc<dyn Source>, unit_bytes: u32, digests: BTreeMap<u64, Arc<[u64]>> },
}

impl Kept {
    /// New bytes that begin at `place`.
    fn add(&mut self, place: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Memory(bytes_at) => drop(bytes_at.insert(place, bytes.into())),
            Self::Source { unit_bytes, digests, .. } => {
                digests.insert(place, bytes.chunks((*unit_bytes).max(1) as usize).map(digest).collect());
            }
        }
    }

    /// What these parts are, each a length and a place; `None` where one is not in the file.
    fn content(&self, parts: &[(u64, u64)]) -> Option<Content> {
        match self {
            Self::Memory(bytes_at) => {
                if let [(len, place)] = parts
                    && let Some(bytes) = bytes_at.get(place).filter(|bytes| bytes.len() as u64 == *len)
                {
                    return Some(Content::Bytes(Arc::clone(bytes)));
                }
                let mut all = Vec::new();
                for (len, place) in parts {
                    if *place == 0 {
                        all.resize(all.len() + usize::try_from(*len).ok()?, 0);
                    } else {
                        let (start, bytes) = bytes_at.range(..=*place).next_back()?;
                        let from = (*place - start) as usize;
                        all.extend_from_slice(bytes.get(from..from.checked_add(usize::try_from(*len).ok()?)?)?);
                    }
                }
                Some(Content::Bytes(all.into()))
            }
            Self::Source { source, unit_bytes, digests } => {
                let unit = u64::from(*unit_bytes);
                let run = |&(len_bytes, place): &(u64, u64)| {
                    if place == 0 {
                        return Some(Run { len_bytes, place: None });
                    }
                    let (start, all) = digests.range(..=place).next_back()?;
                    let (first, count) = ((place - start) / unit, len_bytes.div_ceil(unit));
                    let units = first as usize..first.checked_add(count)? as usize;
                    let is_whole = units.len() == all.len();
                    let own = || all.get(units.clone()).map(Arc::from);
                    let digests = if is_whole { Some(Arc::clone(all)) } else { own() };
                    Some(Run { len_bytes, place: Some((place, digests?)) })
                };
                let runs = parts.iter().map(run).collect::<Option<Vec<Run>>>()?.into();
                Some(Content::Stored(Stored { source: Arc::clone(source), unit_bytes: *unit_bytes, runs }))
            }
        }
    }
}

/// The frames of a file, one after the other.
struct Frames<R> {
    from: R,
    version: u32,
    /// Where the next one begins.
    at_bytes: u64,
    kept: Kept,
    /// What is behind the frame.
    behind: Vec<u8>,
}

impl<R: Read> Frames<R> {
    /// The next entry; none at the end.
    fn next(&mut self) -> Result<Option<(Nanos, Event)>, LogError> {
        let at_bytes = self.at_bytes;
        let mut frame = Vec::with_capacity(FRAME_BYTES);
        if !fill(&mut self.from, &mut frame, FRAME_BYTES)? {
            return Ok(None);
        }
        let damaged = |what: &str| LogError::Damaged { at_bytes, what: what.to_owned() };
        let behind = u32_at(&frame, 4);
        if behind > CONTENT_BYTES_MAX {
            return Err(damaged("contents of more than 1 GiB"));
        }
        self.behind.clear();
        if !fill(&mut self.from, &mut self.behind, behind as usize)? {
            return Ok(None);
        }
        if crc32c::crc32c_append(crc32c::crc32c(&frame[..40]), &self.behind) != u32_at(&frame, 40) {
            return Err(damaged("its checksum does not fit"));
        }
        self.at_bytes += FRAME_BYTES as u64 + u64::from(behind);
        let (name, offset_bytes, len_bytes) = (u64_at(&frame, 8), u64_at(&frame, 16), u64_at(&frame, 24));
        let in_parts = self.version > VERSION_WITHOUT_PARTS && frame[1] == 1;
        let write = |content: Content, fua: bool, order: OrderTuple| {
            if content.len_bytes() == len_bytes {
                Ok(Event::Write { id: WriteId(name), offset_bytes, content, fua, order })
            } else {
                Err(damaged("its length is not that of its contents"))
            }
        };
        // The stream, and nothing else but `others`.
        let stream = |others: u64| match name & !others {
            0 => Err(damaged("stream 0")),
            name => u16::try_from(name).map_err(|_| damaged("a stream of more than 16 bits")),
        };
        let has_order = self.version > VERSION_WITHOUT_ORDER;
        let event = match frame[0] {
            kind @ (1 | 2) => {
                let content = self
                    .content(at_bytes, 0, in_parts, len_bytes)
                    .ok_or_else(|| damaged("contents that are not there"))?;
                write(content, kind == 2, OrderTuple::NONE)?
            }
            kind @ (3 | 4) if behind == 0 => write(Content::Zeroes(len_bytes), kind == 4, OrderTuple::NONE)?,
            5 if behind == 0 => Event::Completed(WriteId(name)),
            6 if behind == 0 => Event::FlushSubmitted(FlushId(name)),
            7 if behind == 0 => Event::FlushCompleted(FlushId(name)),
            8 if behind == 0 => Event::Mark(name),
            kind @ (9 | 10) if has_order => {
                let tuple = self.behind.first_chunk().and_then(OrderTuple::from_bytes);
                let order = tuple.ok_or_else(|| damaged("an ordered write whose tuple is none"))?;
                let content = self.content(at_bytes, OrderTuple::BYTES, in_parts, len_bytes);
                write(content.ok_or_else(|| damaged("contents that are not there"))?, kind == 10, order)?
            }
            11 if behind == 0 && has_order => {
                Event::StreamOpened { stream: stream(0xffff_0000)?, first: (name >> 16) as u16 }
            }
            12 if behind == 0 && has_order => Event::StreamClosed(stream(0)?),
            kind => return Err(damaged(&format!("an entry of kind {kind}"))),
        };
        Ok(Some((Nanos(u64_at(&frame, 32)), event)))
    }

    /// The contents that begin `from` bytes behind the frame at `at_bytes`; `None` where they name bytes that are not there, or
    /// more than the length that the frame has.
    fn content(&mut self, at_bytes: u64, from: usize, in_parts: bool, len_bytes: u64) -> Option<Content> {
        let behind = self.behind.get(from..)?;
        let place = at_bytes + (FRAME_BYTES + from) as u64;
        if !in_parts {
            self.kept.add(place, behind);
            return self.kept.content(&if behind.is_empty() { Vec::new() } else { vec![(behind.len() as u64, place)] });
        }
        let count = u32_at(behind, 0) as usize;
        let table: Range<usize> = PARTS_HEAD_BYTES..PARTS_HEAD_BYTES.checked_add(PART_BYTES.checked_mul(count)?)?;
        let new = behind.get(table.end..)?;
        let parts: Vec<(u64, u64)> = behind
            .get(table.clone())?
            .chunks_exact(PART_BYTES)
            .map(|part| (u64_at(part, 0), u64_at(part, 8)))
            .collect();
        let sum = parts.iter().try_fold(0_u64, |sum, (len, _)| sum.checked_add(*len))?;
        if sum != len_bytes || len_bytes > u64::from(CONTENT_BYTES_MAX) {
            return None;
        }
        self.kept.add(place + table.end as u64, new);
        self.kept.content(&parts)
    }
}

/// Reads `len` bytes; whether they were there. The memory taken grows with what is read, not with what a frame says.
fn fill(from: &mut impl Read, bytes: &mut Vec<u8>, len: usize) -> Result<bool, LogError> {
    let read = from.take(len as u64).read_to_end(bytes).map_err(|error| LogError::Io(error.to_string()))?;
    Ok(read == len)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}
