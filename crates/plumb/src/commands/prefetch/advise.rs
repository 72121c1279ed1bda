//! `plumb prefetch advise`: what prefetching would have gained for a trace, and what perfect foresight would have.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use defrag::IoKind;
use defrag::access::{Trace as AccessTrace, iolog, strace};
use prefetch::policy;
use prefetch::simulate::{Action, Pictured, Step, Trace, picture, timeline};
use units::Printable;

use super::super::Done;
use super::machine::{Comparison, MachineArguments};
use crate::failure::Failure;

/// Files that are drawn at most: those with most accesses.
const PICTURES: usize = 8;

/// Which trace, on which machine.
#[derive(Args)]
#[command(group(ArgGroup::new("source").required(true).args(["trace", "from_strace", "from_iolog"])))]
#[command(after_help = "Examples:
  plumb defrag trace --path /srv/db --out db.trace -- ./workload      (root)
  plumb prefetch advise --trace db.trace
  strace -f -y -e trace=%desc,%process -o db.strace ./workload
  plumb prefetch advise --from-strace db.strace --html db.html
  plumb prefetch advise --from-iolog job.log --latency 8ms --bandwidth 150MB --queue-depth 1

Nothing is loaded: the trace's reads are replayed in virtual time on the machine that the options describe, from an empty page
cache, one after the other. A trace has each range of a file once, where it was first read: what was read again is in memory
there, too, if there is enough of it. Writes, reads past the page cache, and what the processor does are left out.")]
pub struct AdviseArguments {
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
    let (trace, names) = replayed(&arguments.read()?);
    if trace.steps.is_empty() {
        return Err(Failure::input("the trace has no read through the page cache of a file that is there"));
    }
    let machine = arguments.machine.machine();
    let comparison = Comparison::of(&trace, &machine);
    if arguments.json {
        println!("{:#}", comparison.json());
    } else {
        let reads = trace.steps.iter().filter(|step| matches!(step.action, Action::Read { .. } | Action::Touch { .. }));
        println!("{} reads of {} files\n", reads.count(), trace.files.len());
        comparison.print();
        println!("\nleast time: {}", comparison.best());
    }
    if let (Some(path), Some(policy)) = (&arguments.html, policy::named(comparison.best())) {
        let (outcome, marks) = timeline(&trace, &machine, policy);
        let title = format!("What {} would have done", comparison.best());
        let page = picture(&title, &marks, &most_read(&trace, &names), outcome.time_ns);
        std::fs::write(path, page)
            .map_err(|error| Failure::Machine(format!("cannot write {}: {error}", Printable::path(path))))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl AdviseArguments {
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

/// The files with most accesses.
fn most_read(trace: &Trace, names: &[String]) -> Vec<Pictured> {
    let mut counts = vec![0u64; trace.files.len()];
    for step in &trace.steps {
        counts[step.file] += 1;
    }
    let mut files: Vec<usize> = (0..trace.files.len()).collect();
    files.sort_by_key(|file| std::cmp::Reverse(counts[*file]));
    let pictured = |file: usize| Pictured { file, name: names[file].clone(), bytes: trace.files[file] };
    files.into_iter().take(PICTURES).map(pictured).collect()
}
