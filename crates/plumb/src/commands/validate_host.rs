//! `plumb validate host`: the modelled host held against a real kernel.

use std::process::ExitCode;

use clap::Args;
use lab::truth::{Case, CaseOutcome, Options, cases, validate};
use serde_json::json;

use super::signals::stop_on_signals;
use super::{Done, EXIT_FAILED, EXIT_INTERRUPTED};
use crate::failure::Failure;
use crate::terminal::print_table;

/// What to hold against what.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb validate host
  plumb validate host --case fsync --case plug-merge
  plumb validate host --device optane-905p-960gb --json

Each case is a fio job that runs under the model and under a real kernel in virtual time, on the same
device; the commands that the device got are compared. docs/host-truth.md says more.
Exit status: 0 all the same or explained; 1 an unexplained difference.")]
pub struct ValidateHostArguments {
    /// Device profile of the cases that name none
    #[arg(long, value_name = "NAME|FILE", default_value = lab::adhoc::DEFAULT_DEVICE)]
    device: String,
    /// Only cases whose names begin so
    #[arg(long = "case", value_name = "NAME")]
    case: Vec<String>,
    /// Cases at once [default: one a core]
    #[arg(long)]
    threads: Option<usize>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the cases and prints what differs.
pub fn validate_host(arguments: &ValidateHostArguments) -> Done {
    let all = cases().map_err(Failure::input)?;
    let wanted = |case: &Case| {
        arguments.case.is_empty() || arguments.case.iter().any(|start| case.name.starts_with(start.as_str()))
    };
    let chosen: Vec<Case> = all.iter().filter(|case| wanted(case)).cloned().collect();
    if chosen.is_empty() {
        let names: Vec<&str> = all.iter().map(|case| case.name.as_str()).collect();
        return Err(Failure::input(format!("no case begins so; there are {}", names.join(", "))));
    }
    let stop = stop_on_signals()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let done = |outcome: &CaseOutcome| {
        if !arguments.json {
            eprintln!("{}: {}", outcome.case.name, verdict(outcome));
        }
    };
    let options =
        Options { device: &arguments.device, threads: arguments.threads.unwrap_or(cores), stop: &stop, done: &done };
    let outcomes = validate(&chosen, options).map_err(Failure::input)?;
    let unexplained: usize = outcomes.iter().map(CaseOutcome::unexplained).sum();
    if arguments.json {
        println!("{:#}", json!({ "cases": outcomes, "unexplained": unexplained }));
    } else {
        print(&outcomes);
    }
    if outcomes.len() < chosen.len() {
        eprintln!("interrupted: {} of {} cases are done", outcomes.len(), chosen.len());
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    Ok(if unexplained > 0 { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

fn verdict(outcome: &CaseOutcome) -> String {
    match (outcome.comparison.differences.len(), outcome.unexplained()) {
        (0, _) => "same".to_owned(),
        (known, 0) => format!("{known} known"),
        (_, unexplained) => format!("{unexplained} DIFFER"),
    }
}

fn print(outcomes: &[CaseOutcome]) {
    let us = |value: Option<f64>| value.map_or("-".to_owned(), |us| format!("{us:.2}"));
    let rows: Vec<Vec<String>> = outcomes
        .iter()
        .map(|outcome| {
            let both = |rows: Vec<String>| rows.join(", ");
            let device = outcome.comparison.latencies.iter();
            let device = device.map(|row| format!("{} {}/{}", row.class, us(row.model_us), us(row.linux_us)));
            let host = outcome.host_latencies_us.iter();
            let host = host.map(|(direction, model, linux)| format!("{direction} {model:.2}/{linux:.2}"));
            vec![
                outcome.case.name.clone(),
                format!("{}/{}", outcome.comparison.model_commands, outcome.comparison.linux_commands),
                both(device.collect()),
                both(host.collect()),
                verdict(outcome),
            ]
        })
        .collect();
    print_table(&["case", "commands", "in the device (us)", "as the job saw it (us)", "model/Linux"], &rows);
    for outcome in outcomes {
        for (difference, cause) in outcome.comparison.differences.iter().zip(&outcome.causes) {
            println!("\n{} ({}, {}x): {}", outcome.case.name, difference.kind, difference.count, difference.first);
            println!("  {}", cause.as_deref().map_or("NOT EXPLAINED".to_owned(), |cause| format!("known: {cause}")));
        }
    }
}
