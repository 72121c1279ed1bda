//! `plumb validate`: device profiles against their public figures, or against
//! tables of measurements.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use lab::results::Store;
use lab::validate::{Host, JudgeOptions, RowVerdict, TableVerdict, Verdict, errors_table, judge, page, read_tables};
use serde_json::json;
use ssd::profile::{builtin_names, check};

use super::signals::stop_on_signals;
use super::validate_host::{ValidateHostArguments, validate_host};
use super::{Done, EXIT_FAILED, EXIT_INTERRUPTED};
use crate::failure::Failure;
use crate::terminal::{Progress, number, print_table};

/// Which profiles.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  plumb validate
  plumb validate host
  plumb validate samsung-980pro-1tb my-drive.toml
  plumb validate wd-zn540 --data measurements/ --out zn540
  plumb validate my-drive.toml --data spdk.csv resets.csv --within 15 --json
  plumb validate samsung-980pro-1tb --data fio.json --out mine

A table is recognised by its columns: op, latency_us and an occupancy | op, block_size_kib,
concurrent_zones, queue_depth | op, bs, iodepth, numjobs | victim, interferer, victim_load, interferer_rate_pct |
op, condition, ops_per_s. The documentation says more: docs/validate.md."
)]
pub struct ValidateArguments {
    #[command(subcommand)]
    what: Option<What>,
    /// Built-in names or .toml files [default: every built-in profile]
    devices: Vec<String>,
    /// Tables of measurements (.csv), fio's results (.json), or folders of them: simulate each row and compare
    #[arg(long, num_args = 1.., value_name = "FOLDER|FILE.csv|FIO.json")]
    data: Vec<PathBuf>,
    /// How the measurements drove the device: spdk, io_uring_cmd, vm or none [default: by the kind of table]
    #[arg(long, requires = "data")]
    host: Option<Host>,
    /// Fail when a judged figure is further off, in percent
    #[arg(long, requires = "data", value_name = "PERCENT")]
    within: Option<f64>,
    /// Also write report.html and errors.csv
    #[arg(long, requires = "data", value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Worker threads [default: one a core]; results do not depend on it
    #[arg(long, requires = "data")]
    threads: Option<usize>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long, short, requires = "data")]
    quiet: bool,
}

#[derive(Subcommand)]
enum What {
    /// Hold the modelled host against a real Linux kernel
    Host(ValidateHostArguments),
}

/// Measures what there is to measure and prints it side by side.
pub fn validate(arguments: &ValidateArguments) -> Done {
    if let Some(What::Host(arguments)) = &arguments.what {
        return validate_host(arguments);
    }
    if arguments.data.is_empty() { figures(arguments) } else { data(arguments) }
}

/// Every public figure of each profile.
fn figures(arguments: &ValidateArguments) -> Done {
    let names = if arguments.devices.is_empty() {
        builtin_names().map(str::to_owned).collect()
    } else {
        arguments.devices.clone()
    };
    let mut rows = Vec::new();
    let mut items = Vec::new();
    let mut missed = 0;
    for name in &names {
        let profile = lab::device::describe(name, Path::new(""), &[])?.profile;
        for checked in check(&profile).map_err(Failure::input)? {
            missed += usize::from(!checked.within);
            let expectation = &checked.expectation;
            items.push(json!({
                "device": name, "figure": expectation.figure, "low": expectation.low, "high": expectation.high,
                "unit": expectation.unit.to_string(), "measured": checked.measured, "within": checked.within, "source": expectation.source,
            }));
            rows.push(vec![
                name.clone(),
                expectation.figure.clone(),
                format!("{}..{} {}", number(expectation.low), number(expectation.high), expectation.unit),
                number(checked.measured),
                if checked.within { "ok" } else { "OUTSIDE" }.to_owned(),
                expectation.source.clone(),
            ]);
        }
    }
    if arguments.json {
        println!("{:#}", json!(items));
    } else {
        print_table(&["device", "figure", "public", "modelled", "", "source"], &rows);
    }
    Ok(if missed > 0 { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

/// Every row of the tables given.
fn data(arguments: &ValidateArguments) -> Done {
    let [device] = &arguments.devices[..] else {
        return Err(Failure::input("--data compares one device with its measurements; name one profile before --data"));
    };
    let device = lab::device::describe(device, Path::new(""), &[])?;
    let tables = read_tables(&arguments.data).map_err(Failure::input)?;
    let stop = stop_on_signals()?;
    let progress = Progress::new(arguments.quiet || arguments.json);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = JudgeOptions {
        host: arguments.host,
        threads: arguments.threads.unwrap_or(cores),
        observer: &progress,
        stop: &stop,
    };
    let verdict = judge(&device, &tables, &options);
    progress.clear();
    let Some(verdict) = verdict else {
        eprintln!("interrupted: nothing is kept of a comparison that is not finished");
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    };
    if let Some(folder) = &arguments.out {
        let store = Store::plain(folder)?;
        store.write("report.html", page(&verdict, &device).as_bytes())?;
        store.write_csv("errors.csv", &errors_table(&verdict))?;
    }
    if arguments.json {
        println!("{:#}", json!(verdict));
    } else {
        verdict.tables.iter().for_each(print);
        print_summary(&verdict);
        if let Some(folder) = &arguments.out {
            println!("\nreport   {}", folder.join("report.html").display());
            println!("errors   {}", folder.join("errors.csv").display());
        }
    }
    Ok(exit(&verdict, arguments.within))
}

fn exit(verdict: &Verdict, within: Option<f64>) -> ExitCode {
    let Some(within) = within else { return ExitCode::SUCCESS };
    let judged = verdict
        .tables
        .iter()
        .flat_map(|table| &table.rows)
        .flat_map(|row| row.figures.iter().filter(|figure| figure.judged).map(move |figure| (row, figure)));
    let off: Vec<_> = judged.filter(|(_, figure)| figure.error.abs() * 100.0 > within).collect();
    for (row, figure) in &off {
        eprintln!("OFF: {} of {}: {}, more than {within} %", figure.figure, row.label, percent(figure.error));
    }
    if off.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) }
}

/// A table's rows: each judged figure on both sides, the others' errors.
fn print(table: &TableVerdict) {
    println!("\n{}: {}", table.origin, table.kind);
    let mut columns: Vec<(lab::validate::Figure, bool)> = Vec::new();
    for figure in table.rows.iter().flat_map(|row| &row.figures) {
        if !columns.contains(&(figure.figure, figure.judged)) {
            columns.push((figure.figure, figure.judged));
        }
    }
    columns.sort_by_key(|(figure, judged)| (!judged, *figure));
    let mut header = vec!["line".to_owned(), "row".to_owned()];
    for (figure, judged) in &columns {
        header.push(figure.to_string());
        if *judged {
            header.extend(["modelled".to_owned(), "error".to_owned()]);
        }
    }
    let cells = |row: &RowVerdict| {
        let mut line = vec![row.line.to_string(), row.label.clone()];
        for (figure, judged) in &columns {
            let found = row.figures.iter().find(|verdict| verdict.figure == *figure);
            if *judged {
                line.push(found.map_or(String::new(), |found| number(found.measured)));
                line.push(found.map_or(String::new(), |found| number(found.modelled)));
            }
            line.push(found.map_or(String::new(), |found| percent(found.error)));
        }
        line
    };
    let rows: Vec<Vec<String>> = table.rows.iter().filter(|row| !row.figures.is_empty()).map(cells).collect();
    if !rows.is_empty() {
        print_table(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows);
    }
    for row in &table.rows {
        if let Some(reason) = &row.not_simulated {
            println!("not simulated: line {}, {}: {reason}", row.line, row.label);
        }
    }
    for z in &table.z {
        let loads: Vec<String> = z.loads.iter().map(u32::to_string).collect();
        println!("Z of {} over loads {}: measured {:.6}, ours {:.6}", z.label, loads.join(" "), z.measured, z.modelled);
    }
}

fn print_summary(verdict: &Verdict) {
    println!("\n{}: absolute errors", verdict.device);
    let mut rows = Vec::new();
    for table in &verdict.tables {
        let name =
            Path::new(&table.origin).file_name().map_or(table.origin.clone(), |name| name.to_string_lossy().into());
        for summary in &table.summary {
            rows.push(vec![
                name.clone(),
                summary.part.to_owned(),
                summary.figure.to_string(),
                if summary.judged { "judged" } else { "" }.to_owned(),
                summary.rows.to_string(),
                format!("{:.1}%", summary.median * 100.0),
                format!("{:.1}%", summary.p90 * 100.0),
                format!("{:.1}%", summary.worst * 100.0),
            ]);
        }
    }
    print_table(&["table", "part", "figure", "", "rows", "median", "P90", "worst"], &rows);
    let missing = verdict.tables.iter().flat_map(|table| &table.rows).filter(|row| row.not_simulated.is_some()).count();
    if missing > 0 {
        println!("{missing} rows were not simulated; the reasons stand above");
    }
}

fn percent(error: f64) -> String {
    format!("{:+.1}%", error * 100.0)
}
