//! `plumb app`: small programs that studies run, on real files.

use std::path::PathBuf;
use std::process::ExitCode;

use apps::ace::{self, Outcome, Selection, Workload};
use clap::{Args, Subcommand};

use super::Done;
use crate::failure::Failure;

/// Which program.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb app ace --list | less
  plumb crash --fs btrfs --states 20000 -- plumb app ace          # each operation, cut at each moment
  plumb crash --fs f2fs --states 200 -- plumb app ace --only 131  # one of them
  plumb crash --fs xfs --states 20000 -- plumb app ace --operations 2 --sample 300 --seed 7")]
pub struct AppArguments {
    #[command(subcommand)]
    app: App,
}

#[derive(Subcommand)]
enum App {
    /// Short workloads of file-system calls with every persistence point, one after the other (after ACE, OSDI 2018)
    Ace(AceFlags),
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

/// Runs the program.
pub fn app(arguments: &AppArguments) -> Done {
    match &arguments.app {
        App::Ace(flags) => run_ace(flags),
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
