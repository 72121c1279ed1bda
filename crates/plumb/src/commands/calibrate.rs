//! `plumb calibrate`: laws of devices and costs of processors out of their own measurements.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use lab::calibrate::{CalibrateOptions, Calibration, Told, calibrate as fit, nearest};
use lab::spec::Override;
use lab::validate::{Figure, FigureVerdict, Host, RowVerdict, Verdict, read_tables};
use serde_json::json;

use super::calibrate_cpu::{self, CpuArguments};
use super::signals::stop_on_signals;
use super::{Done, EXIT_FAILED, EXIT_INTERRUPTED};
use crate::failure::Failure;
use crate::terminal::{Progress, number, print_table};

/// What to fit.
#[derive(Args)]
pub struct CalibrateArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Fit a device profile to fio's results on a drive
    Device(DeviceArguments),
    /// Measure what the processor's work costs on this machine, for --charge
    Cpu(CpuArguments),
}

/// Which measurements, and what to begin with.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb calibrate device --from fio.json --out my-drive.toml
  plumb calibrate device --from reads.json writes.json --base samsung-980pro-1tb --out my-drive.toml
  plumb calibrate device --from fio.json --base hdd-7200-1tb --set capacity='\"4TB\"' --json

Measurements are fio's JSON (--output-format=json+) of jobs with direct=1 and stonewall, or
tables as `plumb validate --data` reads them. Each law needs a load that it limits: those of
experiments/calibrate.fio tell most. What no load tells keeps the base profile's value, and the
result says so. docs/calibrate.md says more.")]
struct DeviceArguments {
    /// fio's results (.json), tables of measurements (.csv), or folders of them
    #[arg(long, required = true, num_args = 1.., value_name = "FIO.json|FILE.csv|FOLDER")]
    from: Vec<PathBuf>,
    /// Profile to begin with, built-in or .toml: its geometry, sizes and policies stay [default: the nearest one]
    #[arg(long, value_name = "DEVICE")]
    base: Option<String>,
    /// Change the base profile: a dotted path and a TOML value
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "base")]
    set: Vec<Override>,
    /// Write the profile here; its name is the file's
    #[arg(long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
    /// `none`: the measurements hold no time of the host [default: Plumb's model of a Linux host]
    #[arg(long)]
    host: Option<Host>,
    /// Fail when a rate is further off, in percent
    #[arg(long, value_name = "PERCENT")]
    within: Option<f64>,
    /// Worker threads [default: one a core]; results do not depend on it
    #[arg(long)]
    threads: Option<usize>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Fits.
pub fn calibrate(arguments: &CalibrateArguments) -> Done {
    match &arguments.what {
        What::Device(arguments) => device(arguments),
        What::Cpu(arguments) => calibrate_cpu::cpu(arguments),
    }
}

fn device(arguments: &DeviceArguments) -> Done {
    // Before minutes of work.
    let name = match &arguments.out {
        None => "calibrated".to_owned(),
        Some(path) => name_of(path)?,
    };
    let free_host = Host::is_free_for_drives(arguments.host).map_err(Failure::input)?;
    let base = match &arguments.base {
        Some(base) => Some(lab::device::describe(base, Path::new(""), &arguments.set)?),
        None => None,
    };
    let tables = read_tables(&arguments.from).map_err(Failure::input)?;
    let stop = stop_on_signals()?;
    let progress = Progress::new(arguments.quiet || arguments.json);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = CalibrateOptions {
        name: &name,
        free_host,
        threads: arguments.threads.unwrap_or(cores),
        observer: &progress,
        stop: &stop,
    };
    let base = match base {
        Some(base) => Some(base),
        None => nearest(&tables, &options).map_err(Failure::input)?,
    };
    let calibration = match &base {
        Some(base) => fit(base, &tables, &options).map_err(Failure::input)?,
        None => None,
    };
    progress.clear();
    let Some(calibration) = calibration else {
        eprintln!("interrupted: nothing is kept of a fit that is not finished");
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    };
    if let Some(path) = &arguments.out {
        let fail = |error| Failure::Machine(format!("cannot write {}: {error}", path.display()));
        let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(fail)?;
        file.write_all(calibration.profile.as_bytes()).and_then(|()| file.sync_all()).map_err(fail)?;
    }
    if arguments.json {
        println!("{:#}", json!(calibration));
    } else {
        print(&calibration, arguments.base.is_none());
        if let Some(path) = &arguments.out {
            println!("\nprofile  {}", path.display());
        } else {
            println!("\nnothing is written; --out FILE.toml keeps the profile");
        }
    }
    let off = rates(&calibration.after).map(|(_, rate)| rate.error.abs() * 100.0).fold(0.0, f64::max);
    match arguments.within {
        Some(within) if off > within => {
            eprintln!("OFF: a rate is {off:.1} % from what was measured, more than {within} %");
            Ok(ExitCode::from(EXIT_FAILED))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The profile's name: its file's, which must not be there yet.
fn name_of(path: &Path) -> Result<String, Failure> {
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Err(Failure::input(format!("--out {}: a profile's file ends in .toml", path.display())));
    }
    if path.exists() {
        return Err(Failure::input(format!("{} is already there; remove it or write to another file", path.display())));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Failure::input(format!("there is no folder {}; make it first", folder.display())));
    }
    Ok(path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
}

/// The rates of a verdict's rows.
fn rates(verdict: &Verdict) -> impl Iterator<Item = (&RowVerdict, &FigureVerdict)> {
    let rows = verdict.tables.iter().flat_map(|table| &table.rows);
    rows.flat_map(|row| row.figures.iter().filter(|figure| figure.figure == Figure::Iops).map(move |rate| (row, rate)))
}

fn print(calibration: &Calibration, by_itself: bool) {
    println!("base     {}{}", calibration.base, if by_itself { ", the nearest built-in profile" } else { "" });
    println!();
    let told = |told: Told, factor: f64| match told {
        Told::Fitted { within: 0.0 } => "one of those that are sold".to_owned(),
        Told::Fitted { within } => format!("within {:.1} %", within * 100.0),
        Told::Bound if factor > 1.0 => "at least this: something else is the limit".to_owned(),
        Told::Bound => "at most this: something else is the limit".to_owned(),
        Told::Kept => "not told by these measurements: kept".to_owned(),
    };
    let laws = calibration.fits.iter().map(|fit| {
        vec![
            fit.keys.join(", "),
            fit.before.clone(),
            fit.after.clone(),
            format!("x {:.3}", fit.factor),
            told(fit.told, fit.factor),
        ]
    });
    print_table(&["law", "base", "fitted", "", "how well the measurements tell it"], &laws.collect::<Vec<_>>());
    println!();
    let percent = |error: f64| format!("{:+.1}%", error * 100.0);
    let before = |after: &RowVerdict| {
        let same = |row: &RowVerdict| row.line == after.line && row.label == after.label;
        rates(&calibration.before).find(|(row, _)| same(row)).map_or(String::new(), |(_, rate)| percent(rate.error))
    };
    let rows = rates(&calibration.after).map(|(row, rate)| {
        vec![row.label.clone(), number(rate.measured), before(row), number(rate.modelled), percent(rate.error)]
    });
    print_table(&["load", "measured iops", "base is off", "fitted iops", "off"], &rows.collect::<Vec<_>>());
    for row in calibration.after.tables.iter().flat_map(|table| &table.rows) {
        if let Some(reason) = &row.not_simulated {
            println!("not used: line {}, {}: {reason}", row.line, row.label);
        }
    }
    let spread = |verdict: &Verdict| {
        let mut errors: Vec<f64> = rates(verdict).map(|(_, rate)| rate.error.abs() * 100.0).collect();
        errors.sort_by(f64::total_cmp);
        match (errors.get(errors.len() / 2), errors.last()) {
            (Some(median), Some(worst)) => format!("median {median:.1} %, worst {worst:.1} %"),
            _ => "none could be simulated".to_owned(),
        }
    };
    println!("\nerrors of rates: {} (base profile: {})", spread(&calibration.after), spread(&calibration.before));
}
