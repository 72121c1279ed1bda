//! A store at rest: what is useless has gone, and what may wait has not been moved.

use std::sync::Arc;

use crash::{Cuts, VolatileCache};
use rand::RngExt;
use storage::{Image, Memory, Recorded};

use super::crash::survivors;
use super::workload::{Map, content, random, unsound};
use crate::{Compression, Database, Durability, Error, Options, Tree};

fn options() -> Options {
    Options {
        leaf_bytes: 64 << 10,
        basement_bytes: 16 << 10,
        fanout: 16,
        buffer_bytes: 512 << 10,
        memtable_bytes: 256 << 10,
        fresh_bytes: 512 << 10,
        log_bytes: 1 << 20,
        compression: Compression::None,
        ..Options::default()
    }
}

fn failed(error: Error) -> String {
    error.to_string()
}

fn insert(tree: &Tree, map: &mut Map, number: u32, byte: u8) -> Result<(), String> {
    let key = number.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec();
    let value = vec![byte; 100];
    map.insert(key.clone(), value.clone());
    tree.insert(key, value, Durability::None).map_err(failed)
}

/// Bytes of blocks in use.
fn used_bytes(database: &Database) -> u64 {
    let stats = database.stats();
    stats.capacity_bytes - 16 * 4096 - options().log_bytes - stats.free_bytes - stats.waiting_bytes
}

/// After inserts, overwrites and deletes a store at rest takes little more than one that was written once.
pub(super) fn space(seed: u64) -> Result<(), String> {
    const KEYS: u32 = 8000;
    let database = Database::create(Memory::new(64 << 20), options(), 3).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let (mut random, mut map) = (random(seed), Map::new());
    for number in 0..KEYS {
        insert(&tree, &mut map, number, 0)?;
    }
    database.quiesce().map_err(failed)?;
    let judge = |what: &str, map: &Map| {
        if content(&tree).map_err(failed)? != *map {
            return Err(format!("{what}: wrong content"));
        }
        if let Some(finding) = unsound(&database) {
            return Err(finding);
        }
        // An entry of a key of 4 and a value of 100 bytes takes 112; nodes are at least half full.
        let (used, bound) = (used_bytes(&database), map.len() as u64 * 112 * 14 / 10 + (128 << 10));
        if used > bound { Err(format!("{what}: {used} bytes for {} entries", map.len())) } else { Ok(()) }
    };
    judge("inserts", &map)?;
    for round in 1..4 {
        for _ in 0..KEYS {
            insert(&tree, &mut map, random.random_range(0..KEYS), round)?;
        }
    }
    database.quiesce().map_err(failed)?;
    judge("overwrites", &map)?;
    let keys: Vec<Vec<u8>> = map.keys().step_by(3).cloned().collect();
    for key in keys {
        tree.remove(&key, Durability::None).map_err(failed)?;
        map.remove(&key);
    }
    database.quiesce().map_err(failed)?;
    judge("deletes", &map)?;
    tree.remove_range(&[16][..]..&[240][..], Durability::None).map_err(failed)?;
    map.retain(|key, _| key[..] < [16][..] || key[..] >= [240][..]);
    database.quiesce().map_err(failed)?;
    judge("a range delete", &map)
}

#[test]
fn what_is_useless_does_not_rest() {
    for seed in 0..3 {
        space(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

/// What is written for each byte of the user's, in runs above the leaves: what is in memory when a checkpoint comes moves past the nodes
/// that have others below them before it is written.
pub(super) fn runs() -> Result<(), String> {
    let options = Options {
        basement_bytes: 4 << 10,
        memtable_bytes: 512 << 10,
        fresh_bytes: 1 << 20,
        log_bytes: 8 << 20,
        ..options()
    };
    let database = Database::create(Memory::new(64 << 20), options, 3).map_err(failed)?;
    let (tree, mut map) = (database.tree("t").map_err(failed)?, Map::new());
    for number in 0..80_000 {
        insert(&tree, &mut map, number, 0)?;
    }
    database.quiesce().map_err(failed)?;
    let written = database.stats().run_bytes as f64 / (map.len() * 104) as f64;
    println!("{written:.2} bytes in runs for each");
    if written > 1.25 {
        Err(format!("{written:.2} bytes in runs for each"))
    } else {
        unsound(&database).map_or(Ok(()), Err)
    }
}

/// Trees of four levels and tables that are large beside a node, so that much moves on before it is written: what is there is what
/// was put there, after another opening too, and after a power cut it is as some batch left it that came behind the last sync.
pub(super) fn cuts(seed: u64) -> Result<u64, String> {
    let options = Options {
        leaf_bytes: 8 << 10,
        basement_bytes: 4 << 10,
        fanout: 4,
        buffer_bytes: 16 << 10,
        memtable_bytes: 48 << 10,
        fresh_bytes: 64 << 10,
        ..options()
    };
    let (recorded, recording) = Recorded::new(Memory::new(16 << 20));
    let recorded = Arc::new(recorded);
    drop(Database::create(Arc::clone(&recorded), options.clone(), 3).map_err(failed)?);
    let before = Image::new(16 << 20);
    let (mut random, mut map) = (random(seed), Map::new());
    let mut states = vec![map.clone()];
    let mut database = Database::open(Arc::clone(&recorded), options.clone()).map_err(failed)?;
    for round in 0..60u32 {
        let tree = database.tree("t").map_err(failed)?;
        recording.mark(u64::from(round));
        for _ in 0..80 {
            insert(&tree, &mut map, random.random_range(0..4000), round as u8)?;
        }
        let (first, wide) = (random.random_range(0..4000u32), random.random_range(0..3u8));
        let key = |number: u32| number.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec();
        let start = key(first);
        let mut end = start.clone();
        end[0] = end[0].saturating_add(wide);
        map.retain(|key, _| !(&start..&end).contains(&key));
        tree.remove_range(start..end, Durability::Sync).map_err(failed)?;
        states.push(map.clone());
        if round % 9 == 8 {
            drop((tree, database));
            database = Database::open(Arc::clone(&recorded), options.clone()).map_err(failed)?;
        }
        if content(&database.tree("t").map_err(failed)?).map_err(failed)? != map {
            return Err(format!("seed {seed}, round {round}: another content"));
        }
    }
    if let Some(what) = unsound(&database) {
        return Err(what);
    }
    let mut looked = 0;
    for (number, cut) in Cuts::new(before, &recording.take(), VolatileCache::default()).enumerate() {
        let Some(synced) = cut.mark.filter(|_| number % 7 == seed as usize % 7) else { continue };
        let opened = Database::open(Memory::from_image(survivors(&cut, number % 5, &mut random)), options.clone());
        let opened = opened.map_err(failed)?;
        let found = content(&opened.tree("t").map_err(failed)?).map_err(failed)?;
        // Of the round that was under way some inserts may be there.
        let least = &states[synced as usize];
        let is_later = least.iter().all(|(key, value)| found.get(key).is_some_and(|found| found >= value))
            || states.get(synced as usize + 1) == Some(&found);
        if !is_later {
            return Err(format!("seed {seed}, cut {number}: what was synced in round {synced} is not there"));
        }
        if let Some(what) = unsound(&opened) {
            return Err(format!("seed {seed}, cut {number}: {what}"));
        }
        looked += 1;
    }
    Ok(looked)
}

#[test]
fn what_is_in_memory_moves_on_before_it_is_written() {
    runs().unwrap();
}

#[test]
fn what_moved_on_is_there_after_a_cut() {
    for seed in 0..if std::env::var_os("PLUMB_LONG").is_some() { 100 } else { 3 } {
        let looked = cuts(seed).unwrap();
        assert!(looked > 20, "{looked} cuts");
    }
}

/// Distinct keys take the place of nothing: at rest no leaf is rewritten for them, and compacting rewrites them all.
#[test]
fn what_may_wait_is_not_moved() {
    let database = Database::create(Memory::new(64 << 20), options(), 3).unwrap();
    let tree = database.tree("t").unwrap();
    let mut map = Map::new();
    for number in 0..20_000 {
        insert(&tree, &mut map, number, 0).unwrap();
    }
    database.checkpoint().unwrap();
    let before = database.stats();
    database.quiesce().unwrap();
    let rested = database.stats();
    assert!(rested.leaf_bytes - before.leaf_bytes <= 128 << 10, "{before:?} {rested:?}");
    database.quiesce().unwrap();
    assert_eq!(rested.leaf_bytes, database.stats().leaf_bytes, "at rest nothing is owed");
    database.compact().unwrap();
    assert!(database.stats().leaf_bytes - rested.leaf_bytes > 1 << 20, "{rested:?}");
    assert_eq!(content(&tree).unwrap(), map);
}
