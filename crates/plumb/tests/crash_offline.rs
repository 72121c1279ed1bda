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
    // The kernel is asked about some of them, says the same, and knows the cause.
    assert!(report["brought"].as_u64() > Some(3), "{report}");
    let shown = report["offline"]["shown"].as_array().unwrap();
    let first = shown.iter().filter(|bad| bad["by"] == "files" && bad["smallest"].is_array());
    let first = first.min_by_key(|bad| bad["entries"].as_u64()).unwrap();
    let state = first["state"].as_str().unwrap();
    let mounted = crash_rig::bad(&report).iter().find(|bad| bad["verdict"]["state"] == state).unwrap();
    assert_eq!(mounted["verdict"]["fault"]["by"], "files", "{mounted:#}");
    assert!(
        report["causes"].as_array().unwrap().iter().any(|cause| cause["kind"] == "lying-device"),
        "{:#}",
        report["causes"]
    );
    let seen = trial.replay(state, "mountpoint -q .");
    assert_eq!(seen.status.code(), Some(0), "{seen:?}");
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

/// SQLite as its documentation has it: the last transaction may be rolled back.
const INSERTS: &str = "for i in 1 2; do
        sqlite3 db \"pragma synchronous=full; insert into t values($i, hex(randomblob(500)))\"
        echo \"select count(*) from t where i = $i\" > $PLUMB_ACKNOWLEDGE
    done";
const SQLITE: [&str; 7] = ["--fs", "ext4", "--size", "32MiB", "--no-fsck", "--setup", TABLE];
const TABLE: &str = "sqlite3 db 'create table t(i integer primary key, v text)'";

/// Every subset of what is undecided, by the kernel's mount and without a kernel: the check must say the same of as many states.
#[test]
fn a_check_says_the_same_of_files_that_no_kernel_mounts() {
    let Some(trial) = Trial::new("ext4").filter(|_| linux_rig::has("sqlite3")) else { return };
    let all = ["--exhaustive", "8", "--offline-states", "1000000", "--offline-check", "--check-as", "sqlite:db"];
    let (status, report) = trial.run(&[&SQLITE[..], &all].concat(), INSERTS);
    let counts = &report["offline"]["counts"];
    println!("{counts}");
    let bad = crash_rig::bad(&report).len() as u64;
    assert_eq!(
        (status, counts["unread"].as_u64(), counts["distinct"].as_u64()),
        (1, Some(0), report["states"].as_u64())
    );
    assert!(bad > 0 && counts["bad"].as_u64() == Some(bad), "{bad} under the kernel, {counts}");
    // What reads the same is looked at once.
    assert!(counts["scripted"].as_u64() < counts["distinct"].as_u64(), "{counts}");
    let shown = &report["offline"]["shown"][0];
    assert!(shown["by"] == "check" && shown["what"].as_str().unwrap().contains("not so any more"), "{shown}");
}

/// What a script of this kind says of states without a kernel, with these words of the command line besides.
fn asked(script: &str, flags: &[&str], command: &str) -> Option<(Option<i32>, String)> {
    let trial = Trial::new("ext4")?;
    let common = ["--fs", "ext4", "--size", "16MiB", "--mkfs-options", "-b 4096", "--states", "1"];
    let offline = ["--offline-states", "20", "--offline-check", "--check", script];
    let output = trial.command(&[&common[..], &offline, flags].concat(), command).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
}

/// What is to be the same of some files wherever they are looked at.
const LOOK: &str =
    "{ stat -c '%n %s %Y' d/a h; stat -c '%n %f %u:%g %h' d d/a d/b c h; readlink c; tail -c 2 h; sha256sum < h; }";

#[test]
fn files_have_their_owners_times_links_and_holes_without_a_kernel() {
    let command = format!(
        "mkdir d; echo a > d/a; ln d/a d/b; ln -s d/a c; truncate -s 100000 h; echo e >> h
         touch -d @1234567890.5 d/a; chown 65534:7 d; chown 3:4 h; chmod 4750 h; chmod 700 d
         {LOOK} > saved; sync; echo it > $PLUMB_ACKNOWLEDGE; echo x > f"
    );
    let script = format!(
        "[ -s $PLUMB_ACKNOWLEDGED ] || exit 0
         {LOOK} | diff saved - && [ $(cat $PLUMB_ACKNOWLEDGED) = it ] && [ $(stat -c %b h) -lt 100 ]"
    );
    let Some((status, said)) = asked(&script, &[], &command) else { return };
    assert_eq!(status, Some(0), "{said}");
}

/// There is no device where no kernel mounts a state.
#[test]
fn what_scripts_do_to_a_state_is_gone_in_the_next() {
    let script = "[ -z \"$PLUMB_DEVICE\" ] || exit 0
        [ $PWD = $PLUMB_MOUNT ] && [ -d $TMPDIR ] && [ ! -e $TMPDIR/more ] || exit 1
        [ \"$(cat f 2> /dev/null)\" != gone ] && [ ! -e more ] && [ -d d ] && [ \"$(stat -c %a d/kept)\" = 640 ] || exit 1
        sleep 1000 & echo gone > f; touch more d/more $TMPDIR/more; chmod 777 d/kept; rm -rf g; mv d e; ln -s e d";
    let setup = ["--setup", "mkdir d; echo > d/kept; chmod 640 d/kept"];
    let Some((status, said)) = asked(script, &setup, "echo > f; sync; echo > g; sync") else { return };
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn what_scripts_cannot_say_is_no_verdict() {
    let without_a_kernel = |then: &str| format!("[ -n \"$PLUMB_DEVICE\" ] || {then}");
    let Some((status, said)) = asked(&without_a_kernel("sleep 600"), &["--time-limit", "20"], "echo > f") else {
        return;
    };
    assert!(status == Some(3) && said.contains("was not over after 20 s"), "{said}");
    let (status, said) = asked(&without_a_kernel("absent-program"), &[], "echo > f").unwrap();
    assert!(status == Some(2) && said.contains("status 127"), "{said}");
    let (status, said) = asked(&without_a_kernel("false"), &[], "echo > f").unwrap();
    assert!(status == Some(2) && said.contains("where no power was lost"), "{said}");
    let (status, said) = asked("true", &[], "mkfifo pipe; sync; echo > f; sync").unwrap();
    assert!(status == Some(3) && said.contains("is a device, a FIFO or a socket"), "{said}");
    let trial = Trial::new("ext4").unwrap();
    let output = trial.command(&["--offline-states", "9", "--offline-check"], "echo > f").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("there is nothing to run"), "{said}");
}
