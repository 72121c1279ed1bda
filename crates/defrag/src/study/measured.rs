//! What a cell came to.

use serde::{Deserialize, Serialize};

/// What a cell came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Names and values; a name ends in its unit where it has one.
    pub counters: Vec<(String, u64)>,
    /// Latency of each request of the measured passes, in nanoseconds; empty where programs of others did the I/O.
    pub latencies_ns: Vec<u64>,
    /// Bytes that these requests moved.
    pub bytes: u64,
    /// Nanoseconds that the measured passes took.
    pub elapsed_ns: u64,
    /// Whether they were writes.
    pub is_write: bool,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl Measured {
    /// Adds a counter.
    pub(super) fn count(&mut self, name: &str, value: u64) {
        self.counters.push((name.to_owned(), value));
    }

    /// A counter's value.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}
