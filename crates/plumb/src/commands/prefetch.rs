//! `plumb prefetch`: a command whose reads are foreseen.

mod advise;
mod agent;
mod machine;
mod recorded;
mod simulate;
mod stats;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, FromArgMatches, Subcommand};
use prefetcher::PrefetcherError;
use prefetcher::launch::{self, Recorded};
use prefetcher::residency::Source;
use prefetcher::settings::{Mode, Settings};
use units::{ByteSize, Printable};

use super::Done;
use crate::failure::Failure;

/// What to do.
#[derive(Args)]
pub struct PrefetchArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Run a command, and load what it is about to read
    Run(RunArguments),
    /// Tell processes what of their files is in memory; takes CAP_BPF and CAP_PERFMON
    Agent(agent::AgentArguments),
    /// Say what runs that go on have come to so far
    Stats(stats::StatsArguments),
    /// Say what prefetching would have gained, for a command or a trace; loads nothing
    Advise(advise::AdviseArguments),
    /// The same for accesses as programs make them
    Simulate(simulate::SimulateArguments),
}

#[derive(Args)]
#[command(after_help = "Examples:
  plumb prefetch run -- ./my-program
  plumb prefetch run --stats -- sh -c 'tac big.txt | head'
  plumb prefetch run --report run.html -- ./my-program
  plumb prefetch run --mode fetchall+opt --budget 2GiB --include '*.sst' -- db_bench --use_existing_db=1 --benchmarks=readrandom

The command sees the same bytes, descriptors and errors as without. A library that is loaded before its own
(LD_PRELOAD) watches its reads; this process loads what is foreseen, until the command ends. Programs that
are linked statically, run with privileges of their own, or are written in Go cannot be watched so:
they run as they would anyway, and it is said.

Exit status: the command's; 128 + N for one that signal N killed; 2 when it cannot be started.")]
struct RunArguments {
    /// What is done: app-only, os-only, predict, predict+opt, budget, fetchall+opt [default: predict+opt]
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// What says which pages are in memory: none, cachestat, bpf, call, bitmap [default: auto, the best that is there]
    #[arg(long, value_name = "SOURCE")]
    residency: Option<Source>,
    /// Where an agent listens, if there is one [default: /run/plumb-prefetch/agent.sock]
    #[arg(long, value_name = "SOCKET")]
    agent: Option<PathBuf>,
    /// Most memory for what was loaded and is not read yet [default: half of what is available]
    #[arg(long, value_name = "SIZE")]
    budget: Option<ByteSize>,
    /// Only files whose path, or name, matches; can be given again
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// No files whose path, or name, matches; can be given again
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Smaller files are left alone [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    min_file: Option<ByteSize>,
    /// Smaller mappings are left alone [default: 4MiB]
    #[arg(long, value_name = "SIZE")]
    min_map: Option<ByteSize>,
    /// A TOML file with these settings: mode, residency, agent, budget, include, exclude, min_file, min_map
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Say at the end what was seen and loaded, on standard error
    #[arg(long)]
    stats: bool,
    /// Write the same as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw what was read, loaded and in memory over time; costs each read some microseconds
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Do not say where the library cannot act
    #[arg(long, short)]
    quiet: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The command line of `plumb prefetch run`, where it is that and right: a command that takes milliseconds waits for no arguments of
/// others. What is wrong with it, or that help is asked for, is the whole command line's to say.
pub fn run_alone(words: &[OsString]) -> Option<PrefetchArguments> {
    let run = match words {
        [_, group, run, ..] if group == "prefetch" && run == "run" => &words[2..],
        _ => return None,
    };
    let matches = RunArguments::augment_args(clap::Command::new("run")).try_get_matches_from(run).ok()?;
    RunArguments::from_arg_matches(&matches).ok().map(|arguments| PrefetchArguments { action: Action::Run(arguments) })
}

/// Does it.
pub fn prefetch(arguments: PrefetchArguments) -> Done {
    match arguments.action {
        Action::Run(arguments) => run(&arguments),
        Action::Agent(arguments) => agent::agent(&arguments),
        Action::Stats(arguments) => stats::stats(&arguments),
        Action::Advise(arguments) => advise::advise(&arguments),
        Action::Simulate(arguments) => simulate::simulate(&arguments),
    }
}

fn run(arguments: &RunArguments) -> Done {
    let settings = settings(arguments)?;
    let recorded = if arguments.report.is_some() { Recorded::Accesses } else { Recorded::Nothing };
    let outcome = launch::run(&settings, recorded, &arguments.command, |obstacle| {
        if !arguments.quiet {
            tell(obstacle);
        }
    })
    .map_err(failure)?;
    if arguments.stats
        && let Some(reads) = outcome.watched
    {
        eprintln!("plumb: {reads} of its reads were seen in the kernel instead");
    }
    if arguments.stats {
        eprint!("{}", stats::told(&outcome.report, "plumb: "));
    }
    if let Some(path) = &arguments.json {
        write(path, &format!("{:#}\n", stats::json(&outcome.report)))?;
    }
    if let (Some(path), Some(recording)) = (&arguments.report, &outcome.recording) {
        let words: Vec<_> = arguments.command.iter().map(|word| word.to_string_lossy()).collect();
        write(path, &recorded::page(&words.join(" "), recording))?;
    }
    Ok(ExitCode::from(outcome.status))
}

/// Says where the library cannot act.
fn tell(obstacle: &launch::Obstacle) {
    eprintln!("plumb: not active in this program: {obstacle}");
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::Machine(format!("cannot write {}: {error}", Printable::path(path))))
}

/// Those of the profile, and over them those of the command line.
fn settings(arguments: &RunArguments) -> Result<Settings, Failure> {
    let profile = arguments.profile.as_deref().map(Settings::read).transpose().map_err(failure)?;
    let mut settings = profile.unwrap_or_default();
    if let Some(mode) = arguments.mode {
        settings.mode = mode;
    }
    if let Some(agent) = &arguments.agent {
        settings.agent.clone_from(agent);
    }
    settings.residency = arguments.residency.unwrap_or(settings.residency);
    settings.budget = arguments.budget.or(settings.budget);
    settings.min_file = arguments.min_file.unwrap_or(settings.min_file);
    settings.min_map = arguments.min_map.unwrap_or(settings.min_map);
    settings.include.extend(arguments.include.iter().cloned());
    settings.exclude.extend(arguments.exclude.iter().cloned());
    Ok(settings)
}

fn failure(error: PrefetcherError) -> Failure {
    match error {
        PrefetcherError::Kernel { .. } | PrefetcherError::NoFolder(_) => Failure::Machine(error.to_string()),
        _ => Failure::input(error),
    }
}
