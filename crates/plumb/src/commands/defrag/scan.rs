//! `plumb defrag scan`: what a move would cost and save, without making it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Args;
use defrag::extents::{ExtentMap, WriteBack};
use defrag::map::{LEGEND, Pictured, page, strip};
use defrag::plan::{FilePlan, Plan};
use defrag::scan::Opened;
use serde_json::json;
use units::Printable;

use super::super::signals::stop_on_signals;
use super::super::{Done, EXIT_INTERRUPTED};
use super::choice::{Choice, Found};
use super::{counted, emit, emit_json, size_text};
use crate::failure::Failure;
use crate::terminal::{format_table, number};

/// Files in the table.
const LISTED: usize = 20;
/// Files with a picture in the terminal.
const STRIPS: usize = 3;
/// Characters of such a picture.
const STRIP_WIDTH: usize = 96;
/// Files with a picture in the page.
const PICTURES: usize = 24;
/// Files left alone that are named.
const NAMED: usize = 10;

/// What to look at, and how to show it.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb defrag scan /srv/photos
  plumb defrag scan / --html pieces.html
  plumb defrag scan --trace db.trace --hotness 50
  plumb defrag scan /srv/db --mode whole --json

Files are listed best first: requests saved for each byte that would be written. Nothing is
changed and nothing is written. Data that is not written back yet has no place on the device:
run `sync` first where it matters.")]
pub struct ScanArguments {
    #[command(flatten)]
    choice: Choice,
    /// Write a page with a picture of where the pieces lie
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Looks, and says what it found.
pub fn scan(arguments: &ScanArguments) -> Done {
    let stop: std::sync::Arc<AtomicBool> = stop_on_signals()?;
    let found = arguments.choice.load()?.plan(None, WriteBack::No, false, arguments.quiet || arguments.json, &stop)?;
    if let Some(path) = &arguments.html {
        write_page(path, &found.plan)?;
    }
    if arguments.json {
        emit_json(&json!({ "looked_at": found.counts, "interrupted": found.interrupted, "plan": found.plan }))?;
    } else {
        let mut text = text(&found);
        if let Some(path) = &arguments.html {
            text += &format!("\n{} has the pictures\n", Printable::path(&path));
        }
        emit(&text);
        warn(&found);
    }
    Ok(if found.interrupted { ExitCode::from(EXIT_INTERRUPTED) } else { ExitCode::SUCCESS })
}

fn write_page(path: &Path, plan: &Plan) -> Result<(), Failure> {
    let draw = |file: &FilePlan| Some(Pictured { plan: file.clone(), map: map_of(file)? });
    let files: Vec<Pictured> = plan.files.iter().take(PICTURES).filter_map(draw).collect();
    std::fs::write(path, page(plan, &files))
        .map_err(|error| Failure::Machine(format!("cannot write {}: {error}", Printable::path(&path))))
}

/// Where the file lies now; nothing if it is gone meanwhile.
fn map_of(file: &FilePlan) -> Option<ExtentMap> {
    Opened::open(&file.file.path).ok()?.map(WriteBack::No).ok()
}

/// What was found, as a person reads it.
fn text(found: &Found) -> String {
    let plan = &found.plan;
    let totals = &plan.totals;
    let mut out = format!(
        "{} of {} in {}\n",
        counted(totals.files, "file"),
        size_text(totals.size_bytes),
        counted(totals.pieces, "piece")
    );
    if totals.files_to_move == 0 {
        out += &format!("mode {}: no request is split that a move would repair\n", plan.mode);
    } else {
        out += &format!(
            "mode {}: moving {} in {} of {} turns {} requests into {}\n\n",
            plan.mode,
            size_text(totals.bytes_to_move),
            counted(totals.moves, "range"),
            counted(totals.files_to_move, "file"),
            totals.requests_before,
            totals.requests_after
        );
        table(&mut out, plan);
        strips(&mut out, plan);
    }
    left_alone(&mut out, plan);
    out
}

/// What makes the plan less than it seems.
pub(super) fn warn(found: &Found) {
    if found.without_limits > 0 {
        eprintln!(
            "Note: {} on no single block device; requests of up to 512 KiB are assumed",
            counted(found.without_limits as u64, "file system")
        );
    }
    if found.interrupted {
        eprintln!("Interrupted: this is what was found until then");
    }
}

fn table(out: &mut String, plan: &Plan) {
    let rows: Vec<Vec<String>> = plan.files.iter().take(LISTED).map(row).collect();
    *out += &format_table(&["size", "pieces", "to move", "requests", "after", "saved/MiB", "file"], &rows);
    if plan.files.len() > LISTED {
        *out += &format!("and {} (--json lists all)\n", counted((plan.files.len() - LISTED) as u64, "more file"));
    }
}

fn row(file: &FilePlan) -> Vec<String> {
    let per_mib = file.saved() as f64 / (file.bytes() as f64 / f64::from(1 << 20));
    vec![
        size_text(file.file.size_bytes),
        file.pieces.to_string(),
        size_text(file.bytes()),
        file.requests_before.to_string(),
        file.requests_after.to_string(),
        number(per_mib),
        Printable::path(&file.file.path).to_string(),
    ]
}

fn strips(out: &mut String, plan: &Plan) {
    let mut any = false;
    for file in plan.files.iter().take(STRIPS) {
        let Some(map) = map_of(file) else { continue };
        let (pieces, below) = strip(&map, &file.moves, STRIP_WIDTH);
        *out += &format!("\n{}\n{pieces}\n{below}\n", Printable::path(&file.file.path));
        any = true;
    }
    if any {
        *out += &format!("{LEGEND}\n");
    }
}

/// What stays, and why; what needs nothing is counted only.
fn left_alone(out: &mut String, plan: &Plan) {
    if plan.skipped_by_reason.is_empty() {
        return;
    }
    let reasons = plan.skipped_by_reason.iter().map(|(reason, files)| format!("{files} {reason}"));
    *out += &format!("\nleft alone: {}\n", reasons.collect::<Vec<_>>().join(", "));
    let told: Vec<_> = plan.skipped.iter().filter(|file| !file.reason.is_in_order()).collect();
    for file in told.iter().take(NAMED) {
        *out += &format!("  {}: {}\n", Printable::path(&file.path), file.reason);
    }
    if told.len() > NAMED {
        *out += &format!("  and {} (--json names them)\n", counted((told.len() - NAMED) as u64, "more file"));
    }
    let inside = plan.files.iter().flat_map(|file| file.left_alone.iter().map(move |left| (file, left)));
    for (file, left) in inside.take(NAMED) {
        *out += &format!("  {} of {}: {}\n", size_text(left.bytes), Printable::path(&file.file.path), left.reason);
    }
}
