//! The engine against a map, with snapshots, iterators from both ends, batches, checkpoints and reopening.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Bound;

use betree::{Add, Append, Batch, Compression, Database, Durability, FlushPolicy, Options, Patch, Snapshot, Tree};
use proptest::prelude::*;
use storage::Memory;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Nodes so small that every test grows a tree of several levels.
fn tiny(policy: FlushPolicy, compression: Compression, large_value_bytes: usize) -> Options {
    Options {
        leaf_bytes: 700,
        basement_bytes: 256,
        fanout: 4,
        buffer_bytes: 600,
        memtable_bytes: 400,
        fresh_bytes: 20_000,
        cache_bytes: 1 << 20,
        log_bytes: 1 << 20,
        compression,
        large_value_bytes,
        discard_bytes: Some(1 << 16),
        flush_policy: policy,
        ..Options::default()
    }
    .operator(1, Add)
    .operator(2, Append)
    .operator(3, Patch)
}

#[derive(Clone, Debug)]
enum Step {
    Batch(Vec<Change>, Durability),
    Get(u16),
    Range(u16, u16, Vec<bool>),
    Prefix(u8),
    Keep,
    Check(usize),
    Save,
    Remove(usize),
    Checkpoint,
    Quiesce,
    Reopen,
}

#[derive(Clone, Debug)]
enum Change {
    Insert(u16, usize),
    Remove(u16),
    Add(u16, u64),
    Append(u16, u8),
    Write(u16, usize, usize),
    Cut(u16, usize),
    RemoveRange(u16, u16),
}

fn key(number: u16) -> Vec<u8> {
    // Lengths differ, and keys are prefixes of others.
    let mut key = number.to_be_bytes().to_vec();
    key.extend(std::iter::repeat_n(b'k', usize::from(number) % 5));
    key
}

fn number() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 0u16..600, 1 => any::<u16>()]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (number(), 0usize..90).prop_map(|(key, len)| Change::Insert(key, len)),
        2 => number().prop_map(Change::Remove),
        2 => (number(), any::<u64>()).prop_map(|(key, by)| Change::Add(key, by)),
        1 => (number(), any::<u8>()).prop_map(|(key, byte)| Change::Append(key, byte)),
        2 => (number(), 0usize..60, 1usize..40).prop_map(|(key, at, len)| Change::Write(key, at, len)),
        1 => (number(), 0usize..60).prop_map(|(key, keep)| Change::Cut(key, keep)),
        1 => (number(), number()).prop_map(|(start, end)| Change::RemoveRange(start, end)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let durability = prop_oneof![Just(Durability::None), Just(Durability::Batch), Just(Durability::Sync)];
    prop_oneof![
        30 => (prop::collection::vec(change(), 1..20), durability).prop_map(|(changes, how)| Step::Batch(changes, how)),
        6 => number().prop_map(Step::Get),
        3 => (number(), number(), prop::collection::vec(any::<bool>(), 0..30)).prop_map(|(start, end, ends)| Step::Range(start, end, ends)),
        1 => any::<u8>().prop_map(Step::Prefix),
        2 => Just(Step::Keep),
        2 => (0usize..4).prop_map(Step::Check),
        1 => Just(Step::Save),
        1 => (0usize..4).prop_map(Step::Remove),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Quiesce),
        1 => Just(Step::Reopen),
    ]
}

fn apply(map: &mut Map, batch: &mut Batch, tree: &Tree, change: &Change, round: usize) {
    match change {
        Change::Insert(number, len) => {
            let value = vec![round as u8; *len];
            batch.insert(tree, key(*number), value.clone());
            map.insert(key(*number), value);
        }
        Change::Remove(number) => {
            batch.remove(tree, key(*number));
            map.remove(&key(*number));
        }
        Change::Add(number, by) => {
            batch.upsert(tree, key(*number), 1, by.to_le_bytes());
            let old = map.get(&key(*number)).and_then(|old| Some(u64::from_le_bytes(old[..].try_into().ok()?)));
            map.insert(key(*number), old.unwrap_or(0).wrapping_add(*by).to_le_bytes().to_vec());
        }
        Change::Append(number, byte) => {
            batch.upsert(tree, key(*number), 2, [*byte]);
            map.entry(key(*number)).or_default().push(*byte);
        }
        Change::Write(number, at, len) => {
            batch.upsert(tree, key(*number), 3, Patch::write(*at, &vec![round as u8; *len]));
            let value = map.entry(key(*number)).or_default();
            value.resize(value.len().max(at + len), 0);
            value[*at..at + len].fill(round as u8);
        }
        Change::Cut(number, keep) => {
            batch.upsert(tree, key(*number), 3, Patch::cut(*keep));
            if let Some(value) = map.get_mut(&key(*number)) {
                value.truncate(*keep);
                if value.is_empty() {
                    map.remove(&key(*number));
                }
            }
        }
        Change::RemoveRange(start, end) => {
            batch.remove_range(tree, key(*start)..key(*end));
            map.retain(|one, _| *one < key(*start) || *one >= key(*end));
        }
    }
}

fn same(snapshot: &Snapshot, tree: &Tree, map: &Map) {
    let found: Map = snapshot.range::<&[u8]>(tree, ..).map(Result::unwrap).collect();
    assert!(found == *map, "{} entries, not {}", found.len(), map.len());
    let backward: Vec<_> = snapshot.range::<&[u8]>(tree, ..).rev().map(Result::unwrap).collect();
    assert!(backward.into_iter().rev().eq(map.clone()), "from the back");
}

fn run(options: &Options, steps: &[Step]) {
    let memory = Memory::new(64 << 20);
    let mut database = Some(Database::create(memory.clone(), options.clone(), 7).unwrap());
    let mut tree = database.as_ref().unwrap().tree("model").unwrap();
    let mut map = Map::new();
    let mut kept: Vec<(Snapshot, Map)> = Vec::new();
    let mut saved: Vec<(String, Map)> = Vec::new();
    for (round, step) in steps.iter().enumerate() {
        let store = database.as_ref().unwrap();
        match step {
            Step::Batch(changes, durability) => {
                let mut batch = Batch::new();
                for change in changes {
                    apply(&mut map, &mut batch, &tree, change, round);
                }
                store.commit(&batch, *durability).unwrap();
            }
            Step::Get(number) => assert_eq!(tree.get(key(*number)).unwrap().as_ref(), map.get(&key(*number))),
            Step::Range(start, end, ends) => {
                let (start, end) = (key((*start).min(*end)), key((*start).max(*end)));
                let mut iter = tree.range::<&[u8]>((Bound::Excluded(&start[..]), Bound::Included(&end[..])));
                let mut model = map.range::<[u8], _>((Bound::Excluded(&start[..]), Bound::Included(&end[..])));
                for from_back in ends.iter().chain(std::iter::repeat_n(&false, 2000)) {
                    let (found, expected) =
                        if *from_back { (iter.next_back(), model.next_back()) } else { (iter.next(), model.next()) };
                    let found = found.map(Result::unwrap);
                    assert_eq!(found.as_ref().map(|(key, value)| (key, value)), expected);
                    if expected.is_none() {
                        break;
                    }
                }
            }
            Step::Prefix(byte) => {
                let found: Vec<_> = tree.prefix([0, *byte]).map(Result::unwrap).collect();
                let expected: Vec<_> = map
                    .iter()
                    .filter(|(key, _)| key.starts_with(&[0, *byte]))
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                assert_eq!(found, expected);
            }
            Step::Keep => {
                kept.truncate(3);
                kept.insert(0, (store.snapshot(), map.clone()));
            }
            Step::Check(which) => {
                if let Some((snapshot, then)) = kept.get(*which) {
                    same(snapshot, &tree, then);
                }
                if let Some((name, then)) = saved.get(*which) {
                    same(&store.open_snapshot(name).unwrap(), &tree, then);
                }
            }
            Step::Save => {
                let name = format!("s{round}");
                store.save_snapshot(&name).unwrap();
                assert!(store.save_snapshot(&name).unwrap_err().is_harmless());
                saved.push((name, map.clone()));
            }
            Step::Remove(which) => {
                if *which < saved.len() {
                    store.remove_snapshot(&saved.remove(*which).0).unwrap();
                }
            }
            Step::Checkpoint => store.checkpoint().unwrap(),
            Step::Quiesce => store.quiesce().unwrap(),
            Step::Reopen => {
                kept.clear();
                let again = betree::Tree::clone(&tree);
                drop((database.take(), tree, again));
                let opened = Database::open(memory.clone(), options.clone()).unwrap();
                tree = opened.tree("model").unwrap();
                database = Some(opened);
            }
        }
    }
    let store = database.unwrap();
    same(&store.snapshot(), &tree, &map);
    for (snapshot, then) in &kept {
        same(snapshot, &tree, then);
    }
    store.checkpoint().unwrap();
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
    for (name, then) in &saved {
        same(&store.open_snapshot(name).unwrap(), &tree, then);
        store.remove_snapshot(name).unwrap();
    }
    drop(kept);
    store.quiesce().unwrap();
    same(&store.snapshot(), &tree, &map);
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
    // Nothing is lost on the way: with everything deleted all space is back but for a few blocks.
    tree.remove_range::<&[u8]>(.., Durability::Sync).unwrap();
    store.quiesce().unwrap();
    assert_eq!(tree.iter().count(), 0);
    let stats = store.stats();
    let log = 16 * 4096 + (1 << 20);
    let used = stats.capacity_bytes - log - stats.free_bytes - stats.waiting_bytes;
    assert!(used <= 16 * 4096, "{used} bytes are in use by an empty store");
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

/// A case has some 390 operations. `PLUMB_LONG=1`: ten million in both tests.
fn config() -> ProptestConfig {
    let standard = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PLUMB_LONG").is_some() { ProptestConfig { cases: 13_000, ..standard } } else { standard }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn like_a_map(steps in prop::collection::vec(step(), 1..120)) {
        run(&tiny(FlushPolicy::Largest, Compression::Lz4, 40), &steps);
    }

    #[test]
    fn like_a_map_with_other_policies(steps in prop::collection::vec(step(), 1..120)) {
        run(&tiny(FlushPolicy::CostBenefit, Compression::Zstd, usize::MAX), &steps);
    }
}
