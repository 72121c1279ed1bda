//! `host = "linux"`: the real fio under a real kernel as a point of an
//! experiment, the same bytes each time, and the modelled host held against it.
#![allow(clippy::unwrap_used)]

mod common;
mod linux_rig;

use std::io::BufReader;
use std::path::Path;

use common::Scratch;
use linux::{FrontEnd, Linux};
use ssd::command_log::{self, CommandRecord};
use ssd::profile::BuildOptions;

const SPEC: &str = r#"
title = "t"
description = "d"
metrics = ["read.mean_us", "command.read.count"]
[stack]
device = "samsung-980pro-1tb"
[workload]
fio = "[j]\nrw=read:12k\nbs=4k\ndirect=1\nioengine=psync\nnumber_ios=50\nsize=16m\n"
[run]
commands = true
[sweep]
"stack.host" = ["model", "linux"]
[[plot]]
x = "stack.host"
y = "read.mean_us"
[[derived]]
name = "host"
as = "difference"
value = "read.mean_us"
at = { "stack.host" = "linux" }
to = { "stack.host" = "model" }
"#;

fn ready() -> bool {
    linux_rig::kernel().is_some() && linux_rig::has("fio")
}

#[test]
fn one_spec_runs_under_both_hosts_to_the_same_bytes_each_time() {
    if !ready() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("both.toml", SPEC);
    let mut records = Vec::new();
    for out in ["first", "second"] {
        let ran = scratch.plumb(&["run", "both.toml", "--out", out, "--quiet"]);
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.contains("derived.host"), "{}", ran.stdout);
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(scratch.path(out).join("runs"))
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        assert_eq!(files.len(), 1, "one file has both runs");
        let report = std::fs::read_to_string(scratch.path(out).join("report.html")).unwrap();
        assert!(report.contains("processor time") && report.contains("Time travel"), "the report says what is free");
        records.push(files);
    }
    assert!(records[0] == records[1], "two runs gave different bytes");
}

#[test]
fn the_model_asks_the_device_for_what_a_real_kernel_does() {
    if !ready() {
        return;
    }
    let scratch = Scratch::new();
    let mut arguments = vec!["validate", "host", "--threads", "1"];
    if !linux_rig::is_long() {
        for case in ["seq-write-qd1", "fsync-cache", "plug-merge-libaio", "ublk-odsync"] {
            arguments.extend(["--case", case]);
        }
    }
    let ran = scratch.plumb(&arguments);
    assert_eq!(ran.status, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(!ran.stdout.contains("NOT EXPLAINED"), "{}", ran.stdout);
}

/// What the device got while `script` ran, and everything before it.
fn log_of(run: &Linux, folder: &Path) -> Vec<CommandRecord> {
    let kernel = linux_rig::kernel().unwrap();
    let path = folder.join("commands.tsv");
    let mut run = run.clone();
    run.output = Some(folder.to_owned());
    run.serve_arguments = vec!["--command-log".into(), path.clone().into()];
    let outcome = run.run(&kernel).unwrap();
    assert!(outcome.ended.success(), "{}\n{}", outcome.text(), String::from_utf8_lossy(&outcome.stderr));
    let file = BufReader::new(std::fs::File::open(&path).unwrap());
    command_log::read("commands.tsv", file, 1 << 20).unwrap()
}

/// Finishes and resets zones at several occupancies through the kernel's NVMe driver: the drive
/// takes as long for each as the model of the drive alone does for the same commands.
#[test]
fn zone_management_takes_what_the_device_model_says() {
    if !linux_rig::is_long() {
        println!("skipped: slow; PLUMB_LONG=1 runs it");
        return;
    }
    if !ready() || !linux_rig::has("blkzone") {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.path("out");
    std::fs::create_dir(&folder).unwrap();
    let mut run = linux_rig::on("wd-zn540");
    run.front_end = FrontEnd::NvmeTcp;
    let mut script = String::new();
    for (zone, mib) in [0u64, 16, 256, 768].into_iter().enumerate() {
        let zone = zone as u64;
        // Zones of the ZN540 are 2048 MiB apart.
        script += &format!(
            "[ {mib} = 0 ] || dd if=/dev/zero of=$PLUMB_DEVICE bs=1M count={mib} seek={} oflag=direct conv=notrunc status=none\n\
             blkzone finish -o {start} -c 1 $PLUMB_DEVICE || true\nblkzone reset -o {start} -c 1 $PLUMB_DEVICE\n",
            zone * 2048,
            start = zone * 2048 * 2048,
        );
    }
    let records = log_of(&run.script(&script), &folder);
    let classes = lab::commands::classes(&records);
    let count = |class: &str| classes.iter().find(|known| known.class == class).map_or(0, |class| class.latency.count);
    assert!(count("zone_finish") >= 3 && count("zone_reset") >= 4, "{classes:?}");
    let profile = lab::device::describe("wd-zn540", Path::new(""), &[]).unwrap().profile;
    let device = profile.build(&BuildOptions { contents: ssd::Contents::None, ..BuildOptions::default() }).unwrap();
    assert_eq!(lab::truth::replay(device, &records), [], "the same commands at the same times take the same time");
}

/// The shipped experiment of real ext4 on the 980 PRO: flush and FUA within the published 10 %.
#[test]
fn an_fsync_of_ext4_costs_what_was_published() {
    if !ready() || !linux_rig::has("mkfs.ext4") {
        return;
    }
    let scratch = Scratch::new();
    let spec = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/linux/980pro-fsync.toml");
    let ran = scratch.plumb(&["run", spec, "--out", "out", "--quiet"]);
    assert_eq!(ran.status, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("command.write_fua.mean_us"), "{}", ran.stdout);
}
