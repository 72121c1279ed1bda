//! What 100 % of an interferer means, for tables that limit it to a part of its own peak.
//!
//! The campaign that a row belongs to says so: a table of interferers alone, or the row's own table by what was done there without a
//! limit, or by what its interferers reached. Where neither does, the model's own peak stands for it. Other tables that happen to be
//! looked at in the same run have no say, so that a table's verdict is the same alone and beside others.

use std::path::Path;

use super::case::{Case, Contest, Rate, ResetMode, Stream};
use super::figure::Figure;
use super::table::{Kind, Table};
use crate::interference::Operation;

/// A peak that a table of interferers alone gives.
struct Alone<'a> {
    folder: Option<&'a Path>,
    operation: Operation,
    rate: f64,
}

/// What the rows of a table tell.
struct Own<'a> {
    folder: Option<&'a Path>,
    /// Streams that run alone and without a limit.
    unlimited: Vec<(Stream, f64)>,
    limits: Vec<(Stream, f64)>,
}

/// The peaks that tables tell, in operations a second.
pub(super) struct References<'a> {
    alone: Vec<Alone<'a>>,
    /// Of each table.
    tables: Vec<Own<'a>>,
}

fn folder(table: &Table) -> Option<&Path> {
    Path::new(&table.origin).parent()
}

impl<'a> References<'a> {
    /// What these tables tell.
    pub(super) fn of(tables: &'a [Table]) -> Self {
        let mut alone = Vec::new();
        for table in tables.iter().filter(|table| table.kind == Kind::Alone) {
            for row in &table.rows {
                if let (Ok(Case::Contest(contest)), Some(rate)) = (&row.case, row.measured.get(Figure::Iops))
                    && is_published(&contest.victim)
                {
                    alone.push(Alone { folder: folder(table), operation: contest.victim.operation, rate });
                }
            }
        }
        let own = |table| Own { folder: folder(table), unlimited: unlimited(table), limits: limits_reached(table) };
        Self { alone, tables: tables.iter().map(own).collect() }
    }

    /// The peak of the interferer of a row of the table with this index, if a table tells it.
    pub(super) fn peak(&self, table: usize, case: &Case) -> Option<f64> {
        let Case::Contest(contest) = case else { return None };
        let stream = &contest.limited()?;
        let Own { folder, unlimited, limits } = self.tables.get(table)?;
        let published = || {
            // The campaign's own, which lies beside it; of several the last.
            let of_operation = |alone: &&Alone<'_>| is_published(stream) && alone.operation == stream.operation;
            let mut told = self.alone.iter().rev().filter(of_operation);
            let first = told.clone().next();
            told.find(|alone| alone.folder == *folder).or(first).map(|alone| alone.rate)
        };
        let alone = || {
            let kind = limited_kind(stream);
            unlimited.iter().find(|(known, _)| contest.interferer.is_none() && *known == kind).map(|(_, rate)| *rate)
        };
        published().or_else(alone).or_else(|| limit_reached(limits, contest))
    }
}

/// Whether a stream's peak may be what a table of interferers alone says: softfinishes
/// have others.
fn is_published(stream: &Stream) -> bool {
    stream.padding_bytes.is_none()
}

/// What streams of a table did alone and without a limit.
fn unlimited(table: &Table) -> Vec<(Stream, f64)> {
    let rows = table.rows.iter().filter(|_| table.kind == Kind::Contest);
    let alone = rows.filter_map(|row| match &row.case {
        Ok(Case::Contest(contest @ Contest { interferer: None, .. })) if contest.limited().is_none() => {
            Some((contest.victim, row.measured.get(Figure::Iops)?))
        }
        _ => None,
    });
    alone.collect()
}

/// What 100 % of interferers means by the rows of a table that they were limited in: the most that
/// one reached, over its percentage. Rows in which it could not keep up say less.
fn limits_reached(table: &Table) -> Vec<(Stream, f64)> {
    let mut limits: Vec<(Stream, f64)> = Vec::new();
    for row in table.rows.iter().filter(|_| table.kind == Kind::Contest) {
        let Ok(Case::Contest(Contest { interferer: Some(stream), emulated: false, .. })) = &row.case else { continue };
        let (Rate::PercentOfPeak(percent), Some(rate)) = (stream.rate, row.measured.get(Figure::InterfererPerS)) else {
            continue;
        };
        let (kind, peak) = (limited_kind(stream), rate * 100.0 / percent);
        match limits.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, most)) => *most = most.max(peak),
            None => limits.push((kind, peak)),
        }
    }
    limits
}

fn limit_reached(limits: &[(Stream, f64)], contest: &Contest) -> Option<f64> {
    let kind = limited_kind(&contest.interferer?);
    limits.iter().find(|(known, _)| !contest.emulated && *known == kind).map(|(_, peak)| *peak)
}

/// What streams limited alike have in common.
fn limited_kind(stream: &Stream) -> Stream {
    Stream { rate: Rate::Unlimited, ..*stream }
}

/// The experiment that yields a stream's peak. Lazy resets were limited to a
/// part of what synchronous ones reach.
pub(super) fn peak_contest(stream: &Stream, contest: &Contest) -> Contest {
    Contest {
        victim: limited_kind(stream),
        interferer: None,
        active: 1.0,
        runtime_s: None,
        short: false,
        emulated: contest.emulated,
        reset: contest.reset.map(|_| ResetMode::Sync),
        finish_chunk_bytes: None,
        stack: contest.stack,
    }
}

/// Interferers whose peak nobody measured.
pub(super) fn wanted_peaks(cases: &[(&Case, Option<f64>)]) -> Vec<Contest> {
    let mut wanted: Vec<Contest> = Vec::new();
    for (case, told) in cases {
        let Case::Contest(contest) = case else { continue };
        let Some(stream) = contest.limited() else { continue };
        let limited = matches!(stream.rate, Rate::PercentOfPeak(_)) && told.is_none();
        let peak = peak_contest(&stream, contest);
        if limited && !wanted.contains(&peak) {
            wanted.push(peak);
        }
    }
    wanted
}
