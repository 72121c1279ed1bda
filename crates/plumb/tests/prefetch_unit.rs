//! The agent's unit: with no more than what it says, the agent serves. Needs root, and no systemd.
#![allow(clippy::unwrap_used)]

mod common;
mod prefetch_rig;
mod unit_rig;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::Scratch;
use prefetch_rig::{Probe, cold_file, has};
use serde_json::Value;

const UNIT: &str = include_str!("../../../packaging/systemd/plumb-prefetch-agent.service");

fn of(key: &str) -> String {
    unit_rig::value(UNIT, key)
}

/// The calls that `SystemCallFilter` lets through, groups taken apart.
fn calls(words: &str) -> Option<BTreeSet<String>> {
    let mut calls = BTreeSet::new();
    for word in words.split_whitespace().filter(|word| !word.starts_with('#')) {
        if !word.starts_with('@') {
            calls.insert(word.to_owned());
            continue;
        }
        let listed = Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", word]).output().ok()?;
        let text = String::from_utf8(listed.stdout).unwrap();
        // The first line is the group's own name.
        calls.extend(self::calls(&text.lines().skip(1).collect::<Vec<_>>().join("\n").replace("# ", "#"))?);
    }
    Some(calls)
}

#[test]
fn it_serves_with_what_the_unit_gives_it() {
    if !rustix::process::geteuid().is_root() || !has("setpriv") || !has("strace") || !has("systemd-analyze") {
        println!("skipped: needs root, setpriv, strace and systemd-analyze");
        return;
    }
    let Some(probe) = Probe::compile_with("gcc", include_str!("prefetch_rig/figures.c")) else { return };
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    let socket = scratch.path("agent.sock");
    let capabilities: Vec<String> = of("CapabilityBoundingSet")
        .split(' ')
        .map(|name| format!("+{}", &name["CAP_".len()..].to_lowercase()))
        .collect();
    assert_eq!(of("NoNewPrivileges"), "yes");
    let mut words =
        vec!["strace", "-f", "-qq", "-e", "signal=none", "-o", "trace", "setpriv", "--no-new-privs", "--bounding-set"];
    let bounding = format!("-all,{}", capabilities.join(","));
    words.extend([bounding.as_str(), "--"]);
    let start = of("ExecStart").replace("/usr/local/bin/plumb", env!("CARGO_BIN_EXE_plumb"));
    words.extend(start.split(' '));
    words.extend(["--socket", socket.to_str().unwrap()]);
    let mut agent = Command::new(words[0]);
    agent.args(&words[1..]).current_dir(scratch.path("")).stderr(Stdio::piped());
    let agent = agent.spawn().unwrap();
    let ready = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        socket.exists()
    });
    let data = cold_file(&scratch, "data", 16 << 20);
    let status = || scratch.plumb(&["prefetch", "agent", "--status", "--socket", socket.to_str().unwrap()]);
    let mut handed_out = 0;
    if ready {
        let run = ["prefetch", "run", "--residency", "bpf", "--agent", socket.to_str().unwrap(), "--"];
        let run = run.map(String::from).into_iter().chain(probe.command(&["all", data.to_str().unwrap()]));
        let ran = scratch.plumb(&run.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
        let status: Value = serde_json::from_str(&status().ok().stdout).unwrap();
        handed_out = status["handed_out"].as_u64().unwrap();
    }
    // strace hands the signal on to none: the agent itself is told.
    let inner =
        Command::new("pkill").args(["-INT", "-f", &format!("prefetch agent --socket {}", socket.display())]).status();
    assert!(inner.unwrap().success());
    let ended = agent.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    if said.contains("attach programs") && !said.contains("Operation not permitted") {
        println!("skipped: {said}");
        return;
    }
    assert!(ended.status.success() && said.contains("listening"), "{said}");
    assert_eq!(handed_out, 1, "{said}");

    // What it has called since it became the agent is what the filter lets through.
    let trace = std::fs::read_to_string(scratch.path("trace")).unwrap();
    let since = trace.find("execve(\"").and_then(|_| trace.rfind("execve(\"")).unwrap();
    let allowed = calls(&of("SystemCallFilter")).unwrap();
    assert!(allowed.len() > 200 && allowed.contains("bpf"), "{allowed:?}");
    let called: BTreeSet<String> = trace[since..]
        .lines()
        .filter_map(|line| {
            Some(line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').split_once('(')?.0.to_owned())
        })
        .filter(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .collect();
    assert!(called.contains("bpf") && called.contains("perf_event_open"), "{called:?}");
    let missing: Vec<_> = called.difference(&allowed).collect();
    assert!(missing.is_empty(), "the unit's filter lacks {missing:?}");
}
