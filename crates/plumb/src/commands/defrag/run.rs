//! `plumb defrag run`: makes a plan and carries it out.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, ValueEnum};
use defrag::KeepFree;
use defrag::extents::WriteBack;
use defrag::migrate::{MoveOptions, Stop};
use defrag::plan::{FilePlan, Plan, SkippedFile, dry_run_text};
use defrag::run::{
    Attempts, Cancel, Event, Journal, JournalError, Limits, Origin, Report, RunOptions, Start, carry_out,
};
use indicatif::{ProgressBar, ProgressStyle};
use units::{ByteSize, Printable};

use super::super::signals::stop_on_signals;
use super::super::{Done, EXIT_FAILED, EXIT_INTERRUPTED};
use super::choice::{Choice, Chosen};
use super::scan::warn;
use super::{counted, emit, emit_json, json_text};
use crate::failure::Failure;

/// What to move, and within which limits.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb defrag run --trace db.trace --dry-run
  plumb defrag run --trace db.trace --budget 1GiB --rate 20MB/s --journal db.journal
  plumb defrag run /srv/photos --until-psi 10 --io-class idle
  plumb defrag run --journal db.journal                     (goes on where that run was killed)

Ranges that save most for each byte go first. A file is moved by its file system's own safe means and
changes in nothing but its place: ext4 EXT4_IOC_MOVE_EXT, XFS FIDEDUPERANGE, Btrfs and F2FS their
own defragmentation of a range. Writing to it meanwhile loses nothing, nor does a crash; on ext4,
F2FS and XFS without reflink, files that other programs have open are left alone for that. What cannot be moved so is
left alone, with the reason.

Ctrl-C, SIGTERM and a closed terminal end it after what is under way; Ctrl-Z lets programs that wait for a file in
before it stops. While it has a file to itself it is in no idle class, whatever --io-class or ionice say.

Exit status: 0 done, or a limit was reached; 1 something failed; 2 bad usage; 130 interrupted.")]
pub struct RunArguments {
    #[command(flatten)]
    choice: Choice,
    /// Write, and take up for good, at most so much in all
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
    /// Move files, too, that other programs have open, on ext4 and on XFS with reflinks. While a range is moved, some
    /// milliseconds, what these synchronise on ext4 is lost if the machine crashes, and what they read by mmap(2) on XFS
    /// may be zeros
    #[arg(long)]
    open_files: bool,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Note here what is done; where it is of an unfinished run of the same, go on with that one
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
    /// With --dry-run: every file and range, not the best files alone
    #[arg(long, short, requires = "dry_run", conflicts_with = "json")]
    verbose: bool,
}

/// Files that a dry run names.
const LISTED: usize = 20;

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
    stop_on_hangup(&stop)?;
    let begun = match &arguments.journal {
        Some(path) if !arguments.dry_run => with_journal(arguments, path, &stop)?,
        _ => {
            let chosen = arguments.choice.load()?;
            planned(arguments, &chosen, &stop)?
        }
    };
    let Work { files, mut journal, options, skipped } = match begun {
        Begun::Shown(code) => return Ok(code),
        Begun::Work(work) => *work,
    };
    let is_finished = journal.as_ref().is_some_and(|journal| !files.is_empty() && journal.is_finished(&files));
    let mut report = carried_out(arguments, &files, options, journal.as_mut(), stop)?;
    report.skipped = skipped.0;
    report.skipped_by_reason = skipped.1;
    if let Some(path) = &arguments.report {
        write_report(path, &report)?;
    }
    if arguments.json {
        emit_json(&report)?;
    } else if !is_finished {
        // Totals of what was done long ago would look as if it had been done now.
        emit(&report.to_string());
    }
    // What failed then has been told then.
    Ok(if is_finished { ExitCode::SUCCESS } else { status(&report) })
}

/// Files that a plan left alone, and their number by reason.
type Skipped = (Vec<SkippedFile>, BTreeMap<String, u64>);

/// What is to be carried out.
struct Work {
    files: Vec<FilePlan>,
    journal: Option<Journal>,
    options: MoveOptions,
    skipped: Skipped,
}

enum Begun {
    /// A dry run, or an interrupted scan: there is nothing more to do.
    Shown(ExitCode),
    Work(Box<Work>),
}

/// Goes on with the journal's plan if it is the one that is asked for, and otherwise begins another.
fn with_journal(arguments: &RunArguments, path: &Path, stop: &AtomicBool) -> Result<Begun, Failure> {
    if !arguments.choice.is_given() {
        let (journal, files) = Journal::resume(path).map_err(Failure::input)?;
        let origin = journal.origin();
        let wanted = Origin { open_files: arguments.open_files || origin.open_files, ..arguments.choice.over(origin) };
        let differences = origin.differences(&wanted);
        if !differences.is_empty() {
            return Err(Failure::input(JournalError::Other { path: path.to_owned(), differences }));
        }
        return Ok(go_on(path, journal, files, arguments.choice.keep_free()));
    }
    let chosen = arguments.choice.load()?;
    let origin = chosen.origin(arguments.open_files);
    let note = match Journal::start(path, &origin).map_err(Failure::input)? {
        Start::GoOn(journal, files) => return Ok(go_on(path, journal, files, arguments.choice.keep_free())),
        Start::Begin(note) => note,
    };
    if let Some(note) = note {
        eprintln!("Note: {note}");
    }
    let mut begun = planned(arguments, &chosen, stop)?;
    if let Begun::Work(work) = &mut begun {
        work.journal = Some(Journal::create(path, &origin, &work.files).map_err(Failure::input)?);
    }
    Ok(begun)
}

fn go_on(path: &Path, journal: Journal, files: Vec<FilePlan>, keep_free: KeepFree) -> Begun {
    let (name, ranges, left) = (Printable::path(path), journal.done_count(), journal.left_count());
    let left = if left > 0 { format!(", and {} left", counted(left as u64, "file")) } else { String::new() };
    if journal.is_finished(&files) {
        eprintln!(
            "{name} is finished: its {ranges} ranges were done before{left}, and nothing is moved now; name the files or the trace again to begin from the start"
        );
    } else {
        eprintln!("going on with {name}: {ranges} ranges are done{left}");
    }
    let options = MoveOptions { shared: journal.origin().shared, open: journal.origin().open_files, keep_free };
    Begun::Work(Box::new(Work { files, journal: Some(journal), options, skipped: Skipped::default() }))
}

/// What is to be done; shown if that is all that was asked for.
fn planned(arguments: &RunArguments, chosen: &Chosen<'_>, stop: &AtomicBool) -> Result<Begun, Failure> {
    // A dry run does nothing, not even write back what would be written back anyway.
    let write_back = if arguments.dry_run { WriteBack::No } else { WriteBack::First };
    let budget_bytes = arguments.budget.map(|budget| budget.0);
    let found = chosen.plan(budget_bytes, write_back, arguments.open_files, arguments.quiet || arguments.json, stop)?;
    if found.interrupted {
        eprintln!("Interrupted while looking; nothing was moved");
        return Ok(Begun::Shown(ExitCode::from(EXIT_INTERRUPTED)));
    }
    warn(&found);
    if arguments.dry_run {
        if arguments.json {
            emit_json(&found.plan)?;
        } else {
            emit(&dry_run_text(&found.plan, if arguments.verbose { usize::MAX } else { LISTED }));
        }
        return Ok(Begun::Shown(ExitCode::SUCCESS));
    }
    let Plan { mut files, mut skipped, skipped_by_reason, .. } = found.plan;
    skipped.retain(|skipped| !skipped.reason.is_in_order());
    for plan in &mut files {
        plan.file.path = std::path::absolute(&plan.file.path).unwrap_or_else(|_| plan.file.path.clone());
    }
    let keep_free = arguments.choice.keep_free();
    let options = MoveOptions { shared: arguments.choice.shared(), open: arguments.open_files, keep_free };
    Ok(Begun::Work(Box::new(Work { files, journal: None, options, skipped: (skipped, skipped_by_reason) })))
}

fn carried_out(
    arguments: &RunArguments,
    files: &[FilePlan],
    options: MoveOptions,
    journal: Option<&mut Journal>,
    stop: Arc<AtomicBool>,
) -> Result<Report, Failure> {
    let limits = Limits {
        budget_bytes: arguments.budget.map(|budget| budget.0),
        rate_bytes_per_s: arguments.rate.map(|rate| rate.0),
        until_psi_percent: arguments.until_psi.map(|percent| percent.0),
        idle: arguments.io_class.is_some(),
    };
    let MoveOptions { shared, open, keep_free } = options;
    let options = RunOptions { limits, shared, open, keep_free };
    let bar = bar(arguments.quiet || arguments.json, files.iter().map(FilePlan::bytes).sum());
    let mut progress = |event: &Event<'_>| match event {
        Event::File { plan, .. } => bar.set_message(Printable::path(&plan.file.path).to_string()),
        Event::Range { range, .. } => bar.inc(range.len()),
        Event::FileDone(_) => {}
    };
    let done = carry_out(files, &options, journal, &Cancel::from_flag(stop), &mut progress);
    bar.finish_and_clear();
    let report = done.map_err(|error| Failure::Machine(error.to_string()))?;
    // Where they cannot be kept, the next run tries once more.
    if let Some(path) = Attempts::place()
        && let Err(error) = Attempts::add(&path, &report.attempts)
    {
        eprintln!("Note: what could not be moved is not remembered: {}: {error}", Printable::path(&path));
    }
    Ok(report)
}

/// A terminal that is closed ends the run as Ctrl-C does, unless the run was started so that it does not (`nohup`).
fn stop_on_hangup(stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    if ignored & 1 << (signal_hook::consts::SIGHUP - 1) != 0 {
        return Ok(());
    }
    let registered = signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(stop));
    registered.map(drop).map_err(|error| Failure::Machine(format!("cannot watch for signals: {error}")))
}

fn bar(quiet: bool, bytes: u64) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    let style =
        ProgressStyle::with_template("{bar:32} {bytes} of {total_bytes}  {bytes_per_sec}, left {eta}  {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    // Drawn by a thread of its own: a terminal that takes nothing (Ctrl-S) is not to hold up whoever waits for a file.
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}

fn write_report(path: &Path, report: &Report) -> Result<(), Failure> {
    std::fs::write(path, json_text(report)?)
        .map_err(|error| Failure::Machine(format!("cannot write the report {}: {error}", Printable::path(path))))
}

/// A limit that was reached is what was asked for.
fn status(report: &Report) -> ExitCode {
    let failed = report.files.iter().any(|file| matches!(file.outcome, defrag::run::FileOutcome::Failed(_)));
    match report.stopped {
        Some(Stop::Cancelled) => ExitCode::from(EXIT_INTERRUPTED),
        _ if failed || report.error.is_some() => ExitCode::from(EXIT_FAILED),
        _ => ExitCode::SUCCESS,
    }
}
