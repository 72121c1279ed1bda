//! Features and mount options: each has a verdict, and what is said to be tried is tried.
//!
//! A quick run looks at a few states of each configuration; `PLUMB_LONG=1` at 250.
#![allow(clippy::unwrap_used)]

mod disk;

use std::fs;
use std::path::Path;

use defrag::migrate::{Facts, FileSystem, Mode, Modes, Target, Verdict, modes_text, refusal};
use disk::crash::{number_of_states, skipped, survives};
use disk::guest::with_f2fs;
use disk::scene::{Beside, Scene};
use disk::trial::{MORE, Trial};
use disk::{Disk, System};

fn trial(name: &str) -> Trial {
    Trial::all().find(|trial| trial.name == name).unwrap()
}

fn survives_in(name: &str) {
    let trial = trial(name);
    if !skipped(trial.system) {
        survives(Scene::new(trial, None, Beside::Neighbour), number_of_states().div_ceil(4));
    }
}

macro_rules! survive {
    ($($name:ident $trial:literal;)*) => { $(#[test] fn $name() { survives_in($trial); })* };
}

survive! {
    ext4_writeback "ext4-writeback";
    ext4_plain "ext4-plain";
    ext4_rich "ext4-rich";
    xfs_rich "xfs-rich";
    btrfs_nodatacow "btrfs-nodatacow";
    btrfs_old "btrfs-old";
    btrfs_rich "btrfs-rich";
}

#[test]
fn f2fs_rich() {
    with_f2fs("f2fs_rich", || survives_in("f2fs-rich"));
}

/// What the kernel says of a trial's file system.
fn facts_of(trial: &Trial) -> Facts {
    let disk = Disk::with(trial.system, 512 << 20, trial.make, trial.mount);
    let path = disk.path("file");
    fs::write(&path, vec![1; 1 << 20]).unwrap();
    assert_eq!(refusal(&path, None, false).unwrap(), None, "{}", trial.name);
    Target::open(&path, None).unwrap().facts().clone()
}

/// Whether a mode is there is not guessed: each mount says so itself.
fn has_what_it_tries(systems: &[System], kernel: FileSystem) {
    let modes = Modes::of(&kernel).unwrap();
    for trial in Trial::all().filter(|trial| systems.contains(&trial.system)) {
        if disk::skipped(trial.system) {
            continue;
        }
        let facts = facts_of(&trial);
        let features = facts.features.clone().unwrap();
        // Everything that it has is known.
        let options: Vec<&Mode> = facts.options.iter().map(|name| modes.option(name).expect(name)).collect();
        let features: Vec<&Mode> = features.iter().map(|name| modes.feature(name).expect(name)).collect();
        let tried = |mode: &&Mode| mode.verdict == Verdict::Tried(trial.name);
        for mode in modes.options.iter().copied().flatten().filter(tried) {
            assert!(options.contains(&mode), "{}: no option {} in {:?}", trial.name, mode.name, facts.options);
        }
        for mode in modes.features.iter().filter(tried) {
            assert!(features.contains(&mode), "{}: no feature {} in {:?}", trial.name, mode.name, facts.features);
        }
    }
}

#[test]
fn ext4_trials_have_what_they_try() {
    has_what_it_tries(&[System::Ext4], FileSystem::Ext4);
}

#[test]
fn xfs_trials_have_what_they_try() {
    has_what_it_tries(&[System::Xfs, System::XfsExchange], FileSystem::Xfs);
}

#[test]
fn btrfs_trials_have_what_they_try() {
    has_what_it_tries(&[System::Btrfs], FileSystem::Btrfs);
}

#[test]
fn f2fs_trials_have_what_they_try() {
    with_f2fs("f2fs_trials_have_what_they_try", || has_what_it_tries(&[System::F2fs], FileSystem::F2fs));
}

#[test]
fn each_trial_is_one_that_is_made() {
    for system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::F2fs] {
        let modes = Modes::of(&system).unwrap();
        let mut named = Vec::new();
        for mode in modes.options.iter().copied().flatten().chain(modes.features) {
            if let Verdict::Tried(name) = mode.verdict {
                assert_eq!(FileSystem::named(trial(name).system.name()), system, "{}: {name}", mode.name);
                named.push(name);
            }
        }
        let unused = MORE.iter().filter(|trial| FileSystem::named(trial.system.name()) == system);
        assert!(unused.clone().all(|trial| named.contains(&trial.name)), "{unused:?} {named:?}");
    }
}

/// A table beside the code would not stay true: `PLUMB_UPDATE_DOCS=1` writes it.
#[test]
fn the_document_has_the_tables() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/defrag-safety.md");
    let (begin, end) = ("<!-- modes -->\n", "<!-- end of modes -->\n");
    let text = fs::read_to_string(&place).unwrap();
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let now = format!("{before}{begin}\n{}{end}{after}", modes_text());
    if std::env::var_os("PLUMB_UPDATE_DOCS").is_some() {
        fs::write(&place, &now).unwrap();
    }
    assert!(fs::read_to_string(&place).unwrap() == now, "PLUMB_UPDATE_DOCS=1 writes {}", place.display());
}
