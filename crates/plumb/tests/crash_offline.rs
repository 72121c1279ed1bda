//! `plumb crash --offline-states`: states that are judged without a kernel.

#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use crash_rig::Trial;

const SCRIPT: &str = "for i in 1 2 3 4 5 6; do yes $i | head -c 12000 >> f; sync f; mv f x; mv x f; sync .; done";
const SMALL: [&str; 8] = ["--fs", "ext4", "--size", "16MiB", "--mkfs-options", "-b 4096", "--states", "6"];

#[test]
fn thousands_are_judged_beside_the_few_that_the_kernel_mounts_and_a_second_start_does_nothing_again() {
    let Some(trial) = Trial::new("ext4") else { return };
    let flags = [&SMALL[..], &["--offline-states", "4000"]].concat();
    let (status, report) = trial.run(&flags, SCRIPT);
    let counts = report["offline"]["counts"].clone();
    assert_eq!((status, counts["bad"].as_u64(), counts["unread"].as_u64()), (0, Some(0), Some(0)), "{report}");
    assert!(counts["distinct"].as_u64() > Some(50), "{counts}");
    assert_eq!(counts["checked"], counts["recovered"]);
    assert!(report["states"].as_u64() > Some(0), "{report}");
    let (status, again) = trial.run(&flags, SCRIPT);
    assert_eq!((status, &again["offline"]), (0, &report["offline"]));
}

#[test]
fn a_drive_that_lies_is_found_out() {
    let Some(trial) = Trial::new("ext4") else { return };
    let flags = [&SMALL[..], &["--survives", "lying-cache", "--offline-states", "2000"]].concat();
    let (status, report) = trial.run(&flags, SCRIPT);
    assert_eq!(status, 1);
    assert!(report["offline"]["counts"]["bad"].as_u64() > Some(0), "{}", report["offline"]);
}

#[test]
fn what_cannot_be_read_without_the_kernel_is_refused() {
    let Some(trial) = Trial::new("ext4") else { return };
    let words = "-b 4096 -O meta_bg,^resize_inode";
    let flags = ["--fs", "ext4", "--size", "16MiB", "--mkfs-options", words, "--states", "2", "--offline-states", "9"];
    let output = trial.command(&flags, "echo > f").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("meta block groups"), "{said}");
    let Some(trial) = Trial::new("xfs") else { return };
    let flags = ["--fs", "xfs", "--size", "320MiB", "--states", "2", "--offline-states", "9"];
    let output = trial.command(&flags, "echo > f").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("only ext4"), "{said}");
}
