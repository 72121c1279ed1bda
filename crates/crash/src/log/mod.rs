//! What a device was asked to do, with the bytes.

mod file;
mod shared;
mod stored;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use twox_hash::XxHash3_64;
use units::Nanos;

use crate::order::OrderTuple;

pub use file::{LogReader, LogWriter};
pub use stored::{Source, Stored};

/// Names a write or a discard of a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteId(pub u64);

/// Names a flush of a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlushId(pub u64);

/// The bytes of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// These.
    Bytes(Arc<[u8]>),
    /// These, which stay in the log's file.
    Stored(Stored),
    /// Zeroes, so many: a discard, or a Write Zeroes command.
    Zeroes(u64),
}

impl Content {
    /// How many.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stored(stored) => stored.len_bytes(),
            Self::Zeroes(len_bytes) => *len_bytes,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len_bytes() == 0
    }

    /// Calls `each` with the bytes of a range piece by piece: where they begin, how many, and what they are, `None` for zeroes.
    /// `range` lies inside.
    ///
    /// # Errors
    /// Where stored ones cannot be read.
    pub fn visit(&self, range: Range<u64>, mut each: impl FnMut(u64, u64, Option<&[u8]>)) -> Result<(), LogError> {
        match self {
            Self::Stored(stored) => return stored.visit(range, each),
            Self::Bytes(bytes) => {
                each(range.start, range.end - range.start, bytes.get(range.start as usize..range.end as usize));
            }
            Self::Zeroes(_) => each(range.start, range.end - range.start, None),
        }
        Ok(())
    }
}

/// Names the bytes of a unit; 0 where all are zero.
pub(crate) fn digest(unit: &[u8]) -> u64 {
    if unit.iter().all(|byte| *byte == 0) { 0 } else { XxHash3_64::oneshot(unit).max(1) }
}

/// One thing that happened at the device's border.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A write, a discard or a Write Zeroes was submitted.
    Write {
        /// Its name.
        id: WriteId,
        /// Where.
        offset_bytes: u64,
        /// What is there afterwards.
        content: Content,
        /// Force Unit Access: it is durable when it completes.
        fua: bool,
        /// What it says of order.
        order: OrderTuple,
    },
    /// A write completed with success. One that failed never does: it may have happened, and promises nothing.
    Completed(WriteId),
    /// A flush was submitted; it covers the writes that had completed before.
    FlushSubmitted(FlushId),
    /// A flush completed with success.
    FlushCompleted(FlushId),
    /// A stream of ordered writes was opened.
    StreamOpened {
        /// Which.
        stream: u16,
        /// The epoch of its first writes.
        first: u16,
    },
    /// A stream was closed.
    StreamClosed(u16),
    /// Whoever keeps the log says something of its own: for instance how much was acknowledged to its caller.
    Mark(u64),
}

impl Event {
    /// A plain write.
    pub fn write(id: WriteId, offset_bytes: u64, bytes: &[u8]) -> Self {
        Self::write_of(id, offset_bytes, Content::Bytes(bytes.into()), false)
    }

    /// A discard, or zeroes.
    pub fn zeroes(id: WriteId, offset_bytes: u64, len_bytes: u64) -> Self {
        Self::write_of(id, offset_bytes, Content::Zeroes(len_bytes), false)
    }

    /// A write without order.
    pub fn write_of(id: WriteId, offset_bytes: u64, content: Content, fua: bool) -> Self {
        Self::Write { id, offset_bytes, content, fua, order: OrderTuple::NONE }
    }
}

/// An event and when it was, on the clock of whoever kept the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When.
    pub at: Nanos,
    /// What.
    pub event: Event,
}

/// What cannot be put into a log, or read out of one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LogError {
    /// The atomic unit is not a power of two.
    #[error("a power cut keeps or loses units of a power of two of bytes, not of {unit_bytes}")]
    Unit {
        /// What was asked for.
        unit_bytes: u32,
    },
    /// A write does not consist of whole units.
    #[error("a write of {len_bytes} bytes at {offset_bytes} does not consist of whole units of {unit_bytes} bytes")]
    Alignment {
        /// Where.
        offset_bytes: u64,
        /// How long.
        len_bytes: u64,
        /// The unit.
        unit_bytes: u32,
    },
    /// A write reaches beyond the end.
    #[error(
        "a write of {len_bytes} bytes at {offset_bytes} reaches beyond the end of a device of {capacity_bytes} bytes"
    )]
    Beyond {
        /// Where.
        offset_bytes: u64,
        /// How long.
        len_bytes: u64,
        /// The device's size.
        capacity_bytes: u64,
    },
    /// A file is no log.
    #[error("this is no log of writes: {0}")]
    Format(String),
    /// A frame of a file is damaged.
    #[error("the log is damaged at byte {at_bytes}: {what}")]
    Damaged {
        /// Where the frame begins.
        at_bytes: u64,
        /// How.
        what: String,
    },
    /// A file could not be read or written.
    #[error("{0}")]
    Io(String),
}

/// A log in memory. Equal contents are kept once.
#[derive(Clone, Debug)]
pub struct Log {
    capacity_bytes: u64,
    unit_bytes: u32,
    entries: Vec<Entry>,
    contents: BTreeMap<(u64, usize), Vec<Arc<[u8]>>>,
    writes: u64,
    flushes: u64,
}

impl Log {
    /// Of a device of `capacity_bytes` that writes units of `unit_bytes` atomically.
    ///
    /// # Errors
    /// Where the unit is not a power of two.
    pub fn new(capacity_bytes: u64, unit_bytes: u32) -> Result<Self, LogError> {
        if !unit_bytes.is_power_of_two() {
            return Err(LogError::Unit { unit_bytes });
        }
        let contents = BTreeMap::new();
        Ok(Self { capacity_bytes, unit_bytes, entries: Vec::new(), contents, writes: 0, flushes: 0 })
    }

    /// The device's size.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// What the device writes whole or not at all.
    pub fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }

    /// What happened, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// A name that no write has had.
    pub fn next_write(&mut self) -> WriteId {
        self.writes += 1;
        WriteId(self.writes - 1)
    }

    /// A name that no flush has had.
    pub fn next_flush(&mut self) -> FlushId {
        self.flushes += 1;
        FlushId(self.flushes - 1)
    }

    /// Adds what happened last.
    ///
    /// # Errors
    /// For a write that is not inside the device or not of whole units.
    pub fn push(&mut self, at: Nanos, event: Event) -> Result<(), LogError> {
        let event = match event {
            Event::Write { id, offset_bytes, content, fua, order } => {
                check(self.capacity_bytes, self.unit_bytes, offset_bytes, content.len_bytes())?;
                self.writes = self.writes.max(id.0.saturating_add(1));
                let content = match content {
                    Content::Bytes(bytes) => Content::Bytes(self.kept(bytes)),
                    other => other,
                };
                Event::Write { id, offset_bytes, content, fua, order }
            }
            Event::FlushSubmitted(id) => {
                self.flushes = self.flushes.max(id.0.saturating_add(1));
                Event::FlushSubmitted(id)
            }
            other => other,
        };
        self.entries.push(Entry { at, event });
        Ok(())
    }

    /// The bytes as they are kept already, or kept from now on.
    fn kept(&mut self, bytes: Arc<[u8]>) -> Arc<[u8]> {
        let same = self.contents.entry((XxHash3_64::oneshot(&bytes), bytes.len())).or_default();
        match same.iter().find(|kept| **kept == bytes) {
            Some(kept) => Arc::clone(kept),
            None => {
                same.push(Arc::clone(&bytes));
                bytes
            }
        }
    }

    /// Bytes of contents that it holds in memory.
    pub fn content_bytes(&self) -> u64 {
        self.contents.values().flatten().map(|bytes| bytes.len() as u64).sum()
    }
}

fn check(capacity_bytes: u64, unit_bytes: u32, offset_bytes: u64, len_bytes: u64) -> Result<(), LogError> {
    let unit = u64::from(unit_bytes);
    if !offset_bytes.is_multiple_of(unit) || !len_bytes.is_multiple_of(unit) {
        return Err(LogError::Alignment { offset_bytes, len_bytes, unit_bytes });
    }
    match offset_bytes.checked_add(len_bytes) {
        Some(end) if end <= capacity_bytes => Ok(()),
        _ => Err(LogError::Beyond { offset_bytes, len_bytes, capacity_bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_contents_are_kept_once() {
        let mut log = Log::new(1 << 20, 512).unwrap();
        for number in 0..100 {
            let id = log.next_write();
            log.push(Nanos(number), Event::write(id, number * 4096, &[(number % 2) as u8; 4096])).unwrap();
        }
        assert_eq!((log.content_bytes(), log.entries().len()), (8192, 100));
    }

    #[test]
    fn what_no_device_would_take_is_refused() {
        let mut log = Log::new(8192, 512).unwrap();
        let mut said = |offset, len: usize| {
            let id = log.next_write();
            log.push(Nanos(0), Event::write(id, offset, &vec![0; len])).unwrap_err().to_string()
        };
        assert_eq!(said(100, 512), "a write of 512 bytes at 100 does not consist of whole units of 512 bytes");
        assert_eq!(said(512, 100), "a write of 100 bytes at 512 does not consist of whole units of 512 bytes");
        assert!(said(8192, 512).contains("reaches beyond the end of a device of 8192 bytes"));
        assert!(said(u64::MAX - 511, 1024).contains("beyond the end"));
        assert_eq!(Log::new(8192, 500).unwrap_err(), LogError::Unit { unit_bytes: 500 });
        assert_eq!(Log::new(8192, 0).unwrap_err(), LogError::Unit { unit_bytes: 0 });
    }
}
