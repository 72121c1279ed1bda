//! Whole runs on real file systems: what is written, what is reported, and going on after a kill.
//!
//! A quick run kills three times on each file system; `PLUMB_LONG=1` a hundred times, and `PLUMB_KILLS` says another
//! number.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use defrag::extents::ExtentMap;
use defrag::migrate::Stop;
use defrag::plan::{FileFacts, FilePlan, Mode, Move};
use defrag::run::{Cancel, FileOutcome, Journal, Limits, Origin, Report, RunOptions, carry_out};
use defrag::{ByteRange, FileId};
use disk::guest::with_f2fs;
use disk::{Dice, Disk, Seen, System, map_of, ran, seen, skipped};

const WINDOW: u64 = 64 << 10;
const PIECE: u64 = 8 << 10;

/// A plan that moves every other window of a file.
fn plan_of(path: &Path) -> FilePlan {
    let status = fs::metadata(path).unwrap();
    let map = map_of(path);
    let windows = (0..status.len()).step_by(2 * WINDOW as usize);
    let moves: Vec<Move> = windows
        .map(|start| {
            let range = ByteRange { start, end: (start + WINDOW).min(status.len()) };
            let pieces = map.piece_count(range);
            Move { range, bytes: range.len(), pieces: pieces as u32, requests_before: pieces, requests_after: 1 }
        })
        .filter(|window| window.pieces > 1)
        .collect();
    let file = FileFacts {
        path: path.to_owned(),
        id: FileId { device: status.dev(), inode: status.ino(), generation: None },
        size_bytes: status.len(),
        block_bytes: 4096,
    };
    let requests_before = moves.iter().map(|window| window.requests_before).sum();
    FilePlan::of_moves(file, map.piece_count(map.whole()), requests_before, moves)
}

/// What a journal's plan was made from; these tests make it themselves.
fn origin() -> Origin {
    Origin {
        paths: Vec::new(),
        trace: None,
        mode: Mode::Whole,
        hotness_percent: 100,
        readahead_bytes: 128 << 10,
        shared: false,
        open_files: false,
    }
}

fn run(files: &[FilePlan], limits: Limits, journal: Option<&mut Journal>) -> Report {
    let options = RunOptions { limits, ..RunOptions::default() };
    carry_out(files, &options, journal, &Cancel::default(), &mut |_| ()).unwrap()
}

/// What is selected is whole, and what is not lies where it lay.
fn check_layout(plan: &FilePlan, before: &ExtentMap) {
    let after = map_of(&plan.file.path);
    let mut at = 0;
    for window in &plan.moves {
        assert_eq!(after.piece_count(window.range), 1, "{}", window.range);
        let outside = ByteRange { start: at, end: window.range.start };
        assert!(after.pieces(outside).eq(before.pieces(outside)), "{outside} was moved");
        at = window.range.end;
    }
}

fn writes_what_it_says(system: System) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::new(system);
    let names = ["first", "second", "third"];
    let paths: Vec<PathBuf> =
        (0..).zip(names).map(|(seed, name)| disk.fragmented(name, seed, 4 << 20, PIECE)).collect();
    let plans: Vec<FilePlan> = paths.iter().map(|path| plan_of(path)).collect();
    let before: Vec<(Seen, ExtentMap)> = paths.iter().map(|path| (seen(path), map_of(path))).collect();
    let selected: u64 = plans.iter().map(FilePlan::bytes).sum();
    assert_eq!(selected, 6 << 20);

    // A budget that ends within the second file.
    let limits = Limits { budget_bytes: Some(3 << 20), idle: true, ..Limits::default() };
    let journal_path = disk.image().with_extension("journal");
    let mut journal = Journal::create(&journal_path, &origin(), &plans).unwrap();
    let written = disk.written_bytes();
    let report = run(&plans, limits, Some(&mut journal));
    assert_eq!((report.stopped, report.written_bytes()), (Some(Stop::Budget), 3 << 20));
    assert_eq!(report.files[0].outcome, FileOutcome::Done);
    assert_eq!(report.files[1].outcome, FileOutcome::Unfinished);
    assert!(!report.is_complete());
    drop(journal);

    // The rest.
    let (mut journal, plans) = Journal::resume(&journal_path).unwrap();
    let report = run(&plans, Limits::default(), Some(&mut journal));
    assert!(report.is_complete() && report.files.iter().all(|file| file.outcome == FileOutcome::Done));
    assert_eq!((report.ranges_moved(), report.written_bytes()), (96, selected), "with the first run's\n{report}");
    assert_eq!(report.before(), (48, 3 << 20), "the first run's alone\n{report}");
    assert_eq!((report.pieces(), report.requests()), ((96 * 8, 96), (96 * 8, 96)));
    let written = disk.written_bytes() - written;
    println!("{system:?}: {selected} bytes selected, {written} written");
    assert!(written <= selected * 11 / 10 + (4 << 20), "{written} bytes were written for {selected}");
    for ((plan, path), (seen_before, map_before)) in plans.iter().zip(&paths).zip(&before) {
        check_layout(plan, map_before);
        assert_eq!(&seen(path), seen_before);
    }

    // Nothing is left to do.
    let written = disk.written_bytes();
    let report = run(&plans, Limits::default(), None);
    assert_eq!((report.written_bytes(), report.is_complete()), (0, true));
    assert_eq!(disk.written_bytes(), written, "a second run wrote");
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    disk.check();
}

#[test]
fn ext4_writes_what_it_says() {
    writes_what_it_says(System::Ext4);
}

#[test]
fn xfs_writes_what_it_says() {
    writes_what_it_says(System::Xfs);
}

#[test]
fn btrfs_writes_what_it_says() {
    writes_what_it_says(System::Btrfs);
}

#[test]
fn f2fs_writes_what_it_says() {
    with_f2fs("f2fs_writes_what_it_says", || writes_what_it_says(System::F2fs));
}

#[test]
fn a_file_that_is_refused_does_not_end_the_run() {
    if skipped(System::Ext4) {
        return;
    }
    let disk = Disk::new(System::Ext4);
    let paths = [disk.fragmented("immutable", 1, 1 << 20, PIECE), disk.fragmented("good", 2, 1 << 20, PIECE)];
    let plans: Vec<FilePlan> = paths.iter().map(|path| plan_of(path)).collect();
    ran(Command::new("chattr").arg("+i").arg(&paths[0]));
    let before = map_of(&paths[0]);
    let report = run(&plans, Limits::default(), None);
    ran(Command::new("chattr").arg("-i").arg(&paths[0]));
    assert_eq!(report.files[0].outcome, FileOutcome::Refused("immutable; `chattr -i` first".to_owned()));
    assert_eq!((&report.files[1].outcome, report.files[1].ranges_moved), (&FileOutcome::Done, 8));
    assert_eq!(map_of(&paths[0]), before);
    assert!(report.to_string().contains("immutable: immutable; `chattr -i` first"), "{report}");
    // A file that is gone is no reason to fail either.
    fs::remove_file(&paths[0]).unwrap();
    assert!(matches!(run(&plans, Limits::default(), None).files[0].outcome, FileOutcome::Refused(_)));
}

#[test]
fn xfs_files_marked_as_not_to_be_defragmented_stay() {
    if skipped(System::Xfs) || Command::new("xfs_io").arg("-V").output().is_err() {
        return println!("skipped: no XFS, or no xfs_io");
    }
    let disk = Disk::new(System::Xfs);
    let path = disk.fragmented("marked", 1, 1 << 20, PIECE);
    let (plan, before) = (plan_of(&path), map_of(&path));
    ran(Command::new("xfs_io").args(["-r", "-c", "chattr +f"]).arg(&path));
    let report = run(std::slice::from_ref(&plan), Limits::default(), None);
    assert!(matches!(&report.files[0].outcome, FileOutcome::Refused(why) if why.contains("chattr -f")), "{report}");
    assert_eq!(map_of(&path), before);
    ran(Command::new("xfs_io").args(["-r", "-c", "chattr -f"]).arg(&path));
    assert_eq!(run(&[plan], Limits::default(), None).files[0].outcome, FileOutcome::Done);
}

#[test]
fn a_cancelled_run_begins_nothing() {
    if skipped(System::Ext4) {
        return;
    }
    let disk = Disk::new(System::Ext4);
    let path = disk.fragmented("file", 1, 1 << 20, PIECE);
    let before = map_of(&path);
    let cancel = Cancel::default();
    cancel.cancel();
    let report = carry_out(&[plan_of(&path)], &RunOptions::default(), None, &cancel, &mut |_| ()).unwrap();
    assert_eq!((report.stopped, report.written_bytes()), (Some(Stop::Cancelled), 0));
    // And one that is cancelled after its second range ends there.
    let (cancel, mut ranges) = (Cancel::default(), 0);
    let mut progress = |event: &defrag::run::Event<'_>| {
        if matches!(event, defrag::run::Event::Range { .. }) {
            ranges += 1;
            if ranges == 2 {
                cancel.cancel();
            }
        }
    };
    assert_eq!(map_of(&path), before);
    let report = carry_out(&[plan_of(&path)], &RunOptions::default(), None, &cancel, &mut progress).unwrap();
    assert_eq!((report.stopped, report.ranges_moved()), (Some(Stop::Cancelled), 2));
}

/// No more is written in the time that a run took than the rate allows, as the device counts it.
fn keeps_to_the_rate(system: System) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::new(system);
    let path = disk.fragmented("file", 1, 8 << 20, PIECE);
    let plan = plan_of(&path);
    let rate = 16 << 20;
    let limits = Limits { rate_bytes_per_s: Some(rate), ..Limits::default() };
    let (written, begun) = (disk.written_bytes(), Instant::now());
    let report = run(std::slice::from_ref(&plan), limits, None);
    let written = disk.written_bytes() - written;
    let allowed = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
    println!("{system:?}: {written} bytes written in {} windows, {allowed} allowed by then", plan.moves.len());
    assert!(report.is_complete() && report.written_bytes() == 4 << 20, "{report}");
    // Beside the data: the last window, and the file system's own, which the rate does not count: for each window a
    // journal commit on ext4, trees on Btrfs (18 KiB as a rule), a checkpoint on F2FS; next to nothing on XFS.
    let own = plan.moves.len() as u64 * (64 << 10);
    assert!(written <= allowed + WINDOW + own, "{written} bytes, {allowed} allowed");
    assert!(report.seconds >= ((4 << 20) - WINDOW) as f64 / rate as f64, "{} s", report.seconds);
    disk.check();
}

#[test]
fn ext4_keeps_to_the_rate() {
    keeps_to_the_rate(System::Ext4);
}

#[test]
fn xfs_keeps_to_the_rate() {
    keeps_to_the_rate(System::Xfs);
}

#[test]
fn btrfs_keeps_to_the_rate() {
    keeps_to_the_rate(System::Btrfs);
}

#[test]
fn f2fs_keeps_to_the_rate() {
    with_f2fs("f2fs_keeps_to_the_rate", || keeps_to_the_rate(System::F2fs));
}

/// With less pressure than any allowed, nothing is begun; where the kernel does not tell, the report says that.
#[test]
fn pressure_ends_a_run() {
    if skipped(System::Ext4) {
        return;
    }
    let disk = Disk::new(System::Ext4);
    let path = disk.fragmented("file", 1, 1 << 20, PIECE);
    let before = map_of(&path);
    let limits = Limits { until_psi_percent: Some(-1.0), ..Limits::default() };
    let report = run(&[plan_of(&path)], limits, None);
    if defrag::run::io_pressure_percent().is_some() {
        assert_eq!((report.stopped, report.written_bytes()), (Some(Stop::Pressure), 0));
        assert_eq!(map_of(&path), before);
    } else {
        assert!(report.to_string().contains("--until-psi has no effect"), "{report}");
        assert!(report.is_complete());
    }
}

const CARRY: &str = "PLUMB_DEFRAG_CARRY";
/// Bytes in a second of the process that is killed; none for at once.
const CARRY_RATE: &str = "PLUMB_DEFRAG_CARRY_RATE";

/// Not a test by itself: the process that is killed.
#[test]
fn carrier() {
    let Some(journal) = std::env::var_os(CARRY) else { return };
    let (mut journal, plans) = Journal::resume(journal.as_ref()).unwrap();
    // Slow enough to be met in the middle.
    let rate = std::env::var(CARRY_RATE).map_or(Some(2 << 20), |rate| rate.parse().ok());
    let limits = Limits { rate_bytes_per_s: rate, ..Limits::default() };
    run(&plans, limits, Some(&mut journal));
}

fn number_of_kills() -> u64 {
    let asked = std::env::var("PLUMB_KILLS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if std::env::var_os("PLUMB_LONG").is_some() { 100 } else { 3 })
}

/// Files that are moved, killed and resumed beside each other in a long run.
const LANES: u64 = 4;

/// Killed at a random moment, twice, then resumed: the layout of a run that nobody disturbed, and nothing else.
fn survives_kills(system: System) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::in_memory(system);
    let (kills, begun) = (number_of_kills(), Instant::now());
    // Files of F2FS that are moved at the same time share its log, and with it their places.
    let lanes = if kills > 2 * LANES && system != System::F2fs { LANES } else { 1 };
    let parts: Vec<(u64, u64)> = thread::scope(|scope| {
        let start = |lane| {
            let disk = &disk;
            scope.spawn(move || {
                let mut dice = Dice(system as u64 + 77 + 1000 * lane);
                let files = (lane..kills).step_by(lanes as usize);
                files
                    .map(|number| killed_and_resumed(disk, number, &mut dice))
                    .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
            })
        };
        let threads: Vec<_> = (0..lanes).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (killed, within) = parts.into_iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    println!(
        "{system:?}: {killed} processes killed, {within} of {kills} files in the middle of their plan, {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    assert!(killed > 0);
    disk.check();
}

/// One file; how many processes were killed, and whether in the middle of the plan.
fn killed_and_resumed(disk: &Disk, number: u64, dice: &mut Dice) -> (u64, u64) {
    let path = disk.fragmented(&format!("file-{number}"), number, (2 << 20) - 99, PIECE);
    let (before, map, plan) = (seen(&path), map_of(&path), plan_of(&path));
    let journal_path = disk.image().with_extension(format!("journal-{number}"));
    drop(Journal::create(&journal_path, &origin(), std::slice::from_ref(&plan)).unwrap());
    let mut killed = 0;
    for _ in 0..2 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["carrier", "--exact", "--nocapture"])
            .env(CARRY, &journal_path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(dice.below(450)));
        killed += u64::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen(&path), before, "after kill {number}");
    }
    let (mut journal, plans) = Journal::resume(&journal_path).unwrap();
    let within = u64::from(journal.done_count() > 0 && journal.done_count() < plan.moves.len());
    assert_eq!(plans, std::slice::from_ref(&plan));
    let report = run(&plans, Limits::default(), Some(&mut journal));
    assert!(report.is_complete(), "{report}");
    check_layout(&plan, &map);
    assert_eq!(seen(&path), before, "after kill {number} and resuming");
    fs::remove_file(&path).unwrap();
    let _ = fs::remove_file(disk::beside(&path, 0));
    (killed, within)
}

#[test]
fn ext4_survives_kills() {
    survives_kills(System::Ext4);
}

#[test]
fn xfs_survives_kills() {
    survives_kills(System::Xfs);
}

#[test]
fn f2fs_survives_kills() {
    with_f2fs("f2fs_survives_kills", || survives_kills(System::F2fs));
}

#[test]
fn btrfs_survives_kills() {
    survives_kills(System::Btrfs);
}

/// The state of a process, as proc_pid_stat(5) has it.
fn state_of(process: u32) -> char {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    text.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('X')
}

/// Stopped from the terminal again and again (`SIGTSTP`, Ctrl-Z), a run never holds a lease meanwhile: whoever opens the file
/// need not wait. It goes on when it is told to.
#[test]
fn a_stopped_run_keeps_nobody_waiting() {
    if skipped(System::Ext4) {
        return;
    }
    let mut disk = Disk::in_memory(System::Ext4);
    let path = disk.fragmented("file", 1, 32 << 20, 4096);
    let (before, plan) = (seen(&path), plan_of(&path));
    let journal_path = disk.image().with_extension("journal");
    drop(Journal::create(&journal_path, &origin(), std::slice::from_ref(&plan)).unwrap());
    use std::os::unix::process::CommandExt;
    let given = disk.written_bytes();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["carrier", "--exact", "--nocapture"])
        .env(CARRY, &journal_path)
        .env(CARRY_RATE, "none")
        .stdout(Stdio::null())
        // A group of its own, whose parent could have it go on: only such ones stop.
        .process_group(0)
        .spawn()
        .unwrap();
    let signal = |signal: libc::c_int| {
        // SAFETY: the call takes integers; the child is waited for below.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
    };
    let (mut stops, mut dice, begun) = (0, Dice(9), Instant::now());
    // Until it moves something: the journal's notes may come only at the end of so short a run.
    while disk.bytes_given() == given && state_of(child.id()) != 'Z' && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_micros(100));
    }
    while stops < 12 && state_of(child.id()) != 'Z' {
        thread::sleep(Duration::from_micros(dice.below(9000)));
        signal(libc::SIGTSTP);
        let begun = Instant::now();
        while !matches!(state_of(child.id()), 'T' | 'Z') && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        if state_of(child.id()) == 'T' {
            stops += 1;
            let opened = fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path);
            assert!(opened.is_ok(), "stop {stops}: {opened:?}");
        }
        signal(libc::SIGCONT);
    }
    assert!(child.wait().unwrap().success());
    println!("stopped {stops} times");
    assert!(stops > 0);
    let (mut journal, plans) = Journal::resume(&journal_path).unwrap();
    let report = run(&plans, Limits::default(), Some(&mut journal));
    assert!(report.is_complete(), "{report}");
    assert_eq!(seen(&path), before);
    disk.check();
}
