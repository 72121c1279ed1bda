//! What one experiment and a folder of them share: a place for results, the runs themselves, and what is said of failures.

use std::path::Path;
use std::process::ExitCode;

use lab::outputs::Failed;
use lab::results::Store;
use lab::{Batch, Experiment, PoolOptions};

use super::super::EXIT_FAILED;
use super::super::signals::stop_on_signals;
use super::arguments::RunArguments;
use crate::failure::Failure;
use crate::terminal::Progress;

/// Failures that are printed one by one.
const FAILURES_SAID: usize = 30;

/// What an experiment's results folder is called.
pub(super) fn folder_name(experiment: &Experiment) -> String {
    format!("{}-{}", experiment.name, experiment.hash())
}

/// The results folder, with the spec in it.
pub(super) fn open(folder: &Path, experiment: &Experiment, fresh: bool) -> Result<Store, Failure> {
    let store = Store::create(folder)?;
    if fresh {
        store.clear()?;
    } else {
        lab::resume::check(&store, experiment)?;
    }
    say_damage(&store);
    lab::outputs::write_spec(&store, experiment)?;
    Ok(store)
}

/// Says what was lost among the finished runs of a folder.
pub fn say_damage(store: &Store) {
    for line in store.damage() {
        eprintln!("note: {line}; the runs that were lost there are done again");
    }
}

/// Does the runs, with progress on the terminal, until they are done or a signal comes.
pub(super) fn execute(
    arguments: &RunArguments,
    batches: &[Batch<'_>],
) -> Result<Vec<Result<lab::PoolOutcome, lab::LabError>>, Failure> {
    let stop = stop_on_signals()?;
    let progress = Progress::new(arguments.quiet || arguments.json);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.unwrap_or(cores);
    let options = PoolOptions { threads, shard: arguments.shard, observer: &progress, stop: &stop };
    let outcomes = lab::execute(batches, options);
    progress.clear();
    Ok(outcomes)
}

/// Says what went wrong in the experiment `name` (empty for the only one), if
/// anything did; the exit status.
pub fn verdict(name: &str, failures: &[Failed], missed: usize) -> ExitCode {
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    for Failed { point, repeat, text } in failures.iter().take(FAILURES_SAID) {
        eprintln!("FAILED: {name}point {point} repeat {repeat}: {text}");
    }
    if failures.len() > FAILURES_SAID {
        eprintln!("FAILED: {name}{} more; the report has all of them", failures.len() - FAILURES_SAID);
    }
    if missed > 0 {
        eprintln!("MISSED: {name}{missed} published values are further away than the spec's `within` allows");
    }
    if missed > 0 || !failures.is_empty() {
        return ExitCode::from(EXIT_FAILED);
    }
    ExitCode::SUCCESS
}
