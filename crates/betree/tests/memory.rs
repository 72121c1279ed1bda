//! What a store takes in memory while everything that it can do is done, in a process of its own.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use betree::{Batch, Compression, Database, Durability, Options};
use storage::{File, FileOptions};

/// Set in the process that does the work: the folder for its store.
const FOLDER: &str = "PLUMB_MEMORY_FOLDER";
/// Where it joins its cgroup.
const PROCESSES: &str = "PLUMB_MEMORY_PROCESSES";

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

/// What a store with these options takes, with a catalog of a tree: what is in the cache, in memtables, in changed nodes, on its way.
fn budget_bytes() -> u64 {
    let options = options();
    let on_its_way = options.cache_bytes as u64 / 8 + (8 << 20);
    // A quarter more for those of trees that have few.
    let memtables = 3 * options.memtable_bytes + options.memtable_bytes / 4;
    options.cache_bytes as u64 + memtables + 2 * options.fresh_bytes + on_its_way
}

/// With a catalog that makes checkpoints seldom: eight times as much of changed nodes as it is long.
const TREES: u32 = 20_000;
const CATALOG_BUDGET_BYTES: u64 = 182 << 20;

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
    let path = Path::new(folder).join("store");
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
    let own = database.stats().budget_bytes;
    assert!((budget_bytes()..budget_bytes() * 21 / 20).contains(&own), "{own} bytes");
    is_within(budget_bytes());
}

fn is_within(budget_bytes: u64) {
    let most = most_resident_bytes();
    println!("{} MiB resident at most, budget {} MiB", most >> 20, budget_bytes >> 20);
    assert!(most * 4 <= budget_bytes * 5, "{most} bytes resident with a budget of {budget_bytes}");
}

/// Many trees, two snapshots of them, and a load that goes to all: what grows is the catalog and what waits for its checkpoints.
fn live_with_many_trees(folder: &str) {
    let path = Path::new(folder).join("store");
    let file = FileOptions { capacity_bytes: Some(4 << 30), ..FileOptions::default() };
    let storage = storage::Unflushed(File::open(&path, &file).unwrap());
    let database = Database::create(storage, options(), 1).unwrap();
    let trees: Vec<_> = (0..TREES).map(|number| database.tree(&format!("tree {number}")).unwrap()).collect();
    let mut most = 0;
    for round in 0..3u32 {
        for number in 0..200_000u32 {
            let tree = &trees[(number.wrapping_mul(0x9e37_79b9) % TREES) as usize];
            tree.insert(key(number * 3 + round), [number as u8; 100], Durability::None).unwrap();
            if number % 50_000 == 0 {
                most = most.max(database.stats().budget_bytes);
            }
        }
        database.save_snapshot(&format!("snapshot {round}")).unwrap();
    }
    most = most.max(database.stats().budget_bytes);
    let stats = database.stats();
    println!(
        "the budget came to {} MiB; {} bytes of catalogs, {} checkpoints",
        most >> 20,
        stats.catalog_bytes,
        stats.checkpoints
    );
    assert!(most <= CATALOG_BUDGET_BYTES, "{most} bytes");
    drop((trees, database));
    is_within(most);
}

/// A memory cgroup, of either version, for as long as it is needed.
struct Group(PathBuf);

impl Group {
    /// One that may have so many bytes, pages of files among them; none where there may be none.
    fn make(name: &str, bytes: u64) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let of = |controller: &str| {
            groups.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>()).find_map(|fields| {
                let own = fields.get(1)?.split(',').any(|name| name == controller);
                own.then(|| fields.get(2).map(|path| path.trim_start_matches('/').to_owned()))?
            })
        };
        let (root, path, limit) = match of("memory") {
            Some(path) => ("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"),
            None => ("/sys/fs/cgroup", of("")?, "memory.max"),
        };
        let own = Path::new(root).join(path);
        let parent = if own.is_dir() { own } else { root.into() };
        let group = Self(parent.join(format!("plumb-{name}-{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }

    fn processes(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel may be about to take the last process out.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// In a process of its own, and where a cgroup may be made in one that has five quarters of the budget: a process that takes
/// more is killed there.
fn stays_within(name: &str, budget_bytes: u64, live: fn(&str)) {
    if let Ok(folder) = std::env::var(FOLDER) {
        if let Some(processes) = std::env::var_os(PROCESSES) {
            fs::write(processes, std::process::id().to_string()).unwrap();
        }
        return live(&folder);
    }
    if std::env::var_os("PLUMB_LONG").is_none() {
        println!("skipped: it takes minutes; PLUMB_LONG=1 runs it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(FOLDER, folder.path());
    let group = Group::make(name, budget_bytes * 5 / 4);
    match &group {
        Some(group) => drop(command.env(PROCESSES, group.processes())),
        None => println!("without a cgroup: none may be made here"),
    }
    assert!(command.status().unwrap().success());
}

#[test]
fn a_store_stays_within_its_memory() {
    stays_within("a_store_stays_within_its_memory", budget_bytes(), live);
}

#[test]
fn a_store_of_many_trees_stays_within_its_memory() {
    stays_within("a_store_of_many_trees_stays_within_its_memory", CATALOG_BUDGET_BYTES, live_with_many_trees);
}
