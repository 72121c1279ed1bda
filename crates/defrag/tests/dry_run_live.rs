//! What a plan says is what a run moves, and a second run writes nothing: on random layouts, on crowded disks, for files that others
//! have open or own.
//!
//! `PLUMB_LONG=1` tries many more layouts.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{self, File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use defrag::KeepFree;
use defrag::extents::WriteBack;
use defrag::migrate::{Refusal, refusal};
use defrag::plan::{Mode, Plan, dry_run_text};
use defrag::run::{Attempts, Cancel, Report, RunOptions, carry_out};
use defrag::scan::{ScanOptions, Scanner};
use disk::{Dice, Disk, System, ran, seen, skipped};
use rustix::fs::FallocateFlags;

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

fn planned(root: &Path, mode: Mode, shared: bool, attempts: &Attempts) -> Plan {
    let keep_free = KeepFree::Bytes(0);
    let options = ScanOptions { mode, shared, keep_free, write_back: WriteBack::First, ..ScanOptions::default() };
    let mut scanner = Scanner::new(options).knowing(attempts.clone());
    let _ = scanner.walk(root, &mut |_, _| ControlFlow::Continue(())).unwrap();
    scanner.finish(None)
}

fn run(plan: &Plan, shared: bool) -> Report {
    let options = RunOptions { shared, keep_free: KeepFree::Bytes(0), ..RunOptions::default() };
    carry_out(&plan.files, &options, None, &Cancel::default(), &mut |_| ()).unwrap()
}

/// A file of some megabytes: pieces of one length, then holes, unwritten stretches and blocks that were written once more, wherever
/// the dice say.
fn random_file(disk: &Disk, name: &str, dice: &mut Dice) -> PathBuf {
    let piece = BLOCK << dice.below(5);
    let length = MIB + dice.below(3 * MIB);
    let path = disk.path(name);
    let is_no_cow = disk.system == System::Btrfs && dice.below(4) == 0;
    if is_no_cow {
        File::create(&path).unwrap();
        ran(Command::new("chattr").arg("+C").arg(&path));
    }
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    disk::scatter(&file, disk.system, dice.next(), defrag::ByteRange { start: 0, end: length }, piece);
    let changes = if dice.below(3) == 0 { 0 } else { dice.below(40) };
    for _ in 0..changes {
        let at = dice.below(length / BLOCK) * BLOCK;
        let bytes = (BLOCK << dice.below(4)).min(length - at).max(1);
        match dice.below(3) {
            0 => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&file, mode, at, bytes).unwrap();
            }
            1 => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&file, mode, at, bytes).unwrap();
                rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, at, bytes).unwrap();
            }
            _ => {
                file.write_all_at(&dice.bytes(bytes as usize), at).unwrap();
                file.sync_all().unwrap();
            }
        }
    }
    file.sync_all().unwrap();
    // A file without copy-on-write shares nothing with one that has it.
    if disk.system != System::Ext4 && !is_no_cow && dice.below(3) == 0 {
        ran(Command::new("cp").arg("--reflink=always").arg(&path).arg(path.with_extension("copy")));
    }
    path
}

fn keeps_its_word(system: System) {
    if skipped(system) {
        return;
    }
    let layouts = if std::env::var_os("PLUMB_LONG").is_some() { 40 } else { 3 };
    for seed in 0..layouts {
        let mut dice = Dice(0x5eed + seed);
        let mut disk = Disk::in_memory(system);
        let paths: Vec<PathBuf> =
            (0..4).map(|number| random_file(&disk, &format!("file-{number}"), &mut dice)).collect();
        let before: Vec<_> = paths.iter().map(|path| seen(path)).collect();
        let mode = if dice.below(2) == 0 { Mode::Bypass } else { Mode::Whole };
        let shared = dice.below(3) == 0;
        let plan = planned(&disk.place(), mode, shared, &Attempts::default());
        let report = run(&plan, shared);
        let said = dry_run_text(&plan, 20);
        for (plan, file) in plan.files.iter().zip(&report.files) {
            let moves = plan.moves.len() as u64;
            assert_eq!((file.ranges_moved, file.written_bytes), (moves, plan.bytes()), "{seed}: {said}{report}");
            assert_eq!(file.requests_after, plan.requests_after, "{seed}: {said}{report}");
        }
        for (path, before) in paths.iter().zip(before) {
            assert_eq!(seen(path), before);
        }
        // The requests that were said are those that a new look finds, and there is nothing more to do.
        let again = planned(&disk.place(), mode, shared, &Attempts::default());
        assert_eq!(again.totals.moves, 0, "{seed}, {mode}: {said}then {}", dry_run_text(&again, 20));
        assert!(again.totals.requests_before <= plan.totals.requests_after, "{seed}: {said}");
        disk.check();
    }
}

#[test]
fn ext4_keeps_its_word() {
    keeps_its_word(System::Ext4);
}

#[test]
fn xfs_keeps_its_word() {
    keeps_its_word(System::Xfs);
}

#[test]
fn btrfs_keeps_its_word() {
    keeps_its_word(System::Btrfs);
}

/// On a disk where no better room is, one run finds that out, and the next ones write nothing at all until something changes.
fn tries_in_vain_once(system: System) {
    if skipped(system) {
        return;
    }
    let disk = Disk::in_memory(system);
    for number in 0..6 {
        disk.fragmented(&format!("file-{number}"), number, 4 * MIB, 16 << 10);
    }
    disk.fragment_free_space(16 << 10);
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("attempts");
    for mode in [Mode::Bypass, Mode::Whole] {
        for number in 0..3 {
            let attempts = Attempts::load(&place);
            let was = disk.written_bytes();
            let plan = planned(&disk.place(), mode, false, &attempts);
            let report = run(&plan, false);
            let written = disk.written_bytes() - was;
            println!(
                "{system:?} {mode}, run {number}: {} moves, {written} bytes written, {} attempts",
                plan.totals.moves,
                report.attempts.len()
            );
            assert!(number > 0 || mode == Mode::Whole || plan.totals.moves > 0);
            if number > 0 {
                // A file system's log may still say that it is clean.
                assert_eq!(plan.totals.moves, 0, "{}", dry_run_text(&plan, 20));
                assert!(written <= 64 << 10, "{written} bytes");
            }
            Attempts::add(&place, &report.attempts).unwrap();
        }
    }
    // Room again: what was in vain is tried once more.
    fs::remove_dir_all(disk.path("filling")).unwrap();
    rustix::fs::syncfs(File::open(disk.place()).unwrap()).unwrap();
    let plan = planned(&disk.place(), Mode::Bypass, false, &Attempts::load(&place));
    if plan.totals.requests_before > plan.totals.requests_after {
        let report = run(&plan, false);
        assert_eq!(report.ranges_moved(), plan.totals.moves, "{report}");
    }
    assert!(planned(&disk.place(), Mode::Bypass, false, &Attempts::default()).files.is_empty());
}

#[test]
fn ext4_tries_in_vain_once() {
    tries_in_vain_once(System::Ext4);
}

#[test]
fn xfs_tries_in_vain_once() {
    tries_in_vain_once(System::Xfs);
}

#[test]
fn btrfs_tries_in_vain_once() {
    tries_in_vain_once(System::Btrfs);
}

/// A file that another program has open is not promised where it is left alone for that.
#[test]
fn open_files_are_not_promised() {
    for system in [System::Ext4, System::Xfs, System::XfsExchange] {
        if skipped(system) {
            continue;
        }
        let disk = Disk::in_memory(system);
        let path = disk.fragmented("file", 1, MIB, 16 << 10);
        let _ = fs::remove_file(disk::beside(&path, 0));
        let mut other = Command::new("sleep").arg("60").stdin(File::open(&path).unwrap()).spawn().unwrap();
        let plan = planned(&path, Mode::Bypass, false, &Attempts::default());
        let found = refusal(&path, None, false);
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(
            (plan.files.len(), found.unwrap()),
            (0, Some(Refusal::OpenElsewhere)),
            "{}",
            dry_run_text(&plan, 20)
        );
        let plan = planned(&path, Mode::Bypass, false, &Attempts::default());
        assert_eq!(run(&plan, false).ranges_moved(), plan.totals.moves);
        assert!(plan.totals.moves > 0);
    }
}

/// Nor is a file that this user may read only.
#[test]
fn files_of_others_are_not_promised() {
    const PATH: &str = "PLUMB_TEST_FILE_OF_OTHERS";
    if let Some(path) = std::env::var_os(PATH) {
        let plan = planned(path.as_ref(), Mode::Bypass, false, &Attempts::default());
        assert_eq!(plan.files.len(), 0, "{}", dry_run_text(&plan, 20));
        assert!(refusal(path.as_ref(), None, false).unwrap().is_some());
        return;
    }
    for system in System::ALL {
        if skipped(system) {
            continue;
        }
        let disk = Disk::in_memory(system);
        for folder in [disk.place().parent().unwrap().to_owned(), disk.place()] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o1777)).unwrap();
        }
        let path = disk.fragmented("file", 1, MIB, 16 << 10);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "files_of_others_are_not_promised", "--nocapture"])
            .env(PATH, &path)
            .uid(65534)
            .gid(65534);
        match child.output() {
            Ok(output) => assert!(output.status.success(), "{system:?}: {output:?}"),
            Err(error) => println!("skipped: another user cannot run this test: {error}"),
        }
    }
}
