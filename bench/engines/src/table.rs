//! What all engines did, for people and for programs.

use std::fmt::Write;

use crate::Outcome;
use crate::measure::Measured;
use crate::plan::{KEY_BYTES, Plan};

/// Names of the phases that any engine got to, in order.
pub fn phases(outcomes: &[Outcome]) -> Vec<String> {
    let longest = outcomes.iter().max_by_key(|outcome| outcome.phases.len());
    longest.map_or(Vec::new(), |outcome| outcome.phases.iter().map(|phase| phase.phase.clone()).collect())
}

pub fn find<'a>(outcome: &'a Outcome, phase: &str) -> Option<&'a Measured> {
    outcome.phases.iter().find(|measured| measured.phase == phase)
}

/// A number in three digits or so.
fn short(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e4 => format!("{:.0} k", n / 1e3),
        n if n >= 1e3 => format!("{:.2} k", n / 1e3),
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 1.0 => format!("{n:.1}"),
        n => format!("{n:.3}"),
    }
}

fn time(nanoseconds: u64) -> String {
    match nanoseconds as f64 / 1e3 {
        us if us >= 1e6 => format!("{:.1} s", us / 1e6),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us => format!("{us:.0} us"),
    }
}

fn cell(measured: &Measured) -> String {
    let Measured { operations, wall_s, processor_s, read_bytes, written_bytes, latency_ns, .. } = measured;
    let each = |bytes: u64| bytes as f64 / (*operations).max(1) as f64 / 1024.0;
    if *operations == 1 {
        return format!(
            "{wall_s:.2} s, {processor_s:.2} CPU-s; {:.0} MB read, {:.0} MB written",
            *read_bytes as f64 / 1e6,
            *written_bytes as f64 / 1e6
        );
    }
    let rate = |seconds: f64| short(*operations as f64 / seconds.max(1e-6));
    let mut cell = format!(
        "{}/s, {} a CPU-s; {:.1} KiB read, {:.2} written each",
        rate(*wall_s),
        rate(*processor_s),
        each(*read_bytes),
        each(*written_bytes)
    );
    let [p50, p99, p999, most] = latency_ns.map(time);
    if latency_ns[3] > 0 {
        let _ = write!(cell, "; {p50}, {p99}, {p999}, {most}");
    }
    cell
}

/// Bytes written for each of the user's, up to and with a phase.
fn amplification(plan: &Plan, outcome: &Outcome, last: &str) -> Option<f64> {
    let end = outcome.phases.iter().position(|measured| measured.phase == last)?;
    let written: u64 = outcome.phases.iter().take(end + 1).map(|measured| measured.written_bytes).sum();
    let loaded = find(outcome, "load")?.operations * (KEY_BYTES + plan.value_bytes) as u64;
    Some(written as f64 / loaded as f64)
}

pub fn table(plan: &Plan, bounds: &str, outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} entries of {KEY_BYTES} + {} bytes in an order that jumps, {} operations; {bounds}; cache {} MiB, write buffers {} MiB, nothing \
         compressed; a phase ends after {} s, loading after four times as many\n",
        plan.entries,
        plan.value_bytes,
        plan.operations,
        plan.cache_bytes >> 20,
        plan.write_bytes() >> 20,
        plan.limit_s
    );
    for outcome in outcomes {
        let failed = outcome.error.as_ref().map_or(String::new(), |error| format!("; it stopped: {error}"));
        let _ = writeln!(text, "- {}: {}{failed}", outcome.version, outcome.remarks);
    }
    let _ = writeln!(text, "\nLatencies: p50, p99, p99.9, most.\n");
    let mut row = |name: &str, cells: Vec<String>| {
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    };
    row("", outcomes.iter().map(|outcome| outcome.version.clone()).collect());
    row("---", outcomes.iter().map(|_| "---".to_owned()).collect());
    for phase in phases(outcomes) {
        row(&phase, outcomes.iter().map(|outcome| find(outcome, &phase).map_or(String::new(), cell)).collect());
    }
    for (name, last) in [("written, loaded", "load"), ("written, at rest", "rest after load")] {
        let of =
            |outcome: &Outcome| amplification(plan, outcome, last).map_or(String::new(), |times| format!("{times:.2}"));
        row(name, outcomes.iter().map(of).collect());
    }
    let loaded = |one: &Outcome| find(one, "load").map_or(0, |load| load.operations);
    row("entries loaded", outcomes.iter().map(|one| loaded(one).to_string()).collect());
    let bytes = |one: &Outcome| (loaded(one).max(1) * (KEY_BYTES + plan.value_bytes) as u64) as f64;
    row(
        "space, at rest",
        outcomes.iter().map(|one| format!("{:.2}", one.space_bytes[0] as f64 / bytes(one))).collect(),
    );
    row("space in the end", outcomes.iter().map(|one| format!("{} MB", one.space_bytes[1] / 1_000_000)).collect());
    row("resident at most", outcomes.iter().map(|one| format!("{} MiB", one.resident_bytes >> 20)).collect());
    let group = |one: &Outcome| one.group_bytes.map_or(String::new(), |bytes| format!("{} MiB", bytes >> 20));
    row("in its group at most", outcomes.iter().map(group).collect());
    text
}

/// A line for each engine and phase.
pub fn results(outcomes: &[Outcome]) -> String {
    let mut text =
        "engine\tphase\toperations\twall_s\tprocessor_s\tread_bytes\twritten_bytes\tp50_ns\tp99_ns\tp999_ns\tmost_ns\n"
            .to_owned();
    for outcome in outcomes {
        for measured in &outcome.phases {
            let _ = writeln!(text, "{}\t{}", outcome.version, measured.line());
        }
    }
    text
}
