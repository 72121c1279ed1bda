//! Crashes while files are moved: whatever the device had written by then, and in whatever order since its last flush,
//! the file system recovers, its checker is content, and every byte of the moved file is there.
//!
//! A quick run looks at a few dozen states of each file system; `PLUMB_LONG=1` at 1,000, and `PLUMB_STATES` says
//! another number.
#![allow(clippy::unwrap_used)]

mod disk;

use std::thread;

use defrag::migrate::{Ext4MoveExtents, Migrate, XfsDeduplicate};
use disk::crash::{Crash, found_out, number_of_states, skipped, survives};
use disk::guest::with_f2fs;
use disk::mutant::{BARE_EXT4, BARE_F2FS, HASTY_F2FS, PUNCH_AND_REWRITE};
use disk::scene::{Beside, Scene};
use disk::trial::Trial;
use disk::{System, trial};

fn survives_crashes(trial: Trial, way: Option<&'static dyn Migrate>) {
    if skipped(trial.system) {
        return;
    }
    let count = number_of_states();
    // ext4 and XFS's exchange move what nobody has open.
    let reopens = matches!(trial.system, System::Ext4 | System::XfsExchange);
    thread::scope(|scope| {
        scope.spawn(|| survives(Scene::new(trial, way, Beside::Neighbour), count));
        // What a program had synchronised is kept, too.
        scope.spawn(|| survives(Scene::new(trial, way, Beside::Writer { reopens }), count.div_ceil(4)));
    });
}

#[test]
fn ext4_survives_crashes() {
    survives_crashes(trial::EXT4, None);
}

#[test]
fn xfs_survives_crashes() {
    survives_crashes(trial::XFS, None);
}

#[test]
fn xfs_exchange_survives_crashes() {
    survives_crashes(trial::XFS_EXCHANGE, None);
}

#[test]
fn btrfs_survives_crashes() {
    survives_crashes(trial::BTRFS, None);
}

/// What Btrfs's own call leaves, the end of a file, is moved by sharing a copy; here everything is.
#[test]
fn btrfs_survives_crashes_when_it_shares_a_copy() {
    survives_crashes(trial::BTRFS, Some(&XfsDeduplicate));
}

/// The writer opens and closes the file each time: F2FS moves what nobody has open.
#[test]
fn f2fs_survives_crashes() {
    with_f2fs("f2fs_survives_crashes", || {
        if !skipped(System::F2fs) {
            survives(Scene::new(trial::F2FS, None, Beside::Neighbour), number_of_states());
            survives(Scene::new(trial::F2FS, None, Beside::Writer { reopens: true }), number_of_states().div_ceil(4));
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
        found_out("f2fs without a lease", |seed| {
            let crash =
                Crash::record(Scene::new(trial::F2FS, Some(&BARE_F2FS), Beside::Writer { reopens: false }), seed);
            let unwritten = crash.unwritten();
            println!("{} updates were not on the disk when they were said to be", unwritten.len());
            crash.look_at(unwritten.iter().take(4).map(|update| update.synchronised).collect(), 5)
        });
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
        found_out("f2fs without a checkpoint", |seed| {
            let beside = Beside::Writer { reopens: true };
            Crash::record(Scene::new(trial::F2FS, Some(&HASTY_F2FS), beside), seed).look_before_flushes(16, 5)
        });
    });
}

/// ext4 gives a file its old blocks back, although what was written to the new ones was synchronised. That is why the
/// lease is taken.
#[test]
fn ext4_without_a_lease_is_found_out() {
    if skipped(System::Ext4) {
        return;
    }
    found_out("ext4 without a lease", |seed| {
        Crash::record(Scene::new(trial::EXT4, Some(&BARE_EXT4), Beside::Writer { reopens: false }), seed).look(12, 5)
    });
}

/// Were it not found out, the tests above would prove nothing.
#[test]
fn the_published_way_is_found_out() {
    for trial in [trial::EXT4, trial::XFS] {
        if skipped(trial.system) {
            continue;
        }
        found_out(trial.name, |seed| {
            Crash::record(Scene::new(trial, Some(&PUNCH_AND_REWRITE), Beside::Neighbour), seed).look(24, 5)
        });
    }
}

/// ext4 without a journal: nothing orders the new map and the data, and a crash leaves what nobody wrote to in pieces.
/// That is why it is refused.
#[test]
fn ext4_without_a_journal_is_found_out() {
    // That with small blocks writes much more.
    let count = if std::env::var_os("PLUMB_LONG").is_some() { 2 } else { 1 };
    for trial in trial::EXT4_WITHOUT_JOURNAL.into_iter().take(count) {
        if skipped(trial.system) {
            return;
        }
        // Its checker is content with no state, moved or not: only lost bytes count.
        found_out(trial.name, |seed| {
            Crash::record(Scene::new(trial, Some(&Ext4MoveExtents), Beside::Crowd), seed).look(24, 5)
        });
    }
}

/// ext4 with asynchronous commits: the journal may be lasting before the data that it speaks of. That is why it is refused.
#[test]
fn ext4_with_asynchronous_commits_is_found_out() {
    if skipped(System::Ext4) {
        return;
    }
    found_out("ext4 with asynchronous commits", |seed| {
        Crash::record(Scene::new(trial::EXT4_ASYNC_COMMIT, Some(&Ext4MoveExtents), Beside::Neighbour), seed)
            .look_at_journals(48, 5)
    });
    // As it is by default, the journal alone is enough.
    let control = Crash::record(Scene::new(trial::EXT4, None, Beside::Crowd), 1);
    assert_eq!(control.look_at_journals(24, 5), [""; 0]);
}
