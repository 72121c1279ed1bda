//! What was freed a moment ago can be used, or counts as free, only once the file system has committed: then room is asked for
//! again.
//!
//! By itself the kernel does so only where there is no room at all (`ext4_should_retry_alloc`, fs/ext4/balloc.c;
//! `btrfs_reserve_data_bytes`, fs/btrfs/space-info.c), and not where what there is comes in pieces. Should another
//! program commit in between, these tests have nothing to find, and pass.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use defrag::migrate::{FileMover, MoveOptions, Moved, Unlimited};
use defrag::{ByteRange, FreeSpace, KeepFree};
use disk::{Disk, System, seen, skipped};
use rustix::fs::FallocateFlags;

const WHOLE: ByteRange = ByteRange { start: 0, end: u64::MAX };
const MIB: u64 = 1 << 20;
const LENGTH: u64 = 8 * MIB;
const PIECE: u64 = 64 << 10;
/// Of the file that is removed.
const FREED: u64 = 64 * MIB;

/// A disk that commits when it is told to.
fn disk(system: System) -> Option<Disk> {
    (!skipped(system)).then(|| Disk::in_memory_with(system, "commit=300"))
}

/// A file that has room for the copy.
fn large(disk: &Disk) -> PathBuf {
    let path = disk.path("large");
    rustix::fs::fallocate(File::create(&path).unwrap(), FallocateFlags::empty(), 0, FREED).unwrap();
    path
}

fn sync(disk: &Disk) {
    rustix::fs::syncfs(File::open(disk.place()).unwrap()).unwrap();
}

fn moved(path: &Path, keep_free: KeepFree) -> Moved {
    let options = MoveOptions { keep_free, ..MoveOptions::default() };
    FileMover::open(path, None, &options).unwrap().migrate(WHOLE, &mut Unlimited).unwrap()
}

fn is_whole(moved: &Moved) {
    assert!(moved.pieces_before > 100, "{moved:?}");
    assert!(moved.pieces_after == 1 && moved.left.is_empty(), "{moved:?}");
}

/// Room in pieces as small as the file's, and in one piece after a commit.
fn finds_room_in_one_piece(system: System) {
    let Some(mut disk) = disk(system) else { return };
    let path = disk.fragmented("file", 5, LENGTH, PIECE);
    let before = seen(&path);
    let large = large(&disk);
    disk.fragment_free_space(PIECE);
    fs::remove_file(large).unwrap();
    let moved = moved(&path, KeepFree::Bytes(0));
    println!("{system:?}: {moved:?}");
    is_whole(&moved);
    assert_eq!(seen(&path), before);
    disk.check();
}

#[test]
fn ext4_finds_room_in_one_piece() {
    finds_room_in_one_piece(System::Ext4);
}

#[test]
fn btrfs_finds_room_in_one_piece() {
    finds_room_in_one_piece(System::Btrfs);
}

/// No room at all, and some after a commit, for which these kernels do not wait to be asked.
fn finds_room_on_a_full_disk(system: System) {
    let Some(mut disk) = disk(system) else { return };
    let path = disk.fragmented("file", 7, LENGTH, PIECE);
    let before = seen(&path);
    let large = large(&disk);
    fill(&disk);
    fs::remove_file(large).unwrap();
    is_whole(&moved(&path, KeepFree::Bytes(0)));
    assert_eq!(seen(&path), before);
    disk.check();
}

/// Leaves less than a copy of the file takes.
fn fill(disk: &Disk) {
    let filler = File::create(disk.path("filler")).unwrap();
    let (mut end, mut more) = (0, 64 * MIB);
    while more >= PIECE {
        match rustix::fs::fallocate(&filler, FallocateFlags::empty(), end, more) {
            Ok(()) => end += more,
            Err(_) => more /= 2,
        }
    }
    sync(disk);
}

#[test]
fn ext4_finds_room_on_a_full_disk() {
    finds_room_on_a_full_disk(System::Ext4);
}

#[test]
fn btrfs_finds_room_on_a_full_disk() {
    finds_room_on_a_full_disk(System::Btrfs);
}

/// As much free space as is to be kept, and more after a commit.
#[test]
fn btrfs_finds_more_than_is_to_be_kept() {
    let Some(mut disk) = disk(System::Btrfs) else { return };
    let path = disk.fragmented("file", 6, LENGTH, PIECE);
    let before = seen(&path);
    let large = large(&disk);
    sync(&disk);
    let free = |at: &Path| FreeSpace::of(&File::open(at).unwrap()).unwrap().free_bytes;
    let keep_bytes = free(&path);
    fs::remove_file(large).unwrap();
    println!("{keep_bytes} bytes are to be kept, and {} are free", free(&path));
    is_whole(&moved(&path, KeepFree::Bytes(keep_bytes)));
    sync(&disk);
    assert!(free(&path) >= keep_bytes);
    assert_eq!(seen(&path), before);
    disk.check();
}
