//! Bad input and bad luck: a clear error, the right exit status, nothing lost.
#![allow(clippy::unwrap_used)]

mod common;

use common::{SWEEP, Scratch};

const JOB: &str = "[job]\nrw=randread\nbs=4k\nsize=16m\niodepth=4\nioengine=libaio\ndirect=1\n";

#[test]
fn a_malformed_spec_names_file_line_and_key() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP.replace("repeats = 2", "repeets = 2"));
    scratch.plumb(&["run", "spec.toml"]).fails(2, &["spec.toml:19:1", "unknown field `repeets`", "repeats"]);
    scratch.write("half.toml", &SWEEP[..SWEEP.len() / 2]);
    scratch.plumb(&["run", "half.toml"]).fails(2, &["half.toml:"]);
    scratch.plumb(&["run", "none.toml"]).fails(2, &["none.toml", "plumb list experiments"]);
}

#[test]
fn an_override_that_does_not_fit_is_refused_before_anything_runs() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP);
    scratch.plumb(&["run", "spec.toml", "--set", "run.repeats=many"]).fails(2, &["--set"]);
    scratch.plumb(&["run", "spec.toml", "--set", "nonsense"]).fails(2, &["KEY=VALUE"]);
    scratch.plumb(&["run", "spec.toml", "--set", "workload.set.iodepht=3"]).fails(2, &["iodepht", "iodepth"]);
    assert!(!scratch.path("results").exists(), "a refused run left results");
}

#[test]
fn a_malformed_job_file_names_line_and_nearest_option() {
    let scratch = Scratch::new();
    scratch.write("job.fio", JOB.replace("iodepth=4", "iodepht=4"));
    scratch.plumb(&["run", "job.fio"]).fails(2, &["job.fio:5", "iodepht", "iodepth"]);
    scratch.write("value.fio", JOB.replace("bs=4k", "bs=four"));
    scratch.plumb(&["run", "value.fio"]).fails(2, &["value.fio:3", "four"]);
}

#[test]
fn a_malformed_device_names_file_and_key() {
    let scratch = Scratch::new();
    scratch.write("job.fio", JOB);
    scratch.plumb(&["run", "job.fio", "--device", "samsung-908pro-1tb"]).fails(2, &["samsung-980pro-1tb"]);
    scratch.write("mine.toml", "name = \"mine\"\nkind = \"sdd\"\n");
    scratch.plumb(&["run", "job.fio", "--device", "mine.toml"]).fails(2, &["mine.toml"]);
}

#[test]
fn a_trace_line_cut_in_half_is_named() {
    let scratch = Scratch::new();
    let whole = "128166372003061629,web,0,Read,8192,4096,1331\n128166372003161629,web,0,Write,12288,4096,1331\n";
    scratch.write("web.csv", whole);
    scratch.plumb(&["run", "web.csv", "--quiet"]).ok();
    scratch.write("cut.csv", &whole[..whole.len() - 16]);
    scratch.plumb(&["run", "cut.csv"]).fails(2, &["cut.csv", "2"]);
}

#[test]
fn a_run_that_falls_short_fails_and_says_why() {
    let scratch = Scratch::new();
    scratch.write("job.fio", JOB);
    let short = scratch.plumb(&["run", "job.fio", "--set", "run.time_limit=1ms"]);
    short.fails(1, &["FAILED", "served"]);
}

#[test]
fn a_results_folder_that_cannot_be_made() {
    let scratch = Scratch::new();
    scratch.write("job.fio", JOB);
    scratch.write("file", "");
    scratch.plumb(&["run", "job.fio", "--out", "file/results"]).fails(1, &["file/results", "--out"]);
}
