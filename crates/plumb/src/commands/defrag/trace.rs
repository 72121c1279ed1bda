//! `plumb defrag trace`: which ranges of which files are read and written.

use std::fs::File;
use std::io::{BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{ArgGroup, Args};
use defrag::access::{Filters, Parsed, Progress, Recording, SourceKind, Trace, iolog, strace};
use indicatif::ProgressBar;
use units::Printable;

use super::super::signals::stop_on_signals;
use super::super::{Done, EXIT_FAILED};
use super::counted;
use crate::failure::Failure;

/// Between two looks at the kernel's buffers.
const POLL: Duration = Duration::from_millis(50);

/// What to trace, and where to keep it.
#[derive(Args)]
#[command(group(ArgGroup::new("parsed").args(["from_strace", "from_iolog", "merge"])))]
#[command(after_help = "Examples:
  plumb defrag trace --path /srv/db --out db.trace -- ./workload    (root)
  plumb defrag trace --pid 4711 --out db.trace                      (root; until Ctrl-C)
  plumb defrag trace --mount /srv --out srv.trace                   (root; until Ctrl-C)
  strace -f -y -e trace=%desc,%process -o db.strace ./workload
  plumb defrag trace --from-strace db.strace --out db.trace
  plumb defrag trace --merge monday.trace tuesday.trace --out week.trace

Filters of place (--path, --mount) let through what any of them does, and so do those of processes
(--pid with all it starts, --cgroup, COMMAND); where there are both, both must.")]
pub struct TraceArguments {
    /// A file, or everything below a folder; may be repeated
    #[arg(long, value_name = "P", conflicts_with = "parsed")]
    path: Vec<PathBuf>,
    /// A process and what it starts; may be repeated
    #[arg(long, value_name = "N", conflicts_with = "parsed")]
    pid: Vec<u32>,
    /// A control group, as a folder of /sys/fs/cgroup; may be repeated
    #[arg(long, value_name = "C", conflicts_with = "parsed")]
    cgroup: Vec<PathBuf>,
    /// All of the mount that this path is on; may be repeated
    #[arg(long, value_name = "M", conflicts_with = "parsed")]
    mount: Vec<PathBuf>,
    /// How to trace [default: the first that the kernel allows]
    #[arg(long, value_name = "bpf|tracefs|fanotify", conflicts_with = "parsed")]
    source: Option<SourceKind>,
    /// Read the output of `strace -f -y` instead
    #[arg(long, value_name = "FILE")]
    from_strace: Option<PathBuf>,
    /// Read an iolog of fio (version 2 or 3) instead
    #[arg(long, value_name = "FILE")]
    from_iolog: Option<PathBuf>,
    /// The iolog's job used direct=1
    #[arg(long, requires = "from_iolog")]
    direct: bool,
    /// The folder that relative names of an strace output or iolog begin at [default: this one]
    #[arg(long, value_name = "FOLDER", requires = "parsed", conflicts_with = "merge")]
    folder: Option<PathBuf>,
    /// Put traces together
    #[arg(long, value_name = "TRACE", num_args = 2..)]
    merge: Vec<PathBuf>,
    /// Where to keep the trace
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Trace this command until it ends
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "parsed")]
    command: Vec<std::ffi::OsString>,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Traces, parses or merges.
pub fn trace(arguments: &TraceArguments) -> Done {
    let mut code = ExitCode::SUCCESS;
    let trace = if let Some(path) = &arguments.from_strace {
        parsed(path, |input| strace::parse(input, path, &arguments.folder()))?
    } else if let Some(path) = &arguments.from_iolog {
        parsed(path, |input| iolog::parse(input, path, &arguments.folder(), arguments.direct))?
    } else if arguments.merge.is_empty() {
        let (trace, ended) = record(arguments)?;
        code = ended;
        trace
    } else {
        merged(&arguments.merge)?
    };
    trace.save(&arguments.out).map_err(|error| Failure::Machine(error.to_string()))?;
    println!(
        "{}: {} to {}, {} distinct",
        Printable::path(&arguments.out),
        counted_accesses(trace.events()),
        counted(trace.files.len() as u64, "file"),
        trace.accesses.len()
    );
    if trace.lost > 0 {
        eprintln!("Note: {} were lost, as they came faster than they were taken", counted(trace.lost, "event"));
    }
    if trace.unresolved > 0 {
        eprintln!("Note: {} to files that are gone or cannot be told apart", counted_accesses(trace.unresolved));
    }
    Ok(code)
}

fn counted_accesses(count: u64) -> String {
    if count == 1 { "1 access".to_owned() } else { format!("{count} accesses") }
}

impl TraceArguments {
    fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(|| PathBuf::from("."))
    }

    fn filters(&self) -> Filters {
        Filters {
            paths: self.path.clone(),
            mounts: self.mount.clone(),
            processes: self.pid.clone(),
            children: !self.command.is_empty(),
            cgroups: self.cgroup.clone(),
        }
    }
}

fn parsed(
    path: &Path,
    parse: impl FnOnce(BufReader<File>) -> Result<Parsed, defrag::access::TraceError>,
) -> Result<Trace, Failure> {
    let file =
        File::open(path).map_err(|error| Failure::input(format!("cannot read {}: {error}", Printable::path(&path))))?;
    let parsed = parse(BufReader::new(file)).map_err(Failure::input)?;
    for (path, accesses) in parsed.missing.iter().take(10) {
        eprintln!("Note: {} is no file here; {} left out", Printable::path(&path), counted_accesses(*accesses));
    }
    if parsed.missing.len() > 10 {
        eprintln!("Note: and so are {} more", parsed.missing.len() - 10);
    }
    if parsed.skipped_lines > 0 {
        eprintln!("Note: {} not understood and left out", counted(parsed.skipped_lines, "line"));
    }
    Ok(parsed.trace)
}

fn merged(paths: &[PathBuf]) -> Result<Trace, Failure> {
    let mut all = Trace::default();
    for path in paths {
        all.merge(&Trace::load(path).map_err(Failure::input)?);
    }
    Ok(all)
}

/// The trace, and the status that the command ended with.
fn record(arguments: &TraceArguments) -> Result<(Trace, ExitCode), Failure> {
    let filters = arguments.filters();
    if filters == Filters::default() {
        return Err(Failure::input("say what to trace: --path, --mount, --pid, --cgroup or a command after --"));
    }
    let stop = stop_on_signals()?;
    let mut recording = Recording::start(arguments.source, &filters).map_err(Failure::input)?;
    let bar = spinner(arguments.quiet);
    let ended = follow(arguments, &mut recording, &bar, &stop);
    bar.finish_and_clear();
    let ended = ended?;
    let trace = recording.finish().map_err(|error| Failure::Machine(error.to_string()))?;
    Ok((trace, ended))
}

/// Until the command has ended or, without one, a signal comes.
fn follow(
    arguments: &TraceArguments,
    recording: &mut Recording,
    bar: &ProgressBar,
    stop: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let failed = |error: defrag::access::TraceError| Failure::Machine(error.to_string());
    let mut child = match arguments.command.split_first() {
        None => None,
        Some((program, rest)) => {
            let started = Command::new(program).args(rest).spawn();
            let named = Printable::path(program);
            Some(started.map_err(|error| Failure::input(format!("cannot start {named}: {error}")))?)
        }
    };
    loop {
        show(bar, recording.poll().map_err(failed)?);
        if let Some(child) = &mut child {
            let ended = child.try_wait().map_err(|error| Failure::Machine(format!("cannot wait: {error}")))?;
            if let Some(status) = ended {
                if !status.success() {
                    eprintln!("Note: the command ended with {status}; its trace is kept");
                    return Ok(ExitCode::from(EXIT_FAILED));
                }
                return Ok(ExitCode::SUCCESS);
            }
        }
        // A signal from the terminal reaches the command as well; it is waited for.
        if child.is_none() && stop.load(Ordering::Relaxed) {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(POLL);
    }
}

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_message(format!(
        "{}, {} distinct, {} lost",
        counted_accesses(progress.events),
        progress.distinct,
        progress.lost
    ));
}

fn spinner(quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
