//! One file of finished runs, one behind the other, as what it is read back as
//! shows: a frame is whole, or it is not there.
//!
//! ```text
//! frame = magic, key, length of the body, BLAKE3 of key and body, body
//! body  = the run's record as JSON, deflated (RFC 1951)
//! ```
//!
//! A frame that was cut short or changed is passed over; reading goes on at the
//! next magic, so that damage costs the runs that it touches and no other.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::RunResult;

/// Begins a frame. Not a byte sequence that JSON or deflated JSON is likely to
/// hold; where one does, the checksum tells. The digit is the format's.
const MAGIC: [u8; 8] = *b"\x93Plumb1\n";
/// Hex digits of a key (see `Point::key`).
const KEY_BYTES: usize = 16;
const SUM_BYTES: usize = 16;
const HEAD_BYTES: usize = MAGIC.len() + KEY_BYTES + 4 + SUM_BYTES;
/// A longer body is a damaged length: the largest records are some megabytes.
const BODY_BYTES_MAX: u32 = 1 << 30;

/// Where a whole frame lies in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramePosition {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// What a file of runs holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Keys and places of the whole frames, in the file's order.
    pub(super) frames: Vec<(String, FramePosition)>,
    /// Offsets at which something else than a whole frame begins.
    pub(super) damaged_at: Vec<u64>,
}

/// The frame of a finished run; `None` where its key is none of Plumb's or it
/// is too long.
pub(super) fn frame(run: &RunResult) -> io::Result<Vec<u8>> {
    let mut body = DeflateEncoder::new(Vec::new(), Compression::fast());
    serde_json::to_writer(&mut body, run)?;
    let body = body.finish()?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length <= BODY_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("the record of a run is longer than a gigabyte"))?;
    if run.key.len() != KEY_BYTES {
        return Err(io::Error::other(format!("`{}` is not the key of a run", run.key)));
    }
    let mut frame = Vec::with_capacity(HEAD_BYTES + body.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(run.key.as_bytes());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&sum(run.key.as_bytes(), &body));
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// The run in a frame that [`scan`] found.
pub(super) fn run_of(frame: &[u8]) -> io::Result<RunResult> {
    let body = frame.get(HEAD_BYTES..).ok_or(io::ErrorKind::UnexpectedEof)?;
    // From a slice: serde_json reads those several times as fast as readers.
    let mut text = Vec::with_capacity(body.len() * 8);
    DeflateDecoder::new(body).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn sum(key: &[u8], body: &[u8]) -> [u8; SUM_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key).update(body);
    let mut sum = [0; SUM_BYTES];
    sum.copy_from_slice(&hasher.finalize().as_bytes()[..SUM_BYTES]);
    sum
}

/// Reads a file of runs to its end.
pub(super) fn scan(path: &Path) -> io::Result<Scan> {
    let file = File::open(path)?;
    let end = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut found = Scan::default();
    let mut body = Vec::new();
    let mut at = 0;
    while at < end {
        match whole_frame(&mut reader, end - at, &mut body)? {
            Some(key) => {
                let bytes = (HEAD_BYTES + body.len()) as u64;
                found.frames.push((key, FramePosition { offset: at, bytes }));
                at += bytes;
            }
            None => {
                found.damaged_at.push(at);
                at = next_magic(&mut reader, at + 1)?.unwrap_or(end);
                reader.seek(SeekFrom::Start(at))?;
            }
        }
    }
    Ok(found)
}

/// The key of the frame at the reader's place, and its body in `body`; `None`
/// unless it is whole.
fn whole_frame(reader: &mut impl Read, left: u64, body: &mut Vec<u8>) -> io::Result<Option<String>> {
    let mut head = [0; HEAD_BYTES];
    if left < HEAD_BYTES as u64 {
        return Ok(None);
    }
    reader.read_exact(&mut head)?;
    let (magic, rest) = head.split_at(MAGIC.len());
    let (key, rest) = rest.split_at(KEY_BYTES);
    let (length, known_sum) = rest.split_at(4);
    let length = length.try_into().map_or(u32::MAX, u32::from_le_bytes);
    if magic != MAGIC || length > BODY_BYTES_MAX || u64::from(length) > left - HEAD_BYTES as u64 {
        return Ok(None);
    }
    body.resize(length as usize, 0);
    reader.read_exact(body)?;
    let whole = sum(key, body) == known_sum;
    Ok(std::str::from_utf8(key).ok().filter(|_| whole).map(str::to_owned))
}

/// Offset of the first magic at `from` or after it.
fn next_magic(reader: &mut (impl Read + Seek), from: u64) -> io::Result<Option<u64>> {
    reader.seek(SeekFrom::Start(from))?;
    let mut window = Vec::new();
    let mut at = from;
    loop {
        let read = reader.by_ref().take(1 << 16).read_to_end(&mut window)?;
        if let Some(place) = window.windows(MAGIC.len()).position(|bytes| bytes == MAGIC) {
            return Ok(Some(at + place as u64));
        }
        if read == 0 {
            return Ok(None);
        }
        // A magic may begin in the last bytes of this window.
        let passed = window.len().saturating_sub(MAGIC.len() - 1);
        window.drain(..passed);
        at += passed as u64;
    }
}

/// The bytes of a frame.
pub(super) fn read(file: &mut File, place: FramePosition) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(place.bytes).map_err(io::Error::other)?];
    file.seek(SeekFrom::Start(place.offset))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Appends a frame; what was written of it goes again where not all could be.
pub(super) fn append(file: &mut File, at: u64, frame: &[u8]) -> io::Result<FramePosition> {
    file.seek(SeekFrom::Start(at))?;
    file.write_all(frame).inspect_err(|_| {
        // A full disk must not stay full of our leftovers.
        let _ = file.set_len(at);
    })?;
    Ok(FramePosition { offset: at, bytes: frame.len() as u64 })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run that some text makes a little longer or shorter.
    pub(in crate::results) fn run(key: &str, text: &str) -> RunResult {
        RunResult { key: key.to_owned(), text: text.to_owned(), ..RunResult::default() }
    }

    fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn damage_costs_what_it_touches() {
        let keys = ["0123456789abcdef", "1123456789abcdef", "2123456789abcdef"];
        let frames: Vec<Vec<u8>> = keys.iter().map(|key| frame(&run(key, &key.repeat(9))).unwrap()).collect();
        let whole = frames.concat();
        let ends: Vec<usize> = frames
            .iter()
            .scan(0, |end, frame| {
                *end += frame.len();
                Some(*end)
            })
            .collect();
        let names = |scan: &Scan| scan.frames.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        assert_eq!(names(&scan(file_of(&whole).path()).unwrap()), keys);
        // Cut off at every byte.
        for cut in 0..whole.len() {
            let found = scan(file_of(&whole[..cut]).path()).unwrap();
            let complete = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(names(&found), keys[..complete], "cut at {cut}");
            let damaged = cut > 0 && !ends.contains(&cut);
            assert_eq!(!found.damaged_at.is_empty(), damaged, "cut at {cut}: {found:?}");
        }
        // Every byte changed.
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            let file = file_of(&changed);
            let found = scan(file.path()).unwrap();
            let hit = ends.iter().position(|end| at < *end).unwrap();
            let others: Vec<_> = (0..3).filter(|index| *index != hit).map(|index| keys[index]).collect();
            assert_eq!(names(&found), others, "byte {at}");
            let (key, place) = &found.frames[0];
            let bytes = read(&mut File::open(file.path()).unwrap(), *place).unwrap();
            assert_eq!(run_of(&bytes).unwrap().key, *key);
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_runs() {
        for length in [1usize, 7, 8, 43, 44, 45, 65_536, 200_000] {
            let bytes: Vec<u8> = (0..length).map(|n| MAGIC[n % 8]).collect();
            let found = scan(file_of(&bytes).path()).unwrap();
            assert!(found.frames.is_empty() && found.damaged_at[0] == 0, "{length}");
        }
        assert_eq!(scan(file_of(&[]).path()).unwrap(), Scan::default());
    }
}
