//! `plumb list`: what there is.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;
use ssd::profile::{Profile, builtin_names};

use workload::replay::TraceFormat;

use super::Done;
use crate::terminal::print_table;

/// What to show.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb list devices
  plumb list experiments
  plumb list devices --json")]
pub struct ListArguments {
    /// What to show
    #[arg(value_enum, default_value = "devices")]
    what: What,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Built-in device profiles
    Devices,
    /// The specs in ./experiments
    Experiments,
    /// I/O schedulers of the modelled block layer
    Schedulers,
    /// fio options a job file may use
    FioOptions,
    /// Block trace formats that can be replayed
    TraceFormats,
}

/// A heading and a line for each thing: name and what it is.
type Listing = (&'static str, Vec<(String, String)>);

/// Prints the list.
pub fn list(arguments: &ListArguments) -> Done {
    let (heading, rows) = rows(arguments.what)?;
    if arguments.json {
        let items: Vec<_> =
            rows.iter().map(|(name, description)| json!({ "name": name, "description": description })).collect();
        println!("{:#}", json!(items));
    } else {
        let cells: Vec<_> = rows.into_iter().map(|(name, description)| vec![name, description]).collect();
        print_table(&[heading, "what it is"], &cells);
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(what: What) -> Result<Listing, crate::failure::Failure> {
    Ok(match what {
        What::Devices => {
            let mut rows = Vec::new();
            for name in builtin_names() {
                let profile = Profile::builtin(name).map_err(crate::failure::Failure::input)?;
                rows.push((name.to_owned(), profile.description));
            }
            ("device", rows)
        }
        What::Experiments => ("experiment", experiments()),
        What::Schedulers => (
            "scheduler",
            block::SchedulerKind::ALL.map(|kind| (kind.name().to_owned(), kind.description().to_owned())).into(),
        ),
        What::FioOptions => (
            "option",
            workload::fio::parse::option_specs()
                .map(|option| (option.name.to_owned(), option.help.to_owned()))
                .collect(),
        ),
        What::TraceFormats => (
            "format",
            TraceFormat::ALL.iter().map(|format| (format.name().to_owned(), format.description().to_owned())).collect(),
        ),
    })
}

/// The specs below ./experiments that parse, by path.
fn experiments() -> Vec<(String, String)> {
    let mut folders = vec![std::path::PathBuf::from("experiments")];
    let mut rows = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                let title = match lab::Experiment::load(&path, &[]) {
                    Ok(experiment) => experiment.spec.title,
                    Err(error) => format!("does not parse: {error}"),
                };
                rows.push((path.display().to_string(), title));
            }
        }
    }
    rows.sort();
    rows
}
