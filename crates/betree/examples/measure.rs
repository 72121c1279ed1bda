//! Measures a store: what random inserts cost, put by put, what they write, and how fast they are read back.
//!
//! ```text
//! cargo run --release -p plumb-betree --example measure -- [NAME=VALUE]...
//! ```
//!
//! Names: `entries`, `gets`, `value` (bytes), `path` (a file to make) or `device` (a modelled device's profile; without
//! either: memory), `sync` (each so many puts one is synced; 0: none), `put_ns`, `cache_mib`, `leaf_kib`, `basement_kib`,
//! `filter_bits`, `fanout`, `buffer_kib`, `memtable_kib`, `fresh_kib`, `log_mib`, `policy`, `pacing`, `compression`, `order`
//! (`random` or `ascending`), `rounds`, `drive_mib` (so small an SSD of the profile, with blocks of 48 pages and no SLC cache, which
//! the store has whole), `overwritten` (1: what it holds was overwritten at random), `discard_mib`. Keys have 16 bytes; values do not
//! compress.
//!
//! A put's time is given twice: on the wall, which counts what else runs on the machine, and on the thread's processor
//! clock, which counts the put's own work without the waits for the storage. On a modelled device there is a third, the
//! device's: it counts nothing but waits for the device, and `put_ns` between puts.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use betree::{Compression, Database, Durability, FlushPolicy, Options, Pacing, Tree};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::time::{ClockId, clock_gettime};
use ssd::config::{Initial, Overwritten};
use ssd::profile::{DeviceConfig, Profile};
use stats::Histogram;
use storage::{File, FileOptions, Memory, Modelled, ModelledOptions, Storage};
use units::{ByteSize, Nanos};

/// What is measured.
struct Plan {
    entries: u64,
    gets: u64,
    value_bytes: usize,
    path: Option<String>,
    profile: Option<Profile>,
    sync_each: u64,
    put: Nanos,
    ascending: bool,
    rounds: u64,
    overwritten: bool,
    drive_bytes: Option<u64>,
    options: Options,
}

fn plan() -> Result<Plan, String> {
    let mut plan = Plan {
        entries: 1_000_000,
        gets: 100_000,
        value_bytes: 100,
        path: None,
        profile: None,
        sync_each: 0,
        put: Nanos::ZERO,
        ascending: false,
        rounds: 1,
        overwritten: false,
        drive_bytes: None,
        options: Options { compression: Compression::None, ..Options::default() },
    };
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').ok_or(format!("{argument}: not NAME=VALUE"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{argument}: {error}"));
        let options = &mut plan.options;
        match name {
            "entries" => plan.entries = number()?,
            "gets" => plan.gets = number()?,
            "value" => plan.value_bytes = number()? as usize,
            "path" => plan.path = Some(value.to_owned()),
            "device" => plan.profile = Some(Profile::builtin(value).map_err(|error| error.to_string())?),
            "sync" => plan.sync_each = number()?,
            "put_ns" => plan.put = Nanos(number()?),
            "order" => plan.ascending = value == "ascending",
            "rounds" => plan.rounds = number()?,
            "drive_mib" => plan.drive_bytes = Some(number()? << 20),
            "discard_mib" => options.discard_bytes = Some(number()? << 20),
            "overwritten" => plan.overwritten = number()? > 0,
            "cache_mib" => options.cache_bytes = (number()? as usize) << 20,
            "leaf_kib" => options.leaf_bytes = number()? << 10,
            "basement_kib" => options.basement_bytes = (number()? as usize) << 10,
            "filter_bits" => options.filter_bits = number()? as usize,
            "fanout" => options.fanout = number()? as usize,
            "buffer_kib" => options.buffer_bytes = number()? << 10,
            "memtable_kib" => options.memtable_bytes = number()? << 10,
            "fresh_kib" => options.fresh_bytes = number()? << 10,
            "log_mib" => options.log_bytes = number()? << 20,
            "policy" => {
                let found = FlushPolicy::ALL.iter().find(|(name, _)| *name == value);
                options.flush_policy = found.ok_or(format!("{value}: no flush policy"))?.1;
            }
            "pacing" => {
                let found = Pacing::ALL.iter().find(|(name, _)| *name == value);
                options.pacing = found.ok_or(format!("{value}: no pacing"))?.1;
            }
            "compression" => {
                options.compression = match value {
                    "none" => Compression::None,
                    "lz4" => Compression::Lz4,
                    #[cfg(feature = "zstandard")]
                    "zstd" => Compression::Zstd,
                    _ => return Err(format!("{value}: no compression")),
                };
            }
            _ => return Err(format!("{name}: unknown")),
        }
    }
    Ok(plan)
}

/// Entry `number` of `entries`: every key once, in an order that jumps.
fn key(number: u64, plan: &Plan) -> [u8; 16] {
    // A bijection of 64 bits, so no key comes twice.
    let at = if plan.ascending { number } else { number.wrapping_mul(0x9e37_79b9_7f4a_7c15).swap_bytes() };
    let at = if plan.ascending { at } else { at.wrapping_mul(0xd6e8_feb8_6659_fd93) };
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&at.to_be_bytes());
    key
}

fn processor_time() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn line(name: &str, times: &Histogram) {
    let at = |percent| times.percentile(percent).0 as f64 / 1000.0;
    println!(
        "  {name:<22} p50 {:>9.1}  p99 {:>9.1}  p99.9 {:>9.1}  p99.99 {:>9.1}  max {:>10.1} us",
        at(50.0),
        at(99.0),
        at(99.9),
        at(99.99),
        times.max().0 as f64 / 1000.0
    );
}

fn inserts(database: &Database, tree: &Tree, device: Option<&Modelled>, plan: &Plan) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut wall, mut own, mut modelled) = (Histogram::new(), Histogram::new(), Histogram::new());
    let mut value = vec![0; plan.value_bytes];
    let (began, began_own) = (Instant::now(), processor_time());
    for number in 0..plan.entries {
        random.fill(&mut value[..]);
        let key = key(number, plan);
        let value = value.clone();
        let synced = plan.sync_each > 0 && (number + 1) % plan.sync_each == 0;
        let durability = if synced { Durability::Sync } else { Durability::None };
        let (at, at_own, at_device) = (Instant::now(), processor_time(), device.map(Modelled::now));
        tree.insert(key, value, durability).unwrap();
        own.record(processor_time().since(at_own));
        wall.record(Nanos(at.elapsed().as_nanos() as u64));
        if let (Some(device), Some(at)) = (device, at_device) {
            modelled.record(device.now() - at);
            device.wait(plan.put);
        }
    }
    let (seconds, own_seconds) = (began.elapsed().as_secs_f64(), processor_time().since(began_own).0 as f64 / 1e9);
    let rate = plan.entries as f64 / seconds;
    println!("  inserts                {rate:.0}/s, {:.0} per processor second", plan.entries as f64 / own_seconds);
    line("put, wall", &wall);
    line("put, processor", &own);
    if let Some(device) = device {
        line("put, device", &modelled);
        on_device(device, "inserts");
    }
    let user = plan.entries * (16 + plan.value_bytes as u64);
    let written = |name: &str| {
        let stats = database.stats();
        let of = |bytes: u64| bytes as f64 / user as f64;
        println!(
            "  written, {name:<13} {:.2} times the user's bytes: log {:.2}, leaves {:.2}, runs {:.2}, \
             headers {:.2}, values {:.2}, catalog {:.3}; {} checkpoints",
            of(stats.written_bytes()),
            of(stats.log_bytes),
            of(stats.leaf_bytes),
            of(stats.run_bytes),
            of(stats.header_bytes),
            of(stats.value_bytes),
            of(stats.catalog_bytes),
            stats.checkpoints
        );
        println!("  worked                 {:.1} times the user's bytes", of(stats.worked_bytes));
    };
    written("at the end");
    gets(database, tree, device, plan, "messages waiting");
    let began = Instant::now();
    database.quiesce().unwrap();
    println!("  quiesce                {:.2} s", began.elapsed().as_secs_f64());
    written("at rest");
    if let Some(device) = device {
        on_device(device, "at rest");
    }
    gets(database, tree, device, plan, "at rest");
    scans(database, tree, plan);
    let began = Instant::now();
    database.compact().unwrap();
    println!("  compact                {:.2} s", began.elapsed().as_secs_f64());
    written("compacted");
    gets(database, tree, device, plan, "compacted");
}

/// What the device did so far.
fn on_device(device: &Modelled, when: &str) {
    let counters = device.counters();
    let bytes = counters.iter().filter(|(name, _)| name.ends_with("_bytes"));
    let bytes: Vec<String> = bytes.map(|(name, value)| format!("{name} {value}")).collect();
    println!("  device, {when:<14} {:.3} s; {}", device.now().as_secs_f64(), bytes.join(", "));
}

fn gets(database: &Database, tree: &Tree, device: Option<&Modelled>, plan: &Plan, when: &str) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let before = database.stats();
    let (mut times, mut modelled) = (Histogram::new(), Histogram::new());
    let (began, began_own) = (Instant::now(), processor_time());
    for _ in 0..plan.gets {
        let key = key(random.random_range(0..plan.entries), plan);
        let (at, at_device) = (Instant::now(), device.map(Modelled::now));
        let value = tree.get(key).unwrap();
        times.record(Nanos(at.elapsed().as_nanos() as u64));
        if let (Some(device), Some(at)) = (device, at_device) {
            modelled.record(device.now() - at);
        }
        assert_eq!(value.map(|value| value.len()), Some(plan.value_bytes));
    }
    let (seconds, own_seconds) = (began.elapsed().as_secs_f64(), processor_time().since(began_own).0 as f64 / 1e9);
    let after = database.stats();
    let each = |after: u64, before: u64| (after - before) as f64 / plan.gets.max(1) as f64;
    println!(
        "  gets, {when:<16} {:.0}/s, {:.0} per processor second; a get: {:.2} hits, {:.2} misses, {:.1} KiB read, {:.2} blocks \
         spared by filters",
        plan.gets as f64 / seconds,
        plan.gets as f64 / own_seconds,
        each(after.cache_hits, before.cache_hits),
        each(after.cache_misses, before.cache_misses),
        each(after.read_bytes, before.read_bytes) / 1024.0,
        each(after.filtered, before.filtered)
    );
    line("get, wall", &times);
    if device.is_some() {
        line("get, device", &modelled);
    }
}

fn scans(database: &Database, tree: &Tree, plan: &Plan) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let scans = (plan.gets / 50).max(1);
    let before = database.stats().read_bytes;
    let (began, began_own) = (Instant::now(), processor_time());
    for _ in 0..scans {
        let start = key(random.random_range(0..plan.entries), plan);
        for entry in tree.range(start.as_slice()..).take(100) {
            entry.unwrap();
        }
    }
    println!(
        "  scans of 100           {:.0}/s, {:.0} per processor second; a scan: {:.1} KiB read",
        scans as f64 / began.elapsed().as_secs_f64(),
        scans as f64 * 1e9 / processor_time().since(began_own).0 as f64,
        (database.stats().read_bytes - before) as f64 / scans as f64 / 1024.0
    );
    let began = Instant::now();
    let rows = tree.iter().inspect(|entry| assert!(entry.is_ok())).count();
    assert_eq!(rows as u64, plan.entries);
    println!("  rows in order          {:.0}/s", rows as f64 / began.elapsed().as_secs_f64());
}

fn main() {
    let plan = plan().unwrap_or_else(|what| {
        eprintln!("{what}");
        std::process::exit(2);
    });
    let room_bytes = (plan.entries * (16 + plan.value_bytes as u64) * 4 + (512 << 20)).next_multiple_of(4096);
    let capacity_bytes = plan.drive_bytes.unwrap_or(room_bytes);
    let mut profile = plan.profile.clone();
    if let (Some(bytes), Some(Profile { config: DeviceConfig::Ssd(config), .. })) = (plan.drive_bytes, &mut profile) {
        config.namespaces = vec![ByteSize(bytes)];
        config.slc_cache = None;
        config.geometry.pages_per_block = 48;
    }
    for round in 0..plan.rounds {
        println!("round {round}: {} entries of 16 + {} bytes", plan.entries, plan.value_bytes);
        let device = profile.as_ref().map(|profile| {
            let full = Initial { fill: 1.0, overwritten: Overwritten::Uniform, ..Initial::default() };
            let initial = plan.overwritten.then_some(full);
            let options =
                ModelledOptions { capacity_bytes: Some(capacity_bytes), initial, ..ModelledOptions::default() };
            Modelled::new(profile, &options).unwrap()
        });
        let storage: Arc<dyn Storage> = match (&plan.path, &device) {
            (Some(path), _) => {
                let options = FileOptions { capacity_bytes: Some(capacity_bytes), ..FileOptions::default() };
                Arc::new(File::open(path.as_ref(), &options).unwrap())
            }
            (None, Some(device)) => Arc::new(device.clone()),
            (None, None) => Arc::new(Memory::new(capacity_bytes)),
        };
        let database = Database::create(storage, plan.options.clone(), 1).unwrap();
        let tree = database.tree("t").unwrap();
        inserts(&database, &tree, device.as_ref(), &plan);
        scans(&database, &tree, &plan);
        drop((tree, database));
        if let Some(path) = &plan.path {
            std::fs::remove_file(path).unwrap();
        }
    }
}
