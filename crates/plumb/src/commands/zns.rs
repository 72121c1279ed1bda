//! `plumb zns`: what zones make of a drive, out of measurements.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use lab::interference::{Interference, Measurement, VictimChoice, Weights, compare};
use serde_json::json;
use units::Nanos;

use super::Done;
use crate::failure::Failure;
use crate::terminal::{number, print_table};

/// Which question.
#[derive(Args)]
pub struct ZnsArguments {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    /// How much one operation disturbs another, from fio results
    Interference(InterferenceArguments),
}

/// Which measurements.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb zns interference alone.json with-resets.json
  plumb zns interference w1.json w1-resets.json w2.json w2-resets.json --victim write
  plumb zns interference reset.json reset-1.json reset.json reset-2.json --victim reset

A measurement is fio's JSON (json or json+; log lines before it do no harm), a run
record of Plumb or a results folder with one run. fio needs lat_percentiles=1 for
percentiles of total latency; without it completion latencies are compared.")]
struct InterferenceArguments {
    /// Pairs of measurements: without, then with the interferer; a pair for each load
    #[arg(required = true, num_args = 2.., value_name = "WITHOUT WITH")]
    measurements: Vec<PathBuf>,
    /// The victim: a job's name or read, write, append, reset, finish [default: the last job of WITHOUT]
    #[arg(long, value_name = "JOB|OPERATION", default_value = "", hide_default_value = true)]
    victim: String,
    /// Share of the rate in Z, the rest is latency's [default: 0.5; 1 for resets and finishes as victims]
    #[arg(long)]
    alpha: Option<f64>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Answers.
pub fn zns(arguments: &ZnsArguments) -> Done {
    match &arguments.question {
        Question::Interference(arguments) => interference(arguments),
    }
}

fn interference(arguments: &InterferenceArguments) -> Done {
    let mut pairs = Vec::new();
    for pair in arguments.measurements.chunks(2) {
        let [without, with] = pair else {
            let last = arguments.measurements.last().map(|path| path.display().to_string()).unwrap_or_default();
            return Err(Failure::input(format!(
                "{last} has no partner; name the measurements in pairs, without and with the interferer"
            )));
        };
        let read = |path: &PathBuf| Measurement::read(path).map_err(Failure::input);
        pairs.push((read(without)?, read(with)?));
    }
    let victim = match arguments.victim.as_str() {
        "" => VictimChoice::Last,
        text => text.parse().unwrap_or_default(),
    };
    let weights = arguments.alpha.map(Weights::with_alpha).transpose().map_err(Failure::input)?;
    let found = compare(&pairs, &victim, weights).map_err(Failure::input)?;
    if arguments.json {
        println!("{:#}", json!(found));
    } else {
        print(&found);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(found: &Interference) {
    let names: Vec<&str> = found.interferers.iter().map(|operation| operation.name()).collect();
    let beside = if names.is_empty() { "nothing it can see".to_owned() } else { names.join(" and ") };
    println!("victim {}, disturbed by {beside}; {} latency\n", found.victim, found.latency);
    let time = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| Nanos(ns.round() as u64).to_string());
    let rows: Vec<Vec<String>> = found
        .points
        .iter()
        .enumerate()
        .map(|(index, point)| {
            let tail = found.tail.as_ref().map_or("-".to_owned(), |tail| number(tail.terms[index]));
            let cost = found.costs[index];
            vec![
                point.load.clone(),
                number(point.without.iops),
                number(point.with.iops),
                time(point.without.p95_ns),
                time(point.with.p95_ns),
                format!("{:.6}", found.z.terms[index]),
                format!("{:+.4}", found.signed.terms[index]),
                tail,
                cost.map_or("-".to_owned(), |cost| number(cost.lost_ios)),
                cost.map_or("-".to_owned(), |cost| stall_text(cost.stall_ns)),
            ]
        })
        .collect();
    print_table(&["load", "I0", "I1", "P95_0", "P95_1", "term", "signed", "tail", "lost/op", "stall/op"], &rows);
    println!("\nZ         {:.9}  (alpha {}, beta {})", found.z.mean, found.weights.alpha(), found.weights.beta());
    println!("signed    {:+.9}  (above 0: the victim lost)", found.signed.mean);
    match &found.tail {
        Some(tail) => println!("tail      {:.6}  (P99.9 for P95)", tail.mean),
        None => println!("tail      -  (needs P99.9 at every load)"),
    }
    if let Some(stall) = found.stall {
        let (without, with) = (time(Some(stall.without_ns)), time(Some(stall.with_ns)));
        println!("longest   {without} without, {with} with");
    }
    if let Some(cost) = found.mean_cost {
        println!(
            "each op   {} I/Os of the victim, as if it stood still for {}",
            number(cost.lost_ios),
            stall_text(cost.stall_ns)
        );
    }
    if let Some(management) = found.management {
        println!("Z against the rate alone          {:.6}", management.against_isolated);
        println!("Z against the first load's rate   {:.6}  (as published)", management.against_first_load);
    }
}

/// A time that may be below zero, where the victim gained.
fn stall_text(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", Nanos(ns.abs().round() as u64))
}
