//! `plumb prefetch advise`: what prefetching would have gained for a command or a trace, and what perfect foresight would have.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use defrag::IoKind;
use defrag::access::{Trace as AccessTrace, iolog, strace};
use prefetch::policy;
use prefetch::simulate::{Action, Step, Trace, picture, timeline};
use prefetcher::launch::{self, Recorded};
use prefetcher::settings::{Mode, Settings};
use units::{ByteSize, Printable};

use super::super::Done;
use super::machine::{Comparison, MachineArguments};
use super::recorded::{self, most_accessed};
use super::{failure, tell, write};
use crate::failure::Failure;

/// Which trace or command, on which machine.
#[derive(Args)]
#[command(group(ArgGroup::new("source").required(true).args(["command", "trace", "from_strace", "from_iolog"])))]
#[command(after_help = "Examples:
  plumb prefetch advise -- ./my-program
  plumb defrag trace --path /srv/db --out db.trace -- ./workload      (root)
  plumb prefetch advise --trace db.trace
  strace -f -y -e trace=%desc,%process -o db.strace ./workload
  plumb prefetch advise --from-strace db.strace --html db.html
  plumb prefetch advise --from-iolog job.log --latency 8ms --bandwidth 150MB --queue-depth 1

A command runs as it would anyway: its reads are recorded by the library of `plumb prefetch run`, and nothing is loaded for it. Touches
of mappings are not seen so. Its output goes to standard error, so that it does not mix with what is told here. Exit status: the
command's, if it failed.

Nothing is loaded: the reads are replayed in virtual time on the machine that the options describe, from an empty page
cache, those of a command by thread, with as much work in between as there was, those of a trace one after the other. A trace has each range of a file once, where it was first read: what was read again is in memory
there, too, if there is enough of it. Writes, reads past the page cache, and what the processor does are left out.")]
pub struct AdviseArguments {
    /// The command and its arguments: it is run, and its reads are recorded
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Of a command, files that are smaller are left out [default: 1MiB]
    #[arg(long, value_name = "SIZE", requires = "command")]
    min_file: Option<ByteSize>,
    /// A trace of `plumb defrag trace`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The output of `strace -f -y`
    #[arg(long, value_name = "FILE")]
    from_strace: Option<PathBuf>,
    /// An iolog of fio (version 2 or 3)
    #[arg(long, value_name = "FILE")]
    from_iolog: Option<PathBuf>,
    /// The folder that relative names of an strace output or iolog begin at [default: this one]
    #[arg(long, value_name = "FOLDER", conflicts_with = "trace")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArguments,
    /// Draw what is read, loaded and in memory over time, with the best policy
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Advises.
pub fn advise(arguments: &AdviseArguments) -> Done {
    let observed = arguments.observed()?;
    let Observed { trace, names, status, .. } = &observed;
    let machine = arguments.machine.machine();
    let comparison = Comparison::of(trace, &machine);
    if arguments.json {
        println!("{:#}", comparison.json());
    } else {
        let reads = trace.steps.iter().filter(|step| matches!(step.action, Action::Read { .. } | Action::Touch { .. }));
        println!("{} reads of {} files\n", reads.count(), trace.files.len());
        comparison.print();
        println!("\nleast time: {}", comparison.best());
        if observed.lost > 0 {
            println!("{} accesses were too many to be recorded and are not in it", observed.lost);
        }
    }
    if let (Some(path), Some(policy)) = (&arguments.html, policy::named(comparison.best())) {
        let (outcome, marks) = timeline(trace, &machine, policy);
        let title = format!("What {} would have done", comparison.best());
        let about = "In virtual time, on the machine that the options describe.";
        write(path, &picture(&title, about, &marks, &most_accessed(trace, names), outcome.time_ns))?;
    }
    Ok(ExitCode::from(*status))
}

/// What was observed of a command, or of one whose trace there is.
struct Observed {
    trace: Trace,
    names: Vec<String>,
    /// The command's exit status; 0 for a trace.
    status: u8,
    /// Accesses that are not in the trace.
    lost: u64,
}

impl AdviseArguments {
    /// Runs the command or reads the trace.
    fn observed(&self) -> Result<Observed, Failure> {
        if self.command.is_empty() {
            let (trace, names) = replayed(&self.read()?);
            if trace.steps.is_empty() {
                return Err(Failure::input("the trace has no read through the page cache of a file that is there"));
            }
            return Ok(Observed { trace, names, status: 0, lost: 0 });
        }
        let defaults = Settings::default();
        let settings =
            Settings { mode: Mode::AppOnly, min_file: self.min_file.unwrap_or(defaults.min_file), ..defaults };
        let outcome = launch::run(&settings, Recorded::Apart, &self.command, tell).map_err(failure)?;
        let recording = outcome.recording.unwrap_or_default();
        if recording.accesses.is_empty() {
            let message = format!(
                "no read of a file of at least {} was seen: of static programs and Go only root sees them, of mappings nobody",
                settings.min_file
            );
            return Err(Failure::input(message));
        }
        let names = recorded::names(&recording);
        let (trace, lost) = (recorded::trace(&recording), recording.lost);
        Ok(Observed { trace, names, status: outcome.status, lost })
    }

    fn read(&self) -> Result<AccessTrace, Failure> {
        let folder = self.folder.clone().unwrap_or_else(|| PathBuf::from("."));
        let open = |path: &Path| {
            File::open(path)
                .map(BufReader::new)
                .map_err(|error| Failure::input(format!("cannot read {}: {error}", Printable::path(path))))
        };
        if let Some(path) = &self.from_strace {
            strace::parse(open(path)?, path, &folder).map(|parsed| parsed.trace).map_err(Failure::input)
        } else if let Some(path) = &self.from_iolog {
            iolog::parse(open(path)?, path, &folder, false).map(|parsed| parsed.trace).map_err(Failure::input)
        } else {
            AccessTrace::load(self.trace.as_deref().unwrap_or(Path::new("-"))).map_err(Failure::input)
        }
    }
}

/// The reads of a trace as steps of one lane, and the names of its files.
fn replayed(trace: &AccessTrace) -> (Trace, Vec<String>) {
    let mut numbers = BTreeMap::new();
    let (mut out, mut names) = (Trace::default(), Vec::new());
    let mut mapped = Vec::new();
    for access in &trace.accesses {
        let touched = match access.kind {
            IoKind::BufferedRead => false,
            IoKind::Mapped => true,
            IoKind::BufferedWrite | IoKind::DirectRead | IoKind::DirectWrite | IoKind::Readahead => continue,
        };
        let step = |file, action| Step { file, lane: 0, think_ns: 0, action };
        let file = *numbers.entry(access.file).or_insert_with(|| {
            let path = trace.files.get(&access.file).cloned().flatten();
            let bytes = path.as_ref().and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len());
            out.files.push(bytes);
            names.push(path.map_or_else(|| "a file without a name".into(), |path| Printable::path(&path).to_string()));
            mapped.push(false);
            out.steps.push(step(out.files.len() - 1, Action::Open));
            out.files.len() - 1
        });
        let (offset_bytes, length_bytes) = (access.range.start, access.range.end - access.range.start);
        // A file may have been longer when it was traced.
        out.files[file] = out.files[file].max(access.range.end);
        if touched && !std::mem::replace(&mut mapped[file], true) {
            out.steps.push(step(file, Action::Map));
        }
        let action = if touched {
            Action::Touch { offset_bytes, length_bytes }
        } else {
            Action::Read { offset_bytes, length_bytes }
        };
        out.steps.push(step(file, action));
    }
    (out, names)
}
