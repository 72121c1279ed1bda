//! Faults of file systems that were published and repaired are found again where the repair is undone.
//!
//! The workloads run under the kernel as it is, where every state has to be good; with `PLUMB_LONG` also under one that has the
//! patches of `crash_reverts/`.
#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use std::path::{Path, PathBuf};

use crash_rig::{Trial, bad};
use linux_rig::is_long;

/// A fault, and how it shows.
struct Fault {
    patch: &'static str,
    file_system: &'static str,
    flags: &'static [&'static str],
    setup: &'static str,
    script: &'static str,
    /// Who finds it.
    found_by: &'static [&'static str],
    /// Words of what is found.
    says: &'static str,
}

/// A file that was renamed is gone when another one that took its name is synchronised.
const NAME_TAKEN_OVER: Fault = Fault {
    patch: "btrfs-name-taken-over.patch",
    file_system: "btrfs",
    flags: &["--fs", "btrfs", "--states", "60"],
    setup: "mkdir a; echo first > a/foo; sync a/foo a .",
    script: "mv a/foo a/bar; echo second > a/foo; sync a/foo",
    found_by: &["files"],
    says: "a/",
};

/// The journal of 1,024 blocks is filled more than once: its tail has to move on.
const NO_FLUSH: Fault = Fault {
    patch: "ext4-no-flush-after-checkpoint.patch",
    file_system: "ext4",
    flags: &["--fs", "ext4", "--size", "64MiB", "--mkfs-options", "-b 1024 -J size=1", "--states", "200", "--no-fsck"],
    setup: "true",
    script: "for i in $(seq 40); do mkdir $i; for j in $(seq 20); do mkdir $i/$j; done; sync .; done",
    found_by: &["files", "mount"],
    says: "",
};

/// Blocks beyond the end that are no part of the file.
const KEEP_SIZE: Fault = Fault {
    patch: "f2fs-keep-size-forgotten.patch",
    file_system: "f2fs",
    flags: &[
        "--fs",
        "f2fs",
        "--states",
        "60",
        "--check",
        "[ $(stat -c %s f) = 16384 ] || { stat -c 'size %s' f; exit 1; }",
    ],
    setup: "head -c 16384 /dev/zero | tr '\\0' x > f; sync f",
    script: "fallocate --zero-range --keep-size --offset 4202496 --length 8192 f; sync f",
    found_by: &["check", "files"],
    says: "size",
};

fn patches() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash_reverts");
    [&NAME_TAKEN_OVER, &NO_FLUSH, &KEEP_SIZE].map(|fault| folder.join(fault.patch)).into()
}

fn found_again(fault: &Fault) {
    let Some(right) = Trial::new(fault.file_system) else { return };
    let flags = [fault.flags, &["--setup", fault.setup]].concat();
    let (status, report) = right.run(&flags, fault.script);
    assert_eq!((status, bad(&report).len()), (0, 0), "{}: {report:#}", fault.patch);
    assert!(report["states"].as_u64().unwrap() > 5, "{report:#}");
    if !is_long() {
        println!("skipped: the same with {} (PLUMB_LONG), which builds a kernel", fault.patch);
        return;
    }
    let patched = Trial::new(fault.file_system).unwrap();
    // One kernel with all of them: each is in another place.
    let patches = patches();
    let of_kernel: Vec<&str> = patches.iter().flat_map(|patch| ["--kernel-patch", patch.to_str().unwrap()]).collect();
    let (status, report) = patched.run(&[&of_kernel[..], &flags].concat(), fault.script);
    assert_eq!(status, 1, "{}: {report:#}", fault.patch);
    let faults: Vec<&serde_json::Value> = bad(&report).iter().map(|bad| &bad["verdict"]["fault"]).collect();
    println!("{}: {} of {} states bad, such as: {}", fault.patch, faults.len(), report["states"], faults[0]);
    let is_it = |found: &&serde_json::Value| {
        fault.found_by.contains(&found["by"].as_str().unwrap()) && found["what"].as_str().unwrap().contains(fault.says)
    };
    assert!(faults.iter().any(is_it), "{}: {report:#}", fault.patch);
    // The state is mounted under the same kernel.
    let state = bad(&report)[0]["verdict"]["state"].as_str().unwrap();
    let seen = patched.replay(state, "uname -r");
    assert!(seen.status.success() || faults[0]["by"] == "mount", "{seen:?}");
}

#[test]
fn a_file_whose_name_was_taken_over_on_btrfs() {
    found_again(&NAME_TAKEN_OVER);
}

#[test]
fn metadata_that_left_the_journal_too_early_on_ext4() {
    found_again(&NO_FLUSH);
}

#[test]
fn blocks_beyond_the_end_on_f2fs() {
    found_again(&KEEP_SIZE);
}
