//! Contents that stay where they were written down: a log is as large as what was written, and memory is not.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::LogError;

/// Read at once, at most.
const CHUNK_BYTES: usize = 256 << 10;

/// What contents are read from.
pub trait Source: Debug + Send + Sync {
    /// Fills `bytes` from this place on.
    ///
    /// # Errors
    /// Where that many bytes are not there, or cannot be read.
    fn read_at(&self, bytes: &mut [u8], at_bytes: u64) -> io::Result<()>;
}

impl Source for File {
    fn read_at(&self, bytes: &mut [u8], at_bytes: u64) -> io::Result<()> {
        self.read_exact_at(bytes, at_bytes)
    }
}

/// A range of the source, or zeroes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) len_bytes: u64,
    /// Where it begins, and the [digest](super::digest) of each of its units; `None` for zeroes.
    pub(super) place: Option<(u64, Arc<[u64]>)>,
}

/// The bytes of a write, in the source.
#[derive(Clone, Debug)]
pub struct Stored {
    pub(super) source: Arc<dyn Source>,
    pub(super) unit_bytes: u32,
    pub(super) runs: Arc<[Run]>,
}

/// Of one log: equal places are equal bytes.
impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        self.runs == other.runs
    }
}

impl Eq for Stored {}

impl Stored {
    /// How many.
    pub fn len_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.len_bytes).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Of each run the part that lies in `range`, as a range of the run, and where that begins in the contents.
    fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (&Run, Range<u64>, u64)> {
        let mut first = 0;
        self.runs.iter().filter_map(move |run| {
            let start = first;
            first += run.len_bytes;
            let (from, to) = (range.start.max(start), range.end.min(first));
            (from < to).then(|| (run, from - start..to - start, from))
        })
    }

    /// Calls `each` with the bytes of a range piece by piece: where they begin, how many, and what they are, `None` for zeroes.
    ///
    /// # Errors
    /// Where the source cannot be read.
    pub fn visit(&self, range: Range<u64>, mut each: impl FnMut(u64, u64, Option<&[u8]>)) -> Result<(), LogError> {
        let mut buffer = Vec::new();
        for (run, within, first) in self.parts(range) {
            let Some((place, _)) = &run.place else {
                each(first, within.end - within.start, None);
                continue;
            };
            let mut at = within.start;
            while at < within.end {
                buffer.resize((within.end - at).min(CHUNK_BYTES as u64) as usize, 0);
                self.source.read_at(&mut buffer, place + at).map_err(|error| LogError::Io(error.to_string()))?;
                each(first + (at - within.start), buffer.len() as u64, Some(&buffer));
                at += buffer.len() as u64;
            }
        }
        Ok(())
    }

    /// The digest of each unit of a range of whole units that is not zeroes, and where it begins.
    pub(crate) fn digests(&self, range: Range<u64>, mut each: impl FnMut(u64, u64)) {
        let unit = u64::from(self.unit_bytes);
        for (run, within, first) in self.parts(range) {
            let Some((_, digests)) = &run.place else { continue };
            let units = (within.start / unit) as usize..within.end.div_ceil(unit) as usize;
            for (number, digest) in (0..).zip(digests.get(units).unwrap_or_default()) {
                if *digest != 0 {
                    each(first + number * unit, *digest);
                }
            }
        }
    }
}
