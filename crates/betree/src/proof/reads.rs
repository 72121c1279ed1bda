//! Ways of reading: all find the same, each reads no more than it needs, and scans and flushes go at the device's speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::RngExt;
use ssd::profile::Profile;
use storage::{
    BLOCK_BYTES, Buffer, Completion, Memory, Modelled, ModelledOptions, Operation, Queue, Request, Storage,
    StorageError, Tag,
};

use super::below::DEVICES;
use super::workload::{Map, batch, content, keys, random, tiny, unsound};
use crate::nodes::node::Node;
use crate::{Compression, Database, Durability, Error, Options, Tree};

fn failed(error: Error) -> String {
    error.to_string()
}

/// Keys one by one, together, without values and in ranges: what the map has, whatever is in memory.
/// With `paged` in blocks of several pages.
pub(super) fn alike(seed: u64, paged: bool) -> Result<(), String> {
    let memory = Memory::new(4 << 20);
    // Down to a cache that keeps nothing.
    let options = Options { cache_bytes: [1 << 18, 0, 4 << 20][(seed % 3) as usize], ..tiny(seed) };
    let options = match paged {
        false => options,
        true => Options {
            leaf_bytes: 64 << 10,
            basement_bytes: 16 << 10,
            buffer_bytes: 12 << 10,
            compression: Compression::None,
            large_value_bytes: usize::MAX,
            ..options
        },
    };
    let mut database = Database::create(memory.clone(), options.clone(), 5).map_err(failed)?;
    let (mut random, mut map) = (random(seed), Map::new());
    for number in 1..200 {
        let mut tree = database.tree("t").map_err(failed)?;
        let batch = batch(&tree, number, &mut random, &mut map);
        database.commit(&batch, Durability::Batch).map_err(failed)?;
        if number % 5 != 0 {
            continue;
        }
        if number % 15 == 0 {
            drop((tree, database));
            database = Database::open(memory.clone(), options.clone()).map_err(failed)?;
            tree = database.tree("t").map_err(failed)?;
        }
        let asked: Vec<Vec<u8>> = keys().filter(|_| random.random_range(0..3) > 0).collect();
        let found = tree.get_many(&asked).map_err(failed)?;
        for (key, value) in asked.iter().zip(&found) {
            if map.get(key) != value.as_ref() {
                return Err(format!("batch {number}: {key:?} together with others is {value:?}"));
            }
            if tree.contains(key).map_err(failed)? != map.contains_key(key) {
                return Err(format!("batch {number}: whether there is {key:?}"));
            }
        }
        let (start, end) = (&asked[0], &asked[asked.len() - 1]);
        let own: Vec<&Vec<u8>> = map.range(start.clone()..end.clone()).map(|(key, _)| key).collect();
        let forward: Vec<Vec<u8>> = tree.keys(&start[..]..&end[..]).collect::<Result<_, _>>().map_err(failed)?;
        let mut backward: Vec<Vec<u8>> =
            tree.keys(&start[..]..&end[..]).rev().collect::<Result<_, _>>().map_err(failed)?;
        backward.reverse();
        if !own.iter().copied().eq(&forward) || forward != backward {
            return Err(format!("batch {number}: keys of a range differ"));
        }
        let mut reversed: Vec<(Vec<u8>, Vec<u8>)> = tree.iter().rev().collect::<Result<_, _>>().map_err(failed)?;
        reversed.reverse();
        if content(&tree).map_err(failed)? != map || !map.clone().into_iter().eq(reversed) {
            return Err(format!("batch {number}: a scan differs"));
        }
    }
    unsound(&database).map_or(Ok(()), Err)
}

#[test]
fn all_ways_of_reading_find_the_same() {
    for seed in 0..12 {
        for paged in [false, true] {
            alike(seed, paged).unwrap_or_else(|what| panic!("seed {seed}, paged {paged}: {what}"));
        }
    }
}

const ENTRIES: u16 = 60_000;

/// So dense that what tells a page's first key from the one before is the whole key.
fn dense(number: u16) -> [u8; 2] {
    number.wrapping_mul(0x9e37).to_be_bytes()
}

/// A storage that counts requests to read.
#[derive(Clone)]
struct Counted(Memory, Arc<AtomicU64>);

impl Storage for Counted {
    fn capacity_bytes(&self) -> u64 {
        self.0.capacity_bytes()
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        Ok(Box::new(CountedQueue(self.0.open_queue()?, Arc::clone(&self.1))))
    }
}

struct CountedQueue(Box<dyn Queue>, Arc<AtomicU64>);

impl Queue for CountedQueue {
    fn submit(&mut self, tag: Tag, request: Request) {
        self.1.fetch_add(u64::from(request.operation() == Operation::Read), Ordering::AcqRel);
        self.0.submit(tag, request);
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        self.0.complete(completions);
    }
}

/// A store that was just opened and has most of its entries on the storage: with messages waiting or in their leaves.
fn opened(value_bytes: usize, flushed: bool) -> Result<(Database, Tree, Arc<AtomicU64>), String> {
    let user_bytes = u64::from(ENTRIES) * (2 + value_bytes as u64);
    let memory = Memory::new((user_bytes * 4 + (32 << 20)).next_multiple_of(4096));
    let options = Options {
        buffer_bytes: user_bytes / 8,
        memtable_bytes: 2 << 20,
        fresh_bytes: 4 << 20,
        log_bytes: 4 << 20,
        // An eighth of the entries at most, with all headers.
        cache_bytes: (user_bytes / 8) as usize,
        compression: Compression::None,
        ..Options::default()
    };
    let database = Database::create(memory.clone(), options.clone(), 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    for number in 0..ENTRIES {
        tree.insert(dense(number), vec![number as u8; value_bytes], Durability::None).map_err(failed)?;
    }
    let requests = Arc::default();
    let done = if flushed { database.compact() } else { database.quiesce() };
    done.map_err(failed)?;
    drop((tree, database));
    let database = Database::open(Counted(memory, Arc::clone(&requests)), options).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    Ok((database, tree, requests))
}

/// What lookups of random keys read, each, and by how many requests.
pub(super) fn reads_of_a_get(value_bytes: usize, flushed: bool) -> Result<(u64, f64), String> {
    const GETS: u32 = 4000;
    let (database, tree, requests) = opened(value_bytes, flushed)?;
    let mut random = random(1);
    let mut read = || -> Result<(u64, f64), String> {
        let before = (database.stats().read_bytes, requests.load(Ordering::Acquire));
        for _ in 0..GETS {
            let number = random.random_range(0..ENTRIES);
            if tree.get(dense(number)).map_err(failed)? != Some(vec![number as u8; value_bytes]) {
                return Err(format!("entry {number} is another"));
            }
        }
        let read = requests.load(Ordering::Acquire) - before.1;
        Ok(((database.stats().read_bytes - before.0) / u64::from(GETS), read as f64 / f64::from(GETS)))
    };
    read()?;
    read()
}

/// Runs on the way to a key, with its leaf.
fn layers_at(tree: &Tree, key: &[u8]) -> Result<usize, Error> {
    let (engine, mut runs) = (tree.engine(), 1);
    let view = engine.view();
    let mut edge = view.version.trees.get(&tree.id()).map(|tree| tree.root.clone());
    while let Some(above) = edge
        && let Node::Internal(node) = &*engine.io.node(&above)?
    {
        let child = &node.children[node.child_of(key)];
        runs += child.runs.len();
        edge = Some(child.edge.clone());
    }
    Ok(runs)
}

/// What scans of 100 entries from random keys on read, each, in pages, and how many layers they were in.
fn pages_of_a_scan(flushed: bool, backward: bool) -> Result<(f64, f64), String> {
    const SCANS: u32 = 300;
    let (database, tree, _) = opened(100, flushed)?;
    let (mut random, mut layers) = (random(1), 0);
    let mut scan = || -> Result<u64, String> {
        let before = database.stats().read_bytes;
        for _ in 0..SCANS {
            let key = random.random_range(u16::MAX / 8..u16::MAX / 8 * 7).to_be_bytes();
            let found = match backward {
                false => tree.range(&key[..]..).take(100).filter(Result::is_ok).count(),
                true => tree.range(..&key[..]).rev().take(100).filter(Result::is_ok).count(),
            };
            if found != 100 {
                return Err(format!("{found} of 100 entries"));
            }
            layers += layers_at(&tree, &key).map_err(failed)?;
        }
        Ok(database.stats().read_bytes - before)
    };
    // Headers come first.
    scan()?;
    let read = scan()?;
    let pages = read as f64 / BLOCK_BYTES as f64 / f64::from(SCANS);
    Ok((pages, layers as f64 / f64::from(2 * SCANS)))
}

/// A short scan reads a page of each layer, those that its entries fill, and as many again at most.
pub(super) fn scans_read_little() -> Result<(), String> {
    for (flushed, backward) in [(true, false), (true, true), (false, false), (false, true)] {
        let (pages, layers) = pages_of_a_scan(flushed, backward)?;
        println!("flushed {flushed}, backward {backward}: {pages:.1} pages a scan of {layers:.1} layers");
        // 100 entries of 107 bytes.
        if pages > layers + 2.0 * 100.0 * 107.0 / BLOCK_BYTES as f64 {
            return Err(format!("{pages} pages were read for 100 entries in {layers} layers"));
        }
    }
    Ok(())
}

#[test]
fn a_short_scan_reads_a_few_pages() {
    scans_read_little().unwrap_or_else(|what| panic!("{what}"));
}

/// A lookup reads one page of a block, and little else.
pub(super) fn gets_read_little() -> Result<(), String> {
    for (value_bytes, flushed, most_bytes) in
        [(100, true, 5000), (100, false, 5000), (500, false, 5000), (1500, true, 9000), (3000, true, 10_000)]
    {
        let (bytes, requests) = reads_of_a_get(value_bytes, flushed)?;
        println!("values of {value_bytes}, flushed {flushed}: {bytes} bytes a get in {requests:.2} requests");
        if bytes > most_bytes || requests > 1.25 {
            return Err(format!("{bytes} bytes were read in {requests} requests for a value of {value_bytes}"));
        }
    }
    Ok(())
}

#[test]
fn a_get_reads_one_page() {
    gets_read_little().unwrap_or_else(|what| panic!("{what}"));
}

pub(super) fn modelled(profile: &str) -> Result<Modelled, String> {
    let options = ModelledOptions { capacity_bytes: Some(512 << 20), ..ModelledOptions::default() };
    let profile = Profile::builtin(profile).map_err(|error| error.to_string())?;
    Modelled::new(&profile, &options).map_err(|error| error.to_string())
}

/// As the documentation says for the kind of device.
pub(super) fn options(profile: &str) -> Options {
    let (leaf_bytes, basement_bytes) =
        if profile.starts_with("hdd") { (4 << 20, 128 << 10) } else { (512 << 10, 16 << 10) };
    Options {
        leaf_bytes,
        basement_bytes,
        buffer_bytes: 4 << 20,
        memtable_bytes: 4 << 20,
        fresh_bytes: 16 << 20,
        cache_bytes: 64 << 20,
        log_bytes: 16 << 20,
        compression: Compression::None,
        ..Options::default()
    }
}

/// Seconds that a device takes to read so many bytes that were written in order, 32 requests of 256 KiB at a time.
fn raw_seconds(profile: &str, bytes: u64) -> Result<f64, String> {
    const REQUEST_BYTES: u64 = 256 << 10;
    let device = modelled(profile)?;
    let mut queue = device.open_queue().map_err(|error| error.to_string())?;
    let mut began = device.now();
    for write in [true, false] {
        began = device.now();
        let (mut outstanding, mut completions) = (0, Vec::new());
        for number in 0..bytes / REQUEST_BYTES {
            let (offset_bytes, buffer) = (number * REQUEST_BYTES, Buffer::zeroed(REQUEST_BYTES as usize));
            let request = match write {
                true => Request::Write { offset_bytes, buffer },
                false => Request::Read { offset_bytes, buffer },
            };
            queue.submit(Tag(number), request);
            outstanding += 1;
            while outstanding >= 32 {
                queue.complete(&mut completions);
                outstanding -= completions.drain(..).count();
            }
        }
        while outstanding > 0 {
            queue.complete(&mut completions);
            outstanding -= completions.drain(..).count();
        }
    }
    Ok((device.now() - began).as_secs_f64())
}

/// What a scan of all entries of a store that was just opened reads a second, as a share of the raw device: loaded in an
/// order that jumps, with messages waiting everywhere or in their leaves.
pub(super) fn share(profile: &str, flushed: bool, entries: u32) -> Result<f64, String> {
    share_with(profile, &options(profile), flushed, entries)
}

fn share_with(profile: &str, options: &Options, flushed: bool, entries: u32) -> Result<f64, String> {
    let device = modelled(profile)?;
    let database = Database::create(device.clone(), options.clone(), 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    for number in 0..entries {
        let key = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
        tree.insert(key, vec![number as u8; 500], Durability::None).map_err(failed)?;
    }
    let done = if flushed { database.compact() } else { database.checkpoint() };
    done.map_err(failed)?;
    drop((tree, database));
    let database = Database::open(device.clone(), options.clone()).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    // Ten entries take a block of each run, and no more.
    let before = database.stats().read_bytes;
    let middle = tree.range(&[100u8][..]..).take(10).filter(Result::is_ok).count();
    let bytes_of_ten = database.stats().read_bytes - before;
    if middle != 10 || bytes_of_ten > 16 * (options.basement_bytes as u64 + (16 << 10)) {
        return Err(format!("{bytes_of_ten} bytes were read for {middle} entries"));
    }
    let requests =
        || device.counters().iter().filter(|(name, _)| name == "reads").map(|(_, count)| *count).sum::<u64>();
    let (before, began, asked) = (database.stats().read_bytes, device.now(), requests());
    let count = tree.iter().filter(Result::is_ok).count();
    let seconds = (device.now() - began).as_secs_f64();
    let bytes = database.stats().read_bytes - before;
    let share = raw_seconds(profile, bytes)? / seconds;
    let asked = requests() - asked;
    println!(
        "{profile}, flushed {flushed}: {:.0} MB/s, {share:.2} of the raw device, {asked} requests",
        bytes as f64 / seconds / 1e6
    );
    if count != entries as usize {
        return Err(format!("{count} of {entries} entries"));
    }
    // Each block once.
    let stats = database.stats();
    let used = stats.capacity_bytes - options.log_bytes - stats.free_bytes;
    if bytes > used * 51 / 50 {
        return Err(format!("{bytes} bytes were read of {used} in use"));
    }
    Ok(share)
}

pub(super) fn is_enough(share: f64) -> Result<(), String> {
    if share >= 0.85 { Ok(()) } else { Err(format!("{share:.2} of the raw device")) }
}

/// Of the two SSDs; a disk seeks from leaf to leaf.
#[test]
fn scans_go_at_the_device_s_speed() {
    let entries = if std::env::var_os("PLUMB_LONG").is_some() { 400_000 } else { 150_000 };
    for profile in DEVICES {
        for flushed in [true, false] {
            let share = share(profile, flushed, entries).unwrap_or_else(|what| panic!("{profile}, {flushed}: {what}"));
            if !profile.starts_with("hdd") {
                is_enough(share).unwrap_or_else(|what| panic!("{profile}, flushed {flushed}: {what}"));
            }
        }
    }
}

/// A disk seeks from leaf to leaf, so that larger ones bring a scan nearer to its rate.
#[test]
fn a_disk_scans_larger_leaves_faster() {
    if std::env::var_os("PLUMB_LONG").is_none() {
        println!("skipped: PLUMB_LONG=1 runs it");
        return;
    }
    const DISK: &str = "hdd-7200-1tb";
    let mut shares = Vec::new();
    for (leaf_mib, basement_kib) in [(4, 128), (4, 512), (16, 256), (16, 1024)] {
        let sized = Options {
            leaf_bytes: leaf_mib << 20,
            basement_bytes: basement_kib << 10,
            buffer_bytes: (leaf_mib << 20).max(4 << 20),
            fresh_bytes: 64 << 20,
            ..options(DISK)
        };
        let share = share_with(DISK, &sized, true, 150_000).unwrap_or_else(|what| panic!("{leaf_mib} MiB: {what}"));
        println!("leaves of {leaf_mib} MiB, basements of {basement_kib} KiB: {share:.2}");
        shares.push(share);
    }
    assert!(shares[2] > shares[0] * 1.2, "{shares:?}");
}
