//! What a run came to.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use stats::Histogram;

use super::operation::Operation;
use super::statistics::Statistics;

/// What a run came to. Latencies are in microseconds, rates by the clock; they are absent where no time has passed, as where
/// everything is in memory and the processor costs nothing.
#[derive(Clone, Serialize, Debug)]
pub struct Report {
    /// The program.
    pub program: String,
    /// How many it had.
    pub threads: usize,
    /// From the moment when all threads began until the last one had ended.
    pub elapsed_s: f64,
    /// Those that count ([`Operation::is_io`]).
    pub operations: u64,
    /// By the clock.
    pub operations_per_s: Option<f64>,
    /// Read and written.
    pub bytes: u64,
    /// From files.
    pub read_bytes: u64,
    /// Into files.
    pub written_bytes: u64,
    /// By the clock; 10^6 bytes.
    pub read_mb_per_s: Option<f64>,
    /// By the clock; 10^6 bytes.
    pub written_mb_per_s: Option<f64>,
    /// Of contents that were read or written, by the programs that look at them: the same bytes at the same places come to the same sum.
    pub contents_sum: u32,
    /// By kind.
    pub by_operation: BTreeMap<&'static str, OperationReport>,
}

/// One kind of operation.
#[derive(Clone, Serialize, Debug)]
#[allow(missing_docs)]
pub struct OperationReport {
    pub count: u64,
    pub bytes: u64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p99_9_us: f64,
    pub max_us: f64,
}

impl OperationReport {
    fn new(bytes: u64, latency: &Histogram) -> Self {
        let percentile = |percent| latency.percentile(percent).0 as f64 / 1e3;
        Self {
            count: latency.count(),
            bytes,
            mean_us: latency.mean_ns() / 1e3,
            p50_us: percentile(50.0),
            p90_us: percentile(90.0),
            p99_us: percentile(99.0),
            p99_9_us: percentile(99.9),
            max_us: latency.max().0 as f64 / 1e3,
        }
    }
}

impl Report {
    pub(super) fn new(program: &str, threads: usize, elapsed: Duration, statistics: Statistics) -> Self {
        let sum = |which: fn(Operation) -> bool, of: fn(&Statistics, Operation) -> u64| -> u64 {
            Operation::ALL.into_iter().filter(|kind| which(*kind)).map(|kind| of(&statistics, kind)).sum()
        };
        let elapsed_s = elapsed.as_secs_f64();
        let rate = |count: f64| (elapsed_s > 0.0).then(|| count / elapsed_s);
        let operations = sum(Operation::is_io, Statistics::count);
        let (read_bytes, written_bytes) =
            (sum(Operation::reads, Statistics::bytes), sum(Operation::writes, Statistics::bytes));
        Self {
            program: program.to_owned(),
            threads,
            elapsed_s,
            operations,
            operations_per_s: rate(operations as f64),
            bytes: read_bytes + written_bytes,
            read_bytes,
            written_bytes,
            read_mb_per_s: rate(read_bytes as f64 / 1e6),
            written_mb_per_s: rate(written_bytes as f64 / 1e6),
            contents_sum: statistics.contents(),
            by_operation: statistics
                .tallies()
                .map(|(operation, tally)| (operation.name(), OperationReport::new(tally.bytes, &tally.latency)))
                .collect(),
        }
    }
}

/// A short table.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        writeln!(
            f,
            "{}: {} threads, {:.6} s, {} operations, {}/s, read {} MB/s, written {} MB/s",
            self.program,
            self.threads,
            self.elapsed_s,
            self.operations,
            rate(self.operations_per_s),
            rate(self.read_mb_per_s),
            rate(self.written_mb_per_s),
        )?;
        writeln!(
            f,
            "{:10} {:>10} {:>14} {:>12} {:>12} {:>12} {:>12}",
            "operation", "count", "bytes", "mean us", "p50 us", "p99 us", "max us"
        )?;
        for operation in Operation::ALL {
            let Some(row) = self.by_operation.get(operation.name()) else { continue };
            writeln!(
                f,
                "{:10} {:>10} {:>14} {:>12.1} {:>12.1} {:>12.1} {:>12.1}",
                operation.name(),
                row.count,
                row.bytes,
                row.mean_us,
                row.p50_us,
                row.p99_us,
                row.max_us
            )?;
        }
        Ok(())
    }
}
