//! Requests issued against requests predicted, on each file system.
#![allow(clippy::unwrap_used)]

mod disk;

use std::process::Command;

use defrag::ByteRange;
use defrag::access::TraceError;
use defrag::extents::{Direction, RequestLimits, requests};
use defrag::migrate::{FileMover, MoveOptions, Unlimited};
use defrag::verify::{Replay, VerifyError, replay};
use disk::scheduler::Scheduler;
use disk::{Disk, System, layout};

const PIECE: u64 = 16 << 10;
const READ: u64 = 64 << 10;
const SIZE: u64 = 1 << 20;

fn reads(count: u64) -> Vec<ByteRange> {
    (0..count).map(|at| ByteRange { start: at * READ, end: (at + 1) * READ }).collect()
}

fn as_predicted_on(system: System) {
    if disk::skipped(system) {
        return;
    }
    let disk = Disk::new(system);
    let pieces = disk.fragmented("pieces", 1, SIZE, PIECE);
    let whole = disk.path("whole");
    std::fs::write(&whole, disk::Dice(2).bytes(SIZE as usize + 1)).unwrap();
    std::fs::File::open(&whole).unwrap().sync_all().unwrap();
    // Beyond the end, and across it: only what is there is read.
    let mut of_whole = reads(SIZE / READ);
    of_whole.push(ByteRange { start: SIZE, end: SIZE + READ });
    of_whole.push(ByteRange { start: 2 * SIZE, end: 3 * SIZE });
    let files = [Replay { path: pieces, ranges: reads(SIZE / READ) }, Replay { path: whole, ranges: of_whole }];
    let verified = match replay(&files, &mut |_| true) {
        Err(VerifyError::Trace(error @ TraceError::Unavailable { .. })) => {
            println!("skipped: {error}");
            return;
        }
        verified => verified.unwrap(),
    };
    let name = system.name();
    assert!(verified.is_as_predicted(), "{name}:\n{verified}");
    let [pieces, whole] = &verified.files[..] else { panic!("{name}: two files:\n{verified}") };
    // The layout of the test's own making: the device has to get as many requests as there are pieces.
    assert_eq!((pieces.accesses, pieces.issued, pieces.bytes), (16, SIZE / PIECE, SIZE), "{name}:\n{verified}");
    assert_eq!((whole.accesses, whole.bytes), (17, SIZE + 1), "{name}:\n{verified}");
    assert!((17..20).contains(&whole.issued), "{name}:\n{verified}");

    // One access to all of the file in pieces, and none after the first file.
    let ranges = vec![ByteRange { start: 0, end: SIZE }];
    let all = replay(&[Replay { ranges, ..files[0].clone() }, files[1].clone()], &mut |done| done == 0).unwrap();
    assert_eq!(all.files.len(), 1);
    assert!(all.is_as_predicted() && all.total().issued == SIZE / PIECE, "{name}:\n{all}");
}

#[test]
fn as_predicted_on_ext4() {
    as_predicted_on(System::Ext4);
}

#[test]
fn as_predicted_on_xfs() {
    as_predicted_on(System::Xfs);
}

#[test]
fn as_predicted_on_btrfs() {
    as_predicted_on(System::Btrfs);
}

/// Also where the journal commits after each call, a file in pieces has as many requests as pieces. (Blocks that were freed
/// are given away again after a commit: a file whose pieces are punched out and allocated again has pieces right before each
/// other then.)
#[test]
fn a_layout_on_ext4_does_not_depend_on_commits() {
    if disk::skipped(System::Ext4) {
        return;
    }
    let disk = Disk::with(System::Ext4, 512 << 20, &[], "sync");
    let path = disk.fragmented("pieces", 1, SIZE, PIECE);
    let (map, limits) = (disk::map_of(&path), RequestLimits::default());
    assert_eq!(map.piece_count(map.whole()), SIZE / PIECE);
    let all: u64 = reads(SIZE / READ).into_iter().map(|read| requests(&map, read, &limits, Direction::Read)).sum();
    assert_eq!(all, SIZE / PIECE, "{map:?}");
}

/// Blocks that lie right before the ones that they follow in the file, as files punched and refilled have them here and
/// there: the kernel merges these too.
#[test]
fn blocks_in_reverse_on_ext4_are_as_predicted() {
    if disk::skipped(System::Ext4) {
        return;
    }
    const BLOCK: u64 = 4096;
    const BLOCKS_A_READ: u64 = READ / BLOCK;
    let disk = Disk::new(System::Ext4);
    let path = disk.path("reversed");
    let content = disk::Dice(7).bytes(SIZE as usize);
    // By turns a read's blocks lie in reverse, each for itself, in reverse but for every fourth, and in swapped pairs.
    let place = |block: u64| {
        let (read, within) = (block / BLOCKS_A_READ, block % BLOCKS_A_READ);
        let reversed = BLOCKS_A_READ - 1 - within;
        match read % 4 {
            0 => reversed,
            1 => 2 * within,
            2 => 2 * BLOCKS_A_READ - 1 - within - within / 4,
            _ => within ^ 1,
        }
    };
    let requests = [1, BLOCKS_A_READ, 4, BLOCKS_A_READ / 2];
    let places: Vec<_> = (0..SIZE / BLOCK)
        .map(|block| {
            let range = ByteRange { start: block * BLOCK, end: (block + 1) * BLOCK };
            (range, (block / BLOCKS_A_READ * 3 * BLOCKS_A_READ + place(block)) * BLOCK)
        })
        .collect();
    layout::arranged(&path, &content, &places);

    let files = [Replay { path: path.clone(), ranges: reads(SIZE / READ) }];
    let before = match replay(&files, &mut |_| true) {
        Err(VerifyError::Trace(error @ TraceError::Unavailable { .. })) => {
            println!("skipped: {error}");
            return;
        }
        verified => verified.unwrap(),
    };
    let expected: u64 = (0..SIZE / READ).map(|read| requests[(read % 4) as usize]).sum();
    assert!(before.is_as_predicted() && before.total().issued == expected, "{expected} expected\n{before}");

    // mq-deadline puts together what lies beside each other, whoever came first.
    let scheduler = Scheduler::deadline(disk.device());
    if scheduler.is_set() {
        let merged = replay(&files, &mut |_| true).unwrap();
        let total = merged.total();
        assert!(merged.is_as_predicted() && total.predicted == expected && total.issued <= expected, "{merged}");
        assert_eq!(total.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(merged.to_string().contains("(merged by mq-deadline)"), total.issued < expected, "{merged}");
    } else {
        println!("skipped: mq-deadline, which this kernel does not have");
    }
    drop(scheduler);

    // All of it, moved in one piece: a request for each read.
    let mut mover = FileMover::open(&path, None, &MoveOptions::default()).unwrap();
    mover.migrate(ByteRange { start: 0, end: SIZE }, &mut Unlimited).unwrap();
    drop(mover);
    let after = replay(&files, &mut |_| true).unwrap();
    assert!(after.is_as_predicted() && after.total().issued == SIZE / READ, "{after}");
    assert_eq!(std::fs::read(&path).unwrap(), content);
}

/// The file's last block, filled in part, right before the one that it follows, at the end of a read of its own and of a longer one:
/// it is transferred whole, and merged.
#[test]
fn a_last_block_in_part_on_ext4_is_as_predicted() {
    if disk::skipped(System::Ext4) {
        return;
    }
    const BLOCK: u64 = 4096;
    let disk = Disk::new(System::Ext4);
    let mut dice = disk::Dice(11);
    let mut files = Vec::new();
    let mut expected = 0;
    for number in 0..6 {
        let blocks = 3 + dice.below(13);
        let size = (blocks - 1) * BLOCK + 1 + dice.below(BLOCK - 1);
        let path = disk.path(&format!("file {number}"));
        // In reverse, or each for itself but for the last two.
        let place = |block: u64| match number % 2 {
            0 => blocks - 1 - block,
            _ if block == blocks - 1 => 2 * (blocks - 2) + 4,
            _ if block == blocks - 2 => 2 * (blocks - 2) + 5,
            _ => 2 * block,
        };
        let ranges = (0..blocks).map(|block| ByteRange { start: block * BLOCK, end: (block + 1) * BLOCK });
        let places: Vec<_> = ranges.enumerate().map(|(block, range)| (range, place(block as u64) * BLOCK)).collect();
        layout::arranged(&path, &dice.bytes((blocks * BLOCK) as usize), &places);
        std::fs::File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
        expected += if number % 2 == 0 { 1 } else { blocks - 1 };
        files.push(Replay { path, ranges: vec![ByteRange { start: 0, end: size }] });
    }
    match replay(&files, &mut |_| true) {
        Err(VerifyError::Trace(error @ TraceError::Unavailable { .. })) => println!("skipped: {error}"),
        verified => {
            let verified = verified.unwrap();
            assert!(verified.is_as_predicted() && verified.total().issued == expected, "{expected}\n{verified}");
        }
    }
}

/// Files of any length, written in pieces in turns: the last block lies wherever the file system put it.
#[test]
fn files_that_end_within_a_block_are_as_predicted() {
    for system in System::ALL {
        if disk::skipped(system) {
            continue;
        }
        let disk = Disk::in_memory(system);
        let mut dice = disk::Dice(5);
        let files: Vec<Replay> = (0..12)
            .map(|number| {
                let size = 20_000 + dice.below(200_000);
                let path = disk.fragmented(&format!("file {number}"), number, size, PIECE);
                // The end written again, so that it lies apart, here and there before what it follows.
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                for at in [size - 1 - dice.below(4096), size - 1 - dice.below(16_384)] {
                    let rest = (size - at).min(5000) as usize;
                    std::os::unix::fs::FileExt::write_all_at(&file, &dice.bytes(rest), at).unwrap();
                    file.sync_all().unwrap();
                }
                let reads = (0..size.div_ceil(READ)).map(|at| ByteRange { start: at * READ, end: (at + 1) * READ });
                Replay { path, ranges: reads.chain([ByteRange { start: 0, end: size }]).collect() }
            })
            .collect();
        match replay(&files, &mut |_| true) {
            Err(VerifyError::Trace(error @ TraceError::Unavailable { .. })) => println!("skipped: {error}"),
            verified => assert!(verified.as_ref().unwrap().is_as_predicted(), "{system:?}:\n{}", verified.unwrap()),
        }
    }
}

/// A stripe of 64 KiB ends where the file system knows nothing of it.
#[test]
fn what_is_striped_is_counted_and_not_compared() {
    if disk::skipped(System::Btrfs) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let loops: Vec<String> = ["one", "two"]
        .map(|name| {
            let image = folder.path().join(name);
            std::fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
            let shown = disk::ran(Command::new("losetup").args(["--find", "--show"]).arg(image));
            shown.trim().to_owned()
        })
        .to_vec();
    let place = folder.path().join("mnt");
    std::fs::create_dir(&place).unwrap();
    disk::made(Command::new("mkfs.btrfs").args(["-q", "-f", "-d", "raid0", "-m", "raid1"]).args(&loops));
    disk::ran(Command::new("mount").arg(&loops[0]).arg(&place));
    let path = place.join("striped");
    std::fs::write(&path, disk::Dice(3).bytes(SIZE as usize)).unwrap();
    let ranges = (0..8).map(|at| ByteRange { start: at * 2 * READ, end: (at + 1) * 2 * READ }).collect();
    let verified = replay(&[Replay { path, ranges }], &mut |_| true);
    disk::unmount(&place);
    for device in &loops {
        disk::ran(Command::new("losetup").arg("--detach").arg(device));
    }
    match verified {
        Err(VerifyError::Trace(error @ TraceError::Unavailable { .. })) => println!("skipped: {error}"),
        verified => {
            let verified = verified.unwrap();
            let total = verified.total();
            assert!(total.issued > total.predicted && total.predicted >= 8, "{verified}");
            assert!(verified.is_as_predicted(), "{verified}");
            assert!(verified.to_string().contains("not compared: a file system over 2 devices"), "{verified}");
        }
    }
}

#[test]
fn what_is_on_no_disk_is_refused() {
    let path = std::path::PathBuf::from("/proc/version");
    let error = replay(&[Replay { path, ranges: reads(1) }], &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("/proc/version"), "{error}");
}
