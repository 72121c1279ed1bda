//! Crashes while files are moved in ways that need more than one range: with holes, and without copy-on-write.
//!
//! A quick run looks at a few states of each; `PLUMB_LONG=1` at 250.
#![allow(clippy::unwrap_used)]

mod disk;

use std::thread;

use defrag::migrate::{Migrate, XfsDeduplicate};
use disk::System;
use disk::crash::{Crash, found_out, number_of_states, skipped, survives};
use disk::mutant::ONE_ROOM_EXT4;
use disk::scene::{Beside, Scene, Shape};
use disk::trial::{self, Trial};

fn survives_crashes(trial: Trial, way: Option<&'static dyn Migrate>, shape: Shape) {
    if skipped(trial.system) {
        return;
    }
    let count = number_of_states().div_ceil(4);
    let reopens = matches!(trial.system, System::Ext4 | System::XfsExchange);
    let scene = |beside| Scene { shape, ..Scene::new(trial, way, beside) };
    thread::scope(|scope| {
        scope.spawn(|| survives(scene(Beside::Neighbour), count));
        scope.spawn(|| survives(scene(Beside::Writer { reopens }), count));
    });
}

#[test]
fn ext4_survives_crashes_beside_holes() {
    survives_crashes(trial::EXT4, None, Shape::Holes);
}

#[test]
fn xfs_survives_crashes_beside_holes() {
    survives_crashes(trial::XFS, None, Shape::Holes);
}

#[test]
fn xfs_exchange_survives_crashes_beside_holes() {
    survives_crashes(trial::XFS_EXCHANGE, None, Shape::Holes);
}

#[test]
fn btrfs_survives_crashes_beside_holes() {
    survives_crashes(trial::BTRFS, None, Shape::Holes);
}

fn btrfs_without_copy_on_write() -> Trial {
    Trial::all().find(|trial| trial.name == "btrfs-nodatacow").unwrap()
}

#[test]
fn btrfs_survives_crashes_without_copy_on_write() {
    survives_crashes(btrfs_without_copy_on_write(), None, Shape::Whole);
}

/// What is shared is a copy that is without copy-on-write as well.
#[test]
fn btrfs_survives_crashes_without_copy_on_write_when_it_shares_a_copy() {
    survives_crashes(btrfs_without_copy_on_write(), Some(&XfsDeduplicate), Shape::Whole);
    survives_crashes(btrfs_without_copy_on_write(), None, Shape::Holes);
}

/// ext4 with the parts between holes moved by one room: a crash finds the first part's old place written over. That is why each has
/// a room of its own until the next commit.
#[test]
fn ext4_with_one_room_for_all_parts_is_found_out() {
    if skipped(System::Ext4) {
        return;
    }
    let scene = Scene { shape: Shape::Holes, ..Scene::new(trial::EXT4, Some(&ONE_ROOM_EXT4), Beside::Neighbour) };
    found_out("ext4 with one room for all parts", |seed| Crash::record(scene, seed).look(24, 5));
}
