//! Tables of single operations.

use super::super::case::{Case, Occupancy, Timed, TimedOperation};
use super::super::csv::{Sheet, SheetRow};
use super::super::figure::{Figure, Figures};
use super::{Row, TableError, needed, whole};

/// Rows of equal operation and occupancy, put together.
pub(super) fn operations(sheet: &Sheet) -> Result<Vec<Row>, TableError> {
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

/// A row that sums up measurements of one operation.
pub(super) fn operation_summary(sheet: &Sheet, row: &SheetRow) -> Result<Row, TableError> {
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
