//! Short workloads of file-system calls, cut at every moment: what fsync and its like promise of files holds on ext4, XFS, Btrfs and
//! `plumb fs`, with what docs/crash.md lists repaired. A sample; with `PLUMB_LONG` all single operations and a sample of pairs.
#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use crash_rig::{Trial, bad};
use linux_rig::{PLUMB, is_long};

/// A file system that is looked at.
struct System {
    name: &'static str,
    size: &'static str,
    /// What is known has to be repaired in it first.
    is_repaired: bool,
    /// Into how many parts all workloads are divided: what one writes has to fit the guest that judges it.
    parts: usize,
}

// Not F2FS: what is found there is in docs/crash.md.
const EXT4: System = System { name: "ext4", size: "128MiB", is_repaired: false, parts: 1 };
const XFS: System = System { name: "xfs", size: "320MiB", is_repaired: true, parts: 1 };
const BTRFS: System = System { name: "btrfs", size: "256MiB", is_repaired: false, parts: 6 };
const BETRFS: System = System { name: "betrfs", size: "64MiB", is_repaired: false, parts: 2 };

impl System {
    /// A sample of the quick suite is small enough as a whole.
    fn as_promised(&self, operations: usize, workloads: usize, states: usize) {
        let &Self { name, size, is_repaired, parts } = self;
        let parts = if is_long() { parts } else { 1 };
        let states = (states / parts).to_string();
        let mut flags = vec!["--fs", name, "--size", size, "--states", &states];
        if is_repaired {
            if !is_long() {
                println!("skipped: {name} (PLUMB_LONG), for which a kernel is built");
                return;
            }
            flags.extend(["--known", "repaired"]);
        }
        for part in 1..=parts {
            let Some(trial) = Trial::new(name) else { return };
            let script =
                format!("exec {PLUMB} app ace --operations {operations} --sample {workloads} --part {part}/{parts}");
            let (status, report) = trial.run(&flags, &script);
            let looked_at = report["states"].as_u64().unwrap();
            println!("{name}, part {part} of {parts}: {looked_at} states of workloads with {operations} operations");
            assert_eq!((status, bad(&report).len()), (0, 0), "{name}: {report:#}");
            assert_eq!(report["unfollowed"].as_array().unwrap().len(), 0, "{report:#}");
            assert!(looked_at > 100, "{report:#}");
        }
    }

    fn single_operations(&self) {
        if is_long() { self.as_promised(1, usize::MAX, 20_000) } else { self.as_promised(1, 12, 120) }
    }

    fn pairs_of_operations(&self) {
        if is_long() { self.as_promised(2, 1000, 20_000) } else { println!("skipped: pairs (PLUMB_LONG)") }
    }
}

#[test]
fn single_operations_on_ext4() {
    EXT4.single_operations();
}

#[test]
fn single_operations_on_xfs() {
    XFS.single_operations();
}

#[test]
fn single_operations_on_btrfs() {
    BTRFS.single_operations();
}

#[test]
fn single_operations_on_betrfs() {
    if is_long() { BETRFS.single_operations() } else { println!("skipped: each state starts a server (PLUMB_LONG)") }
}

#[test]
fn pairs_of_operations_on_ext4() {
    EXT4.pairs_of_operations();
}

#[test]
fn pairs_of_operations_on_xfs() {
    XFS.pairs_of_operations();
}

#[test]
fn pairs_of_operations_on_btrfs() {
    BTRFS.pairs_of_operations();
}

#[test]
fn pairs_of_operations_on_betrfs() {
    BETRFS.pairs_of_operations();
}

/// Of F2FS as it is, every cause that was looked into is one of the faults that are known.
#[test]
fn pairs_of_operations_on_f2fs_show_what_is_known() {
    if !is_long() {
        println!("skipped: pairs on F2FS (PLUMB_LONG)");
        return;
    }
    let Some(trial) = Trial::new("f2fs") else { return };
    let script = format!("exec {PLUMB} app ace --operations 2 --sample 200");
    let flags = ["--fs", "f2fs", "--size", "128MiB", "--states", "4000", "--no-fsck"];
    let (_, report) = trial.run(&flags, &script);
    let causes = report["causes"].as_array().unwrap();
    let unknown = causes.iter().find(|cause| !cause["words"].is_null() && cause["known"].is_null());
    assert!(unknown.is_none() && !causes.is_empty(), "{unknown:#?}");
}

/// A file grows on blocks that were another's, and is synchronised: F2FS writes its node, which recovery follows, without a flush
/// after the data, so that after a cut before fsync is over the file has its new size and what lay there before.
#[test]
fn a_file_that_grows_on_f2fs_may_hold_what_lay_there_before() {
    let Some(trial) = Trial::new("f2fs") else { return };
    let used = "for i in $(seq 300); do mkdir d; echo $i > d/x; sync; rm -r d; sync; done
        for i in 1 2 3 4 5 6; do head -c 400000 /dev/urandom > r; sync; rm r; done
        head -c 16484 /dev/zero | tr '\\0' a > f; sync; echo x > g; sync g";
    let grows = "head -c 40960 /dev/zero | tr '\\0' b > /dev/shm/b
        for i in 1 2 3; do
            dd if=/dev/shm/b of=f bs=40960 seek=$((16484 + i * 20480)) oflag=seek_bytes conv=notrunc,fsync status=none
        done";
    let flags = ["--fs", "f2fs", "--size", "128MiB", "--states", "200", "--no-fsck", "--setup", used];
    let (status, report) = trial.run(&flags, grows);
    assert_eq!(status, 1, "{report:#}");
    let is_named = |cause: &serde_json::Value| {
        cause["known"].as_str().is_some_and(|name| name.starts_with("F2FS: fsync writes the node"))
            && cause["lost"].to_string().contains("data of f")
    };
    assert!(report["causes"].as_array().unwrap().iter().any(is_named), "{report:#}");
}

/// Faults of file systems that were found so (docs/crash.md): there in the kernel as it is, gone with what is known repaired.
#[test]
fn what_was_found_is_gone_with_its_repair() {
    let found = [
        ("xfs", "320MiB", "66", "an old version in bytes 0 to 4095", "XFS: sync and syncfs"),
        ("f2fs", "128MiB", "80", "wrong size: 16484 bytes", "F2FS: the first fsync"),
        ("f2fs", "128MiB", "66", "an old version in bytes 0 to 4095", "F2FS: sync does not flush"),
        ("f2fs", "128MiB", "200", "wrong size: 24576 bytes", "F2FS: a hole punched"),
        ("f2fs", "128MiB", "92", "wrong size: 16484 bytes", "F2FS: a file that grew"),
    ];
    for (name, size, workload, says, known) in found {
        let Some(trial) = Trial::new(name) else { return };
        let script = format!("exec {PLUMB} app ace --only {workload}");
        let flags = ["--fs", name, "--size", size, "--states", "200", "--no-fsck"];
        let (_, report) = trial.run(&flags, &script);
        let says_so = |bad: &serde_json::Value| bad["verdict"]["fault"]["what"].as_str().unwrap().contains(says);
        assert!(bad(&report).iter().any(says_so), "{name}: {report:#}");
        let is_named = |cause: &serde_json::Value| cause["known"].as_str().is_some_and(|name| name.starts_with(known));
        assert!(report["causes"].as_array().unwrap().iter().any(is_named), "{name}: {report:#}");
        if !is_long() {
            println!("skipped: {name} with --known repaired (PLUMB_LONG), for which a kernel is built");
            continue;
        }
        let repaired = Trial::new(name).unwrap();
        let (status, report) = repaired.run(&[&flags[..], &["--known", "repaired"]].concat(), &script);
        assert_eq!((status, bad(&report).len()), (0, 0), "{name}: {report:#}");
    }
}
