//! `plumb serve --control` and `plumb control`, as a person types them.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use common::Scratch;

/// A server that answers.
struct Server {
    child: Child,
}

impl Server {
    fn start(scratch: &Scratch, arguments: &[&str]) -> Self {
        let mut all = vec!["serve", "--control", "unix:control", "--no-calibration"];
        all.extend_from_slice(arguments);
        let mut child = scratch.command(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
        let ready = lines.any(|line| line.unwrap().starts_with("ready at "));
        assert!(ready, "the server ended before it was ready");
        Self { child }
    }

    /// Waits for the end; what it printed.
    fn join(mut self) -> String {
        let mut out = String::new();
        self.child.stdout.as_mut().unwrap().read_to_string(&mut out).unwrap();
        assert!(self.child.wait().unwrap().success());
        out
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `plumb control` with these words.
fn control(scratch: &Scratch, words: &str) -> common::Ran {
    let mut arguments = vec!["control", "unix:control"];
    arguments.extend(words.split(' '));
    scratch.plumb(&arguments)
}

#[test]
fn a_session_with_an_ssd() {
    let scratch = Scratch::new();
    let files = ["--command-log", "commands.tsv", "--trace", "spans.tsv", "--json"];
    let device = ["--device", "samsung-980pro-1tb", "--nbd", "unix:nbd"];
    let server = Server::start(&scratch, &[&device[..], &files[..]].concat());

    let status = control(&scratch, "status").ok().stdout;
    for part in ["power on", "namespace", "write cache", "garbage collection", "0 outstanding"] {
        assert!(status.contains(part), "no `{part}` in\n{status}");
    }
    let status: serde_json::Value = serde_json::from_str(&control(&scratch, "status --json").ok().stdout).unwrap();
    assert_eq!(status["powered"], true);
    assert_eq!(status["live"]["write_cache"]["dirty_bytes"], 0);

    let said = control(&scratch, "inject media 8+8 --cleared-by-write --times 3").ok().stdout;
    assert_eq!(said, "fault 1: media error that writes clear, blocks 8+8, times 3\n");
    control(&scratch, "inject error write-fault --operation write --operation flush --nth 100").ok();
    let faults = control(&scratch, "faults").ok().stdout;
    assert!(faults.contains("8 blocks left") && faults.contains("error write-fault"), "{faults}");
    for (words, part) in [
        ("inject error nonsense", "is not a status"),
        ("inject media 8+x", "is not a range of blocks"),
        ("inject media 8 --lba 9", "leave out --lba"),
        ("watch", "needs a terminal"),
        ("power-cut --survive some", "possible values"),
    ] {
        let refused = control(&scratch, words);
        assert_eq!(refused.status, Some(2), "{words}: {refused:?}");
        assert!(refused.stderr.contains(part), "{words}: {}", refused.stderr);
    }
    let refused = control(&scratch, "inject read-only --every 0");
    assert!(refused.status == Some(1) && refused.stderr.contains("counted from 1"), "{refused:?}");

    let cut = control(&scratch, "power-cut --survive random --seed 4 --off").ok().stdout;
    assert_eq!(cut, "power cut: 0 requests orphaned, 0 of 0 undecided writes survived; power is off\n");
    assert!(control(&scratch, "status").ok().stdout.contains("power OFF"));
    let refused = control(&scratch, "power-cut");
    assert!(refused.status == Some(1) && refused.stderr.contains("off already"), "{refused:?}");
    control(&scratch, "power-on").ok();
    assert_eq!(control(&scratch, "clear 1").ok().stdout, "faults cleared: 1\n");
    assert_eq!(control(&scratch, "clear").ok().stdout, "faults cleared: 1\n");
    assert_eq!(control(&scratch, "faults").ok().stdout, "no fault is in force\n");

    control(&scratch, "stop").ok();
    let out = server.join();
    let report: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(report["requests"], 0);
    assert!(report["counters"]["commands"].is_u64());
    assert!(std::fs::read_to_string(scratch.path("commands.tsv")).unwrap().starts_with("sequence\t"));
    assert!(std::fs::read_to_string(scratch.path("spans.tsv")).unwrap().starts_with("start_ns\t"));
    let gone = control(&scratch, "status");
    assert!(gone.status == Some(1) && gone.stderr.contains("cannot connect to control"), "{gone:?}");
}

#[test]
fn a_session_with_zones() {
    let scratch = Scratch::new();
    let device = ["--device", "wd-zn540", "--set", "namespaces=[20]", "--nvme-tcp", "tcp:0"];
    let server = Server::start(&scratch, &device);
    control(&scratch, "zone-event 2 offline").ok();
    let refused = control(&scratch, "zone-event 2 read-only");
    assert!(refused.status == Some(1) && refused.stderr.contains("zone 2"), "{refused:?}");
    let zones = control(&scratch, "zones 1 3").ok().stdout;
    let states: Vec<&str> = zones.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(states[..3], ["empty", "offline", "empty"], "{zones}");
    assert!(zones.ends_with("3 of 20 zones\n"));
    assert!(control(&scratch, "status").ok().stdout.contains("19 empty"));
    control(&scratch, "stop").ok();
    assert!(server.join().contains("served 0 connections"));
}

#[test]
fn usage() {
    let scratch = Scratch::new();
    for (arguments, part) in [
        ("serve --device samsung-980pro-1tb", "--nbd"),
        ("serve --device samsung-980pro-1tb --nbd unix:a --loop", "cannot be used with"),
        ("serve --device samsung-980pro-1tb --nbd unix:a --nqn nqn.x", "--nvme-tcp"),
        ("serve --device samsung-980pro-1tb --nbd unix:a --prefault 1GiB", "--loop"),
        ("serve --device samsung-980pro-1tb --nbd unix:a --control /b", "write unix:PATH"),
        ("control /b status", "write unix:PATH"),
    ] {
        let refused = scratch.plumb(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(refused.status, Some(2), "{arguments}: {refused:?}");
        assert!(refused.stderr.contains(part), "{arguments}: {}", refused.stderr);
    }
    let all = scratch.plumb(&["serve", "--device", "samsung-980pro-1tb", "--nvme-tcp", "0.0.0.0:0"]);
    assert!(all.status == Some(1) && all.stderr.contains("--allow-host"), "{all:?}");
}
