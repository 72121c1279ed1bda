//! Options of contents: verification and buffers.

use super::{OptionSpec, bit, flag, name_of, one_of, typed, unless};
use crate::fio::parse::options::Verify;
use crate::fio::parse::value::print_pattern;

const VERIFY: &[(&str, Verify)] = &[
    ("0", Verify::None),
    ("crc32c", Verify::Crc32c),
    ("crc32c-intel", Verify::Crc32c),
    ("crc64", Verify::Crc64),
    ("meta", Verify::Meta),
    ("pattern", Verify::Pattern),
    ("null", Verify::Null),
];

pub(super) static OPTIONS: &[OptionSpec] = &[
    typed(
        "verify",
        &[],
        "crc32c|crc32c-intel|crc64|meta|pattern|null|0",
        "Writes carry a header (offset, length, sequence, checksum) and are read back and checked after the write phase; reads of a reading job are checked as they complete. Needs a device that keeps contents, except null. fio's other checksums are not supported.",
        |o, v| {
            o.verify = one_of(v, VERIFY)?;
            Ok(())
        },
        |o| unless(&o.verify, &Verify::None, |verify| name_of(*verify, VERIFY)),
    ),
    typed(
        "verify_pattern",
        &[],
        "0xHEX | decimal | \"text\"",
        "The bytes verify=pattern writes and expects, and what fills a checksummed block.",
        |o, v| {
            o.verify_pattern = v.pattern()?;
            Ok(())
        },
        |o| (!o.verify_pattern.is_empty()).then(|| print_pattern(&o.verify_pattern)),
    ),
    flag(
        "do_verify",
        &[],
        "Whether the write phase is followed by the read-back. Default 1.",
        |o, v| {
            o.do_verify = v.boolean()?;
            Ok(())
        },
        |o| (!o.do_verify).then(|| "0".to_owned()),
    ),
    flag(
        "verify_fatal",
        &[],
        "Stops the job at the first mismatch.",
        |o, v| {
            o.verify_fatal = v.boolean()?;
            Ok(())
        },
        |o| bit(o.verify_fatal),
    ),
    flag(
        "zero_buffers",
        &[],
        "Writes carry zeroes. This and the next options matter where the device keeps contents.",
        |o, v| {
            o.contents.zero = v.boolean()?;
            Ok(())
        },
        |o| bit(o.contents.zero),
    ),
    flag(
        "refill_buffers",
        &[],
        "New random bytes for every write, instead of one buffer with a new stamp.",
        |o, v| {
            o.contents.refill = v.boolean()?;
            Ok(())
        },
        |o| bit(o.contents.refill),
    ),
    flag(
        "scramble_buffers",
        &[],
        "Stamps offset and sequence into each 512 bytes so that no two writes are alike. Default 1.",
        |o, v| {
            o.contents.scramble = v.boolean()?;
            Ok(())
        },
        |o| (!o.contents.scramble).then(|| "0".to_owned()),
    ),
    typed(
        "buffer_pattern",
        &[],
        "0xHEX | decimal | \"text\"",
        "Writes carry this pattern, repeated.",
        |o, v| {
            o.contents.pattern = v.pattern()?;
            Ok(())
        },
        |o| (!o.contents.pattern.is_empty()).then(|| print_pattern(&o.contents.pattern)),
    ),
    typed(
        "buffer_compress_percentage",
        &[],
        "percent",
        "This much of each chunk is pattern (or zero), the rest random.",
        |o, v| {
            o.contents.compress_percent = Some(v.percent()?);
            Ok(())
        },
        |o| o.contents.compress_percent.map(|p| p.to_string()),
    ),
    typed(
        "buffer_compress_chunk",
        &[],
        "size",
        "The chunk of buffer_compress_percentage; 0 is the whole block. Default 512.",
        |o, v| {
            o.contents.compress_chunk_bytes = v.small(0..=1 << 30)?;
            Ok(())
        },
        |o| unless(&o.contents.compress_chunk_bytes, &512, u32::to_string),
    ),
];
