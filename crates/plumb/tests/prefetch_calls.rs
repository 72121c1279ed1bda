//! Each call that reads a file is seen by the preload library, by each of its names; what is no file in the page cache is not.
#![allow(clippy::unwrap_used)]

mod common;
mod prefetch_rig;

use common::Scratch;
use prefetch_rig::{Probe, cold_file, run};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Pieces that the program reads.
const PIECES: u64 = 128;

const CALLS: [&str; 8] = ["pread", "preadv", "preadv2", "read", "readv", "fread", "sendfile", "copy_file_range"];

/// Ways to compile by which the C library's headers give calls other names: with offsets of 64 bits, and with checks of lengths.
const NAMES: [&[&str]; 3] =
    [&[], &["-D_FILE_OFFSET_BITS=64"], &["-O2", "-D_FORTIFY_SOURCE=2", "-D_FILE_OFFSET_BITS=64"]];

/// Runs the program with one of its calls, with and without the library: the report. None where the call cannot be made here.
fn reported(probe: &Probe, scratch: &Scratch, call: &str) -> Option<Value> {
    let data = cold_file(scratch, "data", 8 * MIB);
    let command = probe.command(&[call, data.to_str().unwrap()]);
    let plain = std::process::Command::new(&command[0]).args(&command[1..]).output().unwrap();
    if plain.status.code() == Some(3) {
        return None;
    }
    assert!(plain.status.success(), "{call}: {plain:?}");
    let data = cold_file(scratch, "data", 8 * MIB);
    let (ran, report) = run(scratch, &["--min-file", "1MiB"], &probe.command(&[call, data.to_str().unwrap()]));
    assert_eq!((ran.stdout.as_bytes(), ran.stderr.as_str()), (&*plain.stdout, ""), "{call}");
    Some(report)
}

/// How many reads of files of the size of its data are recorded while the program runs, of which none goes unseen.
fn recorded(probe: &Probe, scratch: &Scratch, call: &str) -> u64 {
    let words = probe.command(&[call, scratch.path("data").to_str().unwrap()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = scratch.plumb(&[&["prefetch", "advise", "--json", "--"], &words[..]].concat()).ok();
    let outcomes: Value = serde_json::from_str(&ran.stdout).unwrap();
    let plain = outcomes.as_array().unwrap().iter().find(|outcome| outcome["policy"] == "app-only").unwrap();
    plain["reads"].as_u64().unwrap()
}

#[test]
fn each_call_that_reads_is_seen() {
    let scratch = Scratch::new();
    for options in NAMES {
        let Some(probe) = Probe::compile_as(include_str!("prefetch_rig/calls.c"), options) else { return };
        for call in CALLS {
            let report = reported(&probe, &scratch, call).unwrap();
            let of = |name: &str| report[name].as_u64().unwrap();
            // How many are looked at differs: where the executor finds windows already read, reads go unseen in between.
            assert!(of("accesses") >= 8 && of("requests") >= 1, "{call} {options:?}: {report}");
            assert_eq!(recorded(&probe, &scratch, call), PIECES, "{call} {options:?}");
        }
    }
}

#[test]
fn what_does_not_lie_in_the_page_cache_is_left_alone() {
    let scratch = Scratch::new();
    let Some(probe) = Probe::compile_as(include_str!("prefetch_rig/calls.c"), &[]) else { return };
    for call in ["direct", "device", "pipe"] {
        let Some(report) = reported(&probe, &scratch, call) else {
            println!("skipped: no direct I/O here");
            continue;
        };
        assert_eq!((report["accesses"].as_u64(), report["requests"].as_u64()), (Some(0), Some(0)), "{call}: {report}");
    }
}
