//! Any program as a workload (`[workload.program]`), under a real kernel.
#![allow(clippy::unwrap_used)]

mod linux_rig;

use std::path::Path;
use std::process::{Command, Output};

use linux_rig::{PLUMB, has, kernel};

/// A spec of a program on ext4.
fn spec(program: &str, more: &str) -> String {
    format!(
        "title = 't'\n[stack]\nhost = 'linux'\ndevice = 'optane-905p-960gb'\nfilesystem = 'ext4'\n\
         linux.mkfs_options = '-E nodiscard'\n[workload.program]\n{program}\n{more}"
    )
}

fn run(folder: &Path, text: &str) -> Output {
    std::fs::write(folder.join("spec.toml"), text).unwrap();
    let mut command = Command::new(PLUMB);
    command.arg("run").arg(folder.join("spec.toml")).arg("--json").arg("--out").arg(folder.join("results"));
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap()
}

/// The values of one metric, in the order of the points.
fn values(output: &Output, metric: &str) -> Vec<f64> {
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let points = report["points"].as_array().unwrap();
    points.iter().map(|point| point["metrics"][metric]["value"].as_f64().unwrap()).collect()
}

#[test]
fn caches_and_memory_are_as_the_spec_says() {
    if kernel().is_none() || !has("mkfs.ext4") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // 32 MiB, read twice.
    let program = "prepare = 'head -c 33554432 /dev/urandom > file'\nmeasure = 'cat file > /dev/null; cat file | wc -c'\n\
                   cold = false\nmetrics.read_bytes = { regex = '([0-9]+)' }";
    let sweep = "[sweep]\ncase = ['warm', 'cold', 'small']\n[variants.case]\n\
                 warm = { 'workload.program.cold' = false }\ncold = { 'workload.program.cold' = true }\n\
                 small = { 'workload.program.cold' = true, 'workload.program.memory' = '12MiB' }";
    let text = format!(
        "metrics = ['program.read_bytes', 'program.status', 'counter.block.read_commands']\n{}",
        spec(program, sweep)
    );
    let output = run(folder.path(), &text);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(values(&output, "program.read_bytes"), [33_554_432.0; 3]);
    assert_eq!(values(&output, "program.status"), [0.0; 3]);
    let commands = values(&output, "counter.block.read_commands");
    assert!(commands[0] < 8.0 && commands[1] > 100.0, "{commands:?}");
    // What does not fit is read again.
    assert!(commands[2] > 1.7 * commands[1], "{commands:?}");
}

#[test]
fn programs_run_beside_it_and_the_same_spec_gives_the_same_bytes() {
    if kernel().is_none() || !has("mkfs.ext4") {
        return;
    }
    let program = "prepare = 'echo $WORD > word'\n\
        measure = \"for i in 1 2 3 4 5 6 7 8; do head -c 8192 /dev/zero > f$i; sync f$i; done; echo '{\\\"word\\\": \\\"'$(cat word)'\\\"}'\"\n\
        metrics.word = { json = '/word' }\n[workload.variables]\nWORD = 7";
    let sweep = "[sweep]\n'workload.program.beside' = [{}, { writer = 'while :; do head -c 1048576 /dev/zero > big; sync big; done' }]";
    let text = format!("metrics = ['program.word', 'program.elapsed_s']\n{}", spec(program, sweep));
    let once = tempfile::tempdir().unwrap();
    let output = run(once.path(), &text);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(values(&output, "program.word"), [7.0; 2]);
    let elapsed = values(&output, "program.elapsed_s");
    assert!(elapsed[1] > 1.2 * elapsed[0], "alone and beside a writer: {elapsed:?}");
    let again = tempfile::tempdir().unwrap();
    assert_eq!(String::from_utf8_lossy(&run(again.path(), &text).stdout), String::from_utf8_lossy(&output.stdout));
}

#[test]
fn what_fails_says_which_and_why() {
    if kernel().is_none() || !has("mkfs.ext4") {
        return;
    }
    let said = |program: &str, code: i32| {
        let folder = tempfile::tempdir().unwrap();
        let output = run(folder.path(), &spec(program, ""));
        let text = [&output.stderr[..], &output.stdout[..]].concat();
        let text = String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(code), "{text}");
        text
    };
    assert!(said("prepare = 'exit 5'\nmeasure = 'true'", 2).contains("workload.program.prepare failed: status 5"));
    let failed = said("measure = 'echo because >&2; exit 3'", 1);
    assert!(failed.contains("ended with status 3: because"), "{failed}");
    let beside = said("measure = 'sleep 1'\nbeside.x = 'echo why >&2; exit 4'", 2);
    assert!(beside.contains("workload.program.beside failed: status 4") && beside.contains("why"), "{beside}");
    let absent = said("measure = 'true'\nmetrics.x = { regex = '([0-9]+)' }", 1);
    assert!(absent.contains("program.x: the output has no such number"), "{absent}");
}

#[test]
fn what_cannot_be_asked_is_refused_before_anything_runs() {
    let refused = |text: &str, words: &str| {
        let folder = tempfile::tempdir().unwrap();
        let output = run(folder.path(), text);
        let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    };
    refused(
        &spec("measure = 'true'", "").replace("'linux'", "'model'").replace("filesystem = 'ext4'\n", ""),
        "needs a real kernel",
    );
    refused(&spec("measure = ' '", ""), "`measure` is empty");
    refused(&spec("measure = 'true'\nmetrics.x = { regex = '(' }", ""), "metrics.x");
    refused(&spec("measure = 'true'\nmetrics.x = { json = 'a' }", ""), "not a JSON pointer");
    refused(&spec("measure = 'true'", "[workload]\nfio = '[j]'"), "workload");
}
