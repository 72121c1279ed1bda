//! What the targets do, each with the bytes that it is given. `crates/betree/src/proof/fuzzed.rs` does the same without coverage.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::LazyLock;

use betree::{Add, Append, Batch, Compression, Database, Durability, Error, FlushPolicy, Options, Snapshot, Tree};
use storage::{Image, Memory};

/// The names of the store's trees.
pub const TREES: [&str; 2] = ["t", "u"];

/// Bytes of the store's storage.
pub const CAPACITY_BYTES: u64 = 1 << 20;
/// Bytes of its log.
pub const LOG_BYTES: u64 = 20 * 4096;
/// Where the log begins: superblocks are before it.
pub const LOG_START_BYTES: u64 = 16 * 4096;

/// Nodes so small that a few batches make a tree of several levels, and a log that goes round.
pub fn options(kind: u8) -> Options {
    Options {
        leaf_bytes: 600,
        basement_bytes: 256,
        fanout: 4,
        buffer_bytes: 500,
        memtable_bytes: 2000,
        fresh_bytes: 3000,
        cache_bytes: 1 << 18,
        log_bytes: LOG_BYTES,
        large_value_bytes: if kind & 1 == 0 { 90 } else { usize::MAX },
        discard_bytes: (kind & 2 == 0).then_some(4 * 4096),
        compression: if kind & 4 == 0 { Compression::Lz4 } else { Compression::None },
        flush_policy: if kind & 8 == 0 { FlushPolicy::Largest } else { FlushPolicy::CostBenefit },
        ..Options::default()
    }
    .operator(1, Add)
    .operator(2, Append)
}

/// A store with batches in its trees and in its log, as a process that is killed leaves it.
///
/// # Errors
///
/// None is expected.
pub fn store(kind: u8) -> Result<Image, Error> {
    let memory = Memory::new(CAPACITY_BYTES);
    let database = Database::create(memory.clone(), options(kind), 1)?;
    let trees = TREES.map(|name| database.tree(name));
    let [Ok(one), Ok(other)] = trees else { return Err(Error::NotAStore) };
    for number in 0..40u8 {
        let mut batch = Batch::new();
        batch.insert(&one, [number.wrapping_mul(37), 1], vec![number; usize::from(number) * 5]);
        batch.upsert(&other, [number % 7], 2, [number; 9]);
        if number % 9 == 8 {
            batch.remove_range(&one, &[number][..]..&[number + 9][..]);
        }
        database.commit(&batch, Durability::Batch)?;
        match number {
            20 => database.save_snapshot("s")?,
            30 => database.checkpoint()?,
            _ => {}
        }
    }
    Ok(memory.image())
}

/// The image with other bytes in a part of it: each change is where (three bytes), how many (one) and what.
pub fn changed(image: &Image, start_bytes: u64, len_bytes: u64, mut changes: &[u8]) -> Image {
    let mut image = image.clone();
    while let [a, b, c, count, rest @ ..] = changes {
        let at = u64::from(u32::from_le_bytes([*a, *b, *c, 0])) % len_bytes;
        let count = usize::from(*count % 32 + 1).min(rest.len());
        let (new, after) = rest.split_at(count);
        for (place, byte) in (start_bytes + at..start_bytes + len_bytes).zip(new) {
            let mut old = [0];
            image.read(place, &mut old);
            for bit in (0..8).filter(|bit| (old[0] ^ byte) >> bit & 1 == 1) {
                image.flip(place, bit);
            }
        }
        changes = after;
    }
    image
}

/// Everything that reads a store, and then what writes to it. Whatever the image has, it ends, with an error or without.
pub fn use_store(image: Image, kind: u8) {
    let _ = betree::verify(Memory::from_image(image.clone()));
    let _ = betree::dump(Memory::from_image(image.clone()), true, |_| {});
    let _ = betree::repair(Memory::from_image(image.clone()), Memory::new(CAPACITY_BYTES), options(kind), 6, |_| {});
    let Ok(database) = Database::open(Memory::from_image(image), options(kind)) else { return };
    for name in TREES {
        let Ok(tree) = database.open_tree(name) else { continue };
        let _ = tree.iter().take(10_000).count();
        let _ = tree.iter().rev().take(10_000).count();
        for number in 0..40u8 {
            let _ = tree.get([number.wrapping_mul(37), 1]);
            let _ = tree.insert([number], vec![number; 50], Durability::None);
        }
        let _ = tree.remove_range(&[3][..]..&[90][..], Durability::None);
    }
    let _ = database.open_snapshot("s").map(|view| database.open_tree("t").map(|tree| view.get(&tree, [1, 1])));
    let _ = database.verify();
    let _ = database.checkpoint();
    let _ = database.compact();
    let _ = database.checkpoint();
}

/// A store of each kind.
static STORES: LazyLock<Vec<Image>> = LazyLock::new(|| (0..16).filter_map(|kind| store(kind).ok()).collect());

/// A store with any bytes anywhere, as if its checksums were right.
pub fn image(input: &[u8]) {
    let [kind, changes @ ..] = input else { return };
    let kind = kind % 16;
    use_store(changed(&STORES[usize::from(kind)], 0, CAPACITY_BYTES, changes), kind);
}

/// A store whose log has any bytes, as if its checksums were right.
pub fn log(input: &[u8]) {
    let [kind, changes @ ..] = input else { return };
    let kind = kind % 16;
    use_store(changed(&STORES[usize::from(kind)], LOG_START_BYTES, LOG_BYTES, changes), kind);
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Everything in a tree, as a view or as it is now.
fn held(tree: &Tree, view: Option<&Snapshot>) -> Map {
    let all = match view {
        Some(view) => view.range::<&[u8]>(tree, ..),
        None => tree.iter(),
    };
    all.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

/// Any sequence of calls, beside an ordered map.
///
/// # Panics
///
/// Where the store does not do what the map does.
pub fn calls(input: &[u8]) {
    let [kind, calls @ ..] = input else { return };
    let options = options(*kind);
    let memory = Memory::new(8 << 20);
    let mut database = Database::create(memory.clone(), options.clone(), 1).unwrap();
    let mut tree = database.tree("t").unwrap();
    let (mut map, mut view, mut saved) = (Map::new(), None, None::<Map>);
    // Another tree, made of this one, which goes on by itself.
    let mut other: Option<(Tree, Map)> = None;
    for call in calls.chunks(3).take(400) {
        let &[what, a, b] = call else { break };
        let key = vec![a; usize::from(a % 5) + 1];
        let mut batch = Batch::new();
        match what % 14 {
            0..=2 => {
                let value = vec![b; usize::from(b)];
                tree.insert(&key, value.clone(), Durability::None).unwrap();
                map.insert(key, value);
            }
            3 => {
                tree.remove(&key, Durability::Batch).unwrap();
                map.remove(&key);
            }
            4 => {
                let (start, end) = (vec![a.min(b)], vec![a.max(b)]);
                tree.remove_range(&start[..]..&end[..], Durability::None).unwrap();
                map.retain(|key, _| *key < start || *key >= end);
            }
            5 => {
                batch.upsert(&tree, &key, 2, vec![b; 3]);
                database.commit(&batch, Durability::None).unwrap();
                map.entry(key).or_default().extend([b; 3]);
            }
            6 => assert_eq!(tree.get(&key).unwrap().as_deref(), map.get(&key).map(Vec::as_slice)),
            7 => {
                let bounds = (Bound::Excluded(key.clone()), Bound::Unbounded::<Vec<u8>>);
                let next = tree.range::<Vec<u8>>(bounds.clone()).next().map(|entry| entry.unwrap().0.to_vec());
                assert_eq!(next.as_ref(), map.range(bounds).next().map(|(key, _)| key));
            }
            8 => view = Some((database.snapshot(), map.clone())),
            9 => match (b % 3, &saved) {
                (0, None) => {
                    database.save_snapshot("s").unwrap();
                    saved = Some(map.clone());
                }
                (1, Some(saved)) => assert_eq!(&held(&tree, Some(&database.open_snapshot("s").unwrap())), saved),
                (2, Some(_)) => {
                    database.remove_snapshot("s").unwrap();
                    saved = None;
                }
                _ => {}
            },
            10 => match b % 4 {
                0 => database.checkpoint().unwrap(),
                1 => database.compact().unwrap(),
                2 => database.quiesce().unwrap(),
                _ => drop(database.work(4096).unwrap()),
            },
            11 => match (b % 4, other.take()) {
                // All of it; a range of it; a range that is its own no more.
                (0, None) => {
                    database.clone_tree("t", "c").unwrap();
                    other = Some((database.open_tree("c").unwrap(), map.clone()));
                }
                (part, None) => {
                    let range = vec![a.min(b)]..vec![a.max(b)];
                    let inside = |key: &[u8]| key >= &range.start[..] && key < &range.end[..];
                    let within = map.iter().filter(|(key, _)| inside(key));
                    let own: Map = within.map(|(key, value)| (key.clone(), value.clone())).collect();
                    if part == 1 {
                        database.clone_range("t", &range.start[..]..&range.end[..], "c").unwrap();
                    } else {
                        database.move_range("t", &range.start[..]..&range.end[..], "c").unwrap();
                        map.retain(|key, _| !inside(key));
                    }
                    other = Some((database.open_tree("c").unwrap(), own));
                }
                (0, Some((clone, own))) => {
                    assert_eq!(held(&clone, None), own);
                    drop(clone);
                    database.remove_tree("c").unwrap();
                }
                (1, Some((clone, own))) => {
                    drop(clone);
                    database.rename_tree("c", "d").unwrap();
                    database.rename_tree("d", "c").unwrap();
                    other = Some((database.open_tree("c").unwrap(), own));
                }
                // Both in one batch.
                (_, Some((clone, mut own))) => {
                    batch.insert(&clone, &key, [a, b]);
                    batch.remove(&tree, &key);
                    database.commit(&batch, Durability::None).unwrap();
                    own.insert(key.clone(), vec![a, b]);
                    map.remove(&key);
                    other = Some((clone, own));
                }
            },
            12 => {
                let found = tree.get_many(&[&key[..], &[a], &[b]]).unwrap();
                let expected = [&key[..], &[a], &[b]].map(|key| map.get(key).map(Vec::as_slice));
                assert!(found.iter().map(Option::as_deref).eq(expected));
            }
            _ => {
                if let Some((view, map)) = view.take() {
                    assert_eq!(held(&tree, Some(&view)), map);
                }
                let own = other.take().map(|(_, own)| own);
                drop((tree, database));
                database = Database::open(memory.clone(), options.clone()).unwrap();
                tree = database.open_tree("t").unwrap();
                other = own.map(|own| (database.open_tree("c").unwrap(), own));
            }
        }
    }
    assert_eq!(held(&tree, None), map);
    if let Some((clone, own)) = other {
        assert_eq!(held(&clone, None), own);
    }
    assert_eq!(database.verify().unwrap(), Vec::<String>::new());
}
