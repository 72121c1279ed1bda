//! A log as a file.
//!
//! A header of 24 bytes, then a frame for each entry, all numbers little-endian:
//!
//! | header | |
//! |---|---|
//! | 0 | `PLUMBLOG` |
//! | 8 | version, 4 bytes: 3; of version 1 there are kinds up to 8, and version 2 has no parts |
//! | 12 | atomic unit in bytes, 4 bytes |
//! | 16 | capacity in bytes, 8 bytes |
//!
//! | frame | |
//! |---|---|
//! | 0 | kind, 1 byte, as below |
//! | 1 | 1 where the contents are in parts, 1 byte |
//! | 2 | 2 bytes of zero |
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
//! Bytes that the file has already are not in it again. Contents in parts are their number, 4 bytes, and 4 bytes of zero; of each
//! its length and the place in the file where its bytes begin, 8 bytes each, a place of 0 for zeroes; and behind all of them the
//! bytes that only this entry has.
//!
//! Each entry is appended by one write, so the file always ends with a whole frame while its writer lives, and its length names a
//! moment. Of a writer that was killed, the reader leaves out a torn last frame.

mod reader;
mod writer;

pub use reader::LogReader;
pub use writer::LogWriter;

const MAGIC: &[u8; 8] = b"PLUMBLOG";
const VERSION: u32 = 3;
const VERSION_WITHOUT_PARTS: u32 = 2;
const VERSION_WITHOUT_ORDER: u32 = 1;
const HEADER_BYTES: usize = 24;
const FRAME_BYTES: usize = 44;
/// Before the parts, and each of them.
const PARTS_HEAD_BYTES: usize = 8;
const PART_BYTES: usize = 16;
/// Most contents of one frame: far beyond any device's transfer limit.
const CONTENT_BYTES_MAX: u32 = 1 << 30;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;
    use units::Nanos;

    use super::*;
    use crate::log::{Content, Event, FlushId, WriteId};
    use crate::order::{Closing, OrderTuple, WirePlace};

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

    /// All bytes of an event's contents.
    fn bytes_of(event: &Event) -> Vec<u8> {
        let Event::Write { content, .. } = event else { return Vec::new() };
        let mut all = Vec::new();
        content
            .visit(0..content.len_bytes(), |at, len, bytes| {
                assert_eq!(at, all.len() as u64);
                all.extend(bytes.map_or_else(|| vec![0; len as usize], <[u8]>::to_vec));
            })
            .unwrap();
        all
    }

    proptest! {
        /// Blocks that come again, zeroes among them, of writes that begin anywhere.
        #[test]
        fn contents_that_stay_in_the_file_are_those_that_were_written(
            writes in proptest::collection::vec((0..64_u64, proptest::collection::vec(0..4_u8, 1..40)), 1..12),
        ) {
            let events: Vec<Event> = (0..).zip(&writes).map(|(id, (at, units))| {
                let bytes: Vec<u8> = units.iter().flat_map(|value| [*value; 512]).collect();
                Event::write(WriteId(id), at * 512, &bytes)
            }).collect();
            let bytes = file(&events);
            let kept = tempfile::NamedTempFile::new().unwrap();
            kept.as_file().write_all(&bytes).unwrap();
            let (opened, read) = (LogReader::open(kept.path()).unwrap(), LogReader::read(&*bytes).unwrap());
            prop_assert_eq!(&opened.positions_bytes, &read.positions_bytes);
            for ((event, opened), read) in events.iter().zip(opened.log.entries()).zip(read.log.entries()) {
                prop_assert_eq!(&read.event, event);
                prop_assert_eq!(bytes_of(&opened.event), bytes_of(event));
                // What names states is the same for both, and so is a log that is written again.
                let Event::Write { id, offset_bytes, content, .. } = &opened.event else { panic!() };
                let Event::Write { content: plain, .. } = event else { panic!() };
                let digests = |content| {
                    let write = crate::LoggedWrite::new(0, *id, *offset_bytes, content);
                    let mut all = Vec::new();
                    for piece in write.pieces(4096, |part| part % 3 != 1) {
                        piece.digests(512, |number, digest| all.push((number, digest)));
                    }
                    all
                };
                prop_assert_eq!(digests(content), digests(plain));
            }
            let again: Vec<Event> = opened.log.entries().iter().map(|entry| entry.event.clone()).collect();
            prop_assert_eq!(file(&again), bytes);
        }

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
    fn bytes_that_are_there_are_not_written_again() {
        let block = |value: u8| vec![value; 64 << 10];
        let write = |id, value: u8| Event::write(WriteId(id), id * (64 << 10), &block(value));
        let once = file(&[write(0, 7)]).len();
        assert!(file(&[write(0, 7), write(1, 7), write(2, 0), write(3, 7)]).len() < once + 2000);
        assert!(file(&[write(0, 7), write(1, 8)]).len() > once + (64 << 10));
    }

    #[test]
    fn parts_that_are_nowhere_are_refused() {
        let mut bytes = file(&[]);
        let mut behind = [1_u32.to_le_bytes(), [0; 4]].concat();
        behind.extend(512_u64.to_le_bytes());
        behind.extend(1_000_000_u64.to_le_bytes());
        let mut frame = vec![1, 1, 0, 0];
        frame.extend((behind.len() as u32).to_le_bytes());
        for number in [0_u64, 0, 512, 0] {
            frame.extend(number.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&frame), &behind);
        frame.extend(crc.to_le_bytes());
        bytes.extend([frame, behind].concat());
        let error = LogReader::read(&*bytes).unwrap_err().to_string();
        assert!(error.contains("contents that are not there"), "{error}");
    }

    #[test]
    fn logs_without_order_are_read_and_malformed_orders_refused() {
        assert!(forged(1, 5, 3, &[]).starts_with("Completed"));
        assert!(forged(2, 5, 3, &[]).starts_with("Completed"));
        assert!(forged(4, 5, 3, &[]).contains("version is 4, and this program reads versions 1 to 3"));
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
