//! Results survive what interrupts them: signals, kills, full and read-only
//! disks, files cut short; and a resume does what is missing, and no more.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Ran, SWEEP, Scratch, assert_same_results, copy_folder, kept_runs};

/// Runs that are long enough for a signal to land in the middle of the sweep.
fn slow_sweep() -> String {
    SWEEP.replace("io_size=4m", "io_size=24m").replace("[1, 4, 16]", "[1, 2, 4, 8, 16, 32]")
}

/// Waits until `count` runs are kept, and sends `signal`; the exit status.
fn interrupt(scratch: &Scratch, out: &str, count: usize, signal: &str) -> Option<i32> {
    let mut child = scratch.command(&["run", "spec.toml", "--threads", "1", "--out", out]).spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(300);
    while kept_runs(&scratch.path(out)) < count && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    child.wait().unwrap().code()
}

#[test]
fn interrupted_at_any_moment_a_second_start_does_the_rest() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", slow_sweep());
    scratch.plumb(&["run", "spec.toml", "--threads", "2", "--out", "whole"]).ok();
    for (out, count, signal, status) in [
        ("int", 2, "-INT", Some(130)),
        ("kill0", 0, "-KILL", None),
        ("kill1", 1, "-KILL", None),
        ("kill7", 7, "-KILL", None),
    ] {
        assert_eq!(interrupt(&scratch, out, count, signal), status, "{out}");
        let done = kept_runs(&scratch.path(out));
        assert!((count..12).contains(&done), "{out}: {done} of 12 runs were done at the interruption");
        // Killed while it wrote a file.
        for begun in ["summary.json.partial-4194304", "fio/point0-repeat0.json.partial-4194304"] {
            std::fs::create_dir_all(scratch.path(out).join("fio")).unwrap();
            scratch.write(&format!("{out}/{begun}"), "half");
        }
        scratch.plumb(&["run", "spec.toml", "--threads", "2", "--out", out]).ok();
        assert_same_results(&scratch.path(out), &scratch.path("whole"));
    }
}

/// Every file below `folder`, relative to it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = common::results_bytes(folder).into_iter().map(|(name, _)| PathBuf::from(name)).collect();
    names.push(PathBuf::from("origin.json"));
    names
}

#[test]
fn every_file_cut_short_or_changed_is_made_again() {
    let scratch = Scratch::new();
    let sweep = SWEEP.replace("repeats = 2", "repeats = 1").replace("[1, 4, 16]", "[1, 4]");
    scratch.write("spec.toml", sweep.replace("io_size=4m", "io_size=1m"));
    scratch.plumb(&["run", "spec.toml", "--out", "whole"]).ok();
    let whole = scratch.path("whole");
    let (mut tried, mut noted) = (0, 0);
    for name in files_below(&whole) {
        // One of the many files of each run stands for the others.
        if name.starts_with("fio") && !name.ends_with("point0-repeat0.json") {
            continue;
        }
        let bytes = std::fs::read(whole.join(&name)).unwrap();
        let cuts = [0, 1, bytes.len() / 3, bytes.len() - 1].map(|cut| bytes[..cut].to_vec());
        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 0x55;
        for (case, damaged) in cuts.into_iter().chain([changed]).enumerate() {
            let _ = std::fs::remove_dir_all(scratch.path("damaged"));
            copy_folder(&whole, &scratch.path("damaged"));
            std::fs::write(scratch.path("damaged").join(&name), &damaged).unwrap();
            let ran = scratch.plumb(&["run", "spec.toml", "--out", "damaged"]);
            // Without its spec nobody knows whose results these are: refused, and nothing is lost.
            if (name.ends_with("spec.toml") || name.ends_with("origin.json")) && ran.status != Some(0) {
                ran.fails(2, &["--fresh"]);
                assert_eq!(kept_runs(&scratch.path("damaged")), 2);
                continue;
            }
            let ran = ran.ok();
            let said = ran.stderr.contains("cut short or damaged");
            assert_eq!(said, name.starts_with("runs") && !damaged.is_empty(), "{} {case}: {ran:?}", name.display());
            noted += usize::from(said);
            assert_same_results(&scratch.path("damaged"), &whole);
            tried += 1;
        }
    }
    assert!(tried >= 40 && noted == 4, "{tried} tried, {noted} said");
}

#[test]
fn a_resume_of_what_is_done_writes_nothing() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP);
    let first = scratch.plumb(&["run", "spec.toml", "--out", "out"]).ok();
    let state = || {
        let state = |name: PathBuf| {
            let file = std::fs::metadata(scratch.path("out").join(&name)).unwrap();
            (name, file.modified().unwrap(), file.len())
        };
        files_below(&scratch.path("out")).into_iter().map(state).collect::<Vec<_>>()
    };
    let before = state();
    let second = scratch.plumb(&["run", "spec.toml", "--out", "out"]).ok();
    assert_eq!(state(), before);
    assert_eq!(first.stdout, second.stdout);
    let json = scratch.plumb(&["run", "spec.toml", "--out", "out", "--json"]).ok().stdout;
    std::fs::remove_file(scratch.path("out/summary.json")).unwrap();
    assert_eq!(scratch.plumb(&["run", "spec.toml", "--out", "out", "--json"]).ok().stdout, json);
    assert_eq!(scratch.plumb(&["report", "out", "--json"]).ok().stdout, json);
}

#[test]
fn the_disk_is_not_asked_for_each_run() {
    let scratch = Scratch::new();
    let depths = (1..=60).map(|depth| depth.to_string()).collect::<Vec<_>>().join(", ");
    let sweep = SWEEP.replace("[1, 4, 16]", &format!("[{depths}]")).replace("repeats = 2", "repeats = 1");
    scratch.write("spec.toml", sweep.replace("io_size=4m", "io_size=64k"));
    let begun = Instant::now();
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range", "-o", "syncs"])
        .arg(env!("CARGO_BIN_EXE_plumb"))
        .args(["run", "spec.toml", "--out", "out"])
        .current_dir(scratch.path("."))
        .output();
    let Ok(output) = output else {
        println!("skipped: there is no strace here");
        return;
    };
    if !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("ptrace") {
        println!("skipped: strace may not trace here");
        return;
    }
    Ran::of(output).ok();
    let said = std::fs::read_to_string(scratch.path("syncs")).unwrap();
    // A call that another thread interrupts has a second line.
    let syncs = said.lines().filter(|line| line.contains("sync(")).count();
    // One a second, and one for each table and page.
    let fair = 25 + begun.elapsed().as_secs() as usize;
    assert!((5..=fair).contains(&syncs), "{syncs} for 60 runs");
}

#[test]
fn a_folder_with_a_file_for_each_run_goes_on() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP);
    scratch.plumb(&["run", "spec.toml", "--out", "whole"]).ok();
    scratch.plumb(&["run", "spec.toml", "--out", "old"]).ok();
    // As Plumb once kept runs.
    let runs = scratch.path("old/runs");
    let store = lab::results::Store::open(&scratch.path("old")).unwrap();
    let table = std::fs::read_to_string(scratch.path("old/runs.csv")).unwrap();
    let column = |line: &str, at: usize| line.split(',').nth(at).unwrap().to_owned();
    let keys: std::collections::BTreeSet<_> = table.lines().skip(1).map(|line| column(line, 1)).collect();
    assert_eq!(keys.len(), 6);
    for (index, key) in keys.iter().enumerate() {
        let text = serde_json::to_vec(&store.get(key).unwrap().unwrap()).unwrap();
        // One of them is missing, one cut short.
        let text = if index == 1 { &text[..text.len() / 2] } else { &text[..] };
        if index > 0 {
            std::fs::write(runs.join(format!("{key}.json")), text).unwrap();
        }
    }
    std::fs::remove_file(runs.join("all.records")).unwrap();
    let ran = scratch.plumb(&["run", "spec.toml", "--out", "old"]).ok();
    assert!(ran.stderr.contains("cut short or damaged"), "{ran:?}");
    assert_same_results(&scratch.path("old"), &scratch.path("whole"));
}

/// Runs a script as root of its own mounts; `None` where that cannot be.
fn in_own_mounts(scratch: &Scratch, script: &str) -> Option<Ran> {
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .env("PLUMB", env!("CARGO_BIN_EXE_plumb"))
        .env("NO_COLOR", "1")
        .current_dir(scratch.path("."))
        .output();
    match output {
        Ok(output) if output.status.code() != Some(77) => Some(Ran::of(output)),
        _ => {
            println!("skipped: nothing can be mounted in a namespace of its own here");
            None
        }
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_kept() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", slow_sweep());
    std::fs::create_dir(scratch.path("small")).unwrap();
    // Full while runs are kept; while they are put into one file, and the tables written.
    for size in ["40k", "88k", "160k"] {
        let script = format!(
            "mount -t tmpfs -o size={size} plumb small || exit 77\n\
             \"$PLUMB\" run spec.toml --threads 1 --out small/results\nstatus=$?\n\
             find small -name '*partial*'\n\
             mount -o remount,size=64m small\nrm -rf again && cp -r small/results again\n\
             \"$PLUMB\" run spec.toml --quiet --out small/results >/dev/null && rm -rf out && cp -r small/results out\n\
             exit $status"
        );
        let Some(ran) = in_own_mounts(&scratch, &script) else { return };
        let ran = ran.fails(1, &["cannot write", "small/results", "free some space"]);
        assert!(!ran.stdout.contains("partial"), "partial files were left behind: {ran:?}");
        assert!(!ran.stderr.contains("cut short"), "half a run was kept: {ran:?}");
        let kept = kept_runs(&scratch.path("again"));
        assert!(kept > 0, "{size}: nothing was kept");
        scratch.plumb(&["run", "spec.toml", "--out", "whole"]).ok();
        assert_same_results(&scratch.path("out"), &scratch.path("whole"));
    }
}

#[test]
fn a_read_only_folder_is_named() {
    let scratch = Scratch::new();
    scratch.write("spec.toml", SWEEP);
    let script = "mkdir ro && mount -t tmpfs plumb ro || exit 77\n\"$PLUMB\" run spec.toml --shard 1/2 --out ro/results || exit 3\n\
                  mount -o remount,ro ro\n\"$PLUMB\" run spec.toml --out ro/results";
    let Some(ran) = in_own_mounts(&scratch, script) else { return };
    ran.fails(1, &["cannot write", "ro/results", "another folder with --out"]);
}
