//! What reading costs in instructions: makes a store of random inserts, all that waits at rest, and then scans it or looks keys up.
//!
//! ```text
//! reads FILE load ENTRIES
//! reads FILE scan|keys|backward CACHE_MIB
//! reads FILE get CACHE_MIB GETS
//! reads FILE short CACHE_MIB SCANS
//! ```
//!
//! `valgrind --tool=callgrind --collect-atstart=no --toggle-collect='reads::measured::*' reads FILE scan 8` counts the instructions of the
//! reading alone. Keys have 16 bytes and values 100, which do not compress.
#![allow(clippy::unwrap_used)]

use betree::{Compression, Database, Durability, Options, Tree};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use storage::{File, FileOptions};

const VALUE_BYTES: usize = 100;

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    // A bijection of 64 bits, so no key comes twice.
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).swap_bytes().to_be_bytes());
    key
}

fn options(cache_mib: usize) -> Options {
    Options {
        compression: Compression::None,
        cache_bytes: cache_mib << 20,
        memtable_bytes: 1 << 20,
        fresh_bytes: 2 << 20,
        log_bytes: 8 << 20,
        ..Options::default()
    }
}

/// What is counted.
mod measured {
    use betree::Tree;
    use rand::RngExt;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[inline(never)]
    pub fn scan(tree: &Tree) -> (u64, u64) {
        tree.iter()
            .map(Result::unwrap)
            .fold((0, 0), |sum, (key, value)| (sum.0 + 1, sum.1 + (key.len() + value.len()) as u64))
    }

    #[inline(never)]
    pub fn short(tree: &Tree, scans: u64, entries: u64, random: &mut Xoshiro256PlusPlus) -> (u64, u64) {
        let (mut rows, mut bytes) = (0, 0);
        for _ in 0..scans {
            let start = super::key(random.random_range(0..entries));
            for (key, value) in tree.range(start..).take(super::SHORT).map(Result::unwrap) {
                (rows, bytes) = (rows + 1, bytes + (key.len() + value.len()) as u64);
            }
        }
        (rows, bytes)
    }

    #[inline(never)]
    pub fn backward(tree: &Tree) -> (u64, u64) {
        let rows = tree.iter().rev().map(Result::unwrap);
        rows.fold((0, 0), |sum, (key, value)| (sum.0 + 1, sum.1 + (key.len() + value.len()) as u64))
    }

    #[inline(never)]
    pub fn keys(tree: &Tree) -> (u64, u64) {
        tree.keys::<&[u8]>(..).map(Result::unwrap).fold((0, 0), |sum, key| (sum.0 + 1, sum.1 + key.len() as u64))
    }

    #[inline(never)]
    pub fn get(tree: &Tree, gets: u64, entries: u64, random: &mut Xoshiro256PlusPlus) -> (u64, u64) {
        let mut bytes = 0;
        for _ in 0..gets {
            bytes += tree.get(super::key(random.random_range(0..entries))).unwrap().unwrap().len() as u64;
        }
        (gets, bytes)
    }
}

/// Entries of a short scan.
const SHORT: usize = 100;

fn load(tree: &Tree, entries: u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut value = vec![0; VALUE_BYTES];
    for number in 0..entries {
        random.fill(&mut value[..]);
        tree.insert(key(number), value.clone(), Durability::None).unwrap();
    }
    tree.insert(b"entries", entries.to_le_bytes(), Durability::None).unwrap();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, what, numbers @ ..] = &arguments[..] else { panic!("FILE and what to do") };
    let number = |at: usize| numbers.get(at).map_or(0, |number: &String| number.parse::<u64>().unwrap());
    if what == "load" {
        let entries = number(0);
        let capacity_bytes = Some((entries * 500 + (64 << 20)).next_multiple_of(4096));
        let storage = File::open(path.as_ref(), &FileOptions { capacity_bytes, ..FileOptions::default() }).unwrap();
        let database = Database::create(storage, options(64), 1).unwrap();
        load(&database.tree("t").unwrap(), entries);
        database.quiesce().unwrap();
        return;
    }
    let storage = File::open(path.as_ref(), &FileOptions::default()).unwrap();
    let database = Database::open_read_only(storage, options(number(0) as usize)).unwrap();
    let tree = database.open_tree("t").unwrap();
    let entries = u64::from_le_bytes(tree.get(b"entries").unwrap().unwrap().try_into().unwrap());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let (count, bytes) = match what.as_str() {
        "scan" => measured::scan(&tree),
        "keys" => measured::keys(&tree),
        "backward" => measured::backward(&tree),
        "get" => {
            warm(&tree, entries, &mut random);
            measured::get(&tree, number(1), entries, &mut random)
        }
        "short" => {
            warm(&tree, entries, &mut random);
            measured::short(&tree, number(1), entries, &mut random)
        }
        other => panic!("{other}: unknown"),
    };
    let stats = database.stats();
    println!(
        "{what}: {count}, {bytes} bytes; {} bytes read, {} hits, {} misses",
        stats.read_bytes, stats.cache_hits, stats.cache_misses
    );
}

/// Brings the cache to where it stays.
fn warm(tree: &Tree, entries: u64, random: &mut Xoshiro256PlusPlus) {
    for _ in 0..entries / 10 {
        tree.get(key(random.random_range(0..entries))).unwrap().unwrap();
    }
}
