//! A device's profile held against tables of measurements.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use super::case::{Case, Contest, Stream};
use super::figure::{Figure, Figures};
use super::hosts::Host;
use super::parallel::parallel;
use super::reference::{References, peak_contest, wanted_peaks};
use super::simulate::{Simulator, Unfit};
use super::table::{Kind, Row, Table};
use crate::Observer;
use crate::device::Described;
use crate::interference::{Operation, Point, Victim, Weights, z};

/// How to go about it.
pub struct JudgeOptions<'a> {
    /// In place of the host that fits each table.
    pub host: Option<Host>,
    /// Worker threads; results do not depend on it.
    pub threads: usize,
    /// Told of progress.
    pub observer: &'a dyn Observer,
    /// Set to give up.
    pub stop: &'a AtomicBool,
}

/// What came of all tables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The profile's name.
    pub device: String,
    /// The tables, in the order given.
    pub tables: Vec<TableVerdict>,
}

/// What came of one table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableVerdict {
    /// The file.
    pub origin: String,
    /// What it holds.
    pub kind: Kind,
    /// Its rows.
    pub rows: Vec<RowVerdict>,
    /// Errors over the rows of each part, by figure.
    pub summary: Vec<Summary>,
    /// Z of the measurements beside Z of the model, where the table has both
    /// baselines and disturbed rows.
    pub z: Vec<ZVerdict>,
}

/// What came of one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowVerdict {
    /// Its line in the file.
    pub line: usize,
    /// Its conditions.
    pub label: String,
    /// Which part of the table it belongs to: `alone` or `disturbed`.
    pub part: &'static str,
    /// Figures that both sides have.
    pub figures: Vec<FigureVerdict>,
    /// Why it was not simulated.
    pub not_simulated: Option<String>,
    /// The conditions, for charts.
    #[serde(skip)]
    pub case: Option<Case>,
    /// The interferer, also where it is absent.
    #[serde(skip)]
    pub against: Option<Operation>,
}

/// One figure of one row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FigureVerdict {
    /// Which.
    pub figure: Figure,
    /// Whether the table is judged by it; the others are beside it.
    pub judged: bool,
    /// In the table.
    pub measured: f64,
    /// In the simulation.
    pub modelled: f64,
    /// (modelled - measured) / measured.
    pub error: f64,
}

/// Absolute errors of one figure over the rows of a part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The part.
    pub part: &'static str,
    /// The figure.
    pub figure: Figure,
    /// Whether the table is judged by it.
    pub judged: bool,
    /// Rows that have it.
    pub rows: usize,
    /// Median.
    pub median: f64,
    /// 90th percentile, between ranks.
    pub p90: f64,
    /// Largest.
    pub worst: f64,
}

/// Z from one table's rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ZVerdict {
    /// Victim, interferer and conditions.
    pub label: String,
    /// The loads in it.
    pub loads: Vec<u32>,
    /// As measured.
    pub measured: f64,
    /// As modelled, or as computed from the table's own inputs.
    pub modelled: f64,
}

/// Simulates every row of `tables` on the device; `None` when it was stopped.
pub fn judge(device: &Described, tables: &[Table], options: &JudgeOptions<'_>) -> Option<Verdict> {
    let references = References::of(tables);
    // Equal conditions are simulated once, however many rows have them: the case, and what its table says of 100 %.
    let mut cases: Vec<(&Case, Option<f64>)> = Vec::new();
    for (index, table) in tables.iter().enumerate() {
        for case in table.rows.iter().filter_map(|row| row.case.as_ref().ok()) {
            let entry = (case, references.peak(index, case));
            if !cases.contains(&entry) {
                cases.push(entry);
            }
        }
    }
    let wanted = wanted_peaks(&cases);
    options.observer.begin(cases.len() + wanted.len(), 0);
    let halted = || options.stop.load(Ordering::Relaxed);
    let simulator = Simulator { device, host: options.host, halted: &halted };
    let no_peaks = |_: &Contest| None;
    let simulated = |index: usize, label: String, result: Result<Figures, Unfit>| {
        options.observer.progress(index, &label, 1.0);
        options.observer.end(index);
        result
    };
    let alone: Vec<Result<Figures, Unfit>> = parallel(wanted.len(), options.threads, options.stop, |index| {
        let result = simulator.run(&Case::Contest(wanted[index]), &no_peaks);
        simulated(index, format!("{} alone", wanted[index].victim), result)
    })?;
    let modelled = |contest: &Contest| {
        let peak = peak_contest(&contest.limited()?, contest);
        let index = wanted.iter().position(|contest| *contest == peak)?;
        alone[index].as_ref().ok()?.get(Figure::Iops)
    };
    let outcomes: Vec<Result<Figures, Unfit>> = parallel(cases.len(), options.threads, options.stop, |index| {
        let (case, told) = cases[index];
        let peaks = |contest: &Contest| told.or_else(|| modelled(contest));
        simulated(wanted.len() + index, label(case), simulator.run(case, &peaks))
    })?;
    let outcome = |table: usize, case: &Case| {
        let told = references.peak(table, case);
        cases.iter().position(|known| *known == (case, told)).map(|index| &outcomes[index])
    };
    let tables = tables
        .iter()
        .enumerate()
        .map(|(index, table)| {
            let outcome = |case: &Case| outcome(index, case);
            let rows: Vec<RowVerdict> = table.rows.iter().map(|row| row_verdict(table.kind, row, &outcome)).collect();
            let summary = summaries(&rows);
            let z = if table.kind == Kind::ZTerms { z_terms(table) } else { z_of_contests(&rows) };
            TableVerdict { origin: table.origin.clone(), kind: table.kind, rows, summary, z }
        })
        .collect();
    Some(Verdict { device: device.profile.name.clone(), tables })
}

fn label(case: &Case) -> String {
    match case {
        Case::Timed(timed) => format!("{:?}", timed.operation),
        Case::Load(load) => load.to_string(),
        Case::Contest(contest) => contest.to_string(),
        Case::Drive(drive) => drive.to_string(),
    }
}

fn row_verdict<'a>(
    kind: Kind,
    row: &Row,
    outcome: &impl Fn(&Case) -> Option<&'a Result<Figures, Unfit>>,
) -> RowVerdict {
    let disturbed = matches!(&row.case, Ok(Case::Contest(contest)) if contest.interferer.is_some());
    let mut verdict = RowVerdict {
        line: row.line,
        label: row.label.clone(),
        part: if disturbed { "disturbed" } else { "alone" },
        figures: Vec::new(),
        not_simulated: None,
        case: row.case.as_ref().ok().cloned(),
        against: row.against,
    };
    let modelled = match &row.case {
        Ok(case) => outcome(case),
        Err(reason) => {
            // A term of Z has nothing to simulate; it is checked as a whole.
            verdict.not_simulated = row.term.is_none().then(|| reason.clone());
            return verdict;
        }
    };
    match modelled {
        Some(Ok(modelled)) => verdict.figures = compared(kind, row, modelled),
        Some(Err(reason)) => verdict.not_simulated = Some(reason.to_string()),
        None => verdict.not_simulated = Some("it was not simulated".to_owned()),
    }
    if verdict.figures.is_empty() && verdict.not_simulated.is_none() {
        verdict.not_simulated = Some("the table measured nothing of what the simulation yields".to_owned());
    }
    verdict
}

fn compared(kind: Kind, row: &Row, modelled: &Figures) -> Vec<FigureVerdict> {
    let judged: &[Figure] = match kind {
        Kind::Operations | Kind::OperationSummary => &[Figure::Mean],
        Kind::Load | Kind::Drive => &[Figure::Iops, Figure::Mean],
        Kind::Contest => &[Figure::Iops, Figure::P95],
        Kind::Alone | Kind::ZTerms => &[Figure::Iops],
    };
    let both = row.measured.iter().filter(|(_, measured)| *measured != 0.0);
    let mut figures: Vec<FigureVerdict> = both
        .filter_map(|(figure, measured)| {
            let modelled = modelled.get(figure)?;
            let error = (modelled - measured) / measured.abs();
            Some(FigureVerdict { figure, judged: judged.contains(&figure), measured, modelled, error })
        })
        .collect();
    figures.sort_by_key(|verdict| (!verdict.judged, verdict.figure));
    figures
}

fn summaries(rows: &[RowVerdict]) -> Vec<Summary> {
    let mut errors: BTreeMap<(&'static str, bool, Figure), Vec<f64>> = BTreeMap::new();
    for row in rows {
        for verdict in &row.figures {
            errors.entry((row.part, !verdict.judged, verdict.figure)).or_default().push(verdict.error.abs());
        }
    }
    errors
        .into_iter()
        .map(|((part, beside, figure), mut errors)| {
            errors.sort_by(f64::total_cmp);
            let at = |percent: f64| {
                let place = (errors.len() - 1) as f64 * percent / 100.0;
                let (low, high) = (errors[place.floor() as usize], errors[place.ceil() as usize]);
                low + (high - low) * place.fract()
            };
            let (median, p90, worst) = (at(50.0), at(90.0), at(100.0));
            Summary { part, figure, judged: !beside, rows: errors.len(), median, p90, worst }
        })
        .collect()
}

/// The terms of Z as given, and as computed from the inputs beside them.
fn z_terms(table: &Table) -> Vec<ZVerdict> {
    let verdict = |row: &Row| {
        let (point, weights, given) = row.term.as_ref()?;
        let computed = z(std::slice::from_ref(point), *weights).ok()?.mean;
        let loads = point.load.parse().ok().into_iter().collect();
        Some(ZVerdict { label: row.label.clone(), loads, measured: *given, modelled: computed })
    };
    table.rows.iter().filter_map(verdict).collect()
}

/// The stream whose load is swept: what disturbs zone management, or manages zones
/// from several threads; else the victim.
pub(super) fn loaded(contest: &Contest) -> Stream {
    let victim = contest.victim;
    let several = |stream: &Stream| stream.operation.is_management() && stream.threads > 1;
    match contest.interferer {
        Some(other) if victim.operation.is_management() && !several(&victim) || several(&other) => other,
        _ => victim,
    }
}

/// Load of a contest: the threads or the depth, whichever is swept.
pub(super) fn load_of(contest: &Contest) -> u32 {
    let loaded = loaded(contest);
    loaded.threads.max(loaded.queue_depth)
}

/// Load points of one Z.
#[derive(Default)]
struct Family {
    label: String,
    loads: Vec<u32>,
    measured: Vec<Point>,
    modelled: Vec<Point>,
}

/// Z of every family of rows that has baselines, both sides.
fn z_of_contests(rows: &[RowVerdict]) -> Vec<ZVerdict> {
    let contest = |row: &RowVerdict| match &row.case {
        Some(Case::Contest(contest)) => Some(*contest),
        _ => None,
    };
    let mut families: Vec<Family> = Vec::new();
    for row in rows {
        let Some(here) = contest(row).filter(|contest| contest.interferer.is_some()) else { continue };
        let is_baseline = |other: &&RowVerdict| {
            contest(other).is_some_and(|there| {
                let chunk = there.finish_chunk_bytes.is_none() || there.finish_chunk_bytes == here.finish_chunk_bytes;
                there.interferer.is_none()
                    && there.victim == here.victim
                    && there.reset == here.reset
                    && chunk
                    && same_path(&there, &here)
            }) && other.against == row.against
        };
        let Some(baseline) = rows.iter().find(is_baseline) else { continue };
        let victim = |row: &RowVerdict, side: fn(&FigureVerdict) -> f64| {
            let value = |figure| row.figures.iter().find(|verdict| verdict.figure == figure).map(side);
            let p95_ns = value(Figure::P95).map(|us| us * 1e3);
            Some(Victim { iops: value(Figure::Iops)?, p95_ns, ..Victim::default() })
        };
        let point = |side: fn(&FigureVerdict) -> f64| {
            let load = load_of(&here).to_string();
            Some(Point { load, without: victim(baseline, side)?, with: victim(row, side)?, operations_per_s: None })
        };
        let both = (point(|verdict| verdict.measured), point(|verdict| verdict.modelled));
        let (Some(measured), Some(modelled)) = both else { continue };
        let label = family(&here);
        let index = families.iter().position(|family| family.label == label).unwrap_or_else(|| {
            families.push(Family { label, ..Family::default() });
            families.len() - 1
        });
        families[index].loads.push(load_of(&here));
        families[index].measured.push(measured);
        families[index].modelled.push(modelled);
    }
    let value = |points: &[Point]| Some(z(points, Weights::EVEN).ok()?.mean);
    families
        .into_iter()
        .filter_map(|Family { label, loads, measured, modelled }| {
            Some(ZVerdict { label, loads, measured: value(&measured)?, modelled: value(&modelled)? })
        })
        .collect()
}

/// Whether two rows came through the same software; baselines name no tunables.
fn same_path(one: &Contest, other: &Contest) -> bool {
    (one.stack.host, one.stack.scheduler) == (other.stack.host, other.stack.scheduler)
}

/// What the loads of one line of a chart have in common.
pub(super) fn family(contest: &Contest) -> String {
    let victim = Stream { threads: 1, queue_depth: 1, ..contest.victim };
    let swept = loaded(contest) != contest.victim;
    let interferer =
        contest.interferer.map(|stream| if swept { Stream { threads: 1, queue_depth: 1, ..stream } } else { stream });
    let text = Contest { victim, interferer, ..*contest }.to_string();
    text.replacen(" x1", "", 1)
}
