//! `plumb app`: small programs that studies run, on real files.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use apps::ace::{self, Outcome, Selection, Workload};
use apps::engine::{self, AppError, Prepared, Report};
use apps::processor;
use apps::programs::{self, Chosen};
use apps::races::{self, Race};
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use serde_json::{Value, json};

use super::Done;
use crate::failure::Failure;
use crate::terminal::print_table;

/// Which program.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb app varmail --folder /mnt --seconds 30
  plumb app tokubench --files 100000 --json
  plumb linux --fs xfs -- plumb app fileserver --operations 20000 # on a real kernel in virtual time
  plumb app ace --list | less
  plumb crash --fs btrfs --states 20000 -- plumb app ace          # each operation, cut at each moment
  plumb crash --fs f2fs --states 200 -- plumb app ace --only 131  # one of them
  plumb crash --fs xfs --states 20000 -- plumb app ace --operations 2 --sample 300 --seed 7
  plumb crash --ordering streams --delay-every 9 -- plumb app races --tasks 3 --seed 7")]
pub struct AppArguments {
    #[command(subcommand)]
    app: App,
}

enum App {
    Ace(AceFlags),
    Processor(ProcessorFlags),
    Races(RacesFlags),
    Measured(Box<Measured>),
}

/// A program of the table with its options, and how it is run.
struct Measured {
    chosen: Chosen,
    flags: RunFlags,
}

#[derive(Args)]
struct AceFlags {
    /// Operations in a workload
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    operations: u8,
    /// Run so many of them, by lot [default: all]
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Seed of the lot
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run every N-th of them, from the K-th on: a part of what is too much at once
    #[arg(long, value_name = "K/N", value_parser = part)]
    part: Option<(usize, usize)>,
    /// Run the workload of this number; can be given again
    #[arg(long, value_name = "NUMBER", conflicts_with = "sample")]
    only: Vec<usize>,
    /// Print the workloads, one a line, and run none
    #[arg(long)]
    list: bool,
    /// The folder in which each gets one of its own
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

#[derive(Args)]
struct RacesFlags {
    /// Tasks at once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    tasks: u32,
    /// Steps of each
    #[arg(long, value_name = "N", default_value_t = 30)]
    steps: u32,
    /// Seed of the steps
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only make the files: for what is there before
    #[arg(long)]
    prepare: bool,
    /// The folder in which the files are
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

#[derive(Args)]
struct ProcessorFlags {
    /// A folder of a disk's file system, for 8 MiB
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

// What all measured programs are asked. No doc comment: clap would take it for what the program is about.
#[derive(Args)]
#[command(next_help_heading = "Run")]
struct RunFlags {
    /// The folder in which the program makes one of its own, by its name
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Only make the files
    #[arg(long, conflicts_with_all = ["run", "operations", "seconds"])]
    prepare: bool,
    /// Only run, on the files that --prepare made with the same options
    #[arg(long)]
    run: bool,
    /// Remove what an earlier preparation left in the folder
    #[arg(long, conflicts_with = "run")]
    fresh: bool,
    /// End after so many operations of all threads together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// End after this time [default: 60 where the program has no end of its own and --operations is not given]
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Seed of folders, sizes, contents and of what each thread does
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration > Duration::ZERO => Ok(duration),
        _ => Err("not a time that can be waited for".to_owned()),
    }
}

impl Subcommand for App {
    fn augment_subcommands(command: Command) -> Command {
        let ace = Command::new("ace").about(
            "Short workloads of file-system calls with every persistence point, one after the other (after ACE, OSDI 2018)",
        );
        let processor = Command::new("processor")
            .about("Times what the processor's work around files costs: calls, copies, faults, switches");
        let races = Command::new("races")
            .about("Several tasks on few files by a seed: where writeback, syncs and commits of a file system meet");
        let command = command
            .subcommand(AceFlags::augment_args(ace))
            .subcommand(ProcessorFlags::augment_args(processor))
            .subcommand(RacesFlags::augment_args(races))
            .subcommand_required(true);
        programs::PROGRAMS.iter().fold(command.arg_required_else_help(true), |command, entry| {
            command.subcommand(RunFlags::augment_args(entry.command()))
        })
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        ["ace", "processor", "races"].contains(&name) || programs::find(name).is_some()
    }
}

impl FromArgMatches for App {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || -> clap::Error { clap::Error::new(clap::error::ErrorKind::MissingSubcommand) };
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        match name {
            "ace" => return Ok(Self::Ace(AceFlags::from_arg_matches(matches)?)),
            "processor" => return Ok(Self::Processor(ProcessorFlags::from_arg_matches(matches)?)),
            "races" => return Ok(Self::Races(RacesFlags::from_arg_matches(matches)?)),
            _ => {}
        }
        let chosen = programs::find(name).ok_or_else(missing)?.read(matches)?;
        Ok(Self::Measured(Box::new(Measured { chosen, flags: RunFlags::from_arg_matches(matches)? })))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the program.
pub fn app(arguments: &AppArguments) -> Done {
    match &arguments.app {
        App::Ace(flags) => run_ace(flags),
        App::Processor(flags) => run_processor(flags),
        App::Races(flags) => run_races(flags),
        App::Measured(measured) => run_measured(&measured.chosen, &measured.flags).map_err(failure),
    }
}

fn failure(error: AppError) -> Failure {
    match error {
        AppError::Options(_) | AppError::Different { .. } | AppError::Occupied(_) | AppError::NotOurs(_) => {
            Failure::input(error)
        }
        error => Failure::Machine(error.to_string()),
    }
}

fn run_measured(chosen: &Chosen, flags: &RunFlags) -> Result<ExitCode, AppError> {
    let RunFlags { folder, seed, .. } = flags;
    let plan = chosen.plan.as_ref().map_err(|error| AppError::Options(error.to_string()))?;
    let mut prepared = None;
    if !flags.run {
        prepared = Some(engine::prepare(chosen.name, plan, *seed, folder, flags.fresh)?);
    }
    let mut report = None;
    if !flags.prepare {
        if prepared.is_some() {
            engine::settle(folder)?;
        }
        engine::check_prepared(chosen.name, plan, *seed, folder)?;
        let limits = chosen.limits(flags.operations, flags.seconds);
        report = Some(engine::run(chosen.name, plan, *seed, folder, limits)?);
    }
    if flags.json {
        println!("{}", document(chosen, *seed, prepared.as_ref(), report.as_ref()));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(Prepared { files, folders, bytes, elapsed }) = prepared {
        println!(
            "{}: prepared {files} files in {folders} folders, {bytes} bytes, in {:.3} s",
            chosen.name,
            elapsed.as_secs_f64()
        );
    }
    if let Some(report) = report {
        print!("{report}");
    }
    Ok(ExitCode::SUCCESS)
}

/// All of it, in one object.
fn document(chosen: &Chosen, seed: u64, prepared: Option<&Prepared>, report: Option<&Report>) -> Value {
    let mut document = match report.map(serde_json::to_value) {
        Some(Ok(Value::Object(report))) => report,
        _ => serde_json::Map::from_iter([("program".to_owned(), json!(chosen.name))]),
    };
    document.insert("seed".to_owned(), json!(seed));
    document.insert("options".to_owned(), chosen.options.clone());
    if let Some(Prepared { files, folders, bytes, elapsed }) = prepared {
        let prepared = json!({"files": files, "folders": folders, "bytes": bytes, "elapsed_s": elapsed.as_secs_f64()});
        document.insert("prepared".to_owned(), prepared);
    }
    Value::Object(document)
}

/// `2/4`: the second of four.
fn part(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    match numbers {
        Some((part, parts)) if (1..=parts).contains(&part) => Ok((part, parts)),
        _ => Err("one of so many, such as 2/4".to_owned()),
    }
}

fn run_ace(flags: &AceFlags) -> Done {
    let selection = Selection { operations: flags.operations.into(), sample: flags.sample, seed: flags.seed };
    let mut workloads: Vec<Workload> = ace::workloads(selection);
    if let Some(absent) = flags.only.iter().find(|number| **number == 0 || **number > workloads.len()) {
        return Err(Failure::input(format!("--only {absent}: the workloads are 1 to {}", workloads.len())));
    }
    if !flags.only.is_empty() {
        workloads.retain(|workload| flags.only.contains(&workload.number));
    }
    if let Some((part, parts)) = flags.part {
        let mut place = 0..;
        workloads.retain(|_| place.next().is_some_and(|place| place % parts == part - 1));
    }
    if flags.list {
        workloads.iter().for_each(|workload| println!("{workload}"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut not_supported = 0;
    for workload in &workloads {
        match ace::run(workload, &flags.folder).map_err(|error| Failure::Machine(error.to_string()))? {
            Outcome::Done => {}
            Outcome::NotSupported => not_supported += 1,
        }
    }
    println!(
        "{} workloads, of which {not_supported} have an operation that this file system does not support",
        workloads.len()
    );
    Ok(ExitCode::SUCCESS)
}

fn run_races(flags: &RacesFlags) -> Done {
    let steps = if flags.prepare { 0 } else { flags.steps };
    races::run(Race { tasks: flags.tasks, steps, seed: flags.seed }, &flags.folder)
        .map_err(|error| Failure::Machine(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

fn run_processor(flags: &ProcessorFlags) -> Done {
    let timed = processor::run(&flags.folder, |done| {
        if let processor::Told::LeftOut(operation, why) = done {
            eprintln!("left out: {operation}: {why}");
        }
    })
    .map_err(|error| Failure::Machine(error.to_string()))?;
    if flags.json {
        println!("{:#}", json!(timed));
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = timed
        .iter()
        .map(|timed| {
            let [low, median, high] = timed.quartiles_ns.map(|ns| format!("{ns:.0}"));
            vec![timed.name.clone(), median, format!("{low} to {high}"), timed.operation.clone()]
        })
        .collect();
    print_table(&["job", "ns", "middle half", "of"], &rows);
    Ok(ExitCode::SUCCESS)
}
