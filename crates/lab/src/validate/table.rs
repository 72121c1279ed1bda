//! Tables of measurements, recognised by their columns.
//!
//! The name of a file, the order of columns and further columns say nothing.

use std::fmt;

use serde::Serialize;

use super::case::{Case, Contest, Load, Occupancy, Rate, ResetMode, Stream, Timed, TimedOperation};
use super::csv::{CsvError, Sheet, SheetRow};
use super::figure::{Figure, Figures};
use crate::interference::{InterferenceError, Operation, Point, Victim, Weights};

/// A recognised table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The file, for messages.
    pub origin: String,
    /// What it holds.
    pub kind: Kind,
    /// Its rows; of single operations one for each group of equal conditions.
    pub rows: Vec<Row>,
}

/// What a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Latency of every single operation, by occupancy.
    Operations,
    /// The same summed up.
    OperationSummary,
    /// Operation x block size x zones x queue depth.
    Load,
    /// Victim x interferer x load x rate.
    Contest,
    /// Interferers alone and unlimited.
    Alone,
    /// Terms of Z with their inputs.
    ZTerms,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Operations => "single operations",
            Self::OperationSummary => "single operations, summed up",
            Self::Load => "operation x block size x zones x queue depth",
            Self::Contest => "victim x interferer x load x rate",
            Self::Alone => "interferers alone",
            Self::ZTerms => "terms of Z",
        })
    }
}

/// One row, or one group of equal conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its (first) line in the file.
    pub line: usize,
    /// Its conditions in words.
    pub label: String,
    /// What to simulate, or why that cannot be done.
    pub case: Result<Case, String>,
    /// What was measured.
    pub measured: Figures,
    /// What the interferer is, also where it is absent, in a contest.
    pub against: Option<Operation>,
    /// The point of Z, in a table of terms, and the term as given.
    pub term: Option<(Point, Weights, f64)>,
}

impl Row {
    fn new(line: usize, label: String, case: Result<Case, String>, measured: Figures) -> Self {
        Self { line, label, case, measured, against: None, term: None }
    }
}

/// Why a file is no table that can be judged.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// It is no table at all.
    #[error(transparent)]
    Csv(#[from] CsvError),
    /// Its columns are of no known kind.
    #[error(
        "{origin}: no known table has the columns {columns}; \
         known are: op, latency_us (and occupancy_fraction or occupancy_lba) | \
         op, latency_mean_us (and an occupancy) | op, block_size_kib, concurrent_zones, queue_depth | \
         victim, interferer, victim_load, interferer_rate_pct | op, condition, ops_per_s | \
         victim, interferer, iops_mean_rate0, iops_mean_rate50, lat_p95_rate0_us, lat_p95_rate50_us, term"
    )]
    Unknown {
        /// The file.
        origin: String,
        /// What it has.
        columns: String,
    },
    /// A cell that must be there is empty.
    #[error("{origin}, line {line}: `{column}` is empty; every row needs it")]
    Missing {
        /// The file.
        origin: String,
        /// The line.
        line: usize,
        /// The column.
        column: &'static str,
    },
    /// Weights that are none.
    #[error("{origin}, line {line}: {error}")]
    Weights {
        /// The file.
        origin: String,
        /// The line.
        line: usize,
        /// What is wrong with them.
        error: InterferenceError,
    },
}

/// Recognises a table and reads its rows.
///
/// # Errors
/// When its columns are unknown, or a cell that every row needs is empty or no
/// number. A row that cannot be simulated is no error: it says why.
pub fn recognise(sheet: &Sheet) -> Result<Table, TableError> {
    let (kind, rows) = if sheet.has(&["victim", "interferer", "victim_load", "interferer_rate_pct"]) {
        (Kind::Contest, each(sheet, contest)?)
    } else if sheet.has(&["iops_mean_rate0", "iops_mean_rate50", "lat_p95_rate0_us", "lat_p95_rate50_us", "term"]) {
        (Kind::ZTerms, each(sheet, z_term)?)
    } else if sheet.has(&["op", "block_size_kib", "concurrent_zones", "queue_depth"]) {
        (Kind::Load, each(sheet, load)?)
    } else if sheet.has(&["op", "latency_us"]) {
        (Kind::Operations, operations(sheet)?)
    } else if sheet.has(&["op", "latency_mean_us"]) {
        (Kind::OperationSummary, each(sheet, operation_summary)?)
    } else if sheet.has(&["op", "condition"]) && (sheet.has(&["ops_per_s"]) || sheet.has(&["lat_mean_us"])) {
        (Kind::Alone, each(sheet, alone)?)
    } else {
        return Err(TableError::Unknown { origin: sheet.origin.clone(), columns: sheet.columns.join(", ") });
    };
    Ok(Table { origin: sheet.origin.clone(), kind, rows })
}

fn each(sheet: &Sheet, read: fn(&Sheet, &SheetRow) -> Result<Row, TableError>) -> Result<Vec<Row>, TableError> {
    sheet.rows.iter().map(|row| read(sheet, row)).collect()
}

/// A number that every row needs.
fn needed(sheet: &Sheet, row: &SheetRow, column: &'static str) -> Result<f64, TableError> {
    let missing = || TableError::Missing { origin: sheet.origin.clone(), line: row.line, column };
    sheet.number(row, column)?.ok_or_else(missing)
}

/// The first of these columns with a number in it.
fn first(sheet: &Sheet, row: &SheetRow, columns: &[&str]) -> Result<Option<f64>, CsvError> {
    for column in columns {
        if let Some(value) = sheet.number(row, column)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// A whole number of at least `least`, or the reason that there is none.
fn whole(value: f64, least: f64, what: &str) -> Result<u32, String> {
    if value.fract() == 0.0 && value >= least && value <= f64::from(1 << 20) {
        Ok(value as u32)
    } else {
        Err(format!("{what} is {value}, not a whole number of at least {least}"))
    }
}

fn bytes(kib: f64, what: &str) -> Result<u64, String> {
    let bytes = kib * 1024.0;
    if bytes >= 512.0 && bytes.fract() == 0.0 && bytes <= f64::from(1 << 30) {
        Ok(bytes as u64)
    } else {
        Err(format!("{what} is {kib} KiB, not a block size"))
    }
}

// ---- Single operations -------------------------------------------------

/// Rows of equal operation and occupancy, put together.
fn operations(sheet: &Sheet) -> Result<Vec<Row>, TableError> {
    let mut groups: Vec<(Row, Vec<f64>)> = Vec::new();
    for row in &sheet.rows {
        let latency_us = needed(sheet, row, "latency_us")?;
        let (label, operation, occupancy) = conditions(sheet, row)?;
        match groups.iter_mut().find(|(group, _)| group.label == label) {
            Some((_, samples)) => samples.push(latency_us),
            None => {
                let case = operation.map(|operation| Case::Timed(Timed { operation, occupancy, times: 0 }));
                groups.push((Row::new(row.line, label, case, Figures::default()), vec![latency_us]));
            }
        }
    }
    Ok(groups
        .into_iter()
        .map(|(mut row, samples)| {
            row.measured = Figures::of_samples(&samples);
            if let Ok(Case::Timed(timed)) = &mut row.case {
                timed.times = samples.len() as u64;
            }
            row
        })
        .collect())
}

fn operation_summary(sheet: &Sheet, row: &SheetRow) -> Result<Row, TableError> {
    let (label, operation, occupancy) = conditions(sheet, row)?;
    let times = sheet.number(row, "n")?.map_or(1, |n| n.max(1.0) as u64);
    let mut measured = Figures::default();
    measured.put(Figure::Mean, Some(needed(sheet, row, "latency_mean_us")?));
    for (figure, column) in
        [(Figure::P50, "latency_p50_us"), (Figure::P95, "latency_p95_us"), (Figure::P99, "latency_p99_us")]
    {
        measured.put(figure, sheet.number(row, column)?);
    }
    let case = operation.map(|operation| Case::Timed(Timed { operation, occupancy, times }));
    Ok(Row::new(row.line, label, case, measured))
}

/// What was timed, and on what.
#[allow(clippy::type_complexity)]
fn conditions(
    sheet: &Sheet,
    row: &SheetRow,
) -> Result<(String, Result<TimedOperation, String>, Occupancy), TableError> {
    let name = sheet.text(row, "op");
    let operation = TimedOperation::named(name).ok_or_else(|| {
        let known: Vec<&str> = TimedOperation::NAMES.iter().map(|(name, _)| *name).collect();
        format!("`{name}` is no operation that can be timed alone; known are {}", known.join(", "))
    });
    let fraction = sheet.number(row, "occupancy_fraction")?;
    let blocks = sheet.number(row, "occupancy_lba")?;
    // A fraction holds on a device with zones or blocks of another size too.
    Ok(match (fraction, blocks) {
        (Some(fraction), _) if !(0.0..=1.0).contains(&fraction) => {
            let reason = format!("occupancy_fraction is {fraction}, not between 0 and 1");
            (format!("{name} at {fraction}"), Err(reason), Occupancy::Implied)
        }
        (Some(fraction), _) => (format!("{name} at {} %", percent(fraction)), operation, Occupancy::Fraction(fraction)),
        (None, Some(blocks)) => match whole(blocks, 0.0, "occupancy_lba") {
            Ok(blocks) => (format!("{name} at {blocks} blocks"), operation, Occupancy::Blocks(blocks.into())),
            Err(reason) => (format!("{name} at {blocks} blocks"), Err(reason), Occupancy::Implied),
        },
        (None, None) => (name.to_owned(), operation, Occupancy::Implied),
    })
}

/// Percent with as many digits as tell it from 0 and 100.
fn percent(fraction: f64) -> String {
    let text = format!("{:.6}", fraction * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

// ---- Loads --------------------------------------------------------------

fn load(sheet: &Sheet, row: &SheetRow) -> Result<Row, TableError> {
    let op = sheet.text(row, "op");
    let (kib, zones, depth) = (
        needed(sheet, row, "block_size_kib")?,
        needed(sheet, row, "concurrent_zones")?,
        needed(sheet, row, "queue_depth")?,
    );
    let case = || -> Result<Case, String> {
        let operation = match op {
            "read" | "randread" => Operation::Read,
            "write" => Operation::Write,
            "append" => Operation::Append,
            other => return Err(format!("`{other}` is no load; known are write, append, read and randread")),
        };
        Ok(Case::Load(Load {
            operation,
            block_bytes: bytes(kib, "block_size_kib")?,
            threads: whole(zones, 1.0, "concurrent_zones")?,
            queue_depth: whole(depth, 1.0, "queue_depth")?,
        }))
    };
    let mut measured = Figures::default();
    measured.put(Figure::Iops, first(sheet, row, &["iops", "iops_mean"])?);
    measured.put(Figure::Mean, first(sheet, row, &["lat_mean_us", "clat_mean_us"])?);
    for (figure, name) in [(Figure::P50, "p50"), (Figure::P95, "p95"), (Figure::P99, "p99"), (Figure::P999, "p999")] {
        measured.put(figure, first(sheet, row, &[&format!("lat_{name}_us"), &format!("clat_{name}_us")])?);
    }
    let label = format!("{op} {kib} KiB, {zones} zones, QD {depth}");
    Ok(Row::new(row.line, label, case(), measured))
}

// ---- Contests -----------------------------------------------------------

/// The published interferers (`jobs/job.fio` of each microbenchmark of the
/// artifact): block size and queue depth. One thread each.
fn published_interferer(operation: Operation, victim: Operation) -> (u64, u32) {
    match (operation, victim) {
        (Operation::Write, _) => (64 << 10, 1),
        (Operation::Append, Operation::Read) => (4 << 10, 1),
        (Operation::Append, _) => (8 << 10, 8),
        (Operation::Read, _) => (8 << 10, 64),
        (Operation::Reset, _) => (0, 1),
        // One block, after which the zone is finished.
        (Operation::Finish, _) => (4 << 10, 1),
    }
}

/// The interferer's block size out of its bandwidth and its rate, where the row
/// has both: in whole KiB.
fn interferer_block(sheet: &Sheet, row: &SheetRow) -> Result<Option<u64>, CsvError> {
    let bandwidth = sheet.number(row, "interferer_bw_mib_s")?;
    let rate = sheet.number(row, "interferer_ops_per_s")?;
    Ok(bandwidth.zip(rate).and_then(|(mib_s, rate)| {
        let kib = mib_s * 1024.0 / rate;
        let whole = kib.round();
        ((1.0..=1024.0).contains(&whole) && (kib - whole).abs() < 0.05 * whole).then_some(whole as u64 * 1024)
    }))
}

/// I/Os up to which a run is simulated whole.
const WHOLE_RUN_IOS: f64 = 2e6;

fn contest(sheet: &Sheet, row: &SheetRow) -> Result<Row, TableError> {
    let (victim, interferer) = (sheet.text(row, "victim"), sheet.text(row, "interferer"));
    let rate_pct = needed(sheet, row, "interferer_rate_pct")?;
    let load = needed(sheet, row, "victim_load")?;
    let kib = sheet.number(row, "victim_bs_kib")?;
    let chunk_kib = sheet.number(row, "finish_chunk_kib")?;
    let depth_kind = match sheet.text(row, "victim_load_kind") {
        "jobs" | "threads" => Ok(false),
        "queue_depth" | "iodepth" => Ok(true),
        // Without a word: writers are jobs, the others one job at a depth.
        "" => Ok(victim != "write"),
        other => Err(format!("victim_load_kind is `{other}`; known are jobs and queue_depth")),
    };
    let own_rate = |column: &str| sheet.number(row, column);
    let (while_running, over_all) = (own_rate("interferer_iops_mean")?, first(sheet, row, &["interferer_ops_per_s"])?);
    let active = active_part(while_running, over_all);
    let own_block = interferer_block(sheet, row)?;
    let runtime_s = sheet.number(row, "victim_runtime_s")?.filter(|runtime| *runtime > 0.0);
    let rate_of_victim = first(sheet, row, &["victim_iops", "victim_iops_mean"])?;
    let streams = || -> Result<Case, String> {
        let victim: Operation = victim.parse().map_err(|error| format!("victim: {error}"))?;
        let interferer: Option<Operation> = match interferer {
            "" | "none" => None,
            name => Some(name.parse().map_err(|error| format!("interferer: {error}"))?),
        };
        if !(0.0..=100.0).contains(&rate_pct) {
            return Err(format!("interferer_rate_pct is {rate_pct}, not between 0 and 100"));
        }
        let load = whole(load, 1.0, "victim_load")?;
        let (threads, queue_depth) = if depth_kind? { (1, load) } else { (load, 1) };
        let block_bytes = kib.map_or(Ok(8 << 10), |kib| bytes(kib, "victim_bs_kib"))?;
        let rate = if rate_pct >= 100.0 { Rate::Unlimited } else { Rate::PercentOfPeak(rate_pct) };
        let stream = |operation: Operation, threads, queue_depth, rate| Stream {
            operation,
            block_bytes: if operation.is_management() {
                published_interferer(operation, victim).0
            } else {
                block_bytes
            },
            threads,
            queue_depth,
            rate,
        };
        let present = interferer.filter(|_| rate_pct > 0.0);
        let (victim, interferer) = if victim.is_management() && interferer.is_some_and(|other| !other.is_management()) {
            // One thread manages zones; the load is that of what disturbs it.
            let other = present.map(|operation| stream(operation, threads, queue_depth, rate));
            (stream(victim, 1, 1, Rate::Unlimited), other)
        } else {
            let other = present.map(|operation| {
                let (published, queue_depth) = published_interferer(operation, victim);
                let block_bytes = own_block.filter(|_| !operation.is_management()).unwrap_or(published);
                Stream { operation, block_bytes, threads: 1, queue_depth, rate }
            });
            (stream(victim, threads, queue_depth, Rate::Unlimited), other)
        };
        let reset = match sheet.text(row, "reset_mode") {
            "" => None,
            "sync" => Some(ResetMode::Sync),
            "lazy" => Some(ResetMode::Lazy),
            other => return Err(format!("reset_mode is `{other}`; known are sync and lazy")),
        };
        let finish_chunk_bytes = chunk_kib.map(|kib| bytes(kib, "finish_chunk_kib")).transpose()?;
        let managed = interferer.is_some_and(|stream| stream.operation.is_management());
        let runtime_s = runtime_s.filter(|_| managed && active >= 1.0);
        let ios = runtime_s.zip(rate_of_victim).map(|(runtime_s, rate)| runtime_s * rate);
        let short = ios.is_some_and(|ios| ios <= WHOLE_RUN_IOS);
        let emulated = sheet.has(&["reset_mode"]) || sheet.has(&["finish_chunk_kib"]);
        Ok(Case::Contest(Contest { victim, interferer, active, runtime_s, short, emulated, reset, finish_chunk_bytes }))
    };
    let case = streams();
    let mut measured = Figures::default();
    measured.put(Figure::Iops, rate_of_victim);
    for (figure, name) in [
        (Figure::Mean, "victim_lat_mean_us"),
        (Figure::P50, "victim_lat_p50_us"),
        (Figure::P95, "victim_lat_p95_us"),
        (Figure::P99, "victim_lat_p99_us"),
        (Figure::P999, "victim_lat_p999_us"),
        (Figure::InterfererMean, "interferer_lat_mean_us"),
        (Figure::InterfererP95, "interferer_lat_p95_us"),
    ] {
        measured.put(figure, sheet.number(row, name)?);
    }
    measured.put(Figure::InterfererPerS, over_all.map(|rate| rate / active));
    let label = match &case {
        Ok(Case::Contest(contest)) => contest.to_string(),
        _ => format!("{victim} beside {interferer} at {rate_pct} %, load {load}"),
    };
    Ok(Row { against: interferer.parse().ok(), ..Row::new(row.line, label, case, measured) })
}

/// The part of the time that an interferer ran: its rate over the whole run by
/// its rate while it ran. fio skips half seconds without an operation in the
/// latter, so that it tells nothing of streams below four operations a second.
fn active_part(while_running: Option<f64>, over_all: Option<f64>) -> f64 {
    match (while_running, over_all) {
        (Some(running), Some(over_all)) if running >= 4.0 && over_all > 0.0 && over_all < 0.9 * running => {
            over_all / running
        }
        _ => 1.0,
    }
}

fn alone(sheet: &Sheet, row: &SheetRow) -> Result<Row, TableError> {
    let op = sheet.text(row, "op");
    let case = op.parse::<Operation>().map_err(|error| error.to_string()).map(|operation| {
        let (block_bytes, queue_depth) = published_interferer(operation, operation);
        let victim = Stream { operation, block_bytes, threads: 1, queue_depth, rate: Rate::Unlimited };
        Case::Contest(Contest {
            victim,
            interferer: None,
            active: 1.0,
            runtime_s: None,
            short: false,
            emulated: false,
            reset: None,
            finish_chunk_bytes: None,
        })
    });
    let mut measured = Figures::default();
    measured.put(Figure::Iops, first(sheet, row, &["ops_per_s", "iops"])?);
    for (figure, name) in [
        (Figure::Mean, "lat_mean_us"),
        (Figure::P50, "lat_p50_us"),
        (Figure::P95, "lat_p95_us"),
        (Figure::P99, "lat_p99_us"),
    ] {
        measured.put(figure, sheet.number(row, name)?);
    }
    Ok(Row::new(row.line, format!("{op} alone"), case, measured))
}

fn z_term(sheet: &Sheet, row: &SheetRow) -> Result<Row, TableError> {
    let victim = |rate: &str| -> Result<Victim, CsvError> {
        Ok(Victim {
            iops: sheet.number(row, &format!("iops_mean_rate{rate}"))?.unwrap_or(f64::NAN),
            p95_ns: sheet.number(row, &format!("lat_p95_rate{rate}_us"))?.map(|us| us * 1e3),
            ..Victim::default()
        })
    };
    let load = first(sheet, row, &["n_write_jobs", "victim_load"])?.map_or("?".to_owned(), |load| load.to_string());
    let point = Point { load: load.clone(), without: victim("0")?, with: victim("50")?, operations_per_s: None };
    let label = format!("{} on {}, load {load}", sheet.text(row, "interferer"), sheet.text(row, "victim"));
    let case = Err("a term of Z is computed, not simulated".to_owned());
    let alpha = sheet.number(row, "alpha")?.unwrap_or(Weights::EVEN.alpha());
    let weights = Weights::with_alpha(alpha).map_err(|error| TableError::Weights {
        origin: sheet.origin.clone(),
        line: row.line,
        error,
    })?;
    let term = Some((point, weights, needed(sheet, row, "term")?));
    Ok(Row { term, ..Row::new(row.line, label, case, Figures::default()) })
}
