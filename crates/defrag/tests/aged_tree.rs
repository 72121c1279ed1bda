//! A tree of small files that were appended to in turns, on Btrfs: where everything lies in pieces and all of it is read, there is no less
//! to write than everything, and a traced run writes no more than the file system's own tool.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use defrag::extents::WriteBack;
use defrag::plan::{Mode, Plan};
use defrag::run::{Cancel, RunOptions, carry_out};
use defrag::scan::{ScanOptions, Scanner};
use defrag::{Access, ByteRange, FileId, IoKind};
use disk::{Dice, Disk, System, map_of, ran, skipped};

const KIB: u64 = 1 << 10;
const FILES: u64 = 60;
/// Of one write.
const APPENDED: u64 = 16 * KIB;
/// What readahead sends for a file that is read from end to end.
const READ: u64 = 128 * KIB;
/// Of each tool, on fresh copies.
const ROUNDS: usize = 5;

fn paths(disk: &Disk) -> Vec<PathBuf> {
    (0..FILES).map(|number| disk.path(&format!("file-{number}"))).collect()
}

/// A last extent that lies behind a border of the kernel's clusters of 256 KiB, which `BTRFS_IOC_DEFRAG_RANGE` leaves alone.
const WITH_AN_END_OF_ITS_OWN: u64 = 268 * KIB;

/// Appends to files in turns, past the page cache, sixteen at a time; of random lengths, 256 KiB in the mean.
fn aged(disk: &Disk) {
    let mut dice = Dice(3);
    let mut buffer = vec![0; (APPENDED + 4 * KIB) as usize];
    let skew = buffer.as_ptr().align_offset(4096);
    let memory = &mut buffer[skew..skew + APPENDED as usize];
    let length = |number: u64| match number % 6 {
        0 => WITH_AN_END_OF_ITS_OWN,
        _ => 4 * KIB * (1 + dice.below(128)),
    };
    let lengths: Vec<u64> = (0..FILES).map(length).collect();
    for (paths, lengths) in paths(disk).chunks(16).zip(lengths.chunks(16)) {
        let open = |path: &PathBuf| {
            OpenOptions::new().write(true).create_new(true).custom_flags(libc::O_DIRECT).open(path).unwrap()
        };
        let files: Vec<File> = paths.iter().map(open).collect();
        for at in (0..512 * KIB).step_by(APPENDED as usize) {
            for (file, length) in files.iter().zip(lengths) {
                let bytes = APPENDED.min(length.saturating_sub(at)) as usize;
                memory[..bytes].copy_from_slice(&dice.bytes(bytes));
                file.write_all_at(&memory[..bytes], at).unwrap();
            }
        }
    }
}

fn planned(paths: &[PathBuf]) -> Plan {
    let options = ScanOptions { mode: Mode::Traced, write_back: WriteBack::First, ..ScanOptions::default() };
    let mut scanner = Scanner::new(options);
    for path in paths {
        let status = fs::metadata(path).unwrap();
        let file = FileId { device: status.dev(), inode: status.ino(), generation: None };
        let reads = (0..status.len()).step_by(READ as usize);
        let access = |start| {
            let range = ByteRange { start, end: (start + READ).min(status.len()) };
            Access { file, range, kind: IoKind::BufferedRead, count: 1 }
        };
        scanner.traced(path, file, &reads.map(access).collect::<Vec<_>>());
    }
    scanner.finish(None)
}

fn pieces(paths: &[PathBuf]) -> u64 {
    paths.iter().map(|path| map_of(path).piece_count(map_of(path).whole())).sum()
}

/// Bytes that moving all writes on a fresh copy of a file system.
fn written(disk: &mut Disk, master: &Path, moves: impl FnOnce(&[PathBuf])) -> u64 {
    ran(Command::new("cp").arg("--sparse=always").arg(master).arg(disk.image()));
    // The kernel remembers the last copy, which has the same identity and is newer.
    ran(Command::new("btrfs").args(["device", "scan", "--forget"]));
    disk.mount("");
    let paths = paths(disk);
    let (before, was): (Vec<_>, _) = (paths.iter().map(|path| fs::read(path).unwrap()).collect(), disk.written_bytes());
    let pieces_before = pieces(&paths);
    moves(&paths);
    let bytes = disk.written_bytes() - was;
    println!("{pieces_before} pieces before, {} after, {bytes} written", pieces(&paths));
    for (path, before) in paths.iter().zip(before) {
        assert!(fs::read(path).unwrap() == before);
    }
    disk.check();
    bytes
}

#[test]
fn btrfs_writes_a_tree_once() {
    if skipped(System::Btrfs) {
        return;
    }
    let mut disk = Disk::with(System::Btrfs, 1 << 30, &["-m", "dup"], "");
    aged(&disk);
    disk.unmount();
    let master = disk.image().with_extension("master");
    fs::rename(disk.image(), &master).unwrap();
    let conventional = least(|| {
        written(&mut disk, &master, |paths| {
            drop(ran(Command::new("btrfs").args(["filesystem", "defragment", "-f"]).args(paths)));
        })
    });
    let mut data = 0;
    let traced = least(|| {
        written(&mut disk, &master, |paths| {
            let plan = planned(paths);
            let report = carry_out(&plan.files, &RunOptions::default(), None, &Cancel::default(), &mut |_| ()).unwrap();
            assert!(report.is_complete(), "{report}");
            data = report.written_bytes();
        })
    });
    println!("data {data}: traced {traced}, conventional {conventional}: {:.3}", traced as f64 / conventional as f64);
    assert!(traced <= conventional + conventional / 50, "{traced} bytes, {conventional} by the conventional tool");
}

/// The least that several rounds write. The data is the same in each, and so are the leaves of a commit; how often the kernel
/// writes a leaf before its last time there differs, by as much as 5 %, and only adds.
fn least(round: impl FnMut() -> u64) -> u64 {
    std::iter::repeat_with(round).take(ROUNDS).min().expect("there are rounds")
}
