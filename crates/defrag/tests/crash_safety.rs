//! Crashes while files are moved: whatever the device had written by then, and in whatever order since its last flush,
//! the file system recovers, its checker is content, and every byte of the moved file is there.
//!
//! A quick run looks at a few dozen states of each file system; `PLUMB_LONG=1` at 1,000, and `PLUMB_STATES` says
//! another number.
#![allow(clippy::unwrap_used)]

mod disk;

use std::thread;

use disk::System;
use disk::crash::{Beside, Crash, number_of_states, skipped, survives};
use disk::guest::with_f2fs;
use disk::mutant::{BARE_EXT4, BARE_F2FS, HASTY_F2FS, PUNCH_AND_REWRITE};
use plumb_defrag::migrate::{Migrate, XfsDeduplicate};

fn survives_crashes(system: System, way: Option<&'static dyn Migrate>) {
    if skipped(system) {
        return;
    }
    let count = number_of_states();
    // ext4 and XFS's exchange move what nobody has open.
    let reopens = matches!(system, System::Ext4 | System::XfsExchange);
    thread::scope(|scope| {
        scope.spawn(|| survives(system, way, Beside::Neighbour, count));
        // What a program had synchronised is kept, too.
        scope.spawn(|| survives(system, way, Beside::Writer { reopens }, count.div_ceil(4)));
    });
}

#[test]
fn ext4_survives_crashes() {
    survives_crashes(System::Ext4, None);
}

#[test]
fn xfs_survives_crashes() {
    survives_crashes(System::Xfs, None);
}

#[test]
fn xfs_exchange_survives_crashes() {
    survives_crashes(System::XfsExchange, None);
}

#[test]
fn btrfs_survives_crashes() {
    survives_crashes(System::Btrfs, None);
}

/// What Btrfs's own call leaves, the end of a file, is moved by sharing a copy; here everything is.
#[test]
fn btrfs_survives_crashes_when_it_shares_a_copy() {
    survives_crashes(System::Btrfs, Some(&XfsDeduplicate));
}

/// The writer opens and closes the file each time: F2FS moves what nobody has open.
#[test]
fn f2fs_survives_crashes() {
    with_f2fs("f2fs_survives_crashes", || {
        if !skipped(System::F2fs) {
            survives(System::F2fs, None, Beside::Neighbour, number_of_states());
            survives(System::F2fs, None, Beside::Writer { reopens: true }, number_of_states().div_ceil(4));
        }
    });
}

/// F2FS's call on a file that another program synchronises meanwhile: the kernel says that data is on the disk which
/// is not. That is why the lease is taken.
#[test]
fn f2fs_without_a_lease_is_found_out() {
    with_f2fs("f2fs_without_a_lease_is_found_out", || {
        if skipped(System::F2fs) {
            return;
        }
        let crash = Crash::record(System::F2fs, Some(&BARE_F2FS), Beside::Writer { reopens: false }, 1);
        let unwritten = crash.unwritten();
        println!("{} updates were not on the disk when they were said to be", unwritten.len());
        let faults = crash.look_at(unwritten.iter().take(4).map(|update| update.synchronised).collect(), 5);
        println!("{faults:#?}");
        assert!(faults.iter().any(|fault| fault.contains("bad blocks")), "{faults:?}");
    });
}

/// With the lease alone, another program's `fsync` afterwards makes the map of the new places last before the data. That is why
/// a checkpoint is written.
#[test]
fn f2fs_without_a_checkpoint_is_found_out() {
    with_f2fs("f2fs_without_a_checkpoint_is_found_out", || {
        if skipped(System::F2fs) {
            return;
        }
        let beside = Beside::Writer { reopens: true };
        let mutant = Crash::record(System::F2fs, Some(&HASTY_F2FS), beside, 1);
        let faults = mutant.look_before_flushes(16, 5);
        println!("{} ranges moved; {} of 16 states are bad, such as: {:?}", mutant.moved, faults.len(), faults.first());
        assert!(faults.iter().any(|fault| fault.contains("bad blocks")), "{faults:?}");
    });
}

/// ext4 gives a file its old blocks back, although what was written to the new ones was synchronised. That is why the
/// lease is taken.
#[test]
fn ext4_without_a_lease_is_found_out() {
    if skipped(System::Ext4) {
        return;
    }
    let crash = Crash::record(System::Ext4, Some(&BARE_EXT4), Beside::Writer { reopens: false }, 1);
    let faults = crash.look(12, 5);
    println!("{} of 12 states are bad, such as: {:?}", faults.len(), faults.first());
    assert!(faults.iter().any(|fault| fault.contains("bad blocks")), "{faults:?}");
}

/// Were it not found out, the tests above would prove nothing.
#[test]
fn the_published_way_is_found_out() {
    for system in [System::Ext4, System::Xfs] {
        if skipped(system) {
            continue;
        }
        let crash = Crash::record(system, Some(&PUNCH_AND_REWRITE), Beside::Neighbour, 1);
        let faults = crash.look(24, 5);
        println!("{system:?}: {} of 24 states are bad, such as: {:?}", faults.len(), faults.first());
        assert!(faults.iter().any(|fault| fault.contains("bad blocks")), "{faults:?}");
    }
}
