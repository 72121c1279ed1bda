//! The tables of an experiment, from its finished runs.
//!
//! Every row names the spec after overrides (`spec_hash`), the run (`key`: hash
//! of the point's settings, its inputs, the seed and the version), seed and version.

use std::path::Path;

use super::file::TableFile;
use super::{Cell, Kind, Latency, ResultError, RunResult, Swept};

/// Percentiles with a column each.
const PERCENTILES: [(&str, f64); 6] =
    [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99_9", 99.9), ("p99_99", 99.99)];

/// The tables of an experiment while its runs are added, one after the other.
pub struct Tables {
    spec_hash: String,
    swept: Vec<Swept>,
    /// One row a run, job and direction.
    runs: TableFile,
    /// One row a bin of each total-latency histogram.
    latency: TableFile,
    /// One row a counter of each run.
    counters: TableFile,
    /// One row a metric of each run of a program.
    program: Option<TableFile>,
    /// One row an interval of each run, job and direction.
    series: Option<TableFile>,
}

/// Tables that not every experiment has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Optional {
    /// The time series.
    pub series: bool,
    /// The metrics of programs.
    pub program: bool,
}

impl Tables {
    /// Begins the tables in `folder`.
    pub fn create(folder: &Path, spec_hash: &str, swept: &[Swept], optional: Optional) -> Result<Self, ResultError> {
        let both = [true, true];
        let only_parquet = [false, true];
        let create =
            |name: &str, own: Vec<(String, Kind)>, files| TableFile::create(folder, name, columns(swept, own), files);
        let series = optional.series.then(|| create("series", series_columns(), only_parquet)).transpose()?;
        let program = optional.program.then(|| create("program", program_columns(), both)).transpose()?;
        Ok(Self {
            runs: create("runs", run_columns(), both)?,
            latency: create("latency", latency_columns(), only_parquet)?,
            counters: create("counters", counter_columns(), both)?,
            program,
            series,
            spec_hash: spec_hash.to_owned(),
            swept: swept.to_vec(),
        })
    }

    /// Adds a run.
    pub fn add(&mut self, run: &RunResult) -> Result<(), ResultError> {
        let identity = self.identity(run);
        for (name, value) in &run.counters {
            let own = [Cell::Text(name.clone()), Cell::Integer(*value)];
            self.counters.push(identity.iter().cloned().chain(own).collect())?;
        }
        if let Some(program) = &mut self.program {
            for (name, value) in &run.values {
                let own = [Cell::Text(name.clone()), Cell::Float(*value)];
                program.push(identity.iter().cloned().chain(own).collect())?;
            }
        }
        for job in &run.jobs {
            for part in &job.directions {
                let mut identity = identity.clone();
                identity.extend([Cell::Text(job.name.clone()), Cell::Text(part.direction.clone())]);
                let row = |own: &[Cell]| identity.iter().chain(own).cloned().collect::<Vec<_>>();
                for (value_ns, count) in part.lat.bins.iter() {
                    self.latency.push(row(&[Cell::Integer(value_ns), Cell::Integer(count)]))?;
                }
                if let Some(series) = &mut self.series {
                    for interval in part.series.intervals() {
                        series.push(row(&[
                            Cell::Integer(interval.start_ns),
                            Cell::Integer(part.series.interval_ns),
                            Cell::Integer(interval.bytes),
                            Cell::Integer(interval.ios),
                            interval.lat_mean_ns.map_or(Cell::Empty, Cell::Float),
                            interval.lat_max_ns.map_or(Cell::Empty, Cell::Integer),
                        ]))?;
                    }
                }
                let mut own: Vec<Cell> = [part.ios, part.bytes, part.runtime_ns].map(Cell::Integer).into();
                own.extend([part.iops(), part.iops_mean, part.bytes_per_s()].map(Cell::Float));
                for latency in [part.slat.as_ref(), part.clat.as_ref(), Some(&part.lat)] {
                    own.extend(latency_cells(latency));
                }
                self.runs.push(row(&own))?;
            }
        }
        Ok(())
    }

    /// Keeps the files; their names and hashes.
    pub fn finish(self) -> Result<Vec<(String, String)>, ResultError> {
        let mut kept = Vec::new();
        let files = [Some(self.runs), Some(self.latency), Some(self.counters), self.program, self.series];
        for file in files.into_iter().flatten() {
            kept.extend(file.finish()?);
        }
        Ok(kept)
    }

    /// The cells that say which run a row belongs to.
    fn identity(&self, run: &RunResult) -> Vec<Cell> {
        let mut cells = vec![
            Cell::Text(self.spec_hash.clone()),
            Cell::Text(run.key.clone()),
            Cell::Text(env!("CARGO_PKG_VERSION").to_owned()),
            Cell::Integer(run.point as u64),
            Cell::Integer(run.repeat.into()),
            Cell::Integer(run.seed),
        ];
        cells.extend(self.swept.iter().zip(&run.parameters).flat_map(|(swept, (_, value))| swept.cells(value)));
        cells
    }
}

/// The columns that say which run a row belongs to, and a table's own. A swept
/// key that has the name of another column is called `swept.KEY`.
fn columns(swept: &[Swept], own: Vec<(String, Kind)>) -> Vec<(String, Kind)> {
    let mut columns: Vec<(String, Kind)> = vec![
        ("spec_hash".into(), Kind::Text),
        ("key".into(), Kind::Text),
        ("version".into(), Kind::Text),
        ("point".into(), Kind::Integer),
        ("repeat".into(), Kind::Integer),
        ("seed".into(), Kind::Integer),
    ];
    for (mut name, kind) in swept.iter().flat_map(Swept::columns) {
        while columns.iter().chain(&own).any(|(taken, _)| *taken == name) {
            name.insert_str(0, "swept.");
        }
        columns.push((name, kind));
    }
    columns.extend(own);
    columns
}

fn of_direction(own: impl IntoIterator<Item = (String, Kind)>) -> Vec<(String, Kind)> {
    let mut columns = vec![("job".into(), Kind::Text), ("direction".into(), Kind::Text)];
    columns.extend(own);
    columns
}

fn run_columns() -> Vec<(String, Kind)> {
    let mut columns: Vec<(String, Kind)> =
        ["ios", "bytes", "runtime_ns"].map(|name| (name.into(), Kind::Integer)).into();
    columns.extend(["iops", "iops_mean", "bytes_per_s"].map(|name| (name.into(), Kind::Float)));
    for part in ["slat", "clat", "lat"] {
        columns.extend(["mean_ns", "stddev_ns"].map(|name| (format!("{part}_{name}"), Kind::Float)));
        columns.extend(["min_ns", "max_ns"].map(|name| (format!("{part}_{name}"), Kind::Integer)));
        columns.extend(PERCENTILES.map(|(name, _)| (format!("{part}_{name}_ns"), Kind::Integer)));
    }
    of_direction(columns)
}

fn latency_columns() -> Vec<(String, Kind)> {
    of_direction(["latency_ns", "count"].map(|name| (name.into(), Kind::Integer)))
}

fn counter_columns() -> Vec<(String, Kind)> {
    vec![("counter".into(), Kind::Text), ("value".into(), Kind::Integer)]
}

fn program_columns() -> Vec<(String, Kind)> {
    vec![("metric".into(), Kind::Text), ("value".into(), Kind::Float)]
}

fn series_columns() -> Vec<(String, Kind)> {
    let integers = ["start_ns", "interval_ns", "bytes", "ios"].map(|name| (name.into(), Kind::Integer));
    let own = [("lat_mean_ns".into(), Kind::Float), ("lat_max_ns".into(), Kind::Integer)];
    of_direction(integers.into_iter().chain(own))
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
