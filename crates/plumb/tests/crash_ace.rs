//! Short workloads of file-system calls, cut at every moment: what fsync and its like promise of files holds on ext4, XFS, Btrfs and
//! F2FS, but for what docs/crash.md lists. A sample; with `PLUMB_LONG` all single operations and a sample of pairs.
#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use crash_rig::{Trial, bad};
use linux_rig::PLUMB;

/// File system, its mkfs, its size, and the words of faults that are known of it.
const SYSTEMS: [(&str, &str, &str, &[&str]); 4] = [
    ("ext4", "mkfs.ext4", "128MiB", &[]),
    ("xfs", "mkfs.xfs", "320MiB", &[]),
    ("btrfs", "mkfs.btrfs", "256MiB", &[]),
    ("f2fs", "mkfs.f2fs", "128MiB", &[]),
];

fn as_promised(operations: &str, sample: &str, states: &str) {
    for (system, mkfs, size, known) in SYSTEMS {
        let Some(trial) = Trial::new(mkfs) else { return };
        let script = format!("exec {PLUMB} app ace --operations {operations} --sample {sample}");
        let (_, report) = trial.run(&["--fs", system, "--size", size, "--states", states], &script);
        let looked_at = report["states"].as_u64().unwrap();
        let faults: Vec<&serde_json::Value> = bad(&report).iter().map(|bad| &bad["verdict"]["fault"]).collect();
        println!(
            "{system}: {looked_at} states of {sample} workloads with {operations} operations, {} bad",
            faults.len()
        );
        let is_known =
            |fault: &&serde_json::Value| known.iter().any(|word| fault["what"].as_str().unwrap().contains(word));
        let new: Vec<_> = faults.iter().filter(|fault| !is_known(fault)).collect();
        assert!(new.is_empty(), "{system}: {new:#?}");
        assert_eq!(report["unfollowed"].as_array().unwrap().len(), 0, "{report:#}");
        assert!(looked_at > 100, "{report:#}");
    }
}

#[test]
fn single_operations() {
    match std::env::var_os("PLUMB_LONG") {
        Some(_) => as_promised("1", "100000", "20000"),
        None => as_promised("1", "12", "120"),
    }
}

#[test]
fn pairs_of_operations() {
    match std::env::var_os("PLUMB_LONG") {
        Some(_) => as_promised("2", "1000", "20000"),
        None => println!("skipped: pairs (PLUMB_LONG)"),
    }
}
