//! `plumb crash`: programs that are wrong are caught, each with its reason; programs that are right are clean; and a trial can be
//! stopped, gone on with and stood in.
#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crash_rig::{Trial, bad, explanations};
use linux_rig::PLUMB;

/// Appends lines and acknowledges each when it is synchronised.
const LOG: &str = "for i in 1 2 3; do echo entry $i >> log; sync log; echo $i > $PLUMB_ACKNOWLEDGE; done
    echo entry 4 >> log; sync log; echo 4 > /tmp/four; cat /tmp/four > $PLUMB_ACKNOWLEDGE";
/// The same, but too early.
const EARLY_LOG: &str = "for i in 1 2 3 4; do echo entry $i >> log; echo $i > $PLUMB_ACKNOWLEDGE; sync log; done";
/// What was acknowledged is in the log.
const LOG_CHECK: &str =
    "while read i; do grep -qx \"entry $i\" log || { echo entry $i is gone; exit 1; }; done < $PLUMB_ACKNOWLEDGED";

const EXT4: [&str; 4] = ["--fs", "ext4", "--size", "64MiB"];

#[test]
fn what_was_synchronised_before_it_was_acknowledged_is_there() {
    let Some(trial) = Trial::new("ext4") else { return };
    let (status, report) = trial.run(&[&EXT4[..], &["--states", "60", "--check", LOG_CHECK]].concat(), LOG);
    assert_eq!((status, bad(&report).len()), (0, 0), "{report:#}");
    assert_eq!(report["acknowledgements"], 4);
    assert!(report["states"].as_u64().unwrap() >= 40, "{report:#}");
}

#[test]
fn what_was_acknowledged_too_early_is_found_and_the_missing_fsync_named() {
    let Some(trial) = Trial::new("ext4") else { return };
    let (status, report) = trial.run(&[&EXT4[..], &["--states", "60", "--check", LOG_CHECK]].concat(), EARLY_LOG);
    assert_eq!(status, 1);
    assert!(bad(&report).iter().all(|bad| bad["verdict"]["fault"]["by"] == "check"), "{report:#}");
    let said = explanations(&report);
    assert!(said.iter().any(|text| text.contains("an fsync is missing before the promise")), "{said:?}");
    // Who looks into a bad state finds what the check found.
    let state = bad(&report)[0]["verdict"]["state"].as_str().unwrap();
    let seen = trial.replay(state, LOG_CHECK);
    assert_eq!(seen.status.code(), Some(1), "{seen:?}");
    assert!(String::from_utf8_lossy(&seen.stdout).contains("is gone"), "{seen:?}");
    let absent = trial.replay("0123456789abcdef", "true");
    assert!(String::from_utf8_lossy(&absent.stderr).contains("no state 0123456789abcdef"), "{absent:?}");
}

#[test]
fn a_device_whose_flushes_lie_is_found_out_under_a_program_that_is_right() {
    let Some(trial) = Trial::new("ext4") else { return };
    let flags = [&EXT4[..], &["--states", "30", "--survives", "lying-cache", "--check", LOG_CHECK]].concat();
    let (status, report) = trial.run(&flags, LOG);
    assert_eq!(status, 1);
    let said = explanations(&report);
    assert!(said.iter().any(|text| text.contains("flushes that it did not carry out")), "{said:?}");
    // The lost writes by their names.
    assert!(said.iter().any(|text| text.contains("(data of log, ") || text.contains("(ext4's journal)")), "{said:?}");
}

/// Without a check of one's own: what fsync promised is enough.
#[test]
fn files_are_held_against_what_fsync_promised() {
    let Some(trial) = Trial::new("ext4") else { return };
    let script = "echo old > f; sync f; echo new > f.tmp; sync f.tmp; mv f.tmp f; mkdir d; echo x > d/g; sync d/g d .";
    let (status, report) = trial.run(&[&EXT4[..], &["--states", "60"]].concat(), script);
    assert_eq!((status, bad(&report).len()), (0, 0), "{report:#}");
    let lying = Trial::new("ext4").unwrap();
    let flags = [&EXT4[..], &["--states", "30", "--survives", "lying-cache", "--no-fsck"]].concat();
    let (status, report) = lying.run(&flags, script);
    assert_eq!(status, 1);
    let by_files: Vec<&str> = bad(&report)
        .iter()
        .filter(|bad| bad["verdict"]["fault"]["by"] == "files")
        .map(|bad| bad["verdict"]["fault"]["what"].as_str().unwrap())
        .collect();
    assert!(by_files.iter().any(|what| what.contains("promised by call")), "{report:#}");
}

/// XFS writes the rename to its log when another file is synchronised, and the data of a file that nobody synchronised later.
#[test]
fn a_rename_without_fsync_leaves_an_empty_file_on_xfs() {
    let Some(trial) = Trial::new("xfs") else { return };
    let check = "grep -qx -e old -e new f || { echo neither old nor new; exit 1; }";
    let flags = ["--fs", "xfs", "--size", "320MiB", "--states", "40", "--setup", "echo old > f", "--check", check];
    let (status, report) = trial.run(&flags, "echo new > f.tmp; mv f.tmp f; echo x > other; sync other; sleep 1");
    assert_eq!(status, 1, "{report:#}");
    let said = explanations(&report);
    assert!(said.iter().any(|text| text.contains("an fsync of the data before it is named")), "{said:?}");
    let right = Trial::new("xfs").unwrap();
    let (status, report) =
        right.run(&flags, "echo new > f.tmp; sync f.tmp; mv f.tmp f; echo x > other; sync other; sleep 1");
    assert_eq!((status, bad(&report).len()), (0, 0), "{report:#}");
}

#[test]
fn a_command_that_fails_is_no_trial_and_a_folder_holds_one_trial() {
    let Some(trial) = Trial::new("ext4") else { return };
    let flags = [&EXT4[..], &["--states", "5"]].concat();
    let failed = trial.command(&flags, "echo why >&2; exit 3").output().unwrap();
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(2), "{said}");
    assert!(said.contains("why") && said.contains("status 3"), "{said}");
    let other = trial.command(&flags, "true").output().unwrap();
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert_eq!(other.status.code(), Some(2), "{said}");
    assert!(said.contains("holds another trial"), "{said}");
    let setup = Trial::new("ext4").unwrap();
    let failed = setup.command(&[&flags[..], &["--setup", "echo because; false"]].concat(), "true").output().unwrap();
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(!failed.status.success() && said.contains("--setup failed") && said.contains("because"), "{said}");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let said = |flags: &[&str]| {
        let output = Command::new(PLUMB).arg("crash").args(flags).args(["--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(&["--fs", "zonefs"]).contains("zonefs"));
    assert!(said(&["--device", "wd-zn540"]).contains("has zones"));
    assert!(said(&["--exhaustive", "40"]).contains("too many"));
    assert!(said(&["--atomic", "1000"]).contains("power of two"));
    assert!(said(&["--shard", "3/2"]).contains("not a shard"));
    let rules = said(&["--survives", "nothing"]);
    assert!(rules.contains("volatile-cache") && rules.contains("streams"), "{rules}");
}

/// The same states and verdicts whether it is done at once, in shards, or stopped and gone on with.
#[test]
fn shards_and_a_stop_change_nothing() {
    let Some(whole) = Trial::new("ext4") else { return };
    let flags = [&EXT4[..], &["--states", "40", "--check", LOG_CHECK]].concat();
    let (_, at_once) = whole.run(&flags, EARLY_LOG);
    let parts = Trial::new("ext4").unwrap();
    let (_, first) = parts.run(&[&flags[..], &["--shard", "1/2", "--guests", "1"]].concat(), EARLY_LOG);
    assert!(first["states"].as_u64() < at_once["states"].as_u64());
    let (_, second) = parts.run(&[&flags[..], &["--shard", "2/2", "--guests", "3"]].concat(), EARLY_LOG);
    assert_eq!(second["states"], at_once["states"]);
    assert_eq!(verdicts(&second), verdicts(&at_once));

    let stopped = Trial::new("ext4").unwrap();
    let mut child = stopped.command(&flags, EARLY_LOG).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let verdicts_of = |folder: &Path| {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .filter(|file| file.file_name().to_string_lossy().starts_with("verdicts"))
            .any(|file| std::fs::read_to_string(file.path()).is_ok_and(|text| text.lines().count() > 3))
    };
    let verdict = |folder: &Path| {
        std::fs::read_dir(folder).into_iter().flatten().flatten().any(|judged| verdicts_of(&judged.path()))
    };
    while !verdict(&stopped.folder.join("out")) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // It may just have come to its end.
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).stderr(Stdio::null()).status();
    let status = child.wait().unwrap().code();
    assert!(matches!(status, Some(130 | 1)), "{status:?}");
    let (_, resumed) = stopped.run(&flags, EARLY_LOG);
    assert_eq!(verdicts(&resumed), verdicts(&at_once));
}

/// Who found which state bad.
fn verdicts(report: &serde_json::Value) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    bad(report).iter().map(|bad| (text(&bad["verdict"]["state"]), text(&bad["verdict"]["fault"]["by"]))).collect()
}
