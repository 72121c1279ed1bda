//! Standard output and standard error that are gone, full, or cut off in the middle: no command panics, none passes
//! for done, and what it has worked out is kept.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use common::Scratch;

const JOB: &str = "[job]\nrw=randread\nbs=4k\nsize=16m\niodepth=4\nioengine=libaio\ndirect=1\nlat_percentiles=1\n";
const SIGPIPE: i32 = 13;

/// Every subcommand that says something on standard output, in a folder with what they need.
fn talkative(scratch: &Scratch) -> Vec<Vec<&'static str>> {
    scratch.write("job.fio", JOB);
    scratch.write("a b", [7; 9000]);
    scratch.write("w.iolog", "fio version 2 iolog\na b add\na b open\na b read 0 4096\na b close\n");
    scratch.plumb(&["run", "job.fio", "--quiet", "--out", "done"]).ok();
    scratch.plumb(&["run", "job.fio", "--quiet", "--out", "shard", "--shard", "1/1"]).ok();
    vec![
        vec!["--help"],
        vec!["--version"],
        vec!["help", "serve"],
        vec!["run", "--help"],
        vec!["run", "job.fio", "--out", "again"],
        vec!["run", "job.fio", "--json", "--out", "again"],
        vec!["list", "devices"],
        vec!["list", "devices", "--json"],
        vec!["list", "fio-options"],
        vec!["report", "done"],
        vec!["report", "done", "--json"],
        vec!["merge", "shard", "--out", "merged"],
        vec!["validate", "hdd-7200-1tb"],
        vec!["validate", "hdd-7200-1tb", "--json"],
        vec!["zns", "interference", "done", "shard"],
        vec!["defrag", "scan", "a b"],
        vec!["defrag", "scan", "a b", "--json"],
        vec!["defrag", "run", "a b", "--dry-run"],
        vec!["defrag", "trace", "--from-iolog", "w.iolog", "--out", "w.trace"],
        vec!["linux", "status"],
    ]
}

/// Runs with what `streams` makes of the command; its status and what came on standard error.
fn run(scratch: &Scratch, arguments: &[&str], streams: impl FnOnce(&mut Command)) -> (ExitStatus, String) {
    let mut command = scratch.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    streams(&mut command);
    let mut child = command.spawn().unwrap();
    // The command's own ends of pipes would keep them open here.
    drop(command);
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said).unwrap();
    }
    (child.wait().unwrap(), said)
}

fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full_disk() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn nobody_reads_standard_output_any_more() {
    let scratch = Scratch::new();
    for arguments in talkative(&scratch) {
        let (status, said) = run(&scratch, &arguments, |command| {
            command.stdout(closed_pipe());
        });
        assert_eq!(status.signal(), Some(SIGPIPE), "{arguments:?}: {status}\n{said}");
        assert!(!said.contains("panicked") && !said.contains("standard output"), "{arguments:?}:\n{said}");
    }
    assert!(scratch.path("again/report.html").exists(), "the work was lost for the sake of its table");
}

#[test]
fn the_disk_behind_standard_output_is_full() {
    let scratch = Scratch::new();
    for arguments in talkative(&scratch) {
        let (status, said) = run(&scratch, &arguments, |command| {
            command.stdout(full_disk());
        });
        assert_eq!(status.code(), Some(1), "{arguments:?}: {status}\n{said}");
        assert!(
            said.contains("cannot write to standard output") && !said.contains("panicked"),
            "{arguments:?}:\n{said}"
        );
    }
    assert!(scratch.path("again/report.html").exists(), "the work was lost for the sake of its table");
}

/// Commands do their work and end with the status of what they found, whoever hears what they say beside it.
#[test]
fn standard_error_is_gone_or_full() {
    let scratch = Scratch::new();
    scratch.write("short.fio", JOB);
    for streams in [closed_pipe, full_disk] {
        for (arguments, code) in [
            (&["run", "short.fio", "--set", "run.time_limit=1ms", "--out", "short"][..], 1),
            (&["run", "nowhere.toml"], 2),
            (&["run", "--nonsense"], 2),
            (&["report", "nowhere"], 2),
            (&["control", "unix:nowhere", "status"], 1),
            (&["defrag", "scan", "nowhere"], 2),
            (&["run", "short.fio", "--trace", "--command-log", "--out", "long"], 0),
        ] {
            let (status, _) = run(&scratch, arguments, |command| {
                command.stderr(streams());
            });
            assert_eq!(status.code(), Some(code), "{arguments:?}: {status}");
        }
    }
}

/// As people do it: `| head -1`.
#[test]
fn a_reader_who_has_seen_enough() {
    let scratch = Scratch::new();
    scratch.write("job.fio", JOB);
    scratch.plumb(&["run", "job.fio", "--quiet", "--out", "done"]).ok();
    let script = "for i in 1 2 3 4 5; do \"$PLUMB\" report done | head -n 1; echo \"${PIPESTATUS[0]}\"; done";
    let output = Command::new("bash")
        .args(["-c", script])
        .env("PLUMB", env!("CARGO_BIN_EXE_plumb"))
        .current_dir(scratch.path("."))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).unwrap();
    let statuses = text.lines().filter_map(|line| line.parse::<i32>().ok());
    assert!(statuses.clone().count() == 5 && statuses.clone().all(|status| status == 0 || status == 141), "{text}");
}
