//! Figures both outputs derive from a report.

use std::borrow::Cow;
use std::collections::BTreeMap;

use stats::Histogram;
use units::Nanos;

use crate::fio::parse::Unified;
use crate::fio::report::{DirectionReport, JobReport};

/// The blocks of figures a job shows: `read`, `write`, `trim`, or `mixed`; then
/// `finish` and `reset`, where there were any.
pub(super) fn sections(report: &JobReport) -> Vec<(&'static str, Cow<'_, DirectionReport>)> {
    let mut sections = transfers(report);
    let management = [("finish", &report.finish), ("reset", &report.reset)];
    let done = management.into_iter().filter(|(_, done)| done.ios > 0);
    sections.extend(done.map(|(name, done)| (name, Cow::Borrowed(done))));
    sections
}

fn transfers(report: &JobReport) -> Vec<(&'static str, Cow<'_, DirectionReport>)> {
    let apart = report.directions.iter().map(|(direction, figures)| (direction.name(), Cow::Borrowed(figures)));
    let mixed = || {
        let mut all = report.directions.read.clone();
        all.merge(&report.directions.write);
        all.merge(&report.directions.trim);
        ("mixed", Cow::Owned(all))
    };
    match report.setup.unified {
        Unified::None => apart.collect(),
        Unified::Mixed => vec![mixed()],
        Unified::Both => apart.chain([mixed()]).collect(),
    }
}

/// Bytes per second of all reports of a group, in each of their sections.
pub(super) struct GroupRates(BTreeMap<(u32, &'static str), f64>);

impl GroupRates {
    /// Adds up every group at once: a run has thousands of jobs, and as many groups.
    pub fn of(reports: &[Cow<'_, JobReport>]) -> Self {
        let mut rates = BTreeMap::new();
        for report in reports {
            for (section, figures) in sections(report) {
                *rates.entry((report.group, section)).or_insert(0.0) += figures.bytes_per_s();
            }
        }
        Self(rates)
    }

    /// Of one section of a group; 0 where none of its reports has it.
    pub fn bytes_per_s(&self, group: u32, section: &'static str) -> f64 {
        self.0.get(&(group, section)).copied().unwrap_or(0.0)
    }
}

/// Upper bounds of fio's coarse latency table, in each unit.
pub(super) const LATENCY_BOUNDS: [u64; 12] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000, u64::MAX];

/// Shares in percent of fio's coarse latency table: nanoseconds and
/// microseconds to 1000, milliseconds to 2000 and above.
pub(super) fn latency_table(report: &JobReport) -> [Vec<f64>; 3] {
    let mut counts = [vec![0_u64; 10], vec![0; 10], vec![0; 12]];
    let all: u64 = report.directions.iter().map(|(_, figures)| figures.clat.count()).sum();
    for (_, figures) in report.directions.iter() {
        for bin in figures.clat.bins() {
            let (unit, value) = match bin.low.0 {
                ns @ 0..1_000 => (0, ns),
                ns @ 1_000..1_000_000 => (1, ns / 1_000),
                ns => (2, ns / 1_000_000),
            };
            let bucket = LATENCY_BOUNDS.iter().position(|bound| value < *bound).unwrap_or(11);
            counts[unit][bucket] += bin.count;
        }
    }
    counts.map(|unit| unit.into_iter().map(|count| share(count, all)).collect())
}

/// A share in percent; fio shows anything seen at all as at least 0.01.
pub(super) fn share(count: u64, all: u64) -> f64 {
    if count == 0 || all == 0 { 0.0 } else { (100.0 * count as f64 / all as f64).max(0.01) }
}

/// CPU time in percent of the time the job's threads existed.
pub(super) fn cpu_percent(report: &JobReport) -> (f64, f64) {
    let elapsed = report.finished_at.since(report.started_at).0 as f64 * f64::from(report.threads);
    let percent = |time: Nanos| if elapsed > 0.0 { 100.0 * time.0 as f64 / elapsed } else { 0.0 };
    (percent(report.cpu.user), percent(report.cpu.system))
}

/// fio's `err`: the errno of the first failure (EIO), or 0.
pub(super) fn errno(report: &JobReport) -> u32 {
    const EIO: u32 = 5;
    const EILSEQ: u32 = 84;
    let mismatched = report.verify.as_ref().is_some_and(|verify| verify.mismatches > 0);
    if report.error_count > 0 || report.shortfall.is_some() && !mismatched {
        EIO
    } else if mismatched {
        EILSEQ
    } else {
        0
    }
}

/// The percentiles asked for, with their values.
pub(super) fn percentiles(report: &JobReport, times: &Histogram) -> Vec<(f64, Nanos)> {
    report.setup.percentiles.iter().map(|percent| (*percent, times.percentile(*percent))).collect()
}
