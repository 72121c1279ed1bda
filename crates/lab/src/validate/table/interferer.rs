//! Tables of interferers alone, and of terms of Z.

use super::super::case::{Case, Contest, Rate, Stream};
use super::super::csv::{CsvError, Sheet, SheetRow};
use super::super::figure::{Figure, Figures};
use super::super::stack::stack_of;
use super::contest::{operation_of, padding_bytes, published_interferer};
use super::{Row, TableError, first, needed};
use crate::interference::{Point, Victim, Weights};

/// An interferer by itself.
pub(super) fn alone(sheet: &Sheet, row: &SheetRow) -> Result<Row, TableError> {
    let op = sheet.text(row, "op");
    let (stack, padding) = (stack_of(sheet, row)?, padding_bytes(sheet, row)?);
    let case = operation_of(op).and_then(|(operation, pads)| {
        let (block_bytes, queue_depth) = published_interferer(operation, operation);
        let padding_bytes = if pads { Some(padding?) } else { None };
        let victim = Stream { operation, block_bytes, threads: 1, queue_depth, rate: Rate::Unlimited, padding_bytes };
        Ok(Case::Contest(Contest {
            victim,
            interferer: None,
            active: 1.0,
            runtime_s: None,
            short: false,
            emulated: false,
            reset: None,
            finish_chunk_bytes: None,
            stack: stack?,
        }))
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

/// A term of Z with what it was computed from.
pub(super) fn z_term(sheet: &Sheet, row: &SheetRow) -> Result<Row, TableError> {
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
