//! Counts, bytes and latencies by kind of operation.

use std::time::Duration;

use stats::Histogram;
use units::Nanos;

use super::operation::Operation;

const PAGE_BYTES: u64 = 4096;

/// Above the bits that a place within a file takes.
const FILE_SHIFT: u32 = 48;

/// What was done of one kind.
#[derive(Clone, Default, Debug)]
pub(super) struct Tally {
    pub(super) bytes: u64,
    pub(super) latency: Histogram,
}

/// What was done, of a thread or of all.
#[derive(Clone, Default, Debug)]
pub struct Statistics {
    /// In the order of [`Operation::ALL`].
    tallies: [Tally; Operation::ALL.len()],
    contents: u32,
}

impl Statistics {
    /// One operation of `bytes` that took `time`.
    pub(super) fn record(&mut self, operation: Operation, bytes: u64, time: Duration) {
        if let Some(tally) = self.tallies.get_mut(operation as usize) {
            tally.bytes += bytes;
            tally.latency.record(Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
        }
    }

    /// Some of what was read or written at a place of a file: what differs from it in order alone comes to the same sum.
    /// A word of each page is looked at, which costs next to nothing beside reading it.
    pub(super) fn see(&mut self, file: usize, offset: u64, bytes: &[u8]) {
        let place = (file as u64) << FILE_SHIFT | offset;
        for (page, at) in bytes.chunks(PAGE_BYTES as usize).zip((place..).step_by(PAGE_BYTES as usize)) {
            let mut word = [0; 8];
            let length = page.len().min(word.len());
            word[..length].copy_from_slice(&page[..length]);
            let mixed = (u64::from_le_bytes(word) ^ at.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.contents = self.contents.wrapping_add((mixed >> 32) as u32);
        }
    }

    /// The sum of what was seen.
    pub(super) fn contents(&self) -> u32 {
        self.contents
    }

    /// Adds what another thread did.
    pub(super) fn merge(&mut self, other: &Self) {
        self.contents = self.contents.wrapping_add(other.contents);
        for (tally, other) in self.tallies.iter_mut().zip(&other.tallies) {
            tally.bytes += other.bytes;
            tally.latency.merge(&other.latency);
        }
    }

    /// The kinds that occurred.
    pub(super) fn tallies(&self) -> impl Iterator<Item = (Operation, &Tally)> {
        Operation::ALL.into_iter().zip(&self.tallies).filter(|(_, tally)| !tally.latency.is_empty())
    }

    /// How often a kind occurred.
    pub fn count(&self, operation: Operation) -> u64 {
        self.tallies.get(operation as usize).map_or(0, |tally| tally.latency.count())
    }

    /// Bytes of a kind.
    pub fn bytes(&self, operation: Operation) -> u64 {
        self.tallies.get(operation as usize).map_or(0, |tally| tally.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_at_the_same_places_come_to_the_same_sum_in_any_order() {
        let bytes: Vec<u8> = (0..40_000_u32).map(|at| ((at * 7) >> 3) as u8).collect();
        let sum = |pieces: &[(usize, usize)]| {
            let mut statistics = [Statistics::default(), Statistics::default()];
            for (number, (from, to)) in pieces.iter().enumerate() {
                statistics[number % 2].see(0, *from as u64, &bytes[*from..*to]);
            }
            let [mut one, other] = statistics;
            one.merge(&other);
            one.contents()
        };
        let whole = sum(&[(0, 40_000)]);
        assert_eq!(whole, sum(&[(8192, 40_000), (0, 8192)]));
        assert_ne!(whole, sum(&[(0, 36_864)]), "the last page is short");
        let mut other = Statistics::default();
        other.see(0, 4096, &bytes);
        assert_ne!(whole, other.contents(), "elsewhere");
        let mut other = Statistics::default();
        other.see(1, 0, &bytes);
        assert_ne!(whole, other.contents(), "in another file");
    }
}
