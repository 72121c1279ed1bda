//! `plumb run`: specs, folders of specs, job files and traces.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use lab::Experiment;
use lab::outputs::Failed;
use lab::quantity::Effect;
use lab::results::Store;
use lab::spec::Override;
use lab::{Batch, PoolOptions, Shard};

use super::{Done, EXIT_FAILED, EXIT_INTERRUPTED, folder};
use crate::failure::Failure;
use crate::terminal::{Progress, last_digit, number, print_sweep, print_table};

/// What to run and how.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb run experiments/quickstart.toml
  plumb run experiments/zns
  plumb run job.fio --device optane-905p-960gb --json > fio.json
  plumb run job.fio --host linux --set stack.filesystem=ext4
  plumb run job.fio --set workload.set.iodepth=8 --set stack.block.scheduler=mq-deadline
  plumb run msr.csv --device hdd-7200-1tb --set workload.replay.disk=0
  plumb run sweep.toml --shard $SLURM_ARRAY_TASK_ID/16 --out shard-$SLURM_ARRAY_TASK_ID")]
pub struct RunArguments {
    /// An experiment spec (.toml), a folder of them, a fio job file (.fio, .job, .ini) or a block trace
    pub(super) file: PathBuf,
    /// Device profile, built-in (`plumb list devices`) or a .toml file
    #[arg(long, value_name = "NAME|FILE")]
    device: Option<String>,
    /// Run on Plumb's model of the host, or under a real Linux kernel in virtual time
    #[arg(long, value_name = "model|linux", value_parser = ["model", "linux"])]
    host: Option<String>,
    /// Change the spec: a dotted path and a TOML value
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Seed of the first repeat
    #[arg(long)]
    seed: Option<u64>,
    /// Runs of every point, each under its own seed
    #[arg(long)]
    repeats: Option<u32>,
    /// Worker threads [default: one a core]; results do not depend on it
    #[arg(long)]
    pub(super) threads: Option<usize>,
    /// Do only every N-th run, from the I-th; put together by `plumb merge`
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    pub(super) shard: Shard,
    /// Results folder [default: results/NAME-HASH]; of a folder of specs, where each has its own
    #[arg(long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,
    /// Forget earlier results instead of resuming
    #[arg(long)]
    pub(super) fresh: bool,
    /// Also write the first run's trace: trace.perfetto (ui.perfetto.dev) and trace.tsv
    #[arg(long)]
    pub(super) trace: bool,
    /// Also write the commands that the first run's device got, one a line: commands.tsv
    #[arg(long)]
    pub(super) command_log: bool,
    /// Print results as JSON (fio's json+ for a fio job)
    #[arg(long)]
    pub(super) json: bool,
    /// No progress bar
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// Failures that are printed one by one.
const FAILURES_SAID: usize = 30;

/// Runs, keeps, prints.
pub fn run(arguments: RunArguments) -> Done {
    if arguments.file.is_dir() {
        return folder::run(&arguments);
    }
    let experiment = load(&arguments, &arguments.file)?;
    let plan = lab::plan(&experiment)?;
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("results").join(folder_name(&experiment)));
    let store = open(&folder, &experiment, arguments.fresh)?;
    let outcomes = execute(&arguments, &[Batch { name: "", plan: &plan, store: &store }])?;
    for outcome in outcomes {
        let outcome = outcome?;
        if outcome.unfinished > 0 {
            eprintln!(
                "interrupted: {} of {} runs are done and kept in {}; the same command goes on from there",
                outcome.finished,
                outcome.finished + outcome.unfinished,
                folder.display()
            );
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
    }
    if arguments.shard.is_part() {
        let runs = lab::finished(&plan, &store, arguments.shard)?;
        lab::outputs::settle(&store, &plan)?;
        println!(
            "{} runs of this shard are in {}; when all shards are done: plumb merge FOLDER... --out FOLDER",
            runs.len(),
            folder.display()
        );
        return Ok(verdict("", &lab::outputs::failures(&runs), 0));
    }
    if arguments.trace {
        lab::outputs::write_trace(&store, &plan)?;
    }
    if arguments.command_log {
        lab::outputs::write_command_log(&store, &plan)?;
    }
    let finished = lab::outputs::finish(&store, &experiment, &plan)?;
    if arguments.json {
        println!("{}", finished.json_text(&experiment));
    } else {
        print(&experiment, &finished);
        println!("\nresults  {}", store.folder().display());
        println!("report   {}", lab::outputs::report_path(&store).display());
        if arguments.trace {
            println!("trace    {}", store.folder().join("trace.perfetto").display());
        }
        if arguments.command_log {
            println!("commands {}", store.folder().join("commands.tsv").display());
        }
    }
    Ok(verdict("", &finished.failures, finished.missed()))
}

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
pub(super) fn say_damage(store: &Store) {
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

/// The experiment of `file`, with the command line's changes.
pub(super) fn load(arguments: &RunArguments, file: &Path) -> Result<Experiment, Failure> {
    let mut overrides = Vec::new();
    if let Some(device) = &arguments.device {
        overrides.push(Override::new("stack.device", device.clone().into()));
    }
    if let Some(host) = &arguments.host {
        overrides.push(Override::new("stack.host", host.clone().into()));
    }
    if let Some(seed) = arguments.seed {
        let seed = i64::try_from(seed).map_err(|_| Failure::input("--seed must be below 2^63"))?;
        overrides.push(Override::new("run.seed", seed.into()));
    }
    if let Some(repeats) = arguments.repeats {
        overrides.push(Override::new("run.repeats", i64::from(repeats).into()));
    }
    overrides.extend(arguments.set.iter().cloned());
    if file.extension().is_some_and(|extension| extension == "toml") {
        return Ok(Experiment::load(file, &overrides)?);
    }
    Ok(lab::adhoc::experiment(file, &overrides)?)
}

/// A flag that Ctrl-C and SIGTERM set; a second Ctrl-C ends the process at once.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED.into(), Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::Machine(format!("cannot watch for signals: {error}")))?;
    }
    Ok(stop)
}

/// Prints the tables of an experiment.
pub fn print(experiment: &Experiment, finished: &lab::outputs::Finished) {
    // Before the numbers whose meaning they change.
    for remark in &finished.remarks {
        println!("CAUTION: {remark}");
    }
    match &finished.text {
        Some(text) => print!("{text}"),
        None => println!("{}\n", experiment.spec.title),
    }
    if experiment.spec.sweep.is_empty() && finished.runs == 1 && finished.comparisons.is_empty() {
        return;
    }
    let swept: Vec<String> = experiment.spec.sweep.keys().map(|key| lab::spec::short_key(key).to_owned()).collect();
    let mut header: Vec<String> = swept;
    header.extend(finished.metrics.iter().cloned());
    let rows: Vec<Vec<String>> = finished.points.iter().map(cells).collect();
    println!();
    let keys = experiment.spec.sweep.len().max(1);
    print_sweep(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows, keys);
    if !finished.interference.is_empty() {
        println!("\nInterference");
        let keys =
            finished.interference.iter().flat_map(|row| &row.parameters).map(|(key, _)| lab::spec::short_key(key));
        let mut header: Vec<String> = Vec::new();
        for key in keys {
            if header.iter().all(|known| known != key) {
                header.push(key.to_owned());
            }
        }
        let keys = header.len().max(1);
        header.extend(Effect::SHOWN.map(|effect| effect.name().to_owned()));
        let rows: Vec<Vec<String>> = finished.interference.iter().map(cells).collect();
        print_sweep(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows, keys);
    }
    if !finished.derived.is_empty() {
        println!("\nDerived values");
        let rows: Vec<Vec<String>> = finished
            .derived
            .iter()
            .map(|(name, value)| vec![name.clone(), value.map_or("-".to_owned(), estimate_text)])
            .collect();
        print_table(&["value", "ours"], &rows);
    }
    if !finished.comparisons.is_empty() {
        println!("\nPublished values beside ours");
        let rows: Vec<Vec<String>> = finished.comparisons.iter().map(comparison_cells).collect();
        print_table(&["at", "metric", "published", "ours", "away", "", "source"], &rows);
        for row in finished.comparisons.iter().filter(|row| !row.note.is_empty()) {
            println!("  {} {}: {}", row.metric, row.at, row.note);
        }
    }
}

/// A row's parameters, then its estimates.
fn cells(row: &lab::summary::PointSummary) -> Vec<String> {
    let mut cells: Vec<String> = row.parameters.iter().map(|(_, value)| value.clone()).collect();
    cells.extend(row.estimates.iter().map(|estimate| estimate.map_or(String::new(), estimate_text)));
    cells
}

/// A published value beside ours, without its note.
fn comparison_cells(row: &lab::report::Comparison) -> Vec<String> {
    let published = match row.published_to {
        Some(to) => format!("{}..{}", number(row.published), number(to)),
        None => number(row.published),
    };
    let away = row.difference().map_or("-".to_owned(), |away| format!("{:+.1}%", away * 100.0));
    let ours = row.ours.map_or("-".to_owned(), estimate_text);
    let verdict = if row.holds() == Some(false) { "MISSED" } else { "" };
    let at = if row.at.is_empty() { "-".to_owned() } else { row.at.clone() };
    vec![at, row.metric.clone(), published, ours, away, verdict.to_owned(), row.source.clone()]
}

fn estimate_text(estimate: lab::report::Estimate) -> String {
    match estimate.half_width {
        // Nothing is said of runs that are alike, nor of less than the value's last digit.
        Some(half) if half > 0.0 && half >= last_digit(estimate.value) / 2.0 => {
            format!("{} ±{}", number(estimate.value), number(half))
        }
        _ => number(estimate.value),
    }
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
