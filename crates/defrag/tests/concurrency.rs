//! Programs that write while files are moved lose nothing.
//!
//! Each writer updates blocks of the file all the time, near the place that is being moved, and reads each block back
//! before it writes it again: a block that is not what was written last is a lost update. In the end the whole file is
//! compared, in memory and as the device has it. `PLUMB_LONG=1` goes on to a million updates for each file system and
//! writer (F2FS: a quarter of that); `PLUMB_UPDATES` says another number.
#![allow(clippy::unwrap_used)]

mod disk;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use defrag::migrate::{Migrate, XfsDeduplicate};
use disk::guest::with_f2fs;
use disk::mutant::{CLONED_COPY, PUNCH_AND_REWRITE};
use disk::scene::Shape;
use disk::writers::{Outcome, Way, pass};
use disk::{Disk, System, skipped};

/// Ranges that are moved at least. XFS may give a file that is made beside others few pieces.
const FEW_RANGES: u64 = 32;
/// Up to which one program of each way is enough.
const FEW_UPDATES: u64 = 10_000;
/// Passes of one way, at most; each has some thousands of updates.
const PASSES: u64 = 100_000;
/// A million updates with nothing moved would prove nothing: a range for so many at least. How many there are depends on how
/// busy the machine is: 500 to 1,200 were seen.
const UPDATES_A_RANGE: u64 = 4000;

fn wanted_updates(system: System) -> u64 {
    let asked = std::env::var("PLUMB_UPDATES").ok().and_then(|text| text.parse().ok());
    // A kernel in virtual time takes half a millisecond for each.
    let long = if system == System::F2fs { 350_000 } else { 1_000_000 };
    asked.unwrap_or(if std::env::var_os("PLUMB_LONG").is_some() { long } else { 1 })
}

fn loses_nothing(system: System, by: Option<&'static dyn Migrate>) {
    loses_nothing_of(system, by, false);
}

fn loses_nothing_of(system: System, by: Option<&'static dyn Migrate>, reopens: bool) {
    loses_nothing_in(system, "", by, reopens, Shape::Whole);
}

fn loses_nothing_in(system: System, mount: &str, by: Option<&'static dyn Migrate>, reopens: bool, shape: Shape) {
    if skipped(system) {
        return;
    }
    let mut disk = Disk::in_memory_with(system, mount);
    thread::scope(|scope| {
        for way in [Way::Buffered, Way::Direct, Way::Mapped] {
            // With --open-files, a program that maps the file may see zeros for a moment (docs/defrag-safety.md).
            if system == System::Xfs && by.is_none() && !reopens && way == Way::Mapped {
                continue;
            }
            let disk = &disk;
            scope.spawn(move || way_loses_nothing(disk, way, by, reopens, shape));
        }
    });
    disk.check();
}

/// Programs that write in one way, each to a file of its own, until they have made so many updates together.
fn way_loses_nothing(disk: &Disk, way: Way, by: Option<&'static dyn Migrate>, reopens: bool, shape: Shape) {
    let (begun, wanted) = (Instant::now(), wanted_updates(disk.system));
    // Direct ones wait for the device most of the time.
    let programs = if way == Way::Direct && wanted > FEW_UPDATES { 4 } else { 1 };
    let (sum, passes) = (Mutex::new(Outcome::default()), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..programs {
            scope.spawn(|| {
                loop {
                    let number = passes.fetch_add(1, Ordering::Relaxed);
                    let one = pass(disk, way as u64 * PASSES + number, way, by, reopens, shape);
                    let mut sum = sum.lock().unwrap();
                    sum.updates += one.updates;
                    sum.lost += one.lost;
                    sum.moved += one.moved;
                    sum.left += one.left;
                    let enough = sum.updates >= wanted && sum.moved >= FEW_RANGES;
                    if enough || sum.lost > 0 || number >= PASSES - programs {
                        break;
                    }
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap();
    println!("{:?}, {way:?}: {sum:?}, {:.0} s", disk.system, begun.elapsed().as_secs_f64());
    assert_eq!(sum.lost, 0, "{way:?}: {sum:?}");
    assert!(sum.moved > 0 && sum.moved * UPDATES_A_RANGE >= sum.updates, "{way:?}: {sum:?}");
}

#[test]
fn ext4_loses_nothing() {
    loses_nothing(System::Ext4, None);
}

/// As it is without `--open-files`: the writer opens the file for each burst.
#[test]
fn ext4_loses_nothing_when_it_has_a_lease() {
    loses_nothing_of(System::Ext4, None, true);
}

#[test]
fn xfs_loses_nothing() {
    loses_nothing(System::Xfs, None);
}

/// As it is without `--open-files`, and with programs that map the file.
#[test]
fn xfs_loses_nothing_when_it_has_a_lease() {
    loses_nothing_of(System::Xfs, None, true);
}

#[test]
fn xfs_exchange_loses_nothing() {
    // The exchange moves what nobody has open.
    loses_nothing_of(System::XfsExchange, None, true);
}

#[test]
fn btrfs_loses_nothing() {
    loses_nothing(System::Btrfs, None);
}

/// What Btrfs's own call leaves, the end of a file, is moved by sharing a copy; here everything is.
#[test]
fn btrfs_loses_nothing_when_it_shares_a_copy() {
    loses_nothing(System::Btrfs, Some(&XfsDeduplicate));
}

/// The data on both sides of a hole is moved together, beside programs that write to the holes as well.
#[test]
fn ext4_loses_nothing_beside_holes() {
    loses_nothing_in(System::Ext4, "", None, true, Shape::Holes);
    loses_nothing_in(System::Ext4, "", None, false, Shape::Holes);
}

#[test]
fn xfs_loses_nothing_beside_holes() {
    loses_nothing_in(System::Xfs, "", None, true, Shape::Holes);
    loses_nothing_in(System::Xfs, "", None, false, Shape::Holes);
    loses_nothing_in(System::XfsExchange, "", None, true, Shape::Holes);
}

#[test]
fn btrfs_loses_nothing_beside_holes() {
    loses_nothing_in(System::Btrfs, "", None, false, Shape::Holes);
}

/// The donor of a file without copy-on-write is without, too, and what others write goes to where the data lies.
#[test]
fn btrfs_loses_nothing_without_copy_on_write() {
    loses_nothing_in(System::Btrfs, "nodatacow", None, false, Shape::Whole);
    loses_nothing_in(System::Btrfs, "nodatacow", None, false, Shape::Holes);
    loses_nothing_in(System::Btrfs, "nodatacow", Some(&XfsDeduplicate), false, Shape::Whole);
}

/// Each writer opens the file for a burst and closes it: F2FS moves what nobody has open.
#[test]
fn f2fs_loses_nothing() {
    with_f2fs("f2fs_loses_nothing", || loses_nothing_of(System::F2fs, None, true));
}

#[test]
fn f2fs_leaves_alone_what_is_open() {
    with_f2fs("f2fs_leaves_alone_what_is_open", || {
        if skipped(System::F2fs) {
            return;
        }
        let disk = Disk::new(System::F2fs);
        for (number, way) in (0..).zip([Way::Buffered, Way::Direct, Way::Mapped]) {
            let outcome = pass(&disk, number, way, None, false, Shape::Whole);
            println!("{way:?}: {outcome:?}");
            assert!(outcome.updates > 0 && outcome.left > 0);
            assert_eq!((outcome.lost, outcome.moved), (0, 0), "{way:?}: {outcome:?}");
        }
    });
}

/// Were it not found out, the tests above would prove nothing.
#[test]
fn the_published_way_loses_updates() {
    for system in [System::Ext4, System::Xfs] {
        if skipped(system) {
            continue;
        }
        let disk = Disk::new(system);
        let outcome = pass(&disk, 0, Way::Buffered, Some(&PUNCH_AND_REWRITE), false, Shape::Whole);
        println!("{system:?}: {outcome:?}");
        assert!(outcome.lost > 0, "{outcome:?}");
    }
}

/// A copy that is given to the file without being compared: what was written since is lost, in whole files, beside holes, and
/// without copy-on-write.
#[test]
fn sharing_without_comparing_loses_updates() {
    let cases = [
        (System::Xfs, "", Shape::Whole),
        (System::Xfs, "", Shape::Holes),
        (System::Btrfs, "", Shape::Holes),
        (System::Btrfs, "nodatacow", Shape::Holes),
    ];
    for (system, mount, shape) in cases {
        if skipped(system) {
            continue;
        }
        let disk = Disk::in_memory_with(system, mount);
        let outcome = pass(&disk, 0, Way::Buffered, Some(&CLONED_COPY), false, shape);
        println!("{system:?} {mount}, {shape:?}: {outcome:?}");
        assert!(outcome.lost > 0, "{outcome:?}");
    }
}
