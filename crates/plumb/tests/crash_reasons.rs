//! `plumb crash` says why a state is bad by what was recorded, and by no more: each kind of fault has its reason, and a missing
//! fsync is named only where one is missing.
#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use crash_rig::{Trial, bad};
use linux_rig::has;

const EXT4: [&str; 6] = ["--fs", "ext4", "--size", "64MiB", "--states", "60"];

/// The causes that are found, each with its kind; all states have one.
fn causes(trial: &Trial, flags: &[&str], script: &str) -> (serde_json::Value, Vec<(String, serde_json::Value)>) {
    let (status, report) = trial.run(flags, script);
    assert_eq!(status, 1, "{report:#}");
    let causes = report["causes"].as_array().unwrap().clone();
    let states: u64 = causes.iter().map(|cause| cause["states"].as_u64().unwrap()).sum();
    assert_eq!(states as usize, bad(&report).len(), "{report:#}");
    let kind = |cause: &serde_json::Value| cause["kind"].as_str().unwrap_or("none").to_owned();
    (report, causes.iter().map(|cause| (kind(cause), cause.clone())).collect())
}

fn words(cause: &serde_json::Value) -> &str {
    cause["words"].as_str().unwrap()
}

#[test]
fn a_missing_fsync_is_named_with_the_call_that_it_should_have_followed() {
    let Some(trial) = Trial::new("ext4") else { return };
    let check =
        "while read i; do grep -qx \"entry $i\" log || { echo entry $i is gone; exit 1; }; done < $PLUMB_ACKNOWLEDGED";
    let script = "for i in 1 2 3; do echo entry $i >> log; echo $i > $PLUMB_ACKNOWLEDGE; sync log; done";
    let (report, causes) = causes(&trial, &[&EXT4[..], &["--check", check]].concat(), script);
    for (kind, cause) in &causes {
        assert_eq!(kind, "missing-sync", "{report:#}");
        assert!(words(cause).contains("an fsync is missing before the promise"), "{report:#}");
        assert!(words(cause).contains("of log (`write` by sh (process "), "{report:#}");
    }
    // What is quoted is said of the state whose lost writes are listed.
    let example = bad(&report).iter().find(|bad| bad["verdict"]["state"] == causes[0].1["example"]).unwrap();
    let smallest = &example["verdict"]["fault"]["smallest"];
    let state = format!("{}-smallest", example["verdict"]["state"].as_str().unwrap());
    let seen = trial.replay(&state, check);
    assert_eq!(seen.status.code(), Some(1), "{seen:?}");
    assert_eq!(String::from_utf8_lossy(&seen.stdout).trim(), smallest["what"].as_str().unwrap());
}

/// A record of two units that is written over in place, and whose reader cannot tell that it is whole.
#[test]
fn a_torn_write_is_no_missing_fsync() {
    let Some(trial) = Trial::new("ext4") else { return };
    let make = |letter: &str| format!("head -c 8192 /dev/zero | tr '\\0' {letter}");
    let setup = format!("{} > record; sync record", make("a"));
    let script = format!("{} | dd of=record bs=8192 iflag=fullblock conv=notrunc,fsync 2> /dev/null", make("b"));
    let check = "[ $(tr -d a < record | wc -c) = 0 ] || [ $(tr -d b < record | wc -c) = 0 ] || { echo mixed; exit 1; }";
    let flags = [&EXT4[..], &["--setup", &setup, "--check", check, "--mkfs-options", "-b 4096"]].concat();
    let (report, causes) = causes(&trial, &flags, &script);
    assert!(causes.iter().all(|(kind, _)| kind == "torn-write"), "{report:#}");
    assert!(words(&causes[0].1).contains("(data of record, bytes 0 to 8192)"), "{report:#}");
    let lost = causes[0].1["lost"].to_string();
    assert!(lost.contains("written by `write` by dd"), "{lost}");
}

/// The same record, which is promised before it is synchronised: two faults, and neither hides the other.
#[test]
fn of_two_faults_each_has_its_cause() {
    let Some(trial) = Trial::new("ext4") else { return };
    let make = |letter: &str| format!("head -c 8192 /dev/zero | tr '\\0' {letter}");
    let setup = format!("{} > record; sync record", make("a"));
    let script = format!(
        "{} | dd of=record bs=8192 iflag=fullblock conv=notrunc 2> /dev/null; echo b > $PLUMB_ACKNOWLEDGE",
        make("b")
    );
    let check = "a=$(tr -d a < record | wc -c); b=$(tr -d b < record | wc -c)
        [ $a = 0 ] || [ $b = 0 ] || { echo mixed; exit 1; }
        [ ! -s $PLUMB_ACKNOWLEDGED ] || [ $b = 0 ] || { echo promised and old; exit 1; }";
    let flags = [&EXT4[..], &["--setup", &setup, "--check", check, "--mkfs-options", "-b 4096"]].concat();
    let (report, causes) = causes(&trial, &flags, &script);
    let kinds: std::collections::BTreeSet<&str> = causes.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["missing-sync", "torn-write"], "{report:#}");
}

/// Two files whose blocks lie side by side are written together: what is lost is the one, and what is there the other.
#[test]
fn a_write_of_two_files_names_the_one_that_is_lost() {
    let Some(trial) = Trial::new("ext4") else { return };
    let setup = "echo 1 > log; echo 1 > data";
    let check = "[ $(cat data) = 1 ] || [ $(cat log) = 2 ]";
    let flags = [&EXT4[..], &["--setup", setup, "--check", check, "--mkfs-options", "-b 4096"]].concat();
    let (report, causes) = causes(&trial, &flags, "echo 2 1<> log; echo 2 1<> data; sync");
    for (kind, cause) in &causes {
        assert_eq!(kind, "unordered", "{report:#}");
        assert!(words(cause).contains("data is there without log"), "{report:#}");
        let lost = cause["lost"].to_string();
        assert!(lost.contains("of log, bytes 0 to") && !lost.contains("of data"), "{lost}");
    }
}

/// The header of a store reaches the device after what it refers to, with nothing between them.
#[test]
fn an_order_within_a_commit_is_no_missing_fsync_before_a_promise() {
    let Some(trial) = Trial::new("ext4") else { return };
    let put = |what: &str, block: usize| {
        format!(
            "printf '%-4096s' {what} | dd of=store bs=4096 seek={block} iflag=fullblock oflag=direct conv=notrunc 2> /dev/null"
        )
    };
    let setup = "printf '%-131072s' old > store; sync store";
    let script = format!("{}; {}; sync store; echo done > $PLUMB_ACKNOWLEDGE", put("data", 16), put("header", 0));
    let check = "grep -q header store || exit 0; grep -q data store || { echo a header without its data; exit 1; }";
    let flags = [&EXT4[..], &["--setup", setup, "--check", check, "--mkfs-options", "-b 4096"]].concat();
    let (report, causes) = causes(&trial, &flags, &script);
    assert_eq!((causes.len(), causes[0].0.as_str()), (1, "unordered"), "{report:#}");
    assert!(words(&causes[0].1).contains("order within a commit: no fsync came after `write` by dd"), "{report:#}");
}

/// The program did what it could: the fsync is among its calls.
#[test]
fn the_fault_of_f2fs_is_named_where_it_is_met() {
    let Some(trial) = Trial::new("f2fs") else { return };
    let flags = ["--fs", "f2fs", "--size", "128MiB", "--states", "60"];
    let script = "echo one > a; sync a; echo a > $PLUMB_ACKNOWLEDGE; echo two > b; sync b; echo b > $PLUMB_ACKNOWLEDGE";
    let check = "while read i; do [ -s $i ] || { echo $i is gone; exit 1; }; done < $PLUMB_ACKNOWLEDGED";
    // By what fsync promised, and by a check alone: the reason is the same.
    for extra in [&["--no-fsck"][..], &["--check", check]] {
        let (report, causes) = causes(&trial, &[&flags[..], extra, &["--fresh"]].concat(), script);
        for (kind, cause) in causes {
            assert_eq!(kind, "file-system", "{report:#}");
            assert!(
                cause["known"].as_str().is_some_and(|known| known.starts_with("F2FS: the first fsync")),
                "{report:#}"
            );
        }
    }
}

#[test]
fn btrfs_and_a_file_that_was_synchronised_without_a_name() {
    let Some(trial) = Trial::new("btrfs") else { return };
    if !has("xfs_io") {
        return;
    }
    let flags = ["--fs", "btrfs", "--size", "256MiB", "--states", "40"];
    let script =
        "xfs_io -T -c 'pwrite -q 0 4096' -c fsync -c 'flink f' .; sync .; echo f > $PLUMB_ACKNOWLEDGE; sleep 1";
    let check = "read i < $PLUMB_ACKNOWLEDGED || exit 0; [ -s $i ] || { echo $i is empty; exit 1; }";
    let (report, causes) = causes(&trial, &[&flags[..], &["--check", check]].concat(), script);
    for (kind, cause) in causes {
        assert_eq!(kind, "file-system", "{report:#}");
        assert!(
            cause["known"].as_str().is_some_and(|known| known.starts_with("Btrfs: fsync of a file without")),
            "{report:#}"
        );
    }
}

#[test]
fn what_sqlite_does_not_synchronise_is_named() {
    let Some(trial) = Trial::new("ext4") else { return };
    if !has("sqlite3") {
        return;
    }
    let setup = "sqlite3 db 'create table t(i integer primary key, v text)'";
    let script = "for i in 1 2 3; do sqlite3 db \"pragma synchronous=full; insert into t values($i, 'x')\"; \
                  echo \"select count(*) from t where i = $i\" > $PLUMB_ACKNOWLEDGE; done";
    let flags = [&EXT4[..], &["--setup", setup, "--check-as", "sqlite:db"]].concat();
    let (report, causes) = causes(&trial, &flags, script);
    for (kind, cause) in causes {
        assert_eq!(kind, "missing-sync", "{report:#}");
        assert!(words(&cause).contains("that db-journal is gone (`unlink` by sqlite3"), "{report:#}");
    }
}
