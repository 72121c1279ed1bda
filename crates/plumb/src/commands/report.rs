//! `plumb report`: the report of a results folder, again.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use lab::outputs::RUNS_WITH_FILES;
use lab::results::Store;

use super::{Done, run};

/// Which folder.
#[derive(Args)]
#[command(after_help = "Example:
  plumb report results/quickstart-0123456789abcdef
  plumb report results/large-0123456789abcdef --points 100-120")]
pub struct ReportArguments {
    /// A results folder of `plumb run` or `plumb merge`
    folder: PathBuf,
    /// Also write the files of each run that a sweep of more than 300 runs leaves out: fio's output and logs, series.parquet
    #[arg(long)]
    each: bool,
    /// Write a page of these points alone, numbered as in the report: of a sweep too large for one page
    #[arg(long, value_name = "FROM-TO")]
    points: Option<PointRange>,
    /// Print results as JSON
    #[arg(long)]
    json: bool,
}

/// Points by their numbers, from 0.
#[derive(Clone, Debug, PartialEq)]
struct PointRange(Range<usize>);

impl FromStr for PointRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || format!("`{text}` is no range of points; write FROM-TO with FROM <= TO, such as 100-120");
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| fail());
        let (from, to) = (number(from)?, number(to)?);
        match to.checked_add(1).filter(|end| from < *end) {
            Some(end) => Ok(Self(from..end)),
            None => Err(fail()),
        }
    }
}

/// Reads the runs, writes tables and report, prints.
pub fn report(arguments: &ReportArguments) -> Done {
    let store = Store::open(&arguments.folder)?;
    run::say_damage(&store);
    let (experiment, plan) = lab::outputs::read(&store)?;
    if let Some(PointRange(points)) = &arguments.points {
        let page = lab::outputs::write_points(&store, &experiment, &plan, points.clone())?;
        println!("report   {}", page.display());
        return Ok(ExitCode::SUCCESS);
    }
    let each = arguments.each || plan.len() <= RUNS_WITH_FILES;
    let finished = lab::outputs::write_all(&store, &experiment, &plan, each)?;
    if arguments.json {
        println!("{}", finished.json_text(&experiment));
    } else {
        run::print(&experiment, &finished);
        println!("\nreport   {}", lab::outputs::report_path(&store).display());
    }
    Ok(ExitCode::SUCCESS)
}
