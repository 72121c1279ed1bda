//! Tables of measurements, recognised by their columns.
//!
//! The name of a file, the order of columns and further columns say nothing.

mod contest;
mod interferer;
mod load;
mod operation;

use std::fmt;

use serde::Serialize;

use super::case::Case;
use super::csv::{CsvError, Sheet, SheetRow};
use super::drive::{csv_row, is_drive_table};
use super::figure::Figures;
use crate::interference::{InterferenceError, Operation, Point, Weights};
use contest::contest;
use interferer::{alone, z_term};
use load::load;
use operation::{operation_summary, operations};

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
    /// Operation x block size x depth x jobs, of a drive without zones.
    Drive,
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
            Self::Drive => "operation x block size x depth x jobs",
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
    pub(super) fn new(line: usize, label: String, case: Result<Case, String>, measured: Figures) -> Self {
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
         op, latency_mean_us (and an occupancy) | op, block_size_kib, concurrent_zones, queue_depth | op, block_size_kib (or bs), queue_depth (or iodepth) | \
         victim, interferer, victim_load (or interferer_load) | op, ops_per_s (or condition, lat_mean_us) | \
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
    let is_contest = sheet.has(&["victim", "interferer"]);
    let (kind, rows) = if is_contest && (sheet.has(&["victim_load"]) || sheet.has(&["interferer_load"])) {
        (Kind::Contest, each(sheet, contest)?)
    } else if sheet.has(&["iops_mean_rate0", "iops_mean_rate50", "lat_p95_rate0_us", "lat_p95_rate50_us", "term"]) {
        (Kind::ZTerms, each(sheet, z_term)?)
    } else if sheet.has(&["op", "block_size_kib", "concurrent_zones", "queue_depth"]) {
        (Kind::Load, each(sheet, load)?)
    } else if is_drive_table(sheet) {
        (Kind::Drive, each(sheet, csv_row)?)
    } else if sheet.has(&["op", "latency_us"]) {
        (Kind::Operations, operations(sheet)?)
    } else if sheet.has(&["op", "latency_mean_us"]) {
        (Kind::OperationSummary, each(sheet, operation_summary)?)
    } else if sheet.has(&["op"]) && (sheet.has(&["ops_per_s"]) || sheet.has(&["condition", "lat_mean_us"])) {
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
pub(super) fn first(sheet: &Sheet, row: &SheetRow, columns: &[&str]) -> Result<Option<f64>, CsvError> {
    for column in columns {
        if let Some(value) = sheet.number(row, column)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// A whole number of at least `least`, or the reason that there is none.
pub(super) fn whole(value: f64, least: f64, what: &str) -> Result<u32, String> {
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
