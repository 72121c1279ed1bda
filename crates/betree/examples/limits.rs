//! Measures what must not grow: upserts of one key without a join, commits beside many trees, range deletes of single keys,
//! memory while a store is compacted, and puts while a snapshot is saved (in memory and on a modelled NVMe drive). And what threads of
//! the store's own gain.
//!
//! ```text
//! cargo run --release -p plumb-betree --example limits -- upserts|trees|ranges|compact|snapshot|threads
//! ```
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use betree::{Batch, Compression, Database, Durability, Growth, Operator, Options, Pacing};
use ssd::profile::Profile;
use storage::{File, FileOptions, Memory, Modelled, ModelledOptions, Storage};

/// Operands pile up.
struct Last;

impl Operator for Last {
    fn apply(&self, _existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        Some(operand.to_vec())
    }

    fn growth(&self, operand: &[u8]) -> Growth {
        Growth::UpTo(operand.len())
    }
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = work();
    println!("{what}: {:.3} s", began.elapsed().as_secs_f64());
    result
}

fn upserts() {
    let options = Options::default().operator(9, Last);
    let database = Database::create(Memory::new(1 << 30), options, 1).unwrap();
    let tree = database.tree("t").unwrap();
    timed("20,000 upserts of a key", || {
        for number in 0..20_000u32 {
            let mut batch = Batch::new();
            batch.upsert(&tree, "k", 9, number.to_le_bytes());
            database.commit(&batch, Durability::None).unwrap();
        }
    });
    timed("a get", || tree.get("k").unwrap());
    timed("a checkpoint", || database.checkpoint().unwrap());
    timed("a get behind it", || tree.get("k").unwrap());
}

fn trees() {
    for count in [1usize, 100, 4000] {
        let database = Database::create(Memory::new(1 << 30), Options::default(), 1).unwrap();
        let trees: Vec<_> = (0..count).map(|number| database.tree(&number.to_string()).unwrap()).collect();
        let puts = if count == 4000 { 40_000 } else { 200_000u32 };
        let began = Instant::now();
        for number in 0..puts {
            let key = number.wrapping_mul(2_654_435_761).to_be_bytes();
            trees[number as usize % count].insert(key, [7; 100], Durability::None).unwrap();
        }
        println!("{count} trees: {:.0} k puts/s", f64::from(puts) / began.elapsed().as_secs_f64() / 1000.0);
        timed("checkpoint", || database.checkpoint().unwrap());
    }
}

/// Puts into four trees, with all that they owe in the end, by who does that.
fn threads() {
    const PUTS: u32 = 1_200_000;
    for pacing in [Pacing::Rising, Pacing::Beside(1), Pacing::Beside(2), Pacing::Beside(3)].repeat(3) {
        let options = Options { memtable_bytes: 8 << 20, pacing, ..Options::default() };
        let database = Database::create(Memory::new(1 << 30), options, 1).unwrap();
        let trees: Vec<_> = (0..4).map(|number| database.tree(&number.to_string()).unwrap()).collect();
        let mut times = Vec::new();
        let began = Instant::now();
        for number in 0..PUTS {
            let key = number.wrapping_mul(2_654_435_761).to_be_bytes();
            let put = Instant::now();
            trees[number as usize % 4].insert(key, [7; 100], Durability::None).unwrap();
            times.push(put.elapsed().as_nanos() as u64);
        }
        let put = began.elapsed().as_secs_f64();
        database.checkpoint().unwrap();
        times.sort_unstable();
        let at = |share: usize| times[(times.len() * share / 10_000).min(times.len() - 1)] as f64 / 1e3;
        println!(
            "{pacing:?}: {:.0} k puts/s, p99 {:.1}, p99.9 {:.0}, max {:.0} us; all done after {:.2} s",
            f64::from(PUTS) / put / 1000.0,
            at(9900),
            at(9990),
            at(10_000),
            began.elapsed().as_secs_f64()
        );
    }
}

fn ranges() {
    let database = Database::create(Memory::new(1 << 30), Options::default(), 1).unwrap();
    let tree = database.tree("t").unwrap();
    for number in 0..600_000u32 {
        tree.insert(number.to_be_bytes(), [7; 100], Durability::None).unwrap();
    }
    timed("a scan of 600,000", || assert_eq!(tree.iter().count(), 600_000));
    let mut times = Vec::new();
    timed("200,000 range deletes of a key each", || {
        for number in 0..200_000u32 {
            let key = number.wrapping_mul(2_654_435_761) % 200_000 * 3;
            let began = Instant::now();
            tree.remove_range(key.to_be_bytes()..(key + 1).to_be_bytes(), Durability::None).unwrap();
            times.push(began.elapsed().as_nanos() as u64);
        }
    });
    times.sort_unstable();
    println!("p99.9 {:.1} ms, max {:.1} ms", times[199_800] as f64 / 1e6, times[199_999] as f64 / 1e6);
    timed("a scan", || println!("{} entries", tree.iter().count()));
    timed("quiesce", || database.quiesce().unwrap());
    timed("a scan", || println!("{} entries", tree.iter().count()));
}

/// Resident bytes now, and the most so far.
fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    (of("VmRSS:"), of("VmHWM:"))
}

fn compact() {
    let directory = tempfile::tempdir().unwrap();
    let file = FileOptions { capacity_bytes: Some(2 << 30), ..FileOptions::default() };
    let storage = File::open(&directory.path().join("store"), &file).unwrap();
    let options = Options {
        cache_bytes: 16 << 20,
        memtable_bytes: 8 << 20,
        fresh_bytes: 16 << 20,
        log_bytes: 32 << 20,
        compression: Compression::None,
        ..Options::default()
    };
    let database = Database::create(storage, options, 1).unwrap();
    let tree = database.tree("t").unwrap();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("at the beginning: {:.0} MiB", mib(resident().1));
    timed("2,000,000 inserts of 116 bytes", || {
        for number in 0..2_000_000u64 {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            tree.insert([key, key].concat(), [number as u8; 100], Durability::None).unwrap();
        }
    });
    println!("resident {:.0} MiB, at most {:.0}", mib(resident().0), mib(resident().1));
    timed("compact", || database.compact().unwrap());
    println!("resident {:.0} MiB, at most {:.0}", mib(resident().0), mib(resident().1));
}

/// Microseconds at which so many of a thousand are done.
fn line(what: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let at = |thousandth: usize| times[(times.len() * thousandth / 1000).min(times.len() - 1)] as f64 / 1e3;
    println!(
        "{what}: {} puts, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1} us",
        times.len(),
        at(500),
        at(990),
        at(999),
        at(1000)
    );
}

/// A thread puts, and another one saves a snapshot while 200,000 puts and more are owed.
fn snapshot() {
    for device in [None, Some("samsung-980pro-1tb")] {
        let modelled = device.map(|name| {
            let options = ModelledOptions { capacity_bytes: Some(1 << 30), ..ModelledOptions::default() };
            Modelled::new(&Profile::builtin(name).unwrap(), &options).unwrap()
        });
        let storage: Arc<dyn Storage> = match &modelled {
            Some(device) => Arc::new(device.clone()),
            None => Arc::new(Memory::new(1 << 30)),
        };
        println!("{}:", device.unwrap_or("in memory"));
        let database =
            Database::create(storage, Options { compression: Compression::None, ..Options::default() }, 1).unwrap();
        let tree = database.tree("t").unwrap();
        let now = || modelled.as_ref().map_or(0, |device| device.now().0);
        let (mut number, mut wall, mut own) = (0u64, Vec::new(), Vec::new());
        let mut put = |wall: &mut Vec<u64>, own: &mut Vec<u64>| {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let (began, at) = (Instant::now(), now());
            tree.insert([key, key].concat(), [7; 100], Durability::None).unwrap();
            wall.push(began.elapsed().as_nanos() as u64);
            own.push(now() - at);
            number += 1;
        };
        (0..1_200_000).for_each(|_| put(&mut wall, &mut own));
        // What waits in memory: see what a checkpoint of it takes.
        let stats = database.stats();
        println!(
            "{} MiB of messages in memory, {} MiB worked so far",
            stats.memory_bytes >> 20,
            stats.worked_bytes >> 20
        );
        line("before, on the wall", wall);
        line("before, of the device", own);
        let (mut wall, mut own) = (Vec::new(), Vec::new());
        let saved = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !saved.load(Ordering::Acquire) {
                    put(&mut wall, &mut own);
                }
            });
            timed("saving a snapshot", || database.save_snapshot("s").unwrap());
            saved.store(true, Ordering::Release);
        });
        line("meanwhile, on the wall", wall);
        line("meanwhile, of the device", own);
    }
}

fn main() {
    for what in std::env::args().skip(1) {
        match what.as_str() {
            "upserts" => upserts(),
            "trees" => trees(),
            "ranges" => ranges(),
            "compact" => compact(),
            "snapshot" => snapshot(),
            "threads" => threads(),
            other => eprintln!("{other}: upserts, trees, ranges, compact, snapshot or threads"),
        }
    }
}
