//! What a run takes up is what its plan said, and what is to be left free is left.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use defrag::extents::WriteBack;
use defrag::migrate::Left;
use defrag::plan::{Mode, Plan, dry_run_text};
use defrag::run::{Cancel, Report, RunOptions, carry_out};
use defrag::scan::{ScanOptions, Scanner};
use defrag::{FreeSpace, KeepFree};
use disk::{Dice, Disk, System, seen, skipped};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// A file written in one go, of which some blocks were then written once more, each by itself.
fn overwritten(disk: &Disk, name: &str, length: u64, blocks: u64) -> PathBuf {
    let path = disk.path(name);
    let mut dice = Dice(length ^ blocks);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all_at(&dice.bytes(length as usize), 0).unwrap();
    file.sync_all().unwrap();
    for _ in 0..blocks {
        let block = dice.bytes(BLOCK as usize);
        file.write_all_at(&block, dice.below(length / BLOCK) * BLOCK).unwrap();
        file.sync_all().unwrap();
    }
    path
}

fn planned(path: &Path, mode: Mode, keep_free: KeepFree) -> Plan {
    let mut scanner =
        Scanner::new(ScanOptions { mode, keep_free, write_back: WriteBack::First, ..ScanOptions::default() });
    let _ = scanner.walk(path, &mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    scanner.finish(None)
}

fn run(plan: &Plan, keep_free: KeepFree) -> Report {
    let options = RunOptions { keep_free, ..RunOptions::default() };
    carry_out(&plan.files, &options, None, &Cancel::default(), &mut |_| ()).unwrap()
}

/// Few parts of a large extent: each is moved, and its old place stays taken up. Many: the extent is moved as a whole.
#[test]
fn btrfs_takes_up_what_the_plan_says() {
    if skipped(System::Btrfs) {
        return;
    }
    for (blocks, mode) in [(60, Mode::Bypass), (700, Mode::Bypass), (60, Mode::Whole)] {
        let mut disk = Disk::in_memory(System::Btrfs);
        let path = overwritten(&disk, "file", 64 * MIB, blocks);
        let (before, was) = (seen(&path), disk.used_bytes());
        let plan = planned(&path, mode, KeepFree::default());
        let totals = plan.totals;
        println!("{}", dry_run_text(&plan, 0).lines().take(2).collect::<Vec<_>>().join("\n"));
        assert!(!totals.for_good_is_estimated && totals.bytes_to_move > 0);
        assert_eq!(totals.for_good_bytes > 0, blocks == 60 && mode == Mode::Bypass, "{blocks} blocks: {totals:?}");
        let instead: Vec<_> = plan.files.iter().filter_map(|file| file.whole).collect();
        let is_said = dry_run_text(&plan, 0).contains("--mode whole would write 64MiB and take up 0B for good");
        assert_eq!((instead.len(), is_said), if totals.for_good_bytes > 0 { (1, true) } else { (0, false) });
        let report = run(&plan, KeepFree::default());
        assert_eq!((report.written_bytes(), report.ranges_moved()), (totals.bytes_to_move, totals.moves), "{report}");
        assert_eq!(report.requests().1, totals.requests_after);
        // Beside the data there is metadata; extents that were overwritten in part and are moved now give more back.
        let more = i128::from(disk.used_bytes()) - i128::from(was);
        let given_back = blocks * BLOCK;
        let least = i128::from(totals.for_good_bytes) - i128::from(given_back) - i128::from(2 * MIB);
        let most = i128::from(totals.for_good_bytes + 2 * MIB);
        assert!((least..=most).contains(&more), "{more} bytes more are used, {} were said", totals.for_good_bytes);
        assert_eq!(seen(&path), before);
        let again = planned(&path, mode, KeepFree::default());
        assert_eq!(
            (again.totals.bytes_to_move, again.totals.moves),
            (0, 0),
            "a second run: {}",
            dry_run_text(&again, usize::MAX)
        );
        disk.check();
    }
}

/// Fills a file system until `free_bytes` are left.
fn fill(disk: &Disk, free_bytes: u64) {
    let filler = File::create(disk.path("filler")).unwrap();
    let mut end = 0;
    loop {
        let left = FreeSpace::of(&filler).unwrap().free_bytes;
        let Some(more) = left.checked_sub(free_bytes).filter(|more| *more >= MIB) else { break };
        // In parts, as Btrfs makes its chunks as it goes.
        let more = (more / 2).clamp(MIB, 64 * MIB);
        rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), end, more).unwrap();
        end += more;
    }
    filler.sync_all().unwrap();
    rustix::fs::syncfs(&filler).unwrap();
}

/// With little room another program finds as much as was to be kept for it, during the run and after it.
fn leaves_free_space(system: System) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::in_memory(system);
    let paths: Vec<PathBuf> = if system == System::Btrfs {
        (0..6).map(|number| overwritten(&disk, &format!("file-{number}"), 8 * MIB, 50)).collect()
    } else {
        (0..4).map(|number| disk.fragmented(&format!("file-{number}"), number, 32 * MIB, 16 << 10)).collect()
    };
    let before: Vec<_> = paths.iter().map(|path| seen(path)).collect();
    fill(&disk, if system == System::Btrfs { 90 * MIB } else { 40 * MIB });
    let keep_free = KeepFree::Bytes(25 * MIB);
    let place = File::open(disk.place()).unwrap();
    for mode in [Mode::Bypass, Mode::Whole] {
        let plan = planned(&disk.place(), mode, keep_free);
        let free = || {
            rustix::fs::syncfs(&place).unwrap();
            FreeSpace::of(&place).unwrap().free_bytes
        };
        let was = free();
        let mut least = u64::MAX;
        let options = RunOptions { keep_free, ..RunOptions::default() };
        let mut watch = |_: &defrag::run::Event<'_>| least = least.min(FreeSpace::of(&place).unwrap().free_bytes);
        let report = carry_out(&plan.files, &options, None, &Cancel::default(), &mut watch).unwrap();
        println!("{system:?} {mode}: {was} free, {least} at the least, {} after; {:?}; {report}", free(), plan.totals);
        assert!(mode == Mode::Whole || !plan.files.is_empty(), "{plan:?}");
        assert!(least >= 24 * MIB && free() >= 24 * MIB, "{least}");
        // With so little room, what ext4 finds of it may lie in as many pieces as the file does.
        let crumbs = |left: &defrag::migrate::LeftRange| matches!(left.why, Left::NoBetterSpace { .. });
        assert!(report.files.iter().flat_map(|file| &file.left).all(crumbs) && report.stopped.is_none(), "{report}");
        assert!(
            report.written_bytes() <= plan.totals.bytes_to_move && (plan.files.is_empty() || report.ranges_moved() > 0)
        );
        // Somebody else needs some of it.
        fs::write(disk.path("other"), vec![7; 16 << 20]).unwrap();
        File::open(disk.path("other")).unwrap().sync_all().unwrap();
        fs::remove_file(disk.path("other")).unwrap();
    }
    drop(place);
    for (path, before) in paths.iter().zip(before) {
        assert_eq!(seen(path), before);
    }
    disk.check();
}

#[test]
fn ext4_leaves_free_space() {
    leaves_free_space(System::Ext4);
}

#[test]
fn xfs_leaves_free_space() {
    leaves_free_space(System::Xfs);
}

#[test]
fn btrfs_leaves_free_space() {
    leaves_free_space(System::Btrfs);
}
