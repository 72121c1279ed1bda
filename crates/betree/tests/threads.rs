//! Several writers and readers at once: readers see whole batches, in one order, and never backwards.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use betree::{Batch, Database, Durability, Error, Options, Snapshot, Tree};
use storage::Memory;

const WRITERS: u64 = 3;
const ROUNDS: u64 = 150;
const COPIES: u64 = 9;

fn tiny() -> Options {
    Options {
        leaf_bytes: 2000,
        basement_bytes: 512,
        fanout: 4,
        buffer_bytes: 2000,
        memtable_bytes: 3000,
        fresh_bytes: 20_000,
        cache_bytes: 1 << 20,
        log_bytes: 256 << 10,
        ..Options::default()
    }
}

fn key(writer: u64, copy: u64) -> Vec<u8> {
    // The copies of one writer lie far apart, among those of the others.
    [copy.to_be_bytes(), writer.to_be_bytes()].concat()
}

/// The round of each writer, which all its copies agree on.
fn rounds(snapshot: &Snapshot, tree: &Tree) -> Vec<u64> {
    let mut seen = vec![None; WRITERS as usize];
    let mut entries = 0;
    for entry in snapshot.range::<&[u8]>(tree, ..) {
        let (key, value) = entry.unwrap();
        let writer = u64::from_be_bytes(key[8..16].try_into().unwrap()) as usize;
        let round = u64::from_le_bytes(value[..8].try_into().unwrap());
        assert!(seen[writer].is_none_or(|before| before == round), "half a batch");
        seen[writer] = Some(round);
        entries += 1;
    }
    let present = seen.iter().flatten().count() as u64;
    assert_eq!(entries, present * COPIES, "half a batch");
    seen.into_iter().map(|round| round.unwrap_or(0)).collect()
}

#[test]
fn readers_see_whole_batches_in_one_order() {
    let memory = Memory::new(32 << 20);
    let database = Database::create(memory.clone(), tiny(), 1).unwrap();
    let tree = database.tree("t").unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (database, tree) = (&database, &tree);
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        let mut batch = Batch::new();
                        for copy in 0..COPIES {
                            batch.remove_range(tree, key(writer, copy)..=key(writer, copy));
                            batch.insert(tree, key(writer, copy), [&round.to_le_bytes()[..], &[7; 40]].concat());
                        }
                        let how = if round % 3 == 0 { Durability::Sync } else { Durability::None };
                        database.commit(&batch, how).unwrap();
                        if round % 40 == writer {
                            database.quiesce().unwrap();
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = vec![0; WRITERS as usize];
                while !done.load(Ordering::Acquire) {
                    let snapshot = database.snapshot();
                    let now = rounds(&snapshot, &tree);
                    assert!(now.iter().zip(&last).all(|(now, last)| now >= last), "{last:?} and then {now:?}");
                    assert_eq!(rounds(&snapshot, &tree), now, "a view changed");
                    last = now;
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(rounds(&database.snapshot(), &tree), vec![ROUNDS; WRITERS as usize]);
    database.checkpoint().unwrap();
    assert_eq!(database.verify().unwrap(), Vec::<String>::new());
    database.sync().unwrap();
    drop((tree, database));
    let database = Database::open(memory, tiny()).unwrap();
    let tree = database.tree("t").unwrap();
    assert_eq!(rounds(&database.snapshot(), &tree), vec![ROUNDS; WRITERS as usize]);
}

/// Of those who raise a number only if it is what they read, each succeeds as often as the number rises.
#[test]
fn conditions_make_a_counter() {
    let database = Database::create(Memory::new(16 << 20), tiny(), 1).unwrap();
    let tree = database.tree("t").unwrap();
    let raise = || {
        let mut raised = 0;
        while raised < 50 {
            let old = tree.get("n").unwrap();
            let number = old.as_ref().map_or(0, |old| u64::from_le_bytes(old[..].try_into().unwrap()));
            let mut batch = Batch::new();
            batch.require(&tree, "n", old.as_deref());
            batch.insert(&tree, "n", (number + 1).to_le_bytes());
            match database.commit(&batch, Durability::Batch) {
                Ok(()) => raised += 1,
                Err(Error::Conflict) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(raise);
        }
    });
    assert_eq!(tree.get("n").unwrap().unwrap(), 150u64.to_le_bytes());
}
