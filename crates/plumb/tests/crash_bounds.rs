//! What is much for one trial: gigabytes that are written are recorded and judged.
#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use crash_rig::{Trial, bad};

/// Whether gigabytes may be written.
fn gigabytes() -> bool {
    let is_long = linux_rig::is_long();
    if !is_long {
        println!("skipped: gigabytes under plumb crash (PLUMB_LONG)");
    }
    is_long
}

fn length(trial: &Trial, name: &str) -> u64 {
    std::fs::metadata(trial.folder.join("out").join(name)).unwrap().len()
}

/// Runs the script on a file system of this size; its report and the trial.
fn judged(script: &str, size: &str, states: &str) -> Option<(serde_json::Value, Trial)> {
    let trial = Trial::new("ext4")?;
    let flags = ["--fs", "ext4", "--size", size, "--states", states, "--no-fsck"];
    let (status, report) = trial.run(&flags, script);
    assert_eq!((status, bad(&report).len()), (0, 0), "{report:#}");
    Some((report, trial))
}

#[test]
fn hundreds_of_mebibytes_of_random_bytes() {
    if !gigabytes() {
        return;
    }
    let script = "dd if=/dev/urandom of=f bs=1M count=300 status=none; sync f; dd if=f of=g bs=1M status=none; sync g";
    let Some((report, trial)) = judged(script, "2GiB", "12") else { return };
    assert!(report["states"].as_u64() >= Some(12), "{report:#}");
    let (log, calls) = (length(&trial, "writes.log"), length(&trial, "calls.jsonl"));
    // The copy costs nothing, and of most bytes the list of calls has only digests.
    assert!((300 << 20..400 << 20).contains(&log), "{log}");
    assert!(calls < 100 << 20, "{calls}");
}

#[test]
fn more_than_a_gibibyte_of_zeroes() {
    if !gigabytes() {
        return;
    }
    let Some((_, trial)) = judged("dd if=/dev/zero of=f bs=1M count=1200 status=none; sync f", "2GiB", "8") else {
        return;
    };
    assert!(length(&trial, "writes.log") < 64 << 20 && length(&trial, "calls.jsonl") < 1 << 20);
}

/// More than any guest has memory for: what is durable at a moment has to fit there, and what is on its way to the device at once;
/// the log has not.
#[test]
fn a_log_of_ten_gibibytes() {
    if !gigabytes() {
        return;
    }
    let script =
        "for i in $(seq 80); do dd if=/dev/urandom of=f bs=1M count=128 conv=notrunc status=none; sync f; done";
    let Some((report, trial)) = judged(script, "1GiB", "12") else { return };
    assert_eq!(report["states"], 12, "{report:#}");
    assert!(length(&trial, "writes.log") > 10 << 30);
}
