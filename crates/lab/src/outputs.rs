//! What an experiment leaves in its results folder once its runs are done.

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use ssd::command_log;

use crate::commands::COMMANDS_MAX;
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::fill;
use crate::quantity::texts;
use crate::remarks;
use crate::report;
use crate::results::{Optional, ResultError, RunResult, Store, Swept, Tables};
use crate::run::{PlannedRun, commands_of_run, plan};
use crate::summary;

pub use crate::fill::{failed_entry, finished_entry};
pub use crate::finished::{Failed, Finished, failures};

/// Where the document after overrides is kept.
const SPEC: &str = "spec.toml";
/// What the experiment is called, where its relative paths start, and which
/// program made the outputs: what may differ between machines.
const ORIGIN: &str = "origin.json";
/// What the outputs come to, and what they are.
const SUMMARY: &str = "summary.json";
/// The report.
const REPORT: &str = "report.html";

/// Spans that `--trace` keeps: about 20 000 requests of eight steps.
const TRACE_SPANS: usize = 1 << 18;
/// Runs of which each gets files of its own: fio's output and time series. Of
/// larger sweeps `plumb report --each` writes them.
pub const RUNS_WITH_FILES: usize = 300;

/// The outputs of a folder: what they were made of, what they are, and what
/// they come to.
#[derive(Serialize, Deserialize)]
struct Summary {
    made_of: String,
    /// Names and hashes.
    files: Vec<(String, String)>,
    finished: Finished,
}

/// The report of a folder.
pub fn report_path(store: &Store) -> PathBuf {
    store.folder().join(REPORT)
}

/// Keeps the spec, so that reports and merges need nothing but the folder.
pub fn write_spec(store: &Store, experiment: &Experiment) -> Result<(), ResultError> {
    let text = toml::to_string(&experiment.document).unwrap_or_default();
    // A resume of what is done writes nothing.
    if store.read_text(SPEC).ok().as_ref() != Some(&text) {
        store.write(SPEC, text.as_bytes())?;
    }
    let folder = std::path::absolute(&experiment.folder).unwrap_or_else(|_| experiment.folder.clone());
    let mut origin = read_origin(store).unwrap_or_else(|_| json!({}));
    let known = origin.clone();
    origin["name"] = json!(experiment.name);
    origin["folder"] = json!(folder);
    if origin != known { store.write(ORIGIN, origin.to_string().as_bytes()).map(drop) } else { Ok(()) }
}

fn read_origin(store: &Store) -> Result<serde_json::Value, ResultError> {
    let damaged = |message: String| ResultError::Damaged { path: store.folder().join(ORIGIN), message };
    let origin: serde_json::Value =
        serde_json::from_str(&store.read_text(ORIGIN)?).map_err(|error| damaged(error.to_string()))?;
    if origin.is_object() { Ok(origin) } else { Err(damaged("it is no object".to_owned())) }
}

/// Which program this is: another one may write other outputs of the same
/// runs. Cheap, and only ever compared on one machine.
fn program() -> String {
    let file = std::env::current_exe().and_then(std::fs::metadata);
    let changed = file.as_ref().ok().and_then(|file| file.modified().ok());
    format!("{:?} {:?}", file.map(|file| file.len()).ok(), changed)
}

/// The experiment of a folder and its runs, all of them finished; an error
/// names the command that does the missing ones.
pub fn read(store: &Store) -> Result<(Experiment, Vec<PlannedRun>), LabError> {
    let experiment = read_experiment(store)?;
    let planned = plan(&experiment)?;
    let mut missing: Vec<usize> =
        planned.iter().filter(|run| !store.contains(&run.key)).map(|run| run.point.index).collect();
    let count = missing.len();
    missing.dedup();
    if let Some(first) = missing.first() {
        return Err(LabError::Unfit {
            message: format!(
                "{count} of {} runs are missing in {} (first: point {first}); run the missing shards, or the spec again with --out, and merge then",
                planned.len(),
                store.folder().display(),
            ),
        });
    }
    Ok((experiment, planned))
}

pub(crate) fn read_experiment(store: &Store) -> Result<Experiment, LabError> {
    let origin = read_origin(store)?;
    let text = |key: &str| origin[key].as_str().unwrap_or_default().to_owned();
    let spec = store.read_text(SPEC)?;
    let path = store.folder().join(SPEC).display().to_string();
    Ok(Experiment::parse(&text("name"), &path, &spec, Path::new(&text("folder")), &[])?)
}

/// Gathers the runs of several shards of one experiment into `out`.
pub fn merge(shards: &[Store], out: &Store) -> Result<(), LabError> {
    let mut first: Option<(Experiment, &Store)> = None;
    for shard in shards {
        let experiment = read_experiment(shard)?;
        match &first {
            None => {
                write_spec(out, &experiment)?;
                first = Some((experiment, shard));
            }
            Some((known, store)) if known.hash() != experiment.hash() => {
                let (path, first) = (shard.folder().to_owned(), store.folder().to_owned());
                return Err(ResultError::OtherExperiment { path, first }.into());
            }
            Some(_) => {}
        }
    }
    let Some((experiment, _)) = first else { return Ok(()) };
    for run in plan(&experiment)? {
        for shard in shards {
            if out.adopt(&run.key, shard)? {
                break;
            }
        }
    }
    Ok(out.sync()?)
}

/// Puts the finished runs of `planned` into one file.
pub fn settle(store: &Store, planned: &[PlannedRun]) -> Result<(), ResultError> {
    store.settle(&planned.iter().map(|run| run.key.as_str()).collect::<Vec<_>>())
}

/// The outputs of finished runs: those of the folder where they are whole and
/// made of the same runs by this program, else written.
pub fn finish(store: &Store, experiment: &Experiment, planned: &[PlannedRun]) -> Result<Finished, LabError> {
    settle(store, planned)?;
    let kept = || {
        let summary: Summary = serde_json::from_str(&store.read_text(SUMMARY).ok()?).ok()?;
        let same_program = read_origin(store).ok()?["program"] == program();
        let whole = summary.files.iter().all(|(name, hash)| store.is_output(name, hash));
        // A run that failed may have been repeated.
        let is_same = summary.made_of == made_of(experiment, planned) && summary.finished.failures.is_empty();
        (same_program && whole && is_same).then_some(summary.finished)
    };
    kept().map_or_else(|| write_all(store, experiment, planned, planned.len() <= RUNS_WITH_FILES), Ok)
}

/// Writes a page of some points of a sweep that is too large for one page.
pub fn write_points(
    store: &Store,
    experiment: &Experiment,
    planned: &[PlannedRun],
    points: Range<usize>,
) -> Result<PathBuf, LabError> {
    let all = experiment.points();
    let some = all.get(points.clone()).filter(|some| (1..=report::PICTURED_POINTS).contains(&some.len()));
    let Some(some) = some else {
        let message = format!(
            "there are points 1 to {}, of which one page draws {} at most; name a range of them, such as 100-120",
            all.len(),
            report::PICTURED_POINTS
        );
        return Err(LabError::Unfit { message });
    };
    let mut results = Vec::new();
    for run in planned.iter().filter(|run| points.contains(&run.point.index)) {
        results.extend(run.kept(store)?.map(|run| run.for_report(true, true)));
    }
    let finished = Finished { failures: failures(&results), remarks: remarks::of(&results), ..Finished::default() };
    let mut data = fill::report_data(experiment, some, &results, &finished, points.clone())?;
    (data.plots, data.heat_maps) = (Vec::new(), Vec::new());
    data.title = format!("{}: points {} to {}", data.title, points.start + 1, points.end);
    data.points_before = points.start;
    let name = format!("report-points-{}-{}.html", points.start + 1, points.end);
    Ok(store.write(&name, report::render(&data).as_bytes())?)
}

/// Identifies what outputs are made of.
fn made_of(experiment: &Experiment, planned: &[PlannedRun]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(experiment.hash().as_bytes());
    for run in planned {
        hasher.update(run.key.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Writes tables and report; `each` says whether each run gets its files, too.
pub fn write_all(
    store: &Store,
    experiment: &Experiment,
    planned: &[PlannedRun],
    each: bool,
) -> Result<Finished, LabError> {
    settle(store, planned)?;
    let (results, mut files, only) = write_tables(store, experiment, planned, each)?;
    let metrics = summary::metrics(experiment, &results);
    let all = experiment.points();
    let values = experiment.values(all, &results);
    let comparisons = summary::comparisons(experiment, values);
    let derived = summary::derived(experiment, values);
    let (text, fio_json) = only.map_or((None, None), |only| (Some(only.text), only.fio_json));
    let finished = Finished {
        runs: results.len(),
        points: summary::points(&results, &metrics),
        metrics: metrics.iter().map(ToString::to_string).collect(),
        interference: summary::interference(experiment, values),
        derived: derived.iter().map(|(quantity, value)| (quantity.to_string(), *value)).collect(),
        shown_comparisons: fill::in_base_units(&comparisons),
        comparisons: comparisons.into_iter().map(|(_, row)| row).collect(),
        failures: failures(&results),
        remarks: remarks::of(&results),
        text,
        fio_json,
    };
    let data = fill::report_data(experiment, all, &results, &finished, 0..report::PICTURED_POINTS)?;
    let pages = report::pages(&data);
    files.push(store.write_output(REPORT, pages.page.as_bytes())?);
    for (name, text) in &pages.beside {
        files.push(store.write_output(name, text.as_bytes())?);
    }
    let mut origin = read_origin(store)?;
    if origin["program"] != program() {
        origin["program"] = json!(program());
        store.write(ORIGIN, origin.to_string().as_bytes())?;
    }
    let summary = Summary { made_of: made_of(experiment, planned), files, finished };
    // Plain structs with text keys: there is nothing in them that JSON cannot hold.
    store.write(SUMMARY, &serde_json::to_vec(&summary).unwrap_or_default())?;
    Ok(summary.finished)
}

/// Writes the tables from the runs, one after the other. What is returned of
/// them is what reports need; and the only run whole, where there is one.
#[allow(clippy::type_complexity)]
fn write_tables(
    store: &Store,
    experiment: &Experiment,
    planned: &[PlannedRun],
    each: bool,
) -> Result<(Vec<RunResult>, Vec<(String, String)>, Option<RunResult>), LabError> {
    let swept_texts: Vec<_> = planned.iter().map(|run| texts(&run.point)).collect();
    let swept = Swept::of(swept_texts.iter().map(Vec::as_slice));
    let program = experiment.points().iter().any(|point| point.spec.workload.program.is_some());
    let mut tables = Tables::create(store.folder(), &experiment.hash(), &swept, Optional { series: each, program })?;
    let mut results = Vec::with_capacity(planned.len());
    let (mut files, mut only) = (Vec::new(), None);
    for run in planned {
        let Some(result) = run.kept(store)? else { continue };
        tables.add(&result)?;
        if each {
            files.extend(store.write_fio(&result)?);
        }
        if planned.len() == 1 {
            only = Some(result.clone());
        }
        let (first, pictured) = (results.is_empty(), run.point.index < report::PICTURED_POINTS);
        results.push(result.for_report(first, pictured));
    }
    files.extend(tables.finish()?);
    Ok((results, files, only))
}

/// Runs the plan's first run once more and keeps the commands its device got.
pub fn write_command_log(store: &Store, planned: &[PlannedRun]) -> Result<(), LabError> {
    let Some(first) = planned.first() else { return Ok(()) };
    let (_, records, left_out) = commands_of_run(first, COMMANDS_MAX)?;
    let mut text = format!("{}\n", command_log::HEADER);
    for record in &records {
        text += &format!("{record}\n");
    }
    store.write("commands.tsv", text.as_bytes())?;
    if left_out > 0 {
        note(format_args!("the log holds the first {} commands; {left_out} later ones were left out", records.len()));
    }
    Ok(())
}

/// Says something on standard error; where that is gone, nobody is there to be told.
fn note(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("note: {text}\n").as_bytes());
}

/// Runs the plan's first run once more with a recorder and keeps its spans.
pub fn write_trace(store: &Store, planned: &[PlannedRun]) -> Result<(), LabError> {
    let Some(first) = planned.first() else { return Ok(()) };
    let (spans, dropped) = first.inputs.workload.recorded(first.stand(), TRACE_SPANS)?;
    let fail = |name: &str, source| ResultError::Write { path: store.folder().join(name), source };
    let mut table = Vec::new();
    trace::write_table(&spans, &mut table).map_err(|source| fail("trace.tsv", source))?;
    store.write("trace.tsv", &table)?;
    let mut perfetto = Vec::new();
    trace::write_perfetto(&spans, &mut perfetto).map_err(|source| fail("trace.perfetto", source))?;
    store.write("trace.perfetto", &perfetto)?;
    if dropped > 0 {
        note(format_args!("the trace holds the first {} spans; {dropped} later ones were left out", spans.len()));
    }
    Ok(())
}
