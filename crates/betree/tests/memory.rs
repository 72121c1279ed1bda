//! What a store takes in memory while everything that it can do is done, in a process of its own.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use betree::{Batch, Compression, Database, Durability, Options};
use storage::{File, FileOptions};

/// Set in the process that does the work: the folder for its store.
const FOLDER: &str = "PLUMB_MEMORY_FOLDER";

fn options() -> Options {
    Options {
        cache_bytes: 16 << 20,
        memtable_bytes: 8 << 20,
        fresh_bytes: 16 << 20,
        log_bytes: 16 << 20,
        compression: Compression::None,
        ..Options::default()
    }
}

/// What the documentation says that a store with these options takes.
fn budget_bytes() -> u64 {
    let options = options();
    options.cache_bytes as u64 + 3 * options.memtable_bytes + 2 * options.fresh_bytes
}

/// The most that this process had resident.
fn most_resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn key(number: u32) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_be_bytes());
    key
}

/// Loads several times the memory, overwrites, deletes, scans, saves a snapshot, compacts.
fn live(folder: &str) {
    const ENTRIES: u32 = 1_500_000;
    let path = std::path::Path::new(folder).join("store");
    let file = FileOptions { capacity_bytes: Some(2 << 30), ..FileOptions::default() };
    let database = Database::create(File::open(&path, &file).unwrap(), options(), 1).unwrap();
    let tree = database.tree("t").unwrap();
    for number in 0..ENTRIES {
        tree.insert(key(number), [number as u8; 100], Durability::None).unwrap();
    }
    database.save_snapshot("loaded").unwrap();
    for number in (0..ENTRIES).step_by(3) {
        tree.insert(key(number), [!number as u8; 100], Durability::None).unwrap();
    }
    assert_eq!(tree.iter().count(), ENTRIES as usize);
    let keys: Vec<[u8; 16]> = (0..20_000).map(|number| key(number * 71)).collect();
    assert!(tree.get_many(&keys).unwrap().iter().all(Option::is_some));
    for number in 0..400u32 {
        let mut batch = Batch::new();
        batch.insert(&tree, [&b"large"[..], &number.to_be_bytes()].concat(), vec![number as u8; 256 << 10]);
        database.commit(&batch, Durability::Batch).unwrap();
    }
    tree.remove_range(&[64u8][..]..&[128][..], Durability::Sync).unwrap();
    database.remove_snapshot("loaded").unwrap();
    database.quiesce().unwrap();
    database.compact().unwrap();
    assert_eq!(database.verify().unwrap(), Vec::<String>::new());
    let most = most_resident_bytes();
    println!("{} MiB resident at most, budget {} MiB", most >> 20, budget_bytes() >> 20);
    assert!(most * 4 <= budget_bytes() * 5, "{most} bytes resident with a budget of {}", budget_bytes());
}

#[test]
fn a_store_stays_within_its_memory() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return live(&folder);
    }
    if std::env::var_os("PLUMB_LONG").is_none() {
        println!("skipped: it takes minutes; PLUMB_LONG=1 runs it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_store_stays_within_its_memory", "--nocapture"]).env(FOLDER, folder.path());
    assert!(command.status().unwrap().success());
}
