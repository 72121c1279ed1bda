//! `plumb defrag run`: makes a plan and carries it out.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, ValueEnum};
use defrag::extents::WriteBack;
use defrag::migrate::Stop;
use defrag::plan::{FilePlan, dry_run_text};
use defrag::run::{Cancel, Event, Journal, Limits, Report, RunOptions, carry_out};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use units::ByteSize;

use super::super::run::stop_on_signals;
use super::super::{Done, EXIT_FAILED, EXIT_INTERRUPTED};
use super::choice::Choice;
use super::emit;
use super::scan::warn;
use crate::failure::Failure;

/// What to move, and within which limits.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb defrag run --trace db.trace --dry-run
  plumb defrag run --trace db.trace --budget 1GiB --rate 20MB/s --journal db.journal
  plumb defrag run /srv/photos --until-psi 10 --io-class idle
  plumb defrag run --journal db.journal                     (goes on where a run was killed)

Ranges that save most for each byte go first. A file is moved by its file system's own safe means and
changes in nothing but its place: ext4 EXT4_IOC_MOVE_EXT, XFS FIDEDUPERANGE, Btrfs and F2FS their
own defragmentation of a range. Writing to it meanwhile loses nothing, nor does a crash; on ext4,
F2FS and XFS without reflink, files that other programs have open are left alone for that. What cannot be moved so is
left alone, with the reason.

Exit status: 0 done, or a limit was reached; 1 something failed; 2 bad usage; 130 interrupted.")]
pub struct RunArguments {
    #[command(flatten)]
    choice: Choice,
    /// Write at most so much
    #[arg(long, value_name = "BYTES")]
    budget: Option<ByteSize>,
    /// Write at most so much in a second, such as 20MB/s
    #[arg(long, value_name = "BYTES/s")]
    rate: Option<Rate>,
    /// End once tasks wait for I/O more than so much of the time (/proc/pressure/io, last ten seconds)
    #[arg(long, value_name = "PCT")]
    until_psi: Option<Percent>,
    /// The class of its requests
    #[arg(long, value_name = "CLASS")]
    io_class: Option<IoClass>,
    /// ext4: move files, too, that other programs have open. What these synchronise while a range is moved, some
    /// milliseconds, is lost if the machine crashes at that moment
    #[arg(long)]
    open_files: bool,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Note here what is done; where it exists, go on with the run that it is of
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Write a report as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum IoClass {
    /// Served when no other requests wait, where the I/O scheduler knows classes
    Idle,
}

/// Bytes in a second, above zero.
#[derive(Clone, Copy)]
struct Rate(u64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size: ByteSize =
            text.trim().trim_end_matches("/s").parse().map_err(|error: units::ParseByteSizeError| error.to_string())?;
        if size.0 == 0 { Err("a rate of nothing would never end".to_owned()) } else { Ok(Self(size.0)) }
    }
}

/// 0 to 100.
#[derive(Clone, Copy)]
struct Percent(f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.trim().trim_end_matches('%').parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
        percent.map(Self).ok_or_else(|| format!("`{text}` is no percentage; give a number from 0 to 100"))
    }
}

/// Moves, or says what it would.
pub fn run(arguments: &RunArguments) -> Done {
    let stop = stop_on_signals()?;
    let existing = arguments.journal.as_deref().filter(|path| path.exists() && !arguments.dry_run);
    let mut finished = false;
    let (files, mut journal) = match existing {
        Some(path) => {
            let (journal, files) = Journal::resume(path).map_err(Failure::input)?;
            let (name, done) = (path.display(), journal.done_count());
            finished = journal.is_finished(&files);
            if finished {
                eprintln!(
                    "{name} is finished: its {done} ranges were done before, and nothing is moved now; remove it to begin anew"
                );
            } else {
                eprintln!("going on with {name}: {done} ranges are done");
            }
            (files, Some(journal))
        }
        None => match planned(arguments, &stop)? {
            Planned::Shown(code) => return Ok(code),
            Planned::Files(files) => {
                let create = |path: &PathBuf| Journal::create(path, &files).map_err(Failure::input);
                let journal = arguments.journal.as_ref().map(create).transpose()?;
                (files, journal)
            }
        },
    };
    let report = carried_out(arguments, &files, journal.as_mut(), stop)?;
    if let Some(path) = &arguments.report {
        write_report(path, &report)?;
    }
    if arguments.json {
        emit(&format!("{:#}\n", json!(report)));
    } else if !finished {
        // Totals of what was done long ago would look as if it had been done now.
        emit(&report.to_string());
    }
    Ok(status(&report))
}

enum Planned {
    Shown(ExitCode),
    Files(Vec<FilePlan>),
}

/// What is to be done; shown if that is all that was asked for.
fn planned(arguments: &RunArguments, stop: &AtomicBool) -> Result<Planned, Failure> {
    let quiet = arguments.quiet || arguments.json;
    // A dry run does nothing, not even write back what would be written back anyway.
    let write_back = if arguments.dry_run { WriteBack::No } else { WriteBack::First };
    let budget_bytes = arguments.budget.map(|budget| budget.0);
    let found = arguments.choice.plan(budget_bytes, write_back, quiet, stop)?;
    if found.interrupted {
        eprintln!("Interrupted while looking; nothing was moved");
        return Ok(Planned::Shown(ExitCode::from(EXIT_INTERRUPTED)));
    }
    warn(&found);
    if arguments.dry_run {
        emit(&if arguments.json { format!("{:#}\n", json!(found.plan)) } else { dry_run_text(&found.plan) });
        return Ok(Planned::Shown(ExitCode::SUCCESS));
    }
    if !quiet {
        for skipped in found.plan.skipped.iter().filter(|skipped| !skipped.reason.is_in_order()).take(20) {
            eprintln!("{}: left alone, {}", skipped.path.display(), skipped.reason);
        }
    }
    Ok(Planned::Files(found.plan.files))
}

fn carried_out(
    arguments: &RunArguments,
    files: &[FilePlan],
    journal: Option<&mut Journal>,
    stop: Arc<AtomicBool>,
) -> Result<Report, Failure> {
    let limits = Limits {
        budget_bytes: arguments.budget.map(|budget| budget.0),
        rate_bytes_per_s: arguments.rate.map(|rate| rate.0),
        until_psi_percent: arguments.until_psi.map(|percent| percent.0),
        idle: arguments.io_class.is_some(),
    };
    let options = RunOptions { limits, shared: arguments.choice.shared(), open: arguments.open_files };
    let bar = bar(arguments.quiet || arguments.json, files.iter().map(FilePlan::bytes).sum());
    let mut progress = |event: &Event<'_>| match event {
        Event::File { plan, .. } => bar.set_message(plan.file.path.display().to_string()),
        Event::Range { range, .. } => bar.inc(range.len()),
        Event::FileDone(_) => {}
    };
    let done = carry_out(files, &options, journal, &Cancel::from_flag(stop), &mut progress);
    bar.finish_and_clear();
    done.map_err(|error| Failure::Machine(error.to_string()))
}

fn bar(quiet: bool, bytes: u64) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    let style =
        ProgressStyle::with_template("{bar:32} {bytes} of {total_bytes}  {bytes_per_sec}, left {eta}  {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn write_report(path: &Path, report: &Report) -> Result<(), Failure> {
    std::fs::write(path, format!("{:#}\n", json!(report)))
        .map_err(|error| Failure::Machine(format!("cannot write the report {}: {error}", path.display())))
}

/// A limit that was reached is what was asked for.
fn status(report: &Report) -> ExitCode {
    let failed = report.files.iter().any(|file| matches!(file.outcome, defrag::run::FileOutcome::Failed(_)));
    match report.stopped {
        Some(Stop::Cancelled) => ExitCode::from(EXIT_INTERRUPTED),
        _ if failed => ExitCode::from(EXIT_FAILED),
        _ => ExitCode::SUCCESS,
    }
}
