//! Plumb's own file system beside the kernel's, under a real kernel in virtual time: served by a process in the guest, measured and
//! cut as they are.
#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use crash_rig::{Trial, bad};
use linux::{Charges, Ended, FileSystem, Linux, Outcome};
use linux_rig::{has, is_long, kernel, on};

fn run(charge: bool, script: &str) -> Option<Outcome> {
    run_on(None, charge, script)
}

/// On the device, or in a file of another file system.
fn run_on(lower: Option<FileSystem>, charge: bool, script: &str) -> Option<Outcome> {
    let kernel = kernel()?;
    let mut run: Linux = on("samsung-980pro-1tb");
    (run.file_system, run.image_on) = (FileSystem::Betrfs, lower);
    run.charge = charge.then(Charges::floor);
    let outcome = run.script(script).run(&kernel).unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.ended, Ended::Exited(0), "{said}\n{}", outcome.log);
    Some(outcome)
}

/// Another mount reads from the device; names, links, holes and attributes are there, too.
#[test]
fn what_was_written_is_there_after_another_mount() {
    let script = r#"
        seq 1 20000 > file1; seq 1 20000 | sha256sum > /dev/shm/expected
        dd if=file1 of=direct bs=64k oflag=dsync 2>/dev/null
        mkdir -p a/b/c; ln file1 a/b/c/link; mv direct a/moved; truncate -s 1G sparse; chmod 640 sparse
        source=$(findmnt -n -o SOURCE "$PLUMB_MOUNT"); kind=$(findmnt -n -o FSTYPE "$PLUMB_MOUNT")
        cd / && umount "$PLUMB_MOUNT" && mount -t $kind $source "$PLUMB_MOUNT" > /dev/null && cd "$PLUMB_MOUNT"
        for file in file1 a/moved a/b/c/link; do sha256sum < $file | cmp - /dev/shm/expected; done
        stat -c '%n %h %a %s' file1 sparse
        echo $kind"#;
    for lower in [None, Some(FileSystem::Ext4)] {
        let Some(outcome) = run_on(lower, false, script) else { return };
        assert_eq!(outcome.text(), "file1 2 644 108894\nsparse 1 640 1073741824\nfuse.plumb\n", "{lower:?}");
        assert!(outcome.device.unwrap().is_object());
    }
}

/// The same again is the same to the nanosecond, and who charges for processor time charges the server, too.
#[test]
fn time_is_repeatable_and_charged() {
    let script = "for i in 1 2 3 4; do dd if=/dev/zero of=f$i bs=4k count=8 conv=fsync 2>/dev/null; done; rm f1";
    let times = [false, false, true].map(|charge| run(charge, script).map(|outcome| outcome.virtual_time()));
    let [Some(free), Some(again), Some(charged)] = times else { return };
    assert_eq!(free, again);
    println!("free {free}, charged {charged}");
    assert!(charged > free);
}

/// States that were looked at, and the report.
fn cut(flags: &[&str], script: &str) -> Option<(u64, serde_json::Value)> {
    let trial = Trial::new("betrfs")?;
    let (status, report) = trial.run(&[&["--fs", "betrfs", "--size", "64MiB"], flags].concat(), script);
    assert_eq!(status, i32::from(!bad(&report).is_empty()), "{report:#}");
    let looked_at = report["states"].as_u64().unwrap();
    println!("{flags:?}: {looked_at} states, {} bad, {} acknowledged", bad(&report).len(), report["acknowledgements"]);
    Some((looked_at, report))
}

fn states() -> &'static str {
    if is_long() { "5000" } else { "10" }
}

const SQLITE_SETUP: &str = "sqlite3 db 'create table t(i integer primary key, v text)'";

fn sqlite() -> String {
    let insert = |number: usize| {
        format!(
            "insert into t values({number}, hex(randomblob(300)));\n\
             .shell echo 'select count(*) from t where i = {number}' > $PLUMB_ACKNOWLEDGE\n"
        )
    };
    let inserts: String = (0..5).map(insert).collect();
    format!("sqlite3 -batch db > /dev/null <<'END'\npragma synchronous=extra;\n{inserts}END\n")
}

#[test]
fn sqlite_keeps_what_it_acknowledged() {
    if !has("sqlite3") {
        return;
    }
    let flags = ["--states", states(), "--check-as", "sqlite:db", "--setup", SQLITE_SETUP];
    let Some((looked_at, report)) = cut(&flags, &sqlite()) else { return };
    assert!(bad(&report).is_empty() && looked_at > 2, "{report:#}");
}

/// Where no flush goes to the device, an fsync is no promise: its cache loses what was acknowledged.
#[test]
fn an_fsync_without_a_flush_is_caught() {
    if !has("sqlite3") {
        return;
    }
    // Each bad state is made small, which looks at tens of others: so they are few.
    let flags = ["--states", "4", "--mount-options", "nobarrier", "--check-as", "sqlite:db", "--setup", SQLITE_SETUP];
    let Some((_, report)) = cut(&flags, &sqlite()) else { return };
    let says = |bad: &serde_json::Value| bad["verdict"]["fault"]["what"].as_str().unwrap().to_owned();
    let words: Vec<String> = bad(&report).iter().map(says).collect();
    assert!(!words.is_empty(), "{report:#}");
    println!("{}", words[0]);
}

#[test]
fn git_commits_survive_whole() {
    if !is_long() {
        println!("skipped: slow; PLUMB_LONG=1 runs it");
        return;
    }
    if !has("git") {
        return;
    }
    let setup = "git init -q repository; cd repository; git config user.name n; git config user.email e
        git config gc.auto 0; git config core.fsync all; echo 0 > f; git add f; git commit -qm 0";
    let script = "cd repository; for i in 1 2 3; do echo $i > f; echo $i > g$i; git add .; git commit -qm $i; done";
    let Some((looked_at, report)) =
        cut(&["--states", states(), "--check-as", "git:repository", "--setup", setup], script)
    else {
        return;
    };
    assert!(bad(&report).is_empty() && looked_at > 2, "{report:#}");
}
