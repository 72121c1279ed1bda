//! Running cases under both hosts.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::Serialize;
use toml::{Table, Value};

use super::compare::near;
use super::{Case, Comparison, Difference, DifferenceKind, KnownDifference, compare, known_differences};
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::results::RunResult;
use crate::run::{commands_of_run, plan};
use crate::spec::SpecSource;

/// Most commands of one case.
const COMMANDS_MAX: usize = 1 << 18;

/// How to validate.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The device profile.
    pub device: &'a str,
    /// Cases at once.
    pub threads: usize,
    /// Set to stop: cases under way end, no new ones begin.
    pub stop: &'a AtomicBool,
    /// Told of each case that is done.
    pub done: &'a (dyn Fn(&CaseOutcome) + Sync),
}

/// Why the validation cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum TruthError {
    /// The built-in data is at fault.
    #[error("the set of cases or known differences cannot be read: {0}")]
    Data(#[from] toml::de::Error),
    /// A case cannot be run.
    #[error("case {case}: {source}")]
    Case {
        /// Its name.
        case: String,
        /// Why.
        source: Box<LabError>,
    },
}

/// What one case came to.
#[derive(Clone, Debug, Serialize)]
pub struct CaseOutcome {
    /// The case.
    pub case: Case,
    /// The streams, compared.
    pub comparison: Comparison,
    /// Mean latency as the job saw it: (direction, model, Linux), in microseconds.
    pub host_latencies_us: Vec<(String, f64, f64)>,
    /// For each difference the cause, where it is known.
    pub causes: Vec<Option<String>>,
}

impl CaseOutcome {
    /// Differences that nothing explains.
    pub fn unexplained(&self) -> usize {
        self.causes.iter().filter(|cause| cause.is_none()).count()
    }
}

/// Runs `cases` under both hosts; the outcomes in their order, without those
/// that a stop left out.
pub fn validate(cases: &[Case], options: Options<'_>) -> Result<Vec<CaseOutcome>, TruthError> {
    let known = known_differences()?;
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<(usize, Result<CaseOutcome, TruthError>)>> = Mutex::new(Vec::new());
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index).filter(|_| !options.stop.load(Ordering::Relaxed)) else { return };
            let outcome = one(case, options.device, &known);
            if let Ok(outcome) = &outcome {
                (options.done)(outcome);
            }
            outcomes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, outcome));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.clamp(1, cases.len().max(1)) {
            scope.spawn(worker);
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The experiment of a case under one host: one point, one run.
fn experiment(case: &Case, device: &str, host: &str) -> Result<Experiment, LabError> {
    let text = |text: &str| Value::String(text.to_owned());
    let mut stack = Table::new();
    stack.insert("host".to_owned(), text(host));
    stack.insert("device".to_owned(), text(case.device.as_deref().unwrap_or(device)));
    stack.insert("device_set".to_owned(), Value::Table(case.device_set.clone()));
    let mut block = case.block.clone();
    if host == "model" {
        block.extend(case.model_block.clone());
        // One processor as in the guest, and as free.
        let free = ["context_switch", "syscall", "migration", "time_slice"];
        let mut cpu: Table = free.iter().map(|key| ((*key).to_owned(), text("0us"))).collect();
        cpu.insert("cores".to_owned(), Value::Integer(1));
        stack.insert("cpu".to_owned(), Value::Table(cpu));
        let path: Table = ["submit", "complete"].iter().map(|key| ((*key).to_owned(), text("0us"))).collect();
        stack.insert("io_path".to_owned(), Value::Table(path));
    }
    stack.insert("block".to_owned(), Value::Table(block));
    let mut linux = Table::new();
    linux.insert("front_end".to_owned(), text(&case.front_end.to_string()));
    linux.insert("memory".to_owned(), text("1g"));
    stack.insert("linux".to_owned(), Value::Table(linux));
    let mut workload = Table::new();
    workload.insert("fio".to_owned(), text(&case.fio));
    let mut document = Table::new();
    document.insert("title".to_owned(), text(&case.name));
    document.insert("stack".to_owned(), Value::Table(stack));
    document.insert("workload".to_owned(), Value::Table(workload));
    Ok(Experiment::from_document(&case.name, document, &[], std::path::Path::new(""), SpecSource::default())?)
}

fn one(case: &Case, device: &str, known: &[KnownDifference]) -> Result<CaseOutcome, TruthError> {
    let run = |host: &str| {
        let planned = plan(&experiment(case, device, host)?)?;
        let first = planned.first().ok_or_else(|| LabError::Unfit { message: "no run".to_owned() })?;
        commands_of_run(first, COMMANDS_MAX)
    };
    let wrap = |source| TruthError::Case { case: case.name.clone(), source: Box::new(source) };
    let (model, model_records, _) = run("model").map_err(wrap)?;
    let (linux, linux_records, _) = run("linux").map_err(wrap)?;
    let mut comparison = compare(&model_records, &linux_records, case.compare);
    let host_latencies_us = host_latencies(&model, &linux);
    comparison.differences.extend(host_difference(&host_latencies_us));
    comparison.differences.extend(failures(&model, &linux));
    let causes = comparison
        .differences
        .iter()
        .map(|difference| known.iter().find(|known| known.explains(case, difference)).map(|known| known.cause.clone()))
        .collect();
    Ok(CaseOutcome { case: case.clone(), comparison, host_latencies_us, causes })
}

/// Mean total latency of each direction that either side has.
fn host_latencies(model: &RunResult, linux: &RunResult) -> Vec<(String, f64, f64)> {
    ["read", "write", "trim", "sync"]
        .iter()
        .filter_map(|direction| {
            let mean = |run: &RunResult| run.direction(direction).map(|part| part.lat.mean_ns / 1e3);
            Some(((*direction).to_owned(), mean(model)?, mean(linux)?))
        })
        .collect()
}

fn host_difference(latencies: &[(String, f64, f64)]) -> Option<Difference> {
    let far: Vec<_> = latencies.iter().filter(|(_, model, linux)| !near(*model, *linux)).collect();
    let (direction, model, linux) = far.first()?;
    Some(Difference {
        kind: DifferenceKind::HostLatency,
        first: format!("{direction} takes {model:.2} us under the model, {linux:.2} us under Linux"),
        count: far.len(),
    })
}

fn failures(model: &RunResult, linux: &RunResult) -> Option<Difference> {
    let side = |name: &str, run: &RunResult| run.failures.first().map(|failure| format!("under {name}: {failure}"));
    if model.failures == linux.failures {
        return None;
    }
    let first = side("the model", model).or_else(|| side("Linux", linux))?;
    Some(Difference { kind: DifferenceKind::Failure, first, count: model.failures.len().max(linux.failures.len()) })
}
