//! `plumb run FILE`: one experiment.

use std::path::Path;
use std::process::ExitCode;

use lab::quantity::Effect;
use lab::{Batch, Experiment};

use super::super::{Done, EXIT_INTERRUPTED};
use super::arguments::{RunArguments, load};
use super::batches::{execute, folder_name, open, verdict};
use crate::terminal::{last_digit, number, print_sweep, print_table};

/// Runs, keeps, prints.
pub(super) fn run(arguments: &RunArguments) -> Done {
    let experiment = load(arguments, &arguments.file)?;
    let plan = lab::plan(&experiment)?;
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("results").join(folder_name(&experiment)));
    let store = open(&folder, &experiment, arguments.fresh)?;
    let outcomes = execute(arguments, &[Batch { name: "", plan: &plan, store: &store }])?;
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
