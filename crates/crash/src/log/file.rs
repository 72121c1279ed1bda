//! A log as a file.
//!
//! A header of 24 bytes, then a frame for each entry, all numbers little-endian:
//!
//! | header | |
//! |---|---|
//! | 0 | `PLUMBLOG` |
//! | 8 | version, 4 bytes: 2; of version 1 there are kinds up to 8 |
//! | 12 | atomic unit in bytes, 4 bytes |
//! | 16 | capacity in bytes, 8 bytes |
//!
//! | frame | |
//! |---|---|
//! | 0 | kind, 1 byte, as below |
//! | 1 | 3 bytes of zero |
//! | 4 | bytes of contents behind the frame, 4 bytes |
//! | 8 | name of the write or flush, the mark's value, or the stream and behind it the epoch of its first writes, 2 bytes each; 8 bytes |
//! | 16 | offset in bytes, 8 bytes |
//! | 24 | length in bytes, 8 bytes |
//! | 32 | when, in nanoseconds, 8 bytes |
//! | 40 | CRC-32C of the frame so far and of the contents, 4 bytes |
//! | 44 | the contents, of an ordered write behind its tuple |
//!
//! Kinds: 1 write, 2 write with FUA, 3 zeroes, 4 zeroes with FUA, 5 completed, 6 flush submitted, 7 flush completed, 8 mark,
//! 9 ordered write, 10 ordered write with FUA, 11 stream opened, 12 stream closed.
//!
//! | tuple | |
//! |---|---|
//! | 0 | submission queue, 2 bytes |
//! | 2 | closing, 2 bytes: 0 none, 1 by arrival, 2 counted |
//! | 4 | first stream and its epoch, 2 bytes each; 0: none |
//! | 8 | second stream and its epoch |
//! | 12 | 4 bytes of zero |
//! | 16 | blocks of the epoch in the first stream, 4 bytes |
//! | 20 | blocks of the epoch in the second stream, 4 bytes |
//!
//! Each entry is appended by one write, so the file always ends with a whole frame while its writer lives, and its length names a
//! moment. Of a writer that was killed, the reader leaves out a torn last frame.

use std::io::{self, Read, Write};
use std::sync::Arc;

use units::Nanos;

use super::{Content, Event, FlushId, Log, LogError, WriteId};
use crate::order::OrderTuple;

const MAGIC: &[u8; 8] = b"PLUMBLOG";
const VERSION: u32 = 2;
const VERSION_WITHOUT_ORDER: u32 = 1;
const HEADER_BYTES: usize = 24;
const FRAME_BYTES: usize = 44;
/// Most contents of one frame: far beyond any device's transfer limit.
const CONTENT_BYTES_MAX: u32 = 1 << 30;

/// Appends entries to a file or a pipe.
#[derive(Debug)]
pub struct LogWriter<W> {
    to: W,
    frame: Vec<u8>,
}

impl<W: Write> LogWriter<W> {
    /// Begins a log of a device of `capacity_bytes` with this atomic unit.
    ///
    /// # Errors
    /// What `to` says.
    pub fn new(mut to: W, capacity_bytes: u64, unit_bytes: u32) -> io::Result<Self> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&unit_bytes.to_le_bytes());
        header.extend_from_slice(&capacity_bytes.to_le_bytes());
        to.write_all(&header)?;
        Ok(Self { to, frame: Vec::new() })
    }

    /// Appends what happened last, in one write.
    ///
    /// # Errors
    /// What the file says; the log ends there.
    pub fn append(&mut self, at: Nanos, event: &Event) -> io::Result<()> {
        let mut tuple = None;
        let (kind, name, offset_bytes, content) = match event {
            Event::Write { id, offset_bytes, content, fua, order } => {
                let kind = match content {
                    // Only a write of bytes has the fields.
                    Content::Bytes(_) if *order != OrderTuple::NONE => {
                        tuple = Some(order.to_bytes());
                        9
                    }
                    Content::Bytes(_) => 1,
                    Content::Zeroes(_) => 3,
                };
                (kind + u8::from(*fua), id.0, *offset_bytes, Some(content))
            }
            Event::Completed(id) => (5, id.0, 0, None),
            Event::FlushSubmitted(id) => (6, id.0, 0, None),
            Event::FlushCompleted(id) => (7, id.0, 0, None),
            Event::Mark(value) => (8, *value, 0, None),
            Event::StreamOpened { stream, first } => (11, u64::from(*stream) | u64::from(*first) << 16, 0, None),
            Event::StreamClosed(stream) => (12, u64::from(*stream), 0, None),
        };
        let len_bytes = content.map_or(0, Content::len_bytes);
        let bytes: &[u8] = content.and_then(|content| content.part(0..len_bytes)).unwrap_or_default();
        let tuple = tuple.as_ref().map_or(&[][..], |tuple| tuple);
        let behind = u32::try_from(tuple.len() + bytes.len()).ok().filter(|len| *len <= CONTENT_BYTES_MAX);
        let behind = behind.ok_or_else(|| io::Error::other("a write of more than 1 GiB does not go into a log"))?;
        self.frame.clear();
        self.frame.extend_from_slice(&[kind, 0, 0, 0]);
        self.frame.extend_from_slice(&behind.to_le_bytes());
        for number in [name, offset_bytes, len_bytes, at.0] {
            self.frame.extend_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&self.frame), tuple);
        self.frame.extend_from_slice(&crc32c::crc32c_append(crc, bytes).to_le_bytes());
        self.frame.extend_from_slice(tuple);
        self.frame.extend_from_slice(bytes);
        self.to.write_all(&self.frame)
    }
}

/// Reads a log.
#[derive(Debug)]
pub struct LogReader {
    /// What it holds.
    pub log: Log,
    /// Where each entry begins in the file, and at last where the last one ends.
    pub positions_bytes: Vec<u64>,
}

impl LogReader {
    /// Reads all of `from`. A torn last frame is left out.
    ///
    /// # Errors
    /// For a file that is no log, a damaged frame before the last, and what `from` says.
    pub fn read(mut from: impl Read) -> Result<Self, LogError> {
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
        let mut read = Self { log: Log::new(u64_at(&header, 16), u32_at(&header, 12))?, positions_bytes: Vec::new() };
        let mut at_bytes = HEADER_BYTES as u64;
        loop {
            read.positions_bytes.push(at_bytes);
            match next_frame(&mut from, at_bytes, version)? {
                Some((at, event, len_bytes)) => {
                    let damaged = |error: LogError| LogError::Damaged { at_bytes, what: error.to_string() };
                    read.log.push(at, event).map_err(damaged)?;
                    at_bytes += len_bytes;
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

/// The entry at `at_bytes` with its length; none at the end.
fn next_frame(from: &mut impl Read, at_bytes: u64, version: u32) -> Result<Option<(Nanos, Event, u64)>, LogError> {
    let mut frame = Vec::with_capacity(FRAME_BYTES);
    if !fill(from, &mut frame, FRAME_BYTES)? {
        return Ok(None);
    }
    let damaged = |what: &str| LogError::Damaged { at_bytes, what: what.to_owned() };
    let behind = u32_at(&frame, 4);
    if behind > CONTENT_BYTES_MAX {
        return Err(damaged("contents of more than 1 GiB"));
    }
    let mut bytes = Vec::new();
    if !fill(from, &mut bytes, behind as usize)? {
        return Ok(None);
    }
    if crc32c::crc32c_append(crc32c::crc32c(&frame[..40]), &bytes) != u32_at(&frame, 40) {
        return Err(damaged("its checksum does not fit"));
    }
    let (name, offset_bytes, len_bytes) = (u64_at(&frame, 8), u64_at(&frame, 16), u64_at(&frame, 24));
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
    let event = match frame[0] {
        kind @ (1 | 2) => write(Content::Bytes(Arc::from(bytes)), kind == 2, OrderTuple::NONE)?,
        kind @ (3 | 4) if behind == 0 => write(Content::Zeroes(len_bytes), kind == 4, OrderTuple::NONE)?,
        5 if behind == 0 => Event::Completed(WriteId(name)),
        6 if behind == 0 => Event::FlushSubmitted(FlushId(name)),
        7 if behind == 0 => Event::FlushCompleted(FlushId(name)),
        8 if behind == 0 => Event::Mark(name),
        kind @ (9 | 10) if version > VERSION_WITHOUT_ORDER => {
            let tuple =
                bytes.split_first_chunk().and_then(|(tuple, rest)| Some((OrderTuple::from_bytes(tuple)?, rest)));
            let (order, content) = tuple.ok_or_else(|| damaged("an ordered write whose tuple is none"))?;
            write(Content::Bytes(Arc::from(content)), kind == 10, order)?
        }
        11 if behind == 0 && version > VERSION_WITHOUT_ORDER => {
            Event::StreamOpened { stream: stream(0xffff_0000)?, first: (name >> 16) as u16 }
        }
        12 if behind == 0 && version > VERSION_WITHOUT_ORDER => Event::StreamClosed(stream(0)?),
        kind => return Err(damaged(&format!("an entry of kind {kind}"))),
    };
    Ok(Some((Nanos(u64_at(&frame, 32)), event, FRAME_BYTES as u64 + u64::from(behind))))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::order::{Closing, WirePlace};

    const CAPACITY: u64 = 1 << 20;

    fn tuple() -> impl Strategy<Value = OrderTuple> {
        let closing = prop_oneof![
            Just(Closing::None),
            Just(Closing::ByArrival),
            any::<(u32, u32)>()
                .prop_map(|(first_blocks, second_blocks)| Closing::Counted { first_blocks, second_blocks }),
        ];
        let ordered =
            (any::<[u16; 5]>(), closing).prop_map(|([queue, stream, epoch, other, at], closing)| OrderTuple {
                queue,
                first: WirePlace { stream, epoch },
                second: WirePlace { stream: other, epoch: at },
                closing,
            });
        prop_oneof![Just(OrderTuple::NONE), ordered]
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let place = (0..CAPACITY / 512 - 8, 1..8_u64, any::<u8>(), any::<bool>());
        let event = prop_oneof![
            (any::<u32>(), place.clone(), tuple()).prop_map(|(id, (at, units, value, fua), order)| Event::Write {
                id: WriteId(id.into()),
                offset_bytes: at * 512,
                content: Content::Bytes(vec![value; units as usize * 512].into()),
                fua,
                order,
            }),
            (any::<u32>(), place).prop_map(|(id, (at, units, _, fua))| {
                Event::write_of(WriteId(id.into()), at * 512, Content::Zeroes(units * 512), fua)
            }),
            (1..=u16::MAX, any::<u16>()).prop_map(|(stream, first)| Event::StreamOpened { stream, first }),
            (1..=u16::MAX).prop_map(Event::StreamClosed),
            any::<u64>().prop_map(|id| Event::Completed(WriteId(id))),
            any::<u32>().prop_map(|id| Event::FlushSubmitted(FlushId(id.into()))),
            any::<u64>().prop_map(|id| Event::FlushCompleted(FlushId(id))),
            any::<u64>().prop_map(Event::Mark),
        ];
        proptest::collection::vec(event, 0..20)
    }

    fn file(events: &[Event]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = LogWriter::new(&mut bytes, CAPACITY, 512).unwrap();
        for (at, event) in events.iter().enumerate() {
            writer.append(Nanos(at as u64 * 10), event).unwrap();
        }
        bytes
    }

    proptest! {
        #[test]
        fn a_file_is_read_as_it_was_written(events in events()) {
            let bytes = file(&events);
            let read = LogReader::read(&*bytes).unwrap();
            let found: Vec<Event> = read.log.entries().iter().map(|entry| entry.event.clone()).collect();
            prop_assert_eq!(&found, &events);
            prop_assert_eq!(read.positions_bytes.last().copied(), Some(bytes.len() as u64));
            for (count, position) in read.positions_bytes.iter().enumerate() {
                prop_assert_eq!(read.entries_at(*position), count);
            }
        }

        #[test]
        fn a_file_cut_anywhere_is_a_prefix(events in events(), cut in any::<prop::sample::Index>()) {
            let bytes = file(&events);
            let cut = cut.index(bytes.len() + 1);
            match LogReader::read(&bytes[..cut]) {
                Ok(read) => {
                    let found: Vec<Event> = read.log.entries().iter().map(|entry| entry.event.clone()).collect();
                    prop_assert!(events.starts_with(&found));
                    prop_assert!(read.positions_bytes.last().is_some_and(|end| *end <= cut as u64));
                }
                Err(error) => prop_assert!(cut < HEADER_BYTES, "{}", error),
            }
        }

        #[test]
        fn a_flipped_bit_of_a_frame_is_found(events in events(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let mut bytes = file(&events);
            prop_assume!(bytes.len() > HEADER_BYTES);
            let at = HEADER_BYTES + at.index(bytes.len() - HEADER_BYTES);
            bytes[at] ^= 1 << bit;
            // A length that grew beyond the end of the file looks like a torn end: fewer entries, and none of them wrong.
            if let Ok(read) = LogReader::read(&*bytes) {
                let found: Vec<Event> = read.log.entries().iter().map(|entry| entry.event.clone()).collect();
                prop_assert!(found.len() < events.len() && events.starts_with(&found));
            }
        }

        #[test]
        fn any_bytes_are_an_error_or_a_log(bytes in proptest::collection::vec(any::<u8>(), 0..300), magic in any::<bool>()) {
            let mut file = file(&[]);
            file.extend_from_slice(&bytes);
            let _ = LogReader::read(&*if magic { file } else { bytes });
        }
    }

    /// A log with this version and these frames behind it, checksums made right.
    fn forged(version: u32, kind: u8, name: u64, behind: &[u8]) -> String {
        let mut bytes = file(&[]);
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let mut frame = vec![kind, 0, 0, 0];
        frame.extend_from_slice(&(behind.len() as u32).to_le_bytes());
        for number in [name, 0, behind.len().saturating_sub(OrderTuple::BYTES) as u64, 0] {
            frame.extend_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&frame), behind);
        frame.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&frame);
        bytes.extend_from_slice(behind);
        LogReader::read(&*bytes)
            .map_or_else(|error| error.to_string(), |read| format!("{:?}", read.log.entries()[0].event))
    }

    #[test]
    fn logs_without_order_are_read_and_malformed_orders_refused() {
        assert!(forged(1, 5, 3, &[]).starts_with("Completed"));
        assert!(forged(2, 5, 3, &[]).starts_with("Completed"));
        assert!(forged(3, 5, 3, &[]).contains("version is 3, and this program reads versions 1 to 2"));
        assert!(forged(0, 5, 3, &[]).contains("version is 0"));
        for kind in 9..=12 {
            assert!(forged(1, kind, 3, &[]).contains("an entry of kind"), "{kind} in version 1");
        }
        let place = WirePlace { stream: 4, epoch: 5 };
        let tuple = OrderTuple { queue: 1, first: place, second: WirePlace::default(), closing: Closing::ByArrival };
        let good = tuple.to_bytes();
        let with = |at: usize, value: u8| {
            let mut bytes = [&good[..], &[0; 512]].concat();
            bytes[at] = value;
            forged(2, 9, 0, &bytes)
        };
        assert!(with(0, 1).starts_with("Write"), "{}", with(0, 1));
        for (at, value) in [(2, 3), (3, 1), (12, 1), (15, 9), (16, 1), (20, 1)] {
            assert!(with(at, value).contains("tuple is none"), "byte {at}: {}", with(at, value));
        }
        assert!(forged(2, 9, 0, &good[..23]).contains("tuple is none"));
        assert!(forged(2, 11, 0, &[]).contains("stream 0") && forged(2, 12, 1 << 16, &[]).contains("16 bits"));
        assert!(forged(2, 11, 1 << 32 | 1, &[]).contains("16 bits"));
        assert_eq!(forged(2, 11, 7 << 16 | 9, &[]), "StreamOpened { stream: 9, first: 7 }");
    }
}
