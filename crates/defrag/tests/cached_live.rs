//! What a move writes of a file that is in the page cache in folios larger than its pieces: its data once, and the metadata of its
//! pieces.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use defrag::extents::WriteBack;
use defrag::plan::Mode;
use defrag::run::{Cancel, RunOptions, carry_out};
use defrag::scan::{ScanOptions, Scanner};
use disk::{Dice, Disk, System, map_of, seen, skipped};
use rustix::fs::Advice;

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

/// A file of which one or two blocks at random places were written, one write after the other.
fn islands(disk: &Disk) -> PathBuf {
    const LENGTH: u64 = 32 * MIB;
    let path = disk.path("islands");
    let file = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
    file.set_len(LENGTH).unwrap();
    let mut dice = Dice(7);
    for number in 0..1500 {
        let blocks = 1 + dice.below(2);
        let at = dice.below(LENGTH / BLOCK - 1) * BLOCK;
        file.write_all_at(&dice.bytes((blocks * BLOCK) as usize), at).unwrap();
        if number % 8 == 7 {
            file.sync_data().unwrap();
        }
    }
    file.sync_all().unwrap();
    path
}

fn pieces(disk: &Disk) -> PathBuf {
    disk.fragmented("pieces", 3, 8 * MIB, 2 * BLOCK)
}

/// Moves what a plan says; bytes of data that were moved.
fn moved(path: &Path, mode: Mode) -> u64 {
    let mut scanner = Scanner::new(ScanOptions { mode, write_back: WriteBack::First, ..ScanOptions::default() });
    assert!(scanner.walk(path, &mut |_, _| ControlFlow::Continue(())).unwrap().is_continue());
    let plan = scanner.finish(None);
    let report = carry_out(&plan.files, &RunOptions::default(), None, &Cancel::default(), &mut |_| ()).unwrap();
    assert!(report.is_complete() && report.ranges_moved() == plan.totals.moves && plan.totals.moves > 0, "{report}");
    report.written_bytes()
}

/// Reads a file from end to end, for which the kernel takes folios as large as its readahead.
fn keep_in_large_folios(path: &Path) {
    disk::drop_caches();
    let mut file = File::open(path).unwrap();
    rustix::fs::fadvise(&file, 0, None, Advice::Sequential).unwrap();
    std::io::copy(&mut file, &mut std::io::sink()).unwrap();
}

/// A `sync` of one test has every file system commit, which costs Btrfs its trees once more.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn writes_data_once(system: System, made: fn(&Disk) -> PathBuf) {
    if skipped(system) {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for mode in [Mode::Bypass, Mode::Whole] {
        let mut disk = Disk::in_memory(system);
        let path = made(&disk);
        let (before, map) = (seen(&path), map_of(&path));
        keep_in_large_folios(&path);
        let was = disk.written_bytes();
        let bytes = moved(&path, mode);
        let written = disk.written_bytes() - was;
        let (name, pieces) = (path.file_name().unwrap().display(), map.piece_count(map.whole()));
        println!("{system:?}, {name}, {mode}: {pieces} pieces; {bytes} bytes moved, {written} written");
        // A part of a leaf for each piece, and Btrfs writes leaves of several trees, twice.
        let metadata = if system == System::Btrfs { bytes / 4 + MIB } else { bytes / 8 + MIB / 2 };
        assert!(written <= bytes + metadata, "{written} bytes for {bytes}");
        assert_eq!(seen(&path), before);
        disk.check();
    }
}

#[test]
fn ext4_writes_islands_once() {
    writes_data_once(System::Ext4, islands);
}

#[test]
fn ext4_writes_pieces_once() {
    writes_data_once(System::Ext4, pieces);
}

#[test]
fn xfs_writes_islands_once() {
    writes_data_once(System::Xfs, islands);
}

#[test]
fn btrfs_writes_islands_once() {
    writes_data_once(System::Btrfs, islands);
}
