//! A seeded stream of batches with the map that each leaves.

use std::collections::BTreeMap;

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Add, Append, Batch, Compression, Database, Durability, Error, Options, Pacing, Tree};

pub(super) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The key under which each batch writes its number.
pub(super) const NUMBER: &[u8] = b"!number";

pub(super) fn random(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Nodes so small that a few batches make a tree of several levels, and a log that goes round. Work is
/// paced in each way.
pub(super) fn tiny(seed: u64) -> Options {
    Options {
        leaf_bytes: 600,
        basement_bytes: 256,
        fanout: 4,
        buffer_bytes: 500,
        memtable_bytes: 2000,
        fresh_bytes: 3000,
        cache_bytes: 1 << 18,
        log_bytes: 20 * 4096,
        pacing: [Pacing::Rising, Pacing::Elsewhere, Pacing::AtOnce][(seed % 3) as usize],
        large_value_bytes: [90, usize::MAX][(seed / 3 % 2) as usize],
        discard_bytes: [Some(4 * 4096), None][(seed % 2) as usize],
        compression: [Compression::None, Compression::Lz4, Compression::Zstd][(seed / 2 % 3) as usize],
        ..Options::default()
    }
    .operator(1, Add)
    .operator(2, Append)
}

/// Every key that a batch may change, but for those of its number and sum.
pub(super) fn keys() -> impl Iterator<Item = Vec<u8>> {
    (0..KEYS).map(numbered)
}

const KEYS: u16 = 90;

fn key(random: &mut impl Rng) -> Vec<u8> {
    numbered(random.random_range(0..KEYS))
}

fn numbered(number: u16) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.resize(2 + usize::from(number % 4), b'k');
    key
}

/// A batch that follows batch `number - 1`, and what it does to the map.
pub(super) fn batch(tree: &Tree, number: u64, random: &mut impl Rng, map: &mut Map) -> Batch {
    let mut batch = Batch::new();
    batch.insert(tree, NUMBER, number.to_le_bytes());
    map.insert(NUMBER.to_vec(), number.to_le_bytes().to_vec());
    batch.upsert(tree, "!sum", 1, number.to_le_bytes());
    let sum = map.get(&b"!sum"[..]).map_or(0, |sum| u64::from_le_bytes(sum[..].try_into().unwrap()));
    map.insert(b"!sum".to_vec(), (sum + number).to_le_bytes().to_vec());
    for _ in 0..random.random_range(1..8) {
        let key = key(random);
        match random.random_range(0..12) {
            0..6 => {
                let value = vec![number as u8; random.random_range(0..120)];
                batch.insert(tree, &key, value.clone());
                map.insert(key, value);
            }
            6..8 => {
                batch.remove(tree, &key);
                map.remove(&key);
            }
            8..10 => {
                batch.upsert(tree, &key, 2, [number as u8, 1]);
                map.entry(key).or_default().extend([number as u8, 1]);
            }
            _ => {
                // Often over many keys, so that whole children go.
                let end = if random.random_range(0..3) == 0 { vec![0, 90] } else { self::key(random) };
                batch.remove_range(tree, key.clone()..end.clone());
                map.retain(|one, _| *one < key || *one >= end);
            }
        }
    }
    batch
}

pub(super) fn durability(random: &mut impl Rng) -> Durability {
    match random.random_range(0..4) {
        0 => Durability::None,
        1 => Durability::Batch,
        _ => Durability::Sync,
    }
}

/// Everything in the tree.
pub(super) fn content(tree: &Tree) -> Result<Map, Error> {
    tree.iter().collect()
}

/// Which batch is the last in a map.
pub(super) fn number(map: &Map) -> u64 {
    map.get(NUMBER).and_then(|number| Some(u64::from_le_bytes(number[..].try_into().ok()?))).unwrap_or(0)
}

/// What is wrong with a store, if anything.
pub(super) fn unsound(database: &Database) -> Option<String> {
    match database.verify() {
        Ok(findings) => findings.into_iter().next(),
        Err(error) => Some(error.to_string()),
    }
}
