//! Tables of operation x block size x depth x jobs.

use units::ByteSize;

use super::super::case::Case;
use super::super::csv::{Sheet, SheetRow};
use super::super::figure::{Figure, Figures};
use super::super::table::{Row, TableError, first, whole};
use super::{Drive, DriveEngine, DriveOp};

const OPS: [&str; 2] = ["op", "rw"];
const DEPTHS: [&str; 2] = ["queue_depth", "iodepth"];
const JOBS: [&str; 3] = ["jobs", "numjobs", "threads"];
const RATES: [&str; 3] = ["iops", "iops_mean", "ops_per_s"];
/// Columns of block sizes, and the bytes that one of their units is.
const BLOCKS: [(&str, f64); 3] = [("block_size_kib", 1024.0), ("bs_kib", 1024.0), ("block_size_bytes", 1.0)];
/// Columns of sizes with a unit in each cell.
const BLOCK_TEXTS: [&str; 2] = ["bs", "block_size"];
/// Columns of bandwidth, and the bytes a second that one of their units is.
const BANDWIDTHS: [(&str, f64); 6] = [
    ("bandwidth_mib_s", 1_048_576.0),
    ("bw_mib_s", 1_048_576.0),
    ("bandwidth_mb_s", 1e6),
    ("bw_mb_s", 1e6),
    ("bandwidth_bytes_s", 1.0),
    ("bw_bytes", 1.0),
];

/// Whether the columns are those of such a table.
pub fn is_drive_table(sheet: &Sheet) -> bool {
    let any = |names: &[&str]| names.iter().any(|name| sheet.has(&[name]));
    let block = any(&BLOCKS.map(|(name, _)| name)) || any(&BLOCK_TEXTS);
    any(&OPS) && block && any(&DEPTHS) && !sheet.has(&["concurrent_zones"])
}

/// The first of these columns with text in it.
fn text<'a>(sheet: &Sheet, row: &'a SheetRow, columns: &[&str]) -> &'a str {
    columns.iter().map(|column| sheet.text(row, column)).find(|text| !text.is_empty()).unwrap_or("")
}

fn missing(sheet: &Sheet, row: &SheetRow, column: &'static str) -> TableError {
    TableError::Missing { origin: sheet.origin.clone(), line: row.line, column }
}

/// One row.
///
/// # Errors
/// When a cell that every row needs is empty or no number.
pub fn row(sheet: &Sheet, row: &SheetRow) -> Result<Row, TableError> {
    let op = text(sheet, row, &OPS);
    if op.is_empty() {
        return Err(missing(sheet, row, "op"));
    }
    let mut block: Option<Result<u64, String>> = None;
    for (column, unit) in BLOCKS {
        if let Some(size) = sheet.number(row, column)? {
            let bytes = size * unit;
            let fits = bytes >= 512.0 && bytes.fract() == 0.0 && bytes <= f64::from(1 << 30);
            block = Some(if fits { Ok(bytes as u64) } else { Err(format!("{column} is {size}, not a block size")) });
        }
    }
    let size = text(sheet, row, &BLOCK_TEXTS);
    if block.is_none() && !size.is_empty() {
        let bytes = size.parse::<ByteSize>().map(|size| size.0).map_err(|error| error.to_string());
        block = Some(bytes.and_then(|bytes| {
            if (512..=1 << 30).contains(&bytes) { Ok(bytes) } else { Err(format!("`{size}` is not a block size")) }
        }));
    }
    let block = block.ok_or_else(|| missing(sheet, row, "block_size_kib"))?;
    let depth = first(sheet, row, &DEPTHS)?.ok_or_else(|| missing(sheet, row, "queue_depth"))?;
    let jobs = first(sheet, row, &JOBS)?.unwrap_or(1.0);
    let mut bandwidth = None;
    for (column, unit) in BANDWIDTHS {
        bandwidth = bandwidth.or(sheet.number(row, column)?.map(|value| value * unit));
    }
    let mut rate = first(sheet, row, &RATES)?;
    if let (None, Some(bandwidth), Ok(bytes)) = (rate, bandwidth, &block) {
        rate = Some(bandwidth / *bytes as f64);
    }
    let mut measured = Figures::default();
    measured.put(Figure::Iops, rate.filter(|rate| *rate > 0.0));
    measured.put(Figure::Bandwidth, bandwidth.map(|bytes| bytes / 1e6));
    measured.put(Figure::Mean, first(sheet, row, &["lat_mean_us", "latency_mean_us", "clat_mean_us"])?);
    let mut completion = false;
    for (figure, name) in [(Figure::P50, "p50"), (Figure::P95, "p95"), (Figure::P99, "p99"), (Figure::P999, "p999")] {
        let total = first(sheet, row, &[&format!("lat_{name}_us"), &format!("latency_{name}_us")])?;
        let of_completion = sheet.number(row, &format!("clat_{name}_us"))?;
        completion |= total.is_none() && of_completion.is_some();
        measured.put(figure, total.or(of_completion));
    }
    let case = || -> Result<Case, String> {
        let known = || DriveOp::NAMES.map(|(name, _)| name).join(", ");
        let op =
            DriveOp::named(op).ok_or_else(|| format!("`{op}` is no load that is compared; known are {}", known()))?;
        Ok(Case::Drive(Drive {
            op,
            block_bytes: block.clone()?,
            queue_depth: whole(depth, 1.0, "the depth")?,
            jobs: whole(jobs, 1.0, "the number of jobs")?,
            engine: DriveEngine::Asynchronous,
            offset_bytes: 0,
            span_bytes: None,
            completion,
            rate,
            ran: None,
        }))
    };
    let size = block.as_ref().map_or_else(|_| "?".to_owned(), |bytes| ByteSize(*bytes).to_string());
    let label = format!("{op} {size}, {jobs} jobs, QD {depth}");
    Ok(Row::new(row.line, label, case(), measured))
}
