//! `plumb defrag`: moves only what the I/O touches, by each file system's safe means.

mod choice;
mod run;
mod scan;
mod trace;
mod verify;

use clap::{Args, Subcommand};
use serde::Serialize;
use units::{is_plain, printable_lines};

use super::Done;
use crate::failure::Failure;
use crate::terminal::number;

/// Which part of it.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb defrag scan /srv/photos                          what reading it all would gain
  plumb defrag trace --path /srv/db --out db.trace -- ./workload
  plumb defrag scan --trace db.trace --html pieces.html  what this workload would gain
  plumb defrag run --trace db.trace --dry-run            exactly what would be moved
  plumb defrag run --trace db.trace --budget 1GiB        move the best of it

A request of a program that covers several pieces of a file becomes several requests of the
device. FragPicker (SOSP '21) moves only the ranges where that happens, which is most of the
benefit for a half to a quarter of the writing. docs/defrag.md says more.")]
pub struct DefragArguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Say where files lie, which I/O is split, and what moving it would cost and save; changes nothing
    Scan(scan::ScanArguments),
    /// Move what splits the I/O, by the file system's own safe means
    Run(run::RunArguments),
    /// Record which ranges of which files are read and written
    Trace(trace::TraceArguments),
    /// Read what a trace has, and count the device's requests beside the prediction
    Verify(verify::VerifyArguments),
}

/// Does it.
pub fn defrag(arguments: &DefragArguments) -> Done {
    match &arguments.part {
        Part::Scan(arguments) => scan::scan(arguments),
        Part::Run(arguments) => run::run(arguments),
        Part::Trace(arguments) => trace::trace(arguments),
        Part::Verify(arguments) => verify::verify(arguments),
    }
}

/// Prints to standard output.
fn emit(text: &str) {
    print!("{}", printable_lines(text));
}

/// The same of a value as JSON.
fn emit_json(value: &impl Serialize) -> Result<(), Failure> {
    emit(&json_text(value)?);
    Ok(())
}

/// A value as JSON that any terminal can show: what a name may have that does more than look is written as `\u001b`.
fn json_text(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Machine(format!("cannot be written as JSON: {error}")))?;
    let mut out = String::with_capacity(text.len() + 1);
    // Outside of strings JSON has no such character but line ends, and inside none below 32.
    for character in text.chars() {
        if character != '\n' && !is_plain(character) {
            let mut units = [0; 2];
            out.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            out.push(character);
        }
    }
    out.push('\n');
    Ok(out)
}

/// A size in three digits: `1.46 GiB`.
fn size_text(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        // 999.5 and not 1000, which three digits would round it to.
        if value < 999.5 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{} {unit}", number(value))
}

/// `1 file`, `2 files`.
fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}
