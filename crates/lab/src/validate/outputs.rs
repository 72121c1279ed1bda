//! What a comparison leaves behind: a page of charts, and a table of errors.

use crate::device::Described;
use crate::interference::Operation;
use crate::report::{
    Comparison, DeviceData, EffectTable, Estimate, ReportData, Severity, SweepLine, SweepPlot, Unit, Warning, render,
};
use crate::results::{Cell, Kind as CellKind, Table as CellTable};

use super::case::{Case, Contest, Load, Occupancy, TimedOperation};
use super::figure::Figure;
use super::judge::{FigureVerdict, RowVerdict, Verdict, family, load_of, loaded};

/// The comparison as a page: measured points over modelled lines, and every
/// judged figure.
pub fn page(verdict: &Verdict, device: &Described) -> String {
    let mut plots = Vec::new();
    for table in &verdict.tables {
        // A table beside its own summary has the same curves.
        for plot in plots_of(&table.rows) {
            if plots.iter().all(|known: &SweepPlot| !same_curves(known, &plot)) {
                plots.push(plot);
            }
        }
    }
    render(&ReportData {
        title: format!("{}: measured and modelled", verdict.device),
        description: "Rings are measurements, lines and dots are the model's. Errors are absolute, over the rows of a \
                      table; `alone` is without an interferer."
            .to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        devices: vec![DeviceData {
            name: verdict.device.clone(),
            description: device.profile.description.clone(),
            facts: device.facts(),
        }],
        warnings: verdict.tables.iter().flat_map(|table| warnings(&table.origin, &table.rows)).collect(),
        effects: Some(errors(verdict)),
        plots,
        comparisons: verdict.tables.iter().flat_map(|table| comparisons(&table.origin, &table.rows)).collect(),
        ..ReportData::default()
    })
}

/// Whether two plots have the same model's points under one heading.
fn same_curves(one: &SweepPlot, other: &SweepPlot) -> bool {
    let points = |plot: &SweepPlot| plot.lines.iter().map(|line| line.points.clone()).collect::<Vec<_>>();
    one.title == other.title && points(one) == points(other)
}

/// Errors of each judged figure over the rows of each table's parts.
fn errors(verdict: &Verdict) -> EffectTable {
    let columns =
        [("rows", Unit::Plain), ("median", Unit::Fraction), ("P90", Unit::Fraction), ("worst", Unit::Fraction)];
    let mut rows = Vec::new();
    for table in &verdict.tables {
        for summary in table.summary.iter().filter(|summary| summary.judged) {
            let conditions = [
                ("table", file_name(&table.origin).to_owned()),
                ("part", summary.part.to_owned()),
                ("figure", name(summary.figure).to_owned()),
            ];
            let values = [summary.rows as f64, summary.median, summary.p90, summary.worst];
            rows.push((
                conditions.map(|(key, value)| (key.to_owned(), value)).to_vec(),
                values.map(|value| Some(Estimate::from(value))).to_vec(),
            ));
        }
    }
    EffectTable { columns: columns.map(|(name, unit)| (name.to_owned(), unit)).to_vec(), rows }
}

fn file_name(origin: &str) -> &str {
    origin.rsplit(['/', '\\']).next().unwrap_or(origin)
}

fn warnings(origin: &str, rows: &[RowVerdict]) -> Vec<Warning> {
    let missing = rows.iter().filter_map(|row| Some((row, row.not_simulated.as_ref()?)));
    let text = |(row, reason): (&RowVerdict, &String)| {
        format!("{}, line {}, {}: not simulated: {reason}", file_name(origin), row.line, row.label)
    };
    missing.map(|item| Warning { severity: Severity::Note, text: text(item) }).collect()
}

/// A figure's unit in a report, and how many base units one is.
fn unit(figure: Figure) -> (Unit, f64) {
    match figure {
        Figure::Iops | Figure::InterfererPerS => (Unit::Iops, 1.0),
        _ => (Unit::Time, 1e3),
    }
}

fn comparisons(origin: &str, rows: &[RowVerdict]) -> Vec<Comparison> {
    let judged =
        rows.iter().flat_map(|row| row.figures.iter().filter(|figure| figure.judged).map(move |figure| (row, figure)));
    judged
        .map(|(row, verdict)| {
            let (unit, base) = unit(verdict.figure);
            Comparison {
                metric: name(verdict.figure).to_owned(),
                at: row.label.clone(),
                unit,
                published: verdict.measured * base,
                ours: Some(Estimate::from(verdict.modelled * base)),
                source: format!("{}, line {}", file_name(origin), row.line),
                ..Comparison::default()
            }
        })
        .collect()
}

fn name(figure: Figure) -> &'static str {
    match figure {
        Figure::Iops => "Operations a second",
        Figure::Bandwidth => "Bandwidth",
        Figure::Mean => "Mean latency",
        Figure::P50 => "Median latency",
        Figure::P95 => "P95 latency",
        Figure::P99 => "P99 latency",
        Figure::P999 => "P99.9 latency",
        Figure::InterfererPerS => "Interferer's operations a second",
        Figure::InterfererMean => "Interferer's mean latency",
        Figure::InterfererP95 => "Interferer's P95 latency",
    }
}

/// Where a row stands on a chart.
struct ChartPosition {
    title: String,
    x_label: &'static str,
    line: String,
    x: f64,
    log_x: bool,
    figures: &'static [Figure],
}

fn place(row: &RowVerdict) -> Option<ChartPosition> {
    match row.case.as_ref()? {
        Case::Timed(timed) => {
            let Occupancy::Fraction(fraction) = timed.occupancy else { return None };
            let resets = matches!(timed.operation, TimedOperation::Reset | TimedOperation::ResetAfterFinish);
            let line = row.label.split(" at ").next().unwrap_or_default().replace('_', " ");
            Some(ChartPosition {
                title: if resets { "Resets by occupancy".to_owned() } else { format!("{line} by occupancy") },
                x_label: "part of the zone written (%)",
                line,
                x: fraction * 100.0,
                log_x: false,
                figures: &[Figure::Mean],
            })
        }
        Case::Load(Load { operation, block_bytes, threads, queue_depth, stack }) => {
            // Writes are swept by zones alone, the others at one zone by depth.
            let by_depth = *queue_depth > 1 || (*threads == 1 && *operation != Operation::Write);
            let zones = if *threads == 1 { "1 zone".to_owned() } else { format!("{threads} zones") };
            Some(ChartPosition {
                title: format!("{operation} {} KiB{stack}", block_bytes / 1024),
                x_label: "operations in flight",
                line: if by_depth { zones } else { "one in each zone".to_owned() },
                x: f64::from(threads * queue_depth),
                log_x: true,
                figures: &[Figure::Iops, Figure::Mean],
            })
        }
        Case::Contest(contest) => Some(contest_place(row, contest)),
        Case::Drive(drive) => Some(ChartPosition {
            title: format!("{} {}", drive.op.name(), units::ByteSize(drive.block_bytes)),
            x_label: "I/Os in flight",
            line: if drive.jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", drive.jobs) },
            x: f64::from(drive.jobs) * f64::from(drive.queue_depth),
            log_x: true,
            figures: &[Figure::Iops, Figure::Mean],
        }),
    }
}

fn contest_place(row: &RowVerdict, contest: &Contest) -> ChartPosition {
    let against = row.against.map_or("nothing", |operation| operation.name());
    let loaded = loaded(contest);
    let depths = loaded.queue_depth > 1 || !loaded.operation.is_management() && loaded.operation != Operation::Write;
    ChartPosition {
        title: format!("{} with {against}", contest.victim.operation),
        x_label: if depths { "queue depth" } else { "threads" },
        line: family(contest),
        x: f64::from(load_of(contest)),
        log_x: depths,
        figures: &[Figure::Iops, Figure::P95],
    }
}

/// One chart for each family of rows and figure.
fn plots_of(rows: &[RowVerdict]) -> Vec<SweepPlot> {
    let mut plots: Vec<SweepPlot> = Vec::new();
    for row in rows {
        let Some(place) = place(row) else { continue };
        for figure in place.figures {
            let Some(verdict) = row.figures.iter().find(|verdict| verdict.figure == *figure) else { continue };
            let (unit, base) = unit(*figure);
            let title = format!("{}: {}", crate::metric::sentence(&place.title), name(*figure).to_lowercase());
            let plot = match plots.iter().position(|plot| plot.title == title) {
                Some(index) => &mut plots[index],
                None => {
                    plots.push(SweepPlot {
                        title,
                        x_label: place.x_label.to_owned(),
                        log_x: place.log_x,
                        y_label: name(*figure).to_owned(),
                        y_unit: unit,
                        ..SweepPlot::default()
                    });
                    let last = plots.len() - 1;
                    &mut plots[last]
                }
            };
            add(plot, &place.line, place.x, verdict, base);
        }
    }
    // A single point is no curve.
    plots.retain(|plot| plot.lines.iter().any(|line| line.points.len() > 1));
    plots
}

fn add(plot: &mut SweepPlot, name: &str, x: f64, verdict: &FigureVerdict, base: f64) {
    let line = match plot.lines.iter().position(|line| line.name == name) {
        Some(index) => &mut plot.lines[index],
        None => {
            plot.lines.push(SweepLine { name: name.to_owned(), ..SweepLine::default() });
            let last = plot.lines.len() - 1;
            &mut plot.lines[last]
        }
    };
    line.points.push((x, Estimate::from(verdict.modelled * base)));
    line.published.push((x, verdict.measured * base, verdict.measured * base));
    line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
}

/// Every figure of every row, as a table to keep.
pub fn errors_table(verdict: &Verdict) -> CellTable {
    let columns = [
        ("table", CellKind::Text),
        ("kind", CellKind::Text),
        ("line", CellKind::Integer),
        ("row", CellKind::Text),
        ("part", CellKind::Text),
        ("figure", CellKind::Text),
        ("judged", CellKind::Integer),
        ("measured", CellKind::Float),
        ("modelled", CellKind::Float),
        ("error", CellKind::Float),
        ("not_simulated", CellKind::Text),
    ];
    let mut cells = CellTable::new(columns.map(|(name, kind)| (name.to_owned(), kind)));
    for table in &verdict.tables {
        for row in &table.rows {
            let start = || {
                vec![
                    Cell::Text(table.origin.clone()),
                    Cell::Text(table.kind.to_string()),
                    Cell::Integer(row.line as u64),
                    Cell::Text(row.label.clone()),
                    Cell::Text(row.part.to_owned()),
                ]
            };
            if let Some(reason) = &row.not_simulated {
                let mut line = start();
                line.extend([Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty]);
                line.push(Cell::Text(reason.clone()));
                cells.push(line);
            }
            for verdict in &row.figures {
                let mut line = start();
                line.extend([
                    Cell::Text(verdict.figure.to_string()),
                    Cell::Integer(u64::from(verdict.judged)),
                    Cell::Float(verdict.measured),
                    Cell::Float(verdict.modelled),
                    Cell::Float(verdict.error),
                    Cell::Empty,
                ]);
                cells.push(line);
            }
        }
    }
    cells
}
