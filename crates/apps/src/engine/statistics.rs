//! Counts, bytes and latencies by kind of operation.

use std::time::Duration;

use stats::Histogram;
use units::Nanos;

use super::operation::Operation;

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
}

impl Statistics {
    /// One operation of `bytes` that took `time`.
    pub(super) fn record(&mut self, operation: Operation, bytes: u64, time: Duration) {
        if let Some(tally) = self.tallies.get_mut(operation as usize) {
            tally.bytes += bytes;
            tally.latency.record(Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
        }
    }

    /// Adds what another thread did.
    pub(super) fn merge(&mut self, other: &Self) {
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
