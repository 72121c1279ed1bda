//! Damaged file systems: whatever became of some keys and values, the check says that something is wrong or everything reads
//! well, a repair leaves nothing wrong, and what it leaves can be used.

use betree::{Batch, Durability, Tree};
use rand::{Rng, RngExt};
use storage::Memory;

use super::action::{Scale, action, random};
use super::compare::tree;
use super::side::Side;
use super::traces::{at, long, seeds_of_both, tiny};
use crate::Volume;
use crate::fsck::repair_store;
use crate::operations::{Caller, Error, InodeNumber, Name, Operations, Permissions};
use crate::volume::Store;

const SCALE: Scale = Scale { file_bytes: 150_000, write_bytes: 30_000 };

/// A random key of a tree with its value.
fn pick(tree: &Tree, random: &mut impl Rng) -> Option<(Vec<u8>, Vec<u8>)> {
    let entries: Vec<_> = tree.iter().flatten().collect();
    (!entries.is_empty()).then(|| entries[random.random_range(0..entries.len())].clone())
}

/// Removes, changes, moves, or swaps a value.
fn damage(store: &Store, random: &mut impl Rng) -> String {
    let trees = [&store.entries, &store.inodes, &store.orphans, &store.xattrs, &store.data, &store.entries];
    let which = random.random_range(0..trees.len());
    let tree = trees[which];
    let Some((key, value)) = pick(tree, random) else { return String::new() };
    let mut batch = Batch::new();
    let how = random.random_range(0..6);
    match how {
        0 => batch.remove(tree, &key),
        1 => {
            let mut value = value;
            if let Some(byte) = value.len().checked_sub(1).map(|last| random.random_range(0..=last.min(120))) {
                value[byte] ^= 1 << random.random_range(0..8);
            }
            batch.insert(tree, &key, value);
        }
        2 => batch.insert(tree, &key, &value[..random.random_range(0..=value.len())]),
        3 => {
            let mut key = key.clone();
            let byte = random.random_range(0..key.len());
            key[byte] ^= 1 << random.random_range(0..8);
            batch.insert(tree, key, value);
        }
        4 => {
            // Another key's value.
            if let Some((other, _)) = pick(tree, random) {
                batch.insert(tree, other, value);
            }
        }
        _ => batch.insert(tree, &key, super::action::bytes(random.next_u64(), random.random_range(0..130))),
    }
    store.database.commit(&batch, Durability::None).unwrap();
    format!("tree {which}, way {how}, key {key:02x?}")
}

/// Damages a file system again and again.
fn damaged(seed: u64, times: usize) -> Result<usize, String> {
    let words = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let memory = Memory::new(64 << 20);
    let volume = Volume::create(memory.clone(), tiny(seed), u128::from(seed), at(0)).map_err(words("create"))?;
    let mut side = Side::new(volume);
    let mut random = random(seed);
    for step in 1..300 {
        let action = action(&mut random, side.slots.len(), SCALE);
        side.apply(&action, at(step));
    }
    let mut findings = 0;
    for number in 0..times {
        let (store, next) = side.fs.now();
        let store = store.clone();
        let what: Vec<String> = (0..random.random_range(1..4)).map(|_| damage(&store, &mut random)).collect();
        let tell = |why: String| format!("seed {seed}, damage {number}, {what:?}: {why}");
        let repair = repair_store(&store, next, at(1000)).map_err(words("repair")).map_err(&tell)?;
        findings += repair.found.len();
        if let Some(left) = repair.left.first() {
            return Err(tell(format!("{left} is left of {:?}", repair.found.first())));
        }
        // What is in memory is of before.
        side.fs.syncfs().map_err(words("sync"))?;
        drop((store, side));
        let volume = Volume::open(memory.clone(), tiny(seed)).map_err(words("mount")).map_err(&tell)?;
        while volume.reap(100).map_err(words("reap")).map_err(&tell)? {}
        tree(&volume).map_err(words("read")).map_err(&tell)?;
        let caller = Caller { uid: 0, gid: 0, groups: &[], umask: 0, now: at(2000 + number as u64) };
        let name = format!("new {number}");
        let name = Name::new(name.as_bytes()).map_err(words("name"))?;
        let made = volume.create(&caller, InodeNumber::ROOT, name, Permissions::of_mode(0o644));
        let made = made.map_err(words("create")).map_err(&tell)?;
        volume.write(&caller, made.inode, 5, &[1; 9000], false).map_err(words("write")).map_err(&tell)?;
        volume.release(made.inode).map_err(words("release"))?;
        if let Some(finding) = volume.check().map_err(words("check"))?.first() {
            return Err(tell(format!("used again: {finding}")));
        }
        side = Side::new(volume);
    }
    Ok(findings)
}

/// `PLUMB_LONG=1`: a hundred thousand.
#[test]
fn it_is_found_and_mended() {
    let (seeds, times) = if long() { (500, 200) } else { (3, 60) };
    let mut findings = 0;
    for seed in seeds_of_both(seeds, 1) {
        findings += damaged(seed, times).unwrap_or_else(|what| panic!("{what}"));
    }
    assert!(findings > 0);
    println!("{findings} findings");
}
