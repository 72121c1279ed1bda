//! `plumb report`: the report of a results folder, again.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lab::results::Store;

use super::{Done, run};

/// Which folder.
#[derive(Args)]
#[command(after_help = "Example:
  plumb report results/quickstart-0123456789abcdef")]
pub struct ReportArguments {
    /// A results folder of `plumb run` or `plumb merge`
    folder: PathBuf,
    /// Print results as JSON
    #[arg(long)]
    json: bool,
}

/// Reads the runs, writes tables and report, prints.
pub fn report(arguments: &ReportArguments) -> Done {
    let store = Store::open(&arguments.folder)?;
    let (experiment, runs) = lab::outputs::read(&store)?;
    let finished = lab::outputs::write_all(&store, &experiment, &runs)?;
    if arguments.json {
        println!("{}", finished.json_text(&runs));
    } else {
        run::print(&experiment, &finished, &runs);
        println!("\nreport   {}", finished.report.display());
    }
    Ok(ExitCode::SUCCESS)
}
