//! The tables of an experiment, from its finished runs.
//!
//! Every row names the spec after overrides (`spec_hash`), the run (`key`: hash
//! of the point's settings, its inputs, the seed and the version), seed and version.

use super::{Cell, Kind, Latency, RunResult, Table};

/// Percentiles with a column each.
const PERCENTILES: [(&str, f64); 6] =
    [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99_9", 99.9), ("p99_99", 99.99)];

/// The columns that say which run a row belongs to.
fn identity_columns(runs: &[RunResult]) -> Vec<(String, Kind)> {
    let mut columns: Vec<(String, Kind)> = vec![
        ("spec_hash".into(), Kind::Text),
        ("key".into(), Kind::Text),
        ("version".into(), Kind::Text),
        ("point".into(), Kind::Integer),
        ("repeat".into(), Kind::Integer),
        ("seed".into(), Kind::Integer),
    ];
    let swept = runs.first().map(|run| run.parameters.as_slice()).unwrap_or_default();
    columns.extend(swept.iter().map(|(key, _)| (key.clone(), Kind::Text)));
    columns
}

fn identity_cells(spec_hash: &str, run: &RunResult) -> Vec<Cell> {
    let mut cells = vec![
        Cell::Text(spec_hash.to_owned()),
        Cell::Text(run.key.clone()),
        Cell::Text(env!("CARGO_PKG_VERSION").to_owned()),
        Cell::Integer(run.point as u64),
        Cell::Integer(run.repeat.into()),
        Cell::Integer(run.seed),
    ];
    cells.extend(run.parameters.iter().map(|(_, value)| Cell::Text(value.clone())));
    cells
}

/// One row a run, job and direction.
pub fn runs(spec_hash: &str, runs: &[RunResult]) -> Table {
    let mut columns = identity_columns(runs);
    columns.extend([("job".into(), Kind::Text), ("direction".into(), Kind::Text)]);
    columns.extend(["ios", "bytes", "runtime_ns"].map(|name| (name.into(), Kind::Integer)));
    columns.extend(["iops", "iops_mean", "bytes_per_s"].map(|name| (name.into(), Kind::Float)));
    for part in ["slat", "clat", "lat"] {
        columns.extend(["mean_ns", "stddev_ns"].map(|name| (format!("{part}_{name}"), Kind::Float)));
        columns.extend(["min_ns", "max_ns"].map(|name| (format!("{part}_{name}"), Kind::Integer)));
        columns.extend(PERCENTILES.map(|(name, _)| (format!("{part}_{name}_ns"), Kind::Integer)));
    }
    let mut table = Table::new(columns);
    for run in runs {
        for job in &run.jobs {
            for direction in &job.directions {
                let mut row = identity_cells(spec_hash, run);
                row.extend([Cell::Text(job.name.clone()), Cell::Text(direction.direction.clone())]);
                row.extend([direction.ios, direction.bytes, direction.runtime_ns].map(Cell::Integer));
                row.extend([direction.iops(), direction.iops_mean, direction.bytes_per_s()].map(Cell::Float));
                for part in [direction.slat.as_ref(), direction.clat.as_ref(), Some(&direction.lat)] {
                    row.extend(latency_cells(part));
                }
                table.push(row);
            }
        }
    }
    table
}

fn latency_cells(latency: Option<&Latency>) -> Vec<Cell> {
    let Some(latency) = latency.filter(|latency| latency.count > 0) else {
        return vec![Cell::Empty; 4 + PERCENTILES.len()];
    };
    let mut cells = vec![
        Cell::Float(latency.mean_ns),
        Cell::Float(latency.stddev_ns),
        Cell::Integer(latency.min_ns),
        Cell::Integer(latency.max_ns),
    ];
    cells.extend(PERCENTILES.map(|(_, percent)| Cell::Integer(latency.percentile_ns(percent))));
    cells
}

/// One row a bin of each total-latency histogram.
pub fn latency(spec_hash: &str, runs: &[RunResult]) -> Table {
    let mut columns = identity_columns(runs);
    columns.extend([("job".into(), Kind::Text), ("direction".into(), Kind::Text)]);
    columns.extend(["latency_ns", "count"].map(|name| (name.into(), Kind::Integer)));
    let mut table = Table::new(columns);
    for run in runs {
        for job in &run.jobs {
            for direction in &job.directions {
                for (value_ns, count) in &direction.lat.bins {
                    let mut row = identity_cells(spec_hash, run);
                    row.extend([Cell::Text(job.name.clone()), Cell::Text(direction.direction.clone())]);
                    row.extend([Cell::Integer(*value_ns), Cell::Integer(*count)]);
                    table.push(row);
                }
            }
        }
    }
    table
}

/// One row a counter of each run.
pub fn counters(spec_hash: &str, runs: &[RunResult]) -> Table {
    let mut columns = identity_columns(runs);
    columns.extend([("counter".into(), Kind::Text), ("value".into(), Kind::Integer)]);
    let mut table = Table::new(columns);
    for run in runs {
        for (name, value) in &run.counters {
            let mut row = identity_cells(spec_hash, run);
            row.extend([Cell::Text(name.clone()), Cell::Integer(*value)]);
            table.push(row);
        }
    }
    table
}
