//! What writes carry, and how a verified block is checked.

use sim::rng::Rng;

use super::ledger::Stamp;
use crate::fio::generate::Io;
use crate::fio::parse::{Contents, Verify};
use crate::fio::report::Mismatch;

/// Fills the buffers of a job's writes.
pub(super) struct Filler {
    contents: Contents,
    verify: Verify,
    pattern: Vec<u8>,
    rng: Rng,
    /// The buffer every write starts from, unless it is refilled each time.
    base: Vec<u8>,
}

/// Marks a block as written under `verify`.
const MAGIC: u64 = 0x506c_756d_6256_6679;

/// Magic, offset, length, sequence and checksum, each 8 bytes little-endian.
const HEADER_BYTES: usize = 40;

impl Filler {
    /// Buffers of at most `max_bytes`.
    pub fn new(contents: &Contents, verify: Verify, verify_pattern: &[u8], max_bytes: u64, rng: Rng) -> Self {
        let mut filler =
            Self { contents: contents.clone(), verify, pattern: verify_pattern.to_vec(), rng, base: Vec::new() };
        let mut base = vec![0; max_bytes as usize];
        filler.fill_body(&mut base);
        filler.base = base;
        filler
    }

    /// The bytes of a write, the `sequence`th of its job.
    pub fn fill(&mut self, io: &Io, sequence: u64) -> Box<[u8]> {
        let mut buffer = self.base[..io.bytes as usize].to_vec();
        let compressed = self.contents.compress_percent.is_some();
        let patterned = !self.pattern.is_empty() || (!self.contents.pattern.is_empty() && !compressed);
        let fixed = self.contents.zero || patterned;
        // As fio: compressible buffers imply refill_buffers.
        let refilled = self.contents.refill || compressed;
        if !fixed && refilled {
            self.fill_body(&mut buffer);
        } else if !fixed && self.contents.scramble {
            for (block, number) in buffer.chunks_mut(512).zip(0_u64..) {
                block[..8].copy_from_slice(&(io.offset / 512 + number).to_le_bytes());
                block[8..16].copy_from_slice(&sequence.to_le_bytes());
            }
        }
        if has_header(self.verify) {
            write_header(self.verify, &mut buffer, io, sequence);
        }
        buffer.into_boxed_slice()
    }

    fn fill_body(&mut self, buffer: &mut [u8]) {
        let (rng, contents) = (&mut self.rng, &self.contents);
        let mut fill_random = |part: &mut [u8]| rand::Rng::fill_bytes(rng, part);
        if !self.pattern.is_empty() {
            repeat(&self.pattern, buffer);
        } else if contents.zero {
            buffer.fill(0);
        } else if let Some(percent) = contents.compress_percent {
            let chunk = match contents.compress_chunk_bytes {
                0 => buffer.len().max(1),
                bytes => bytes as usize,
            };
            for part in buffer.chunks_mut(chunk) {
                let random = part.len() * usize::from(100 - percent) / 100;
                let (random, fixed) = part.split_at_mut(random);
                fill_random(random);
                repeat(&contents.pattern, fixed);
            }
        } else if contents.pattern.is_empty() {
            fill_random(buffer);
        } else {
            repeat(&contents.pattern, buffer);
        }
    }
}

/// Fills with the pattern, over and over; with zeroes where there is none.
fn repeat(pattern: &[u8], buffer: &mut [u8]) {
    if pattern.is_empty() {
        buffer.fill(0);
        return;
    }
    for part in buffer.chunks_mut(pattern.len()) {
        part.copy_from_slice(&pattern[..part.len()]);
    }
}

fn has_header(verify: Verify) -> bool {
    matches!(verify, Verify::Crc32c | Verify::Crc64 | Verify::Meta)
}

fn write_header(verify: Verify, buffer: &mut [u8], io: &Io, sequence: u64) {
    let (header, body) = buffer.split_at_mut(HEADER_BYTES);
    let fields = [MAGIC, io.offset, io.bytes, sequence, checksum(verify, body)];
    for (place, field) in header.chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
}

/// Checks a block read back. `stamp` is what its header must say, where known.
pub(super) fn check(
    verify: Verify,
    pattern: &[u8],
    io: &Io,
    stamp: Option<Stamp>,
    data: Option<&[u8]>,
) -> Result<(), Mismatch> {
    let wrong = |reason: String| Err(Mismatch { offset: io.offset, bytes: io.bytes, reason });
    if matches!(verify, Verify::None | Verify::Null) {
        return Ok(());
    }
    let Some(data) = data.filter(|data| data.len() as u64 == io.bytes) else {
        return wrong("the device returned no data for it".to_owned());
    };
    if verify == Verify::Pattern {
        let differs = data.iter().zip(pattern.iter().cycle()).position(|(got, want)| got != want);
        return match differs {
            Some(at) => {
                wrong(format!("byte {at} is {:#04x}, not the pattern's {:#04x}", data[at], pattern[at % pattern.len()]))
            }
            None => Ok(()),
        };
    }
    let (header, body) = data.split_at(HEADER_BYTES);
    let mut fields =
        header.chunks_exact(8).map(|field| field.iter().rev().fold(0_u64, |n, byte| n << 8 | u64::from(*byte)));
    let mut field = || fields.next().unwrap_or(0);
    let (magic, offset, bytes, found, sum) = (field(), field(), field(), field(), field());
    if magic != MAGIC {
        return wrong(format!("bad magic header {magic:#018x}: never written under verify, or lost"));
    }
    if offset != stamp.map_or(io.offset, |stamp| stamp.offset) || bytes != io.bytes {
        return wrong(format!("it holds the block of {bytes} bytes meant for offset {offset}"));
    }
    if let Some(Stamp { sequence, .. }) = stamp.filter(|stamp| stamp.sequence != found) {
        return wrong(format!("it holds write {found} of the job, not the latest, {sequence}"));
    }
    let computed = checksum(verify, body);
    if computed != sum {
        return wrong(format!("checksum {computed:#x} of its contents is not the {sum:#x} written"));
    }
    Ok(())
}

fn checksum(verify: Verify, body: &[u8]) -> u64 {
    match verify {
        Verify::Crc32c => u64::from(crc32c(body)),
        Verify::Crc64 => crc64(body),
        _ => 0,
    }
}

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4), reflected, a byte at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let (mut value, mut bit) = (index as u32, 0);
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0x82f6_3b78 } else { value >> 1 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc: u32, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

/// CRC-64 of ECMA-182, reflected with complements ("CRC-64/XZ").
fn crc64(bytes: &[u8]) -> u64 {
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let (mut value, mut bit) = (index as u64, 0);
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0xc96c_5795_d787_0f42 } else { value >> 1 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc: u64, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::Direction;
    use crate::fio::parse::Options;

    #[test]
    fn checksums_have_their_check_values() {
        // Check values of the CRC catalogue over "123456789".
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
    }

    #[test]
    fn every_damage_is_found() {
        let io = Io { direction: Direction::Write, offset: 8192, bytes: 4096 };
        let stamp = |sequence| Some(Stamp { offset: 8192, sequence });
        let options = Options::default();
        for verify in [Verify::Crc32c, Verify::Crc64] {
            let mut filler = Filler::new(&options.contents, verify, &[], 4096, sim::rng::stream(1, "fill"));
            let block = filler.fill(&io, 7);
            assert_eq!(check(verify, &[], &io, stamp(7), Some(&block)), Ok(()));
            for at in (0..4096).step_by(17) {
                let mut damaged = block.clone();
                damaged[at] ^= 0x20;
                assert!(check(verify, &[], &io, stamp(7), Some(&damaged)).is_err(), "byte {at}");
            }
            let elsewhere = Io { offset: 4096, ..io };
            assert!(check(verify, &[], &elsewhere, Some(Stamp { offset: 4096, sequence: 7 }), Some(&block)).is_err());
            assert!(check(verify, &[], &io, stamp(8), Some(&block)).is_err());
            assert!(check(verify, &[], &io, stamp(7), None).is_err());
        }
    }

    #[test]
    fn buffers_are_as_asked() {
        let io = Io { direction: Direction::Write, offset: 0, bytes: 1024 };
        let mut contents = Options::default().contents;
        let fill = |contents: &Contents| {
            let mut filler = Filler::new(contents, Verify::None, &[], 1024, sim::rng::stream(1, "fill"));
            (filler.fill(&io, 1), filler.fill(&io, 2))
        };
        let (first, second) = fill(&contents);
        assert_ne!(first, second, "scrambled");
        contents.compress_percent = Some(75);
        let (first, _) = fill(&contents);
        assert!(first[128..512].iter().all(|byte| *byte == 0) && first[..128].iter().any(|byte| *byte != 0));
        contents.compress_percent = None;
        contents.pattern = b"abc".to_vec();
        assert_eq!(&fill(&contents).0[..7], b"abcabca");
        contents.zero = true;
        assert!(fill(&contents).0.iter().all(|byte| *byte == 0));
    }
}
