//! Values that lie apart: written once, read back through everything, and their space returns.

use storage::Memory;

use super::workload::{Map, content, unsound};
use crate::{Append, Compression, Database, Durability, Error, Options};

const VALUE_BYTES: usize = 40_000;

fn options() -> Options {
    Options {
        leaf_bytes: 4 << 10,
        basement_bytes: 1 << 10,
        fanout: 4,
        buffer_bytes: 4 << 10,
        memtable_bytes: 4 << 10,
        fresh_bytes: 16 << 10,
        log_bytes: 1 << 20,
        compression: Compression::None,
        discard_bytes: Some(1 << 16),
        ..Options::default()
    }
    .operator(2, Append)
}

fn failed(error: Error) -> String {
    error.to_string()
}

fn used_bytes(database: &Database) -> u64 {
    let stats = database.stats();
    stats.capacity_bytes - 16 * 4096 - options().log_bytes - stats.free_bytes - stats.waiting_bytes
}

fn value(number: u32) -> Vec<u8> {
    (0..VALUE_BYTES as u32).map(|at| (number.wrapping_mul(31) + at / 7) as u8).collect()
}

/// Inserts, overwrites, appends, deletes and range deletes of large values, beside a kept snapshot, through reopening. What
/// is in use afterwards is what the values take.
pub(super) fn lives() -> Result<(), String> {
    let memory = Memory::new(64 << 20);
    let mut map = Map::new();
    {
        let database = Database::create(memory.clone(), options(), 3).map_err(failed)?;
        let tree = database.tree("t").map_err(failed)?;
        let key = |number: u32| (number * 7919 % 1009).to_be_bytes().to_vec();
        let judge = |what: &str, map: &Map, apart: usize| {
            if content(&tree).map_err(failed)? != *map {
                return Err(format!("{what}: wrong content"));
            }
            if let Some(finding) = unsound(&database) {
                return Err(format!("{what}: {finding}"));
            }
            let (used, values) = (used_bytes(&database), apart as u64 * 40_960);
            if used < values || used > values + (2 << 20) {
                return Err(format!("{what}: {used} bytes for {apart} values"));
            }
            Ok(())
        };
        let insert = |map: &mut Map, number: u32, then: u32| {
            map.insert(key(number), value(then));
            tree.insert(key(number), value(then), Durability::None).map_err(failed)
        };
        for number in 0..200 {
            insert(&mut map, number, number)?;
        }
        database.checkpoint().map_err(failed)?;
        judge("inserts", &map, 200)?;
        let (stats, user) = (database.stats(), 200 * VALUE_BYTES as u64);
        // The values with what is missing to whole blocks, and little else.
        if stats.value_bytes != 200 * 40_960 || stats.written_bytes() - stats.value_bytes > user / 5 {
            return Err(format!("values are written more than once: {stats:?}"));
        }
        database.save_snapshot("kept").map_err(failed)?;
        let then = map.clone();
        for number in 0..100 {
            insert(&mut map, number, number + 1000)?;
        }
        // Overwritten before a memtable is drained, too.
        for number in 0..3 {
            insert(&mut map, number, number + 2000)?;
        }
        for number in 20..30 {
            let mut batch = crate::Batch::new();
            batch.upsert(&tree, key(number), 2, "and more");
            map.entry(key(number)).or_default().extend(b"and more");
            database.commit(&batch, Durability::None).map_err(failed)?;
        }
        database.quiesce().map_err(failed)?;
        // Ten of the new values lie in leaves, as anything that was put together does.
        judge("beside a snapshot", &map, 200 + 90)?;
        let snapshot = database.open_snapshot("kept").map_err(failed)?;
        let seen: Map = snapshot.range::<&[u8]>(&tree, ..).collect::<Result<_, _>>().map_err(failed)?;
        if seen != then {
            return Err("the snapshot changed".to_owned());
        }
        drop(snapshot);
        database.remove_snapshot("kept").map_err(failed)?;
        database.quiesce().map_err(failed)?;
        judge("without it", &map, 190)?;
        let gone: Vec<Vec<u8>> = map.keys().step_by(4).cloned().collect();
        for key in gone {
            map.remove(&key);
            tree.remove(key, Durability::None).map_err(failed)?;
        }
        database.compact().map_err(failed)?;
        let large = |map: &Map| map.values().filter(|value| value.len() == VALUE_BYTES).count();
        judge("deletes", &map, large(&map))?;
        let (start, end) = (100u32.to_be_bytes(), 900u32.to_be_bytes());
        tree.remove_range(&start[..]..&end[..], Durability::None).map_err(failed)?;
        map.retain(|key, _| key[..] < start[..] || key[..] >= end[..]);
        database.quiesce().map_err(failed)?;
        judge("a range delete", &map, large(&map))?;
        for number in 300..320 {
            insert(&mut map, number, number)?;
        }
        database.sync().map_err(failed)?;
        if database.stats().discarded_bytes == 0 {
            return Err("nothing was discarded".to_owned());
        }
    }
    // From the log, and then beside new ones.
    let findings = crate::verify(memory.clone()).map_err(failed)?;
    if let Some(finding) = findings.first() {
        return Err(format!("closed: {finding}"));
    }
    let database = Database::open(memory, options()).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    for number in 400..440u32 {
        map.insert(number.to_be_bytes().to_vec(), value(number));
        tree.insert(number.to_be_bytes(), value(number), Durability::None).map_err(failed)?;
    }
    database.checkpoint().map_err(failed)?;
    if content(&tree).map_err(failed)? != map {
        return Err("opened again: wrong content".to_owned());
    }
    unsound(&database).map_or(Ok(()), Err)
}

#[test]
fn large_values_are_written_once_and_give_their_space_back() {
    lives().unwrap_or_else(|what| panic!("{what}"));
}
