//! `plumb app`'s measured programs, from the command line and as the workload of an experiment.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::path::Path;
use std::process::{Command, Output};

use linux_rig::{PLUMB, has, kernel};
use serde_json::Value;

fn app(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(PLUMB).arg("app").args(arguments).arg("--folder").arg(folder).output().unwrap()
}

/// What it said, as one line: messages are broken where they reach the width, with a bar before the rest.
fn said(output: &Output) -> String {
    let all = [&output.stderr[..], &output.stdout[..]].concat();
    String::from_utf8_lossy(&all).split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

const SMALL: [&str; 5] = ["varmail", "--files", "64", "--threads", "4"];

#[test]
fn one_object_or_a_table_says_what_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let output = app(folder.path(), &[&SMALL[..], &["--operations", "520", "--json"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&object["program"], &object["operations"], &object["threads"]),
        (&"varmail".into(), &520.into(), &4.into())
    );
    assert_eq!((&object["options"]["files"], &object["options"]["append_size"]), (&64.into(), &"16KiB".into()));
    assert_eq!((&object["prepared"]["files"], &object["seed"]), (&52.into(), &1.into()));
    let rate = object["operations_per_s"].as_f64().unwrap() * object["elapsed_s"].as_f64().unwrap();
    assert!((rate - 520.0).abs() < 1e-6);
    let fsync = &object["by_operation"]["fsync"];
    assert_eq!(fsync["count"], 80);
    let at = |name: &str| fsync[name].as_f64().unwrap();
    let percentiles = ["p50_us", "p90_us", "p99_us", "p99_9_us", "max_us"].map(at);
    assert!(percentiles.is_sorted() && percentiles[0] > 0.0 && at("mean_us") <= percentiles[4], "{fsync}");
    // In two steps, with other options of the run.
    let output = app(folder.path(), &[&SMALL[..], &["--prepare", "--fresh"]].concat());
    assert!(said(&output).starts_with("varmail: prepared 52 files in 2 folders"), "{}", said(&output));
    let output = app(folder.path(), &[&SMALL[..], &["--run", "--operations", "130", "--append-size", "1k"]].concat());
    let table = said(&output);
    assert!(table.contains("130 operations") && table.contains(" fsync 20 "), "{table}");
}

#[test]
fn faults_of_the_options_and_of_the_machine_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let output = app(folder.path(), &[&SMALL[..], &["--run"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("is not prepared"), "{}", said(&output));
    let output = app(folder.path(), &["varmail", "--files", "7"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("at least 32 files"), "{}", said(&output));
    let output = app(folder.path(), &["varmali"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("varmail"), "{}", said(&output));
    let output = app(folder.path(), &[&SMALL[..], &["--prepare", "--operations", "5"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

/// A file that may not grow: the preparation says which, is not taken for a whole one, and can be done again.
#[test]
fn what_cannot_be_written_ends_it_with_the_files_name() {
    let folder = tempfile::tempdir().unwrap();
    let limited = |arguments: &str| {
        let command =
            format!("trap '' XFSZ; ulimit -f 8; exec {PLUMB} app {arguments} --folder {}", folder.path().display());
        Command::new("bash").arg("-c").arg(command).output().unwrap()
    };
    let output = limited("varmail --files 64 --threads 4 --prepare");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("write ") && text.contains("varmail/mail/00000001/") && text.contains("File too large"),
        "{text}"
    );
    let output = app(folder.path(), &[&SMALL[..], &["--run"]].concat());
    assert!(said(&output).contains("did not come to its end"), "{}", said(&output));
    assert!(app(folder.path(), &[&SMALL[..], &["--prepare", "--fresh"]].concat()).status.success());
    // An append of the run; the other threads end, too.
    let output = limited("varmail --files 64 --threads 4 --run");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("append ") && text.contains("File too large"), "{text}");
}

/// The shipped experiment, with fewer operations: the same bytes each time, on both file systems.
#[test]
fn varmail_is_the_workload_of_an_experiment() {
    if kernel().is_none() || !has("mkfs.ext4") || !has("mkfs.xfs") {
        return;
    }
    let spec = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/linux/varmail.toml");
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", Path::new(PLUMB).parent().unwrap().display());
    let run = || {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(PLUMB);
        command.args(["run", spec, "--set", "workload.variables.OPERATIONS=1040", "--json", "--out"]);
        let output = command.arg(folder.path().join("out")).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let report = run();
    let metrics = |name: &str| -> Vec<f64> {
        let points = report["points"].as_array().unwrap();
        points.iter().map(|point| point["metrics"][name]["value"].as_f64().unwrap()).collect()
    };
    // What is written follows from the seed, not from the file system; how long it takes does not.
    let written = metrics("program.written_bytes");
    assert!(written.len() == 2 && written[0] == written[1] && written[0] > 0.0, "{written:?}");
    let rates = metrics("program.rate_iops");
    assert!(rates[0] > 0.0 && rates[0] != rates[1], "{rates:?}");
    assert_eq!(report["points"], run()["points"]);
}
