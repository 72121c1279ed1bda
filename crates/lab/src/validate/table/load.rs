//! Tables of loads on zones.

use super::super::case::{Case, Load};
use super::super::csv::{Sheet, SheetRow};
use super::super::figure::{Figure, Figures};
use super::super::stack::stack_of;
use super::{Row, TableError, bytes, first, needed, whole};
use crate::interference::Operation;

/// A row.
pub(super) fn load(sheet: &Sheet, row: &SheetRow) -> Result<Row, TableError> {
    let op = sheet.text(row, "op");
    let (kib, zones, depth) = (
        needed(sheet, row, "block_size_kib")?,
        needed(sheet, row, "concurrent_zones")?,
        needed(sheet, row, "queue_depth")?,
    );
    let stack = stack_of(sheet, row)?;
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
            stack: stack?,
        }))
    };
    let mut measured = Figures::default();
    measured.put(Figure::Iops, first(sheet, row, &["iops", "iops_mean"])?);
    measured.put(Figure::Mean, first(sheet, row, &["lat_mean_us", "clat_mean_us"])?);
    for (figure, name) in [(Figure::P50, "p50"), (Figure::P95, "p95"), (Figure::P99, "p99"), (Figure::P999, "p999")] {
        measured.put(figure, first(sheet, row, &[&format!("lat_{name}_us"), &format!("clat_{name}_us")])?);
    }
    let case = case();
    let stack = if let Ok(Case::Load(load)) = &case { load.stack.to_string() } else { String::new() };
    let label = format!("{op} {kib} KiB, {zones} zones, QD {depth}{stack}");
    Ok(Row::new(row.line, label, case, measured))
}
