//! `plumb defrag verify`: requests that the device gets for the traced I/O, beside the prediction.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use defrag::access::Trace;
use defrag::analysis::{READAHEAD_BYTES, readahead};
use defrag::verify::{Replay, replay};
use serde_json::json;
use units::{Printable, printable_lines};

use super::super::signals::stop_on_signals;
use super::super::{Done, EXIT_FAILED, EXIT_INTERRUPTED};
use super::choice::{located, roots};
use super::{emit, emit_json};
use crate::failure::Failure;

/// Which trace to replay.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb defrag verify --trace db.trace             (root)
  plumb defrag verify --trace db.trace /srv/db --json

Each range that the trace makes the device read is read once, past the page cache, and the
requests that come of it are counted where the kernel issues them (block:block_rq_issue).
Run it before and after `plumb defrag run`: the difference is what was saved.

Exit status: 0 as predicted; 1 not as predicted; 2 bad usage; 130 interrupted.")]
pub struct VerifyArguments {
    /// The traced I/O
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Files and folders [default: every traced file]
    paths: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Reads and counts.
pub fn verify(arguments: &VerifyArguments) -> Done {
    let stop = stop_on_signals()?;
    let trace = Trace::load(&arguments.trace).map_err(Failure::input)?;
    let files = replays(&trace, &arguments.paths)?;
    let verified =
        replay(&files, &mut |_| !stop.load(Ordering::Relaxed)).map_err(|error| Failure::Machine(error.to_string()))?;
    let as_predicted = verified.is_as_predicted();
    if arguments.json {
        let total = verified.total();
        emit_json(&json!({ "files": verified.files, "total": total, "as_predicted": as_predicted }))?;
    } else {
        emit(&verified.to_string());
    }
    Ok(match (stop.load(Ordering::Relaxed), as_predicted) {
        (true, _) => ExitCode::from(EXIT_INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(EXIT_FAILED),
    })
}

/// What is to be read of each file: the requests that a plan assumes, each distinct one once.
fn replays(trace: &Trace, paths: &[PathBuf]) -> Result<Vec<Replay>, Failure> {
    let roots = roots(paths)?;
    let accesses = trace.by_file();
    let mut files = Vec::new();
    for found in located(trace)? {
        let path = match found.now {
            Ok((path, _)) if roots.is_empty() || roots.iter().any(|root| path.starts_with(root)) => path,
            Ok(_) => continue,
            Err(why) => {
                eprintln!("Note: {}", printable_lines(&why));
                continue;
            }
        };
        let size_bytes = match std::fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) => {
                eprintln!("Note: {}: {error}", Printable::path(&path));
                continue;
            }
        };
        let of_file = accesses.get(&found.file).map_or(&[][..], Vec::as_slice);
        let mut ranges: Vec<_> =
            readahead(of_file, size_bytes, READAHEAD_BYTES).into_iter().map(|touch| touch.range).collect();
        ranges.sort_unstable();
        ranges.dedup();
        if !ranges.is_empty() {
            files.push(Replay { path, ranges });
        }
    }
    if files.is_empty() {
        return Err(Failure::input("the trace has no access to a file that is here; nothing was read"));
    }
    Ok(files)
}
