//! `plumb prefetch advise` and `simulate`: what prefetching would have gained.
#![allow(clippy::unwrap_used)]

mod common;
mod prefetch_rig;

use std::fmt::Write;
use std::fs::{self, File};

use common::Scratch;
use prefetch_rig::{Probe, cold_file};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Of a policy, in the JSON of one trace.
fn of<'v>(outcomes: &'v Value, policy: &str) -> &'v Value {
    outcomes.as_array().unwrap().iter().find(|outcome| outcome["policy"] == policy).unwrap()
}

#[test]
fn a_strided_pattern_gains_and_the_oracle_bounds_it() {
    let scratch = Scratch::new();
    let ran = scratch.plumb(&["prefetch", "simulate", "strided", "self-prefetching", "--json"]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let outcomes: Value = serde_json::from_str(&ran.stdout).unwrap();
    let time = |pattern: &str, policy: &str| of(&outcomes[pattern], policy)["time_ns"].as_u64().unwrap();
    assert!(time("strided", "predict") * 5 < time("strided", "app-only"));
    for policy in ["predict", "predict+opt", "fetchall+opt", "budget"] {
        assert!(time("strided", "oracle") <= time("strided", policy), "{policy}");
    }
    assert_eq!(time("self-prefetching", "predict+opt"), time("self-prefetching", "app-only"));
    scratch.plumb(&["prefetch", "simulate", "nothing"]).fails(2, &["nothing", "strided"]);
}

#[test]
fn a_trace_is_advised_on_and_drawn() {
    let scratch = Scratch::new();
    let data = scratch.path("data.bin");
    File::create(&data).unwrap().set_len(64 * MIB).unwrap();
    let mut log = String::new();
    for i in 0..200u64 {
        let _ = writeln!(log, "100 pread64(3<{}>, \"\"..., 16384, {}) = 16384", data.display(), i * 262_144);
    }
    let strace = scratch.path("log.strace");
    fs::write(&strace, log).unwrap();
    let (strace, html) = (strace.to_str().unwrap(), scratch.path("page.html"));
    let ran = scratch.plumb(&["prefetch", "advise", "--from-strace", strace, "--html", html.to_str().unwrap()]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("200 reads of 1 files") && ran.stdout.contains("oracle"), "{}", ran.stdout);
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains("data.bin") && page.contains("<path"), "{page}");
    let ran = scratch.plumb(&["prefetch", "advise", "--from-strace", strace, "--json"]);
    let outcomes: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(of(&outcomes, "app-only")["reads"], 200);
    assert!(of(&outcomes, "predict+opt")["share_of_oracle_gain"].as_f64().unwrap() > 0.8);
}

#[test]
fn a_command_is_run_and_nothing_is_loaded_for_it() {
    let Some(probe) = Probe::compile() else { return };
    let scratch = Scratch::new();
    let data = cold_file(&scratch, "data", 32 * MIB);
    let data = data.to_str().unwrap();
    let advised = |options: &[&str], pattern: &str| {
        let words = probe.command(&[pattern, data]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        scratch.plumb(&[&["prefetch", "advise"], options, &["--"], &words[..]].concat())
    };
    for (pattern, reads) in [("stride", 512), ("reverse", 2048)] {
        let ran = advised(&["--json", "--html", "would.html"], pattern).ok();
        // What the command printed stands apart.
        assert_eq!(ran.stderr, probe.plain(&[pattern, data]), "{pattern}");
        let outcomes: Value = serde_json::from_str(&ran.stdout).unwrap();
        // Each piece, and one more at the end.
        assert_eq!(of(&outcomes, "app-only")["reads"], reads + 1, "{pattern}");
        let plain = of(&outcomes, "app-only")["time_ns"].as_u64().unwrap();
        assert!(of(&outcomes, "predict+opt")["time_ns"].as_u64().unwrap() * 3 < plain * 2, "{pattern}: {outcomes}");
        assert!(of(&outcomes, "predict+opt")["share_of_oracle_gain"].as_f64().unwrap() > 0.8, "{pattern}: {outcomes}");
        assert!(fs::read_to_string(scratch.path("would.html")).unwrap().contains("/data"));
    }
    let ran = advised(&[], "fork").ok();
    assert!(ran.stdout.contains("least time:") && ran.stdout.contains("oracle"), "{}", ran.stdout);
    scratch.plumb(&["prefetch", "advise", "--", "true"]).fails(2, &["no read"]);
    let script = format!("head -c 4M {data} > /dev/null; exit 3");
    assert_eq!(scratch.plumb(&["prefetch", "advise", "--", "sh", "-c", &script]).status, Some(3));
}

#[test]
fn what_is_no_trace_is_refused() {
    let scratch = Scratch::new();
    scratch.plumb(&["prefetch", "advise"]).fails(2, &["--trace"]);
    scratch.plumb(&["prefetch", "advise", "--trace", "missing.trace"]).fails(2, &["missing.trace"]);
    let empty = scratch.path("empty.strace");
    fs::write(&empty, "100 getpid() = 100\n").unwrap();
    scratch.plumb(&["prefetch", "advise", "--from-strace", empty.to_str().unwrap()]).fails(2, &["no read"]);
}
