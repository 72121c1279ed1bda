//! `plumb prefetch stats`: what runs that go on have come to so far; and how a report is told.

use std::process::ExitCode;

use clap::Args;
use prefetcher::executor::Report;
use serde_json::{Map, Value};
use units::ByteSize;

use super::super::Done;
use crate::failure::Failure;

/// Which run.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb prefetch stats
  plumb prefetch stats 4711 --json
  watch -n 1 plumb prefetch stats

accuracy: of the windows that readers have passed, the share that they read; the rest is waste.
timeliness: of the windows whose readers came there, the share that was in memory to its end by then.
evicted: what had left memory again by then.
coverage, when the command has ended: of what storage read, the share that was prefetched.")]
pub struct StatsArguments {
    /// The number of the process of `plumb prefetch run` [default: all that run]
    #[arg(value_name = "PID")]
    process: Option<u32>,
    /// Print as JSON, by the numbers of the processes
    #[arg(long)]
    json: bool,
}

/// Says it.
pub fn stats(arguments: &StatsArguments) -> Done {
    let mut runs = prefetcher::running();
    if let Some(process) = arguments.process {
        runs.retain(|(number, _)| *number == process);
        if runs.is_empty() {
            return Err(Failure::input(format!("{process} is no `plumb prefetch run` of yours that goes on")));
        }
    }
    if arguments.json {
        let all: Map<String, Value> = runs.iter().map(|(number, report)| (number.to_string(), json(report))).collect();
        println!("{:#}", Value::from(all));
        return Ok(ExitCode::SUCCESS);
    }
    if runs.is_empty() {
        println!("no `plumb prefetch run` of yours goes on");
    }
    for (number, report) in &runs {
        print!("{number}\n{}", told(report, "  "));
    }
    Ok(ExitCode::SUCCESS)
}

/// All numbers, with the shares that follow from them.
pub fn json(report: &Report) -> Value {
    let mut value = serde_json::to_value(report).unwrap_or_default();
    for (name, share) in
        [("accuracy", report.accuracy()), ("coverage", report.coverage()), ("timeliness", report.timeliness())]
    {
        value[name] = share.into();
    }
    value
}

/// The report for a person, each line after `before`.
pub fn told(report: &Report, before: &str) -> String {
    let size = |bytes: u64| ByteSize(bytes).to_string();
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let mut lines = vec![
        format!(
            "active in {} programs; {} reads of followed files, {}",
            report.programs,
            report.accesses,
            size(report.accessed_bytes)
        ),
        format!(
            "loaded {} in {} windows and {} whole files, regions or mappings; {} windows ({}) were in memory already",
            size(report.loaded_bytes),
            report.windows_loaded,
            report.bulk_loads,
            report.windows_resident,
            size(report.resident_bytes)
        ),
        format!(
            "windows: accuracy {} ({} read, {} left behind), timeliness {} of {}, {} evicted before they were read",
            percent(report.accuracy()),
            size(report.windows_used_bytes),
            size(report.windows_lost_bytes),
            percent(report.timeliness()),
            report.windows_entered,
            size(report.evicted_bytes)
        ),
        format!(
            "storage read {} ahead and {} for the command itself: coverage {}",
            size(report.device_bytes_prefetched),
            size(report.device_bytes_command),
            percent(report.coverage())
        ),
        format!(
            "{} requests: {} without memory for them, {} of files that were gone; {} plans without room",
            report.requests, report.refused, report.files_gone, report.dropped
        ),
    ];
    if report.regions_bytes > 0 {
        let used = size(report.regions_used_bytes);
        lines.insert(3, format!("regions: {}, of which about {used} read at random", size(report.regions_bytes)));
    }
    if report.given_up_bytes > 0 {
        lines.push(format!("{} given up to make room", size(report.given_up_bytes)));
    }
    lines.iter().map(|line| format!("{before}{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_there_was() {
        let none = Report::default();
        assert_eq!((none.accuracy(), none.coverage(), none.timeliness()), (None, None, None));
        let resident = Report { windows_used_bytes: 1 << 20, windows_resident: 8, ..none.clone() };
        assert_eq!((resident.accuracy(), json(&resident)["accuracy"].clone()), (None, Value::Null));
        let report = Report {
            windows_loaded: 8,
            windows_used_bytes: 3 << 20,
            windows_lost_bytes: 1 << 20,
            windows_entered: 8,
            windows_in_time: 6,
            device_bytes_prefetched: 1 << 20,
            device_bytes_command: 3 << 20,
            ..none
        };
        let value = json(&report);
        assert_eq!(value["accuracy"], 0.75);
        assert_eq!((&value["timeliness"], &value["coverage"]), (&Value::from(0.75), &Value::from(0.25)));
        let text = told(&report, "plumb: ");
        assert!(text.contains("accuracy 75 % (3MiB read, 1MiB left behind)"), "{text}");
        assert!(text.lines().all(|line| line.starts_with("plumb: ")), "{text}");
    }
}
