//! `plumb run FOLDER`: every spec below a folder, in one go.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::Experiment;
use lab::report::{IndexEntry, render_index};
use lab::results::{Store, write_whole};
use lab::{Batch, PlannedRun};
use serde_json::json;

use super::super::{Done, EXIT_FAILED, EXIT_INTERRUPTED};
use super::arguments::{RunArguments, load};
use super::batches::{execute, folder_name, open, verdict};
use crate::failure::Failure;
use crate::terminal::print_table;

/// One spec of the folder.
struct Item {
    /// Its path below the folder, without `.toml`.
    name: String,
    experiment: Experiment,
    plan: Vec<PlannedRun>,
    store: Store,
}

/// Runs every spec, writes the reports and an index of them, prints a summary.
pub(super) fn run(arguments: &RunArguments) -> Done {
    if arguments.shard.is_part() || arguments.trace {
        return Err(Failure::input("--shard and --trace are for a single spec; name one of the folder's files"));
    }
    let files = specs(&arguments.file)?;
    if files.is_empty() {
        let message = format!("{} holds no spec; name a folder with .toml files", arguments.file.display());
        return Err(Failure::input(message));
    }
    let parent = arguments.out.clone().unwrap_or_else(|| PathBuf::from("results"));
    let mut items = Vec::with_capacity(files.len());
    // All of them before the first run, so that a fault in the last shows at once.
    for file in &files {
        let planned = load(arguments, file).and_then(|experiment| {
            let plan = lab::plan(&experiment)?;
            Ok((experiment, plan))
        });
        // Not every message names the file, and here are many.
        let (experiment, plan) = planned.inspect_err(|_| eprintln!("in {}:", file.display()))?;
        let name = file.strip_prefix(&arguments.file).unwrap_or(file).with_extension("");
        items.push((name.display().to_string(), experiment, plan));
    }
    let open = |(name, experiment, plan): (String, Experiment, Vec<PlannedRun>)| {
        let store = open(&parent.join(folder_name(&experiment)), &experiment, arguments.fresh)?;
        Ok(Item { name, experiment, plan, store })
    };
    let items: Vec<Item> = items.into_iter().map(open).collect::<Result<_, Failure>>()?;
    let batches: Vec<Batch<'_>> =
        items.iter().map(|item| Batch { name: &item.experiment.name, plan: &item.plan, store: &item.store }).collect();
    let outcomes = execute(arguments, &batches)?;
    let unfinished: usize = outcomes.iter().flatten().map(|outcome| outcome.unfinished).sum();
    if unfinished > 0 && outcomes.iter().all(Result::is_ok) {
        eprintln!(
            "interrupted: {unfinished} runs are left; what is done is kept in {}, and the same command goes on from there",
            parent.display()
        );
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    let mut code = ExitCode::SUCCESS;
    let mut entries = Vec::with_capacity(items.len());
    let mut documents = Vec::with_capacity(items.len());
    for (item, outcome) in items.iter().zip(outcomes) {
        let name = &item.name;
        if let Err(error) = outcome {
            eprintln!("FAILED: {name}: {error}");
            code = ExitCode::from(EXIT_FAILED);
            entries.push(lab::outputs::failed_entry(name, &item.experiment, error.to_string()));
            continue;
        }
        let finished = lab::outputs::finish(&item.store, &item.experiment, &item.plan)?;
        if verdict(name, &finished.failures, finished.missed()) != ExitCode::SUCCESS {
            code = ExitCode::from(EXIT_FAILED);
        }
        entries.push(lab::outputs::finished_entry(name, &item.experiment, &finished, &folder_name(&item.experiment)));
        documents.push(finished.json(&item.experiment));
    }
    let index = index_path(&parent, &arguments.file);
    let title = format!("Experiments of {}", arguments.file.display());
    let page = render_index(&title, &entries);
    write_whole(&index, page.as_bytes())?;
    if arguments.json {
        println!("{:#}", json!(documents));
    } else {
        print(&entries);
        println!("\nresults  {}", parent.display());
        println!("index    {}", index.display());
    }
    Ok(code)
}

/// `PARENT/FOLDER.html`.
fn index_path(parent: &Path, folder: &Path) -> PathBuf {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let name = absolute.file_name().map_or("index".to_owned(), |name| name.to_string_lossy().into_owned());
    parent.join(format!("{name}.html"))
}

/// The `.toml` files below `folder`, by path.
fn specs(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut folders = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let unreadable = |error| Failure::input(format!("cannot read {}: {error}", folder.display()));
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path();
            // Not through links, which may lead in a circle.
            if entry.file_type().map_err(unreadable)?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn print(entries: &[IndexEntry]) {
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let percent = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{:.1}%", value * 100.0));
            vec![
                entry.name.clone(),
                entry.points.to_string(),
                entry.comparisons.len().to_string(),
                percent(entry.median_difference()),
                percent(entry.worst_difference()),
                if entry.failures.is_empty() { String::new() } else { "FAILED".to_owned() },
                entry.title.clone(),
            ]
        })
        .collect();
    print_table(&["experiment", "points", "published", "median away", "worst", "", "what it shows"], &rows);
}
