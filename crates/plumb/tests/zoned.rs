//! A zoned device from a spec to tables: fills, finishes, resets, interference.
#![allow(clippy::unwrap_used)]

mod common;

use common::Scratch;

/// Small zones on the emulator's flash: 4 chips, 4 rows of blocks of 8 pages a zone.
const SPEC: &str = r#"
title = "resets and finishes beside writes"
metrics = ["job.victim.iops", "reset.mean_us", "finish.mean_us", "finish.count"]
[stack]
device = "confznspp"
[stack.device_set]
namespaces = [64]
geometry.pages_per_block = 8
zone.size = "4MiB"
zone.capacity = "2MiB"
initial.full_zones = [32]
[stack.io_path]
submit = "0ns"
complete = "0ns"
[workload]
fio = """
[global]
ioengine=io_uring_cmd
cmd_type=nvme
sqthread_poll=1
filename=/dev/ng0n1
zonemode=zbd
[victim]
rw=write
bs=16k
offset=32z
size=16z
time_based
runtime=200ms
[resets]
rw=trim
bs=4m
size=8z
rate_iops=40
[finishes]
rw=write
bs=16k
finish=1
offset=48z
size=4z
"""
sections.victim = ["victim"]
[sweep]
neighbour = ["none", "resets", "finishes"]
[variants.neighbour.none]
[variants.neighbour.resets]
"workload.sections.neighbour" = ["resets"]
[variants.neighbour.finishes]
"workload.sections.neighbour" = ["finishes"]
[interference]
victim = "job.victim"
interferer = "management"
without = { neighbour = "none" }
"#;

#[test]
fn zoned_jobs_report_resets_finishes_and_interference() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SPEC);
    let found: serde_json::Value =
        serde_json::from_str(&scratch.plumb(&["run", "spec.toml", "--json", "--out", "out"]).ok().stdout).unwrap();
    let value = |point: usize, metric: &str| found["points"][point]["metrics"][metric]["value"].as_f64();
    // Two mebibytes lie on 4 chips as 4 blocks each, erased one after the other.
    let reset_us = value(1, "reset.mean_us").unwrap();
    assert!((14_000.0..15_000.0).contains(&reset_us), "{reset_us}");
    assert_eq!(value(1, "finish.mean_us"), None);
    // 127 pages are padded, four at a time, in turns with the victim's.
    assert_eq!(value(2, "finish.count"), Some(4.0));
    let finish_us = value(2, "finish.mean_us").unwrap();
    assert!((127.0 / 4.0 * 700.0..127.0 / 4.0 * 1500.0).contains(&finish_us), "{finish_us}");
    let effect = |row: usize, name: &str| {
        found["interference"][row]["metrics"][format!("interference.{name}")]["value"].as_f64().unwrap()
    };
    // Eight resets of 14 ms hold the victim up for as long as they last.
    let cost_ms = effect(0, "per_operation_ms");
    assert!((12.0..16.0).contains(&cost_ms), "{cost_ms}");
    assert!(effect(0, "z") > 0.1 && effect(1, "z") > 0.1);
    assert!((14.0..17.0).contains(&effect(0, "stall_ms")), "{}", effect(0, "stall_ms"));
    let table = std::fs::read_to_string(scratch.path("out/runs.csv")).unwrap();
    assert!(table.contains(",resets,trim,8,") && table.contains(",finishes,finish,4,"), "{table}");
}
