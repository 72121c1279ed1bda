//! A trial of `plumb crash` as a person meets it: verdicts are of the program and the check as they are now, a check that says
//! nothing of power cuts is refused, and what is named from where the person stands is found.
#![allow(clippy::unwrap_used)]

mod crash_rig;
mod linux_rig;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crash_rig::{Trial, bad};
use linux_rig::PLUMB;

/// Runs `plumb crash` in the trial's folder, with this command.
fn run(trial: &Trial, flags: &[&str], words: &[&str]) -> Output {
    let mut command = Command::new(PLUMB);
    command.arg("crash").args(["--fs", "ext4", "--json", "--no-fsck"]).args(flags);
    if !flags.contains(&"--size") {
        command.args(["--size", "64MiB"]);
    }
    if !flags.contains(&"--states") {
        command.args(["--states", "12"]);
    }
    command.arg("--").args(words).env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).current_dir(&trial.folder);
    command.output().unwrap()
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn report(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

fn said(output: &Output) -> String {
    // Errors are broken into lines.
    String::from_utf8_lossy(&output.stderr).replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn write(folder: &Path, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Synchronises, or not, before it promises.
fn program(syncs: bool) -> String {
    let sync = if syncs { "sync log" } else { ":" };
    format!("#!/bin/sh\nfor i in 1 2; do echo entry $i >> log; {sync}; echo $i > $PLUMB_ACKNOWLEDGE; done\n")
}

const CHECK: &str = "#!/bin/sh
while read i; do grep -qx \"entry $i\" log || { echo entry $i is gone; exit 1; }; done < $PLUMB_ACKNOWLEDGED\n";

#[test]
fn verdicts_are_of_the_program_and_the_check_as_they_are_now() {
    let Some(trial) = Trial::new("ext4") else { return };
    let folder = &trial.folder;
    write(folder, "load.sh", &program(true));
    write(folder, "check.sh", CHECK);
    let go = |flags: &[&str]| run(&trial, &[&["--check", "./check.sh"], flags].concat(), &["./load.sh"]);
    let first = go(&[]);
    assert_eq!(status(&first), 0, "{first:?}");
    assert_eq!(report(&first)["acknowledgements"], 2);

    // The program: it is recorded again, and says so.
    write(folder, "load.sh", &program(false));
    let edited = go(&[]);
    assert_eq!(status(&edited), 1, "{edited:?}");
    assert!(said(&edited).contains("load.sh changed since the command was recorded"), "{edited:?}");
    let recorded = || std::fs::metadata(folder.join("plumb-crash/recorded.json")).unwrap().modified().unwrap();
    let before = recorded();

    // The check: the recording is judged again, and not made again.
    write(folder, "check.sh", "#!/bin/sh\nexit 0\n");
    let other = go(&[]);
    assert_eq!((status(&other), said(&other).as_str()), (0, ""), "{other:?}");
    assert_eq!(recorded(), before);

    // And so it is with another number of states, another check, and something to recover with.
    let more = go(&["--states", "16"]);
    assert_eq!(status(&more), 0, "{more:?}");
    assert!(report(&more)["states"].as_u64() > report(&other)["states"].as_u64(), "{more:?}");
    let another = run(&trial, &["--check", CHECK], &["./load.sh"]);
    assert_eq!(status(&another), 1, "{another:?}");
    let recovered =
        run(&trial, &["--recover", "echo entry 1 > log; echo entry 2 >> log", "--check", CHECK], &["./load.sh"]);
    assert_eq!(status(&recovered), 0, "{recovered:?}");
    assert_eq!(recorded(), before);
    // Each bad state can still be stood in, by the way it was judged.
    let state = bad(&report(&another))[0]["verdict"]["state"].as_str().unwrap().to_owned();
    let mut replay = Command::new(PLUMB);
    replay.args(["crash", "replay", "plumb-crash", &state, "--", "sh", "-c", CHECK]).current_dir(folder);
    assert_eq!(replay.output().unwrap().status.code(), Some(1));

    // Anew, although nothing changed.
    let fresh = run(&trial, &["--fresh", "--check", CHECK], &["./load.sh"]);
    assert_eq!(status(&fresh), 1);
    assert!(recorded() > before);
    let kept = std::fs::read_dir(folder.join("plumb-crash")).unwrap().flatten();
    let judged = kept.filter(|entry| entry.file_name().to_string_lossy().starts_with("judged-")).count();
    assert_eq!(judged, 1, "the verdicts of before are gone");
}

#[test]
fn a_check_that_fails_where_no_power_was_lost_is_no_verdict() {
    let Some(trial) = Trial::new("ext4") else { return };
    let folder = &trial.folder;
    write(folder, "load.sh", &program(true));
    let refused = |flags: &[&str], words: &str| {
        let output = run(&trial, &[flags, &["--fresh"]].concat(), &["./load.sh"]);
        assert_eq!(status(&output), 2, "{output:?}");
        assert!(said(&output).contains(words), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    };
    refused(&["--check", "echo never; exit 1"], "the check fails before the command ran");
    refused(&["--check", "[ ! -s log ]"], "the check fails after the command had ended");
    refused(&["--recover", "false"], "--recover fails before");
    refused(&["--check", "./absent.sh"], "ended with status 127");
    refused(&["--check", "echo > /tmp/x; /tmp/x"], "ended with status 126");
    // In a single state, too.
    refused(&["--check", "[ \"$(cat log 2> /dev/null | wc -l)\" != 1 ] || nowhere"], "ended with status 127");
    if linux_rig::has("sqlite3") {
        refused(&["--check-as", "sqlite:TYPO.db"], "there is no TYPO.db");
    }
}

#[test]
fn a_command_that_cannot_start_is_no_trial() {
    let Some(trial) = Trial::new("ext4") else { return };
    write(&trial.folder, "plain.txt", "no program");
    for words in [&["no-such-program"][..], &["./absent"], &["sh", "absent.sh"]] {
        let output = run(&trial, &["--fresh"], words);
        assert_eq!(status(&output), 2, "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn what_is_named_from_where_the_caller_stands_is_run_there() {
    let Some(trial) = Trial::new("ext4") else { return };
    let folder = &trial.folder;
    write(folder, "load.sh", &program(true));
    write(folder, "words.txt", "entry 1\n");
    std::fs::create_dir(folder.join("tools")).unwrap();
    write(folder, "tools/check.sh", CHECK);
    write(folder, "set-up.sh", "echo old > f; sync f\n");
    let flags = ["--setup", "sh set-up.sh", "--check", "[ \"$(cat f)\" = old ] && tools/check.sh"];
    for words in [&["./load.sh"][..], &["sh", "load.sh"], &["sh", "-c", "./load.sh"]] {
        let output = run(&trial, &[&flags[..], &["--fresh"]].concat(), words);
        assert_eq!((status(&output), said(&output).as_str()), (0, ""), "{words:?}: {output:?}");
        assert_eq!(report(&output)["acknowledgements"], 2);
    }
    // Data of the caller's, where the file system has nothing of that name.
    let output =
        run(&trial, &["--fresh", "--setup", "echo mine > own.txt; sync ."], &["cp", "words.txt", "own.txt", "/tmp"]);
    assert_eq!(status(&output), 0, "{output:?}");
    let output = run(&trial, &["--fresh"], &["cp", "own.txt", "/tmp"]);
    assert_eq!(status(&output), 2, "{output:?}");
    // A second trial in the same folder of a person's has a place of its own.
    let output = run(&trial, &["--seed", "2"], &["true"]);
    assert_eq!(status(&output), 0, "{output:?}");
    assert!(said(&output).contains("plumb-crash holds another trial; this one goes to plumb-crash-2"), "{output:?}");
}

#[test]
fn a_check_or_a_command_that_hangs_is_ended_and_is_no_verdict() {
    let Some(trial) = Trial::new("ext4") else { return };
    write(&trial.folder, "load.sh", &program(true));
    // It hangs in a state that only a power cut leaves.
    let hangs = "[ \"$(cat log 2> /dev/null | wc -l)\" != 1 ] || while :; do :; done";
    let output = run(&trial, &["--time-limit", "20", "--check", hangs], &["./load.sh"]);
    assert_eq!(status(&output), 3, "{output:?}");
    assert!(said(&output).contains("--time-limit"), "{output:?}");
    let output = run(&trial, &["--time-limit", "20", "--fresh"], &["sh", "-c", "while :; do :; done"]);
    assert_eq!(status(&output), 3, "{output:?}");
    assert!(said(&output).contains("not finished after 20 s"), "{output:?}");
}

/// Such a command pays for its system calls, so that its own time limit ends it.
#[test]
fn a_command_that_never_waits_has_a_clock_that_goes_on() {
    let Some(trial) = Trial::new("ext4") else { return };
    let script = "head -c 67108864 /dev/zero > f; sync f
        timeout 0.05 sh -c 'while :; do cat f; done' > /dev/null && exit 1
        echo done > g; sync g; echo done > $PLUMB_ACKNOWLEDGE";
    let check = "[ ! -s $PLUMB_ACKNOWLEDGED ] || grep -q done g";
    // Without a price the clock hardly moves.
    let flags = ["--size", "128MiB", "--time-limit", "200", "--check", check];
    let output = run(&trial, &flags, &["sh", "-c", script]);
    assert_eq!(status(&output), 0, "{output:?}");
    assert_eq!(report(&output)["acknowledgements"], 1);
}

#[test]
fn so_many_states_are_looked_at_as_were_asked_for() {
    let Some(trial) = Trial::new("ext4") else { return };
    let script = "for i in $(seq 20); do echo $i > f$i; sync f$i; done";
    let output = run(&trial, &["--states", "7"], &["sh", "-c", script]);
    assert_eq!((status(&output), report(&output)["states"].as_u64()), (0, Some(7)), "{output:?}");
}

#[test]
fn what_is_not_followed_is_said_first_and_is_not_good() {
    let Some(trial) = Trial::new("ext4") else { return };
    if !linux_rig::has("fio") {
        return;
    }
    let fio = "fio --name=j --rw=write --bs=4k --size=16k --ioengine=io_uring --direct=1 > /dev/null";
    let mut command = Command::new(PLUMB);
    command.args(["crash", "--fs", "ext4", "--size", "64MiB", "--states", "5", "--", "sh", "-c", fio]);
    let output = command.stdin(Stdio::null()).current_dir(&trial.folder).output().unwrap();
    assert_eq!(status(&output), 3, "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("files were not held against durability guarantees from the first io_uring"), "{text}");
}

/// Writes and synchronisations of Linux AIO are followed: what they promise is held against what is there.
#[test]
fn requests_of_linux_aio_are_promises() {
    let Some(trial) = Trial::new("ext4") else { return };
    if !linux_rig::has("fio") {
        return;
    }
    let fio =
        "fio --name=j --rw=randwrite --bs=4k --size=64k --ioengine=libaio --iodepth=4 --direct=1 --fsync=4 > /dev/null";
    let output = run(&trial, &["--states", "40"], &["sh", "-c", fio]);
    assert_eq!((status(&output), report(&output)["unfollowed"].as_array().unwrap().len()), (0, 0), "{output:?}");
    let calls = std::fs::read_to_string(trial.folder.join("plumb-crash/calls.jsonl")).unwrap();
    assert!(calls.contains("io_submit (pwrite)") || calls.contains("io_submit (pwritev)"), "{calls}");
    // A device that lies about flushes is found out by them.
    let output = run(&trial, &["--fresh", "--states", "40", "--survives", "lying-cache"], &["sh", "-c", fio]);
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(bad(&report(&output)).iter().any(|bad| bad["verdict"]["fault"]["by"] == "files"), "{output:?}");
}
