//! `plumb prefetch simulate`: policies on accesses as programs make them.

use std::process::ExitCode;

use clap::Args;
use prefetch::simulate::patterns::{PATTERNS, named};
use serde_json::{Map, Value};

use super::super::Done;
use super::machine::{Comparison, MachineArguments};
use crate::failure::Failure;

/// Which accesses, on which machine.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb prefetch simulate strided
  plumb prefetch simulate ycsb db-mix --memory 64MiB
  plumb prefetch simulate --latency 8ms --bandwidth 150MB --queue-depth 1 --json

Times are of storage alone, from the first access to the last: what the processor does costs nothing, except 1 us a read.")]
pub struct SimulateArguments {
    /// sequential, strided, reverse, interleaved-2 to -16, readreverse, random and -long, ycsb, ycsb-short, ycsb-a to -e, db-mix,
    /// self-prefetching, mapped, turning [default: all]
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Where there is chance, whose
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    machine: MachineArguments,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Simulates.
pub fn simulate(arguments: &SimulateArguments) -> Done {
    let machine = arguments.machine.machine();
    let known = || PATTERNS.iter().map(|(name, _)| *name);
    let names: Vec<&str> = if arguments.patterns.is_empty() {
        known().collect()
    } else {
        arguments.patterns.iter().map(String::as_str).collect()
    };
    let mut all = Map::new();
    for name in names {
        let pattern = named(name).ok_or_else(|| {
            Failure::input(format!("there is no pattern {name}; there are {}", known().collect::<Vec<_>>().join(", ")))
        })?;
        let comparison = Comparison::of(&pattern(arguments.seed), &machine);
        if arguments.json {
            all.insert(name.to_owned(), comparison.json());
        } else {
            println!("{name}");
            comparison.print();
            println!();
        }
    }
    if arguments.json {
        println!("{:#}", Value::from(all));
    }
    Ok(ExitCode::SUCCESS)
}
