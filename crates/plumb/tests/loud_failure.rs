//! Bad input and bad luck: a clear error, the right exit status, nothing lost.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{Ran, SWEEP, Scratch, assert_same_results, results_bytes};

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

#[test]
fn a_full_disk_loses_nothing_that_was_kept() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP);
    let script = "mount -t tmpfs -o size=96k plumb small || exit 77\n\"$PLUMB\" run spec.toml --threads 1 --out small/results\n\
                  status=$?\nls small/results/runs | wc -l\nls small/results/runs | grep -c partial\nexit $status";
    std::fs::create_dir(scratch.path("small")).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .env("PLUMB", env!("CARGO_BIN_EXE_plumb"))
        .env("NO_COLOR", "1")
        .current_dir(scratch.path("."))
        .output();
    let ran = match output {
        Ok(output) if output.status.code() != Some(77) => Ran::of(output),
        _ => {
            println!("skipped: no tmpfs can be mounted in a namespace of its own here");
            return;
        }
    };
    let ran = ran.fails(1, &["cannot write", "small/results", "free some space"]);
    let counts: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(counts.last(), Some(&"0"), "partial files were left behind: {ran:?}");
}

#[test]
fn ctrl_c_keeps_what_is_done_and_a_second_start_does_the_rest() {
    let scratch = Scratch::new();
    // Long enough runs that the signal lands in the middle of the sweep.
    scratch
        .write("spec.toml", SWEEP.replace("io_size=4m", "io_size=24m").replace("[1, 4, 16]", "[1, 2, 4, 8, 16, 32]"));
    let mut child = scratch.command(&["run", "spec.toml", "--threads", "1", "--out", "cut"]).spawn().unwrap();
    let runs = || std::fs::read_dir(scratch.path("cut/runs")).map_or(0, Iterator::count);
    let patience = Instant::now() + Duration::from_secs(120);
    while runs() < 2 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let done = runs();
    assert!((2..12).contains(&done), "{done} of 12 runs were done at the interruption");
    let kept: Vec<_> = results_bytes(&scratch.path("cut/runs"));
    scratch.plumb(&["run", "spec.toml", "--threads", "2", "--out", "cut"]).ok();
    scratch.plumb(&["run", "spec.toml", "--threads", "2", "--out", "whole"]).ok();
    assert_same_results(&scratch.path("cut"), &scratch.path("whole"));
    let resumed = results_bytes(&scratch.path("cut"));
    for (name, bytes) in kept {
        assert!(resumed.iter().any(|(other, same)| *other == format!("runs/{name}") && *same == bytes));
    }
}

#[test]
fn a_damaged_run_is_named_not_believed() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP);
    scratch.plumb(&["run", "spec.toml", "--out", "out"]).ok();
    let (name, bytes) = results_bytes(&scratch.path("out/runs")).swap_remove(0);
    std::fs::write(scratch.path("out/runs").join(&name), &bytes[..bytes.len() / 2]).unwrap();
    scratch.plumb(&["run", "spec.toml", "--out", "out"]).fails(2, &[&name, "delete it"]);
}
