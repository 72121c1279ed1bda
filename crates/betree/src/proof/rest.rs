//! A store at rest: what is useless has gone, and what may wait has not been moved.

use rand::RngExt;
use storage::Memory;

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
