//! What an experiment leaves in its results folder once its runs are done.

use std::path::{Path, PathBuf};

use serde_json::json;

use ssd::command_log;

use crate::commands::COMMANDS_MAX;
use crate::metric::Metric;
use crate::quantity::{Effect, Quantity, Values};
use crate::report::{self, Comparison, Estimate};
use crate::results::{ResultError, RunResult, Store, counters, latency, runs};
use crate::run::{LabError, LinuxHostError, PlannedRun, WorkloadInput, commands_of_run, plan, simulate_recorded};
use crate::spec::Experiment;
use crate::summary::{self, PointSummary};

/// Where the document after overrides is kept.
const SPEC: &str = "spec.toml";
/// What the experiment is called and where its relative paths start.
const ORIGIN: &str = "origin.json";

/// Spans that `--trace` keeps: about 20 000 requests of eight steps.
const TRACE_SPANS: usize = 1 << 18;

/// What a finished experiment comes to.
#[derive(Debug)]
pub struct Finished {
    /// The metrics printed.
    pub metrics: Vec<Metric>,
    /// One row a point.
    pub points: Vec<PointSummary>,
    /// What one stream costs the other, where the spec asks; one estimate for
    /// each of `Effect::SHOWN`.
    pub interference: Vec<PointSummary>,
    /// Values derived from others.
    pub derived: Vec<(Quantity, Option<Estimate>)>,
    /// Published values beside ours, in the units of their metrics' names.
    pub comparisons: Vec<Comparison>,
    /// The same as pages show them.
    pub shown_comparisons: Vec<Comparison>,
    /// The report.
    pub report: PathBuf,
    /// All of it as JSON.
    pub json: serde_json::Value,
}

impl Finished {
    /// What `--json` prints: fio's json+ when the experiment is a single fio run.
    pub fn json_text(&self, runs: &[RunResult]) -> String {
        match runs {
            [RunResult { fio_json: Some(fio), .. }] => fio.clone(),
            _ => format!("{:#}", self.json),
        }
    }

    /// How many published values are further away than the spec allows.
    pub fn missed(&self) -> usize {
        self.comparisons.iter().filter(|row| row.holds() == Some(false)).count()
    }
}

/// Keeps the spec, so that reports and merges need nothing but the folder.
pub fn write_spec(store: &Store, experiment: &Experiment) -> Result<(), ResultError> {
    let text = toml::to_string(&experiment.document).unwrap_or_default();
    store.write(SPEC, text.as_bytes())?;
    let folder = std::path::absolute(&experiment.folder).unwrap_or_else(|_| experiment.folder.clone());
    let origin = json!({ "name": experiment.name, "folder": folder });
    store.write(ORIGIN, origin.to_string().as_bytes()).map(drop)
}

/// The experiment of a folder and all of its runs, in order; an error names
/// the command that does the missing ones.
pub fn read(store: &Store) -> Result<(Experiment, Vec<RunResult>), LabError> {
    let experiment = read_experiment(store)?;
    let planned = plan(&experiment)?;
    let mut found = Vec::with_capacity(planned.len());
    let mut missing = Vec::new();
    for run in &planned {
        match run.kept(store)? {
            Some(result) => found.push(result),
            None => missing.push(run.point.index),
        }
    }
    if !missing.is_empty() {
        missing.dedup();
        return Err(LabError::Unfit {
            message: format!(
                "{} of {} runs are missing in {} (first: point {}); run the missing shards, or the spec again with --out, and merge then",
                planned.len() - found.len(),
                planned.len(),
                store.folder().display(),
                missing[0]
            ),
        });
    }
    Ok((experiment, found))
}

fn read_experiment(store: &Store) -> Result<Experiment, LabError> {
    let damaged = |name: &str, message: String| ResultError::Damaged { path: store.folder().join(name), message };
    let origin: serde_json::Value =
        serde_json::from_str(&store.read_text(ORIGIN)?).map_err(|error| damaged(ORIGIN, error.to_string()))?;
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
            if let Some(result) = shard.get(&run.key)? {
                out.put(&result)?;
                break;
            }
        }
    }
    Ok(())
}

/// Writes tables, fio files and the report.
pub fn write_all(store: &Store, experiment: &Experiment, results: &[RunResult]) -> Result<Finished, LabError> {
    let hash = experiment.hash();
    let table = runs(&hash, results);
    store.write_csv("runs.csv", &table)?;
    store.write_parquet("runs.parquet", &table)?;
    store.write_parquet("latency.parquet", &latency(&hash, results))?;
    let counters = counters(&hash, results);
    store.write_csv("counters.csv", &counters)?;
    store.write_parquet("counters.parquet", &counters)?;
    for run in results {
        if let Some(fio) = &run.fio_json {
            store.write(&format!("fio/point{}-repeat{}.json", run.point, run.repeat), fio.as_bytes())?;
        }
    }
    let metrics = summary::metrics(experiment, results)?;
    let all = experiment.points()?;
    let values = Values::new(experiment, &all, results);
    let comparisons = summary::comparisons(experiment, values)?;
    let mut finished = Finished {
        points: summary::points(results, &metrics),
        metrics,
        interference: summary::interference(experiment, values),
        derived: summary::derived(experiment, values)?,
        shown_comparisons: crate::fill::in_base_units(&comparisons, &experiment.spec)?,
        comparisons,
        report: PathBuf::new(),
        json: serde_json::Value::Null,
    };
    let data = crate::fill::report_data(experiment, &all, results, &finished)?;
    finished.report = store.write("report.html", report::render(&data).as_bytes())?;
    finished.json = json_of(experiment, results, &finished);
    Ok(finished)
}

fn json_of(experiment: &Experiment, results: &[RunResult], finished: &Finished) -> serde_json::Value {
    let rows = |rows: &[PointSummary], names: &[String]| -> Vec<serde_json::Value> {
        rows.iter()
            .map(|row| {
                let parameters: serde_json::Map<_, _> =
                    row.parameters.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
                let values: serde_json::Map<_, _> = names
                    .iter()
                    .zip(&row.estimates)
                    .filter_map(|(name, estimate)| estimate.map(|estimate| (name.clone(), json!(estimate))))
                    .collect();
                json!({ "parameters": parameters, "metrics": values })
            })
            .collect()
    };
    let metrics: Vec<String> = finished.metrics.iter().map(ToString::to_string).collect();
    let failures: Vec<_> = results.iter().flat_map(|run| &run.failures).collect();
    let mut whole = json!({
        "experiment": experiment.name,
        "title": experiment.spec.title,
        "hash": experiment.hash(),
        "version": env!("CARGO_PKG_VERSION"),
        "points": rows(&finished.points, &metrics),
        "published": finished.comparisons,
        "failures": failures,
    });
    if !finished.interference.is_empty() {
        let names: Vec<String> =
            Effect::SHOWN.into_iter().map(|effect| Quantity::Interference(effect).to_string()).collect();
        whole["interference"] = rows(&finished.interference, &names).into();
    }
    if !finished.derived.is_empty() {
        let values: serde_json::Map<_, _> =
            finished.derived.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
        whole["derived"] = values.into();
    }
    whole
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
        eprintln!("note: the log holds the first {} commands; {left_out} later ones were left out", records.len());
    }
    Ok(())
}

/// Runs the plan's first run once more with a recorder and keeps its spans.
pub fn write_trace(store: &Store, planned: &[PlannedRun]) -> Result<(), LabError> {
    let Some(first) = planned.first() else { return Ok(()) };
    if matches!(first.inputs.workload, WorkloadInput::Linux(_) | WorkloadInput::Study(_)) {
        let reason = "its first run is under a real kernel; `plumb linux --trace FILE -- fio job.fio` traces one";
        return Err(LinuxHostError::Option { option: "--trace".to_owned(), reason: reason.to_owned() }.into());
    }
    let (spans, dropped) = simulate_recorded(first, TRACE_SPANS)?;
    let fail = |name: &str, source| ResultError::Write { path: store.folder().join(name), source };
    let mut table = Vec::new();
    trace::write_table(&spans, &mut table).map_err(|source| fail("trace.tsv", source))?;
    store.write("trace.tsv", &table)?;
    let mut perfetto = Vec::new();
    trace::write_perfetto(&spans, &mut perfetto).map_err(|source| fail("trace.perfetto", source))?;
    store.write("trace.perfetto", &perfetto)?;
    if dropped > 0 {
        eprintln!("note: the trace holds the first {} spans; {dropped} later ones were left out", spans.len());
    }
    Ok(())
}
