//! `workload.defrag`: files in pieces, a tool and I/O under a real kernel, in virtual time and on a loop device.
#![allow(clippy::unwrap_used)]

mod common;
mod linux_rig;

use std::collections::BTreeMap;

use common::Scratch;

/// 1 MiB in four files: four periods of 32 pieces of 4 KiB and one of 128 KiB.
const SPEC: &str = r#"
title = "t"
description = "d"
metrics = ["counter.study.requests", "counter.study.tool_written_bytes", "read.mb_per_s"]
[stack]
filesystem = "ext4"
[workload.defrag.interleaved]
size = "256k"
passes = 1
[sweep]
"#;
const PIECES: u64 = 4 * 33;

fn spec(stack: &str, sweep: &str) -> String {
    SPEC.replace("[stack]\n", &format!("[stack]\n{stack}\n")) + sweep
}

/// The counters of each run, by the swept values.
fn counters(scratch: &Scratch, out: &str) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    let table = std::fs::read_to_string(scratch.path(out).join("counters.csv")).unwrap();
    for line in table.lines().skip(1) {
        // Six columns say which run it is, then come the swept values, the counter's name and its value.
        let cells: Vec<&str> = line.split(',').collect();
        let (swept, counter) = cells[6..].split_at(cells.len() - 8);
        let of_run: &mut BTreeMap<String, u64> = found.entry(swept.join(" ")).or_default();
        of_run.insert(counter[0].to_owned(), counter[1].parse().unwrap());
    }
    found
}

/// What holds on every file system: pieces as laid out, requests as predicted, half of the bytes for the same requests.
fn judge(cells: &BTreeMap<String, BTreeMap<String, u64>>, system: &str) {
    let of = |tool: &str, counter: &str| cells[&format!("{system} {tool}")][&format!("study.{counter}")];
    assert_eq!((of("none", "pieces_before"), of("none", "requests")), (PIECES, PIECES), "{system}: {cells:?}");
    for tool in ["none", "traced", "conventional"] {
        assert_eq!(of(tool, "requests"), of(tool, "predicted_requests"), "{system} {tool}");
    }
    // Eight reads of 128 KiB, each of them one request afterwards.
    assert_eq!((of("traced", "requests"), of("conventional", "requests")), (8, 8), "{system}: {cells:?}");
    // Half of the data is in small pieces; Btrfs may take up a neighbour, or copy twice where the first place was no better.
    let moved = of("traced", "tool_moved_bytes");
    assert!(moved == 512 << 10 || system == "btrfs" && (512 << 10..1 << 20).contains(&moved), "{system}: {moved}");
    assert_eq!(of("none", "tool_written_bytes"), 0, "{system}");
    let (traced, conventional) = (of("traced", "tool_written_bytes"), of("conventional", "tool_written_bytes"));
    assert!(traced >= 512 << 10 && traced < conventional, "{system}: {traced} of {conventional}");
}

#[test]
fn in_virtual_time_the_same_bytes_each_time() {
    if linux_rig::kernel().is_none() || !linux_rig::has("mkfs.ext4") || !linux_rig::has("e4defrag") {
        return;
    }
    let scratch = Scratch::new();
    let stack = "host = \"linux\"\ndevice = \"optane-905p-960gb\"";
    let tools =
        "\"stack.filesystem\" = [\"ext4\"]\n\"workload.defrag.tool\" = [\"none\", \"traced\", \"conventional\"]\n";
    scratch.write("study.toml", spec(stack, tools));
    let ran = scratch.plumb(&["run", "study.toml", "--out", "first", "--quiet"]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    judge(&counters(&scratch, "first"), "ext4");
    let report = std::fs::read_to_string(scratch.path("first/report.html")).unwrap();
    assert!(report.contains("in virtual time") && report.contains("study.requests"), "the report says what was done");

    // The cell with the most in it once more: a trace, a plan, moves.
    let traced = tools.replace("\"none\", ", "").replace(", \"conventional\"", "");
    scratch.write("again.toml", spec(stack, &traced));
    let ran = scratch.plumb(&["run", "again.toml", "--out", "second", "--quiet"]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let table = std::fs::read_to_string(scratch.path("second/counters.csv")).unwrap();
    let key = table.lines().nth(1).unwrap().split(',').nth(1).unwrap();
    let record = |out: &str| lab::results::Store::open(&scratch.path(out)).unwrap().get(key).unwrap().unwrap();
    assert_eq!(record("first"), record("second"), "two runs gave different results");
}

#[test]
fn on_loop_devices_of_this_machine() {
    for (system, programs) in
        [("ext4", ["mkfs.ext4", "e4defrag"]), ("xfs", ["mkfs.xfs", "xfs_fsr"]), ("btrfs", ["mkfs.btrfs", "btrfs"])]
    {
        if !programs.iter().all(|program| linux_rig::has(program)) {
            continue;
        }
        let scratch = Scratch::new();
        let sweep = format!(
            "\"stack.filesystem\" = [\"{system}\"]\n\"workload.defrag.tool\" = [\"none\", \"traced\", \"conventional\"]\n"
        );
        scratch.write("study.toml", spec("host = \"live\"\ndevice = \"loop\"\nlive = { size = \"512m\" }", &sweep));
        let ran = scratch.plumb(&["run", "study.toml", "--out", "live", "--quiet"]);
        if ran.stderr.contains("cannot be here") || ran.stderr.contains("tracing") {
            println!("skipped: {}", ran.stderr.trim());
            continue;
        }
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        judge(&counters(&scratch, "live"), system);
    }
}

#[test]
fn a_tool_that_is_none_of_the_file_system_is_said() {
    if linux_rig::kernel().is_none() || !linux_rig::has("mkfs.ext4") {
        return;
    }
    let scratch = Scratch::new();
    let stack = "host = \"linux\"\ndevice = \"optane-905p-960gb\"";
    scratch.write("study.toml", spec(stack, "\"workload.defrag.tool\" = [\"conventional-128k\"]\n"));
    let ran = scratch.plumb(&["run", "study.toml", "--out", "out", "--quiet"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.stderr.contains("conventional-128k is no tool for ext4"), "{}", ran.stderr);
}
