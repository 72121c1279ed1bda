//! The ConfZNS++ profile against what the emulator itself measured, on the bare device.
//!
//! The closed forms of its timing rules are in `zoned_emulator.rs`; here are the
//! stored runs of its published final configuration. They add the time of a virtual
//! machine and its host, about 9 us per command, to the modelled time.

use crate::common::jobs::{Job, Outcome, Work, run};
use crate::common::table::{Errors, Row, Table};
use ssd::profile::{BuildOptions, Profile, builtin_text};
use units::Nanos;

/// Of the virtual machine, per command, and what it varies by: 734.1 us measured with
/// one writer, 725 us modelled.
const VM: Nanos = Nanos(7_100);
const VM_JITTER: Nanos = Nanos(2_000);
/// Its pauses, by p99.9 with one writer. Without them identical writers would gather
/// on one of the four chips and stay there.
const VM_PAUSE: Nanos = Nanos(1_700_000);
/// Writers use the zones from here on; those before are full or to be finished.
const WRITERS: u32 = 24;

fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// Runs jobs on the emulator's profile with some keys of `management` replaced.
fn measure(management: &str, full: u32, jobs: &[Job], warm_up: Nanos, length: Nanos) -> Vec<Outcome> {
    let mut table: toml::Table = builtin_text("confznspp").unwrap().parse().unwrap();
    let keys: toml::Table = management.parse().unwrap();
    let toml::Value::Table(target) = &mut table["management"] else { panic!("`management` is a table") };
    target.extend(keys);
    table.insert("initial".to_owned(), format!("full_zones = [{full}]").parse::<toml::Table>().unwrap().into());
    let profile = Profile::from_table("confznspp", &table).unwrap();
    let mut device = profile.build(&BuildOptions::default()).unwrap();
    run(device.as_mut(), Nanos::ZERO, jobs, warm_up, length)
}

fn writers(row: Row<'_>) -> Vec<Job> {
    let writer =
        |zone| Job { cpu: VM, jitter: VM_JITTER, pause: VM_PAUSE, ..Job::new(Work::Write, 16_384, 1, zone..zone + 1) };
    (WRITERS..WRITERS + row.number("victim_load") as u32).map(writer).collect()
}

/// The writers' outcome of a row of either table.
fn victims(row: Row<'_>) -> Outcome {
    let mut jobs = writers(row);
    let victims = jobs.len();
    let interferes = row.number("interferer_rate_pct") > 0.0;
    let (management, full, length) = if row.text("interferer") == "reset" {
        let lazy = row.text("reset_mode") == "lazy";
        if interferes {
            // 24 full zones at half of 12.96 resets/s: 3.6 s.
            let pace = Some(Nanos(2_000_000_000_000 / 12_962));
            jobs.push(Job { cpu: VM, pace, ..Job::new(Work::Reset, 16_384, 1, 0..24) });
        }
        let design = if lazy { "reset = \"lazy\"\nmapping = \"on-demand\"" } else { "reset = \"partial\"" };
        (design.to_owned(), if interferes { 24 } else { 0 }, millis(if interferes { 3_600 } else { 1_000 }))
    } else {
        // As often as the limit let them come. Chunks of 256 KiB take about 12 s of that
        // time, then there is a pause; chunks of 16 KiB never reach the limit.
        let pace = Nanos(if interferes { (1e9 / row.number("interferer_ops_per_s")) as u64 } else { 0 });
        if interferes {
            jobs.push(Job { cpu: VM, pace: Some(pace), ..Job::new(Work::Finish, 16_384, 1, 0..24) });
        }
        let chunk = if interferes { row.text("finish_chunk_kib") } else { "256" };
        let length = match (interferes, chunk) {
            (true, "256") => pace,
            (true, _) => millis(4_000),
            (false, _) => millis(1_000),
        };
        (format!("finish_chunk = \"{chunk}KiB\""), 0, length)
    };
    let outcomes = measure(&management, full, &jobs, millis(5), length);
    Outcome::merge(&outcomes[..victims])
}

fn what(row: Row<'_>) -> String {
    let columns = ["victim_load", "interferer", "interferer_rate_pct", "reset_mode", "finish_chunk_kib"];
    columns.map(|column| row.text(column)).join(" ")
}

#[test]
fn writers_beside_resets() {
    let (mut rates, mut means) = (Errors::default(), Errors::default());
    for row in Table::load("confznspp/reset_on_write.csv").rows() {
        let outcome = victims(row);
        rates.note(what(row), outcome.per_s(), row.number("victim_iops"));
        means.note(what(row), outcome.mean_us(), row.number("victim_lat_mean_us"));
    }
    rates.check("writers beside resets, rate", 0.01, 0.05);
    means.check("writers beside resets, mean latency", 0.01, 0.05);
}

#[test]
fn writers_beside_finishes() {
    let (mut rates, mut means) = (Errors::default(), Errors::default());
    for row in Table::load("confznspp/finish_on_write_chunk16_256.csv").rows() {
        let outcome = victims(row);
        rates.note(what(row), outcome.per_s(), row.number("victim_iops"));
        means.note(what(row), outcome.mean_us(), row.number("victim_lat_mean_us"));
    }
    rates.check("writers beside finishes, rate", 0.01, 0.05);
    means.check("writers beside finishes, mean latency", 0.01, 0.05);
}

#[test]
fn resets_and_finishes_alone() {
    let mut errors = Errors::default();
    for row in Table::load("confznspp/interferer_alone.csv").rows() {
        let reset = row.text("op") == "reset";
        let work = if reset { Work::Reset } else { Work::Finish };
        let full = if reset { 24 } else { 0 };
        let job = Job { cpu: VM, ..Job::new(work, 16_384, 1, 0..24) };
        let length = millis(if reset { 1_800 } else { 60_000 });
        let outcomes = measure("reset = \"partial\"\nfinish_chunk = \"256KiB\"", full, &[job], Nanos::ZERO, length);
        let per_s = 1e6 / outcomes[0].mean_us();
        errors.note(row.text("condition"), per_s, row.number("ops_per_s"));
    }
    errors.check("alone", 0.05, 0.08);
}
