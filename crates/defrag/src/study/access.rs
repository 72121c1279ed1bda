//! One pass of direct I/O over the files of a layout.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Interleaved, Operation, Pattern, StudyError};

/// Direct I/O begins at multiples of this in memory.
const ALIGN: usize = 4096;
/// The skew of YCSB's requests.
pub(super) const ZIPF_EXPONENT: f64 = 0.99;
/// Separates the random places from the random bytes of one seed.
const PLACES: u64 = 0x706c_6163_6573;

/// Memory for direct I/O.
pub struct Buffer {
    bytes: Vec<u8>,
    begin: usize,
}

impl Buffer {
    /// Of so many bytes.
    pub fn new(length: u64) -> Self {
        let length = usize::try_from(length).unwrap_or(ALIGN);
        let bytes = vec![0; length + ALIGN];
        let begin = bytes.as_ptr().align_offset(ALIGN);
        Self { bytes, begin }
    }

    /// The first of them.
    pub fn first(&mut self, length: u64) -> &mut [u8] {
        let end = usize::try_from(length).map_or(self.bytes.len(), |length| self.begin + length).min(self.bytes.len());
        self.bytes.get_mut(self.begin..end).unwrap_or_default()
    }
}

/// What passes came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Of each request.
    pub latencies_ns: Vec<u64>,
    /// Bytes read or written.
    pub bytes: u64,
    /// With the fdatasync at the end.
    pub elapsed_ns: u64,
}

/// The requests of a pass, in their order: number of the file, first byte.
pub fn places(data: &Interleaved, seed: u64) -> Vec<(usize, u64)> {
    let request = data.request.0;
    let per_file = |step: u64| (0..data.size.0).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let all = |step: u64| {
        (0..data.files as usize).flat_map(|file| per_file(step).map(move |start| (file, start))).collect::<Vec<_>>()
    };
    match data.pattern {
        Pattern::Sequential => all(request),
        Pattern::Stride => all(request.saturating_add(data.skip.0)),
        Pattern::Zipf => {
            let mut places = all(request);
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ PLACES);
            // Which place is how popular: a random order.
            for last in (1..places.len()).rev() {
                places.swap(last, random.random_range(0..=last));
            }
            let Ok(zipf) = Zipf::new(places.len() as f64, ZIPF_EXPONENT) else { return Vec::new() };
            let mut draw = || places.get((zipf.sample(&mut random) as usize).saturating_sub(1)).copied();
            (0..data.requests).filter_map(|_| draw()).collect()
        }
    }
}

/// Does the requests of a pass.
pub fn pass(data: &Interleaved, paths: &[PathBuf], seed: u64) -> Result<Passed, StudyError> {
    let files = paths.iter().map(|path| open(data, path)).collect::<Result<Vec<File>, StudyError>>()?;
    let mut buffer = Buffer::new(data.request.0);
    let places = places(data, seed);
    let mut passed = Passed { latencies_ns: Vec::with_capacity(places.len()), ..Passed::default() };
    let began = Instant::now();
    for (number, start) in places {
        let (Some(file), Some(path)) = (files.get(number), paths.get(number)) else { continue };
        let memory = buffer.first(data.request.0.min(data.size.0 - start));
        let request = Instant::now();
        match data.operation {
            Operation::Read => file.read_exact_at(memory, start).map_err(StudyError::file("read", path))?,
            Operation::Update => file.write_all_at(memory, start).map_err(StudyError::file("write", path))?,
        }
        passed.latencies_ns.push(nanoseconds(request));
        passed.bytes += memory.len() as u64;
    }
    if data.operation == Operation::Update {
        for (path, file) in paths.iter().zip(&files) {
            file.sync_data().map_err(StudyError::file("write out", path))?;
        }
    }
    passed.elapsed_ns = nanoseconds(began);
    Ok(passed)
}

fn open(data: &Interleaved, path: &Path) -> Result<File, StudyError> {
    let mut options = OpenOptions::new();
    options.read(true).write(data.operation == Operation::Update).custom_flags(libc::O_DIRECT);
    options.open(path).map_err(StudyError::file("open", path))
}

pub(super) fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use units::ByteSize;

    use super::*;

    fn data(pattern: Pattern) -> Interleaved {
        Interleaved { pattern, size: ByteSize(64 << 20), files: 2, ..Interleaved::default() }
    }

    #[test]
    fn the_published_patterns() {
        let sequential = places(&data(Pattern::Sequential), 1);
        assert_eq!((sequential.len(), sequential[1], sequential[512]), (1024, (0, 128 << 10), (1, 0)));
        let stride = places(&data(Pattern::Stride), 1);
        assert_eq!((stride.len(), stride[1], stride[158]), (316, (0, 416 << 10), (1, 0)));
    }

    #[test]
    fn some_places_are_hot() {
        let hot = places(&data(Pattern::Zipf), 1);
        assert_eq!(hot.len(), 2048);
        let mut counts = std::collections::BTreeMap::new();
        hot.iter().for_each(|place| *counts.entry(place).or_insert(0) += 1);
        let mut counts: Vec<u32> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // Of 1024 places the hottest tenth gets more than half (67 % of YCSB's requests).
        assert!(counts.iter().take(102).sum::<u32>() > 1024, "{counts:?}");
        assert_eq!(hot, places(&data(Pattern::Zipf), 1));
        assert_ne!(hot, places(&data(Pattern::Zipf), 2));
    }
}
