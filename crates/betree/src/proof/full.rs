//! A storage that is full: inserts are refused with nothing done, deletes succeed and give the space back.

use storage::Memory;

use super::workload::{Map, content, tiny, unsound};
use crate::{Batch, Compression, Database, Durability, Error, Options};

/// `basement_bytes` is a part of a leaf: an eighth.
pub(super) fn fill_and_empty(rounds: usize, basement_bytes: usize, large_value_bytes: usize) -> Result<(), String> {
    let memory = Memory::new(1000 * 4096);
    let options = Options {
        leaf_bytes: 8 * basement_bytes as u64,
        basement_bytes,
        fanout: 8,
        buffer_bytes: 32 << 10,
        memtable_bytes: 16 << 10,
        fresh_bytes: 64 << 10,
        log_bytes: 64 * 4096,
        compression: Compression::None,
        large_value_bytes,
        ..tiny(0)
    };
    let failed = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let database = Database::create(memory.clone(), options.clone(), 3).map_err(failed("create"))?;
    let tree = database.tree("t").map_err(failed("tree"))?;
    let mut map = Map::new();
    let mut entries = Vec::new();
    for round in 0..rounds {
        let mut refused = false;
        for number in 0..20_000u32 {
            let key = [&(number * 7919 % 20_011).to_be_bytes()[..], &[round as u8]].concat();
            let value = vec![number as u8; 200];
            match tree.insert(&key, value.clone(), Durability::Batch) {
                Ok(()) => {
                    map.insert(key, value);
                }
                Err(Error::Full) => {
                    refused = true;
                    break;
                }
                Err(error) => return Err(format!("insert: {error}")),
            }
        }
        if !refused {
            return Err("the storage never got full".to_owned());
        }
        entries.push(map.len());
        if content(&tree).map_err(failed("read"))? != map {
            return Err("a refused insert did something".to_owned());
        }
        // Half of the keys one by one, the rest as a range.
        let keys: Vec<Vec<u8>> = map.keys().step_by(2).cloned().collect();
        for key in keys {
            tree.remove(&key, Durability::Batch).map_err(failed("remove on a full store"))?;
            map.remove(&key);
        }
        if content(&tree).map_err(failed("read"))? != map {
            return Err("removed and still there".to_owned());
        }
        tree.remove_range::<&[u8]>(.., Durability::Sync).map_err(failed("remove_range on a full store"))?;
        map.clear();
        database.quiesce().map_err(failed("quiesce"))?;
        if let Some(what) = unsound(&database) {
            return Err(what);
        }
    }
    // Every round has room for as much as the first.
    let (first, last) = (entries[0], entries[entries.len() - 1]);
    if last * 10 < first * 9 {
        return Err(format!("{first} entries fit at first and {last} at last"));
    }
    drop((tree, database));
    let database = Database::open(memory, options).map_err(failed("open"))?;
    match unsound(&database) {
        Some(what) => Err(what),
        None => Ok(()),
    }
}

/// Of a batch for which there is no room nothing is written, be its values apart or not: neither to the log nor to places of their own.
pub(super) fn nothing_of_refused() -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let options = Options { large_value_bytes: 4096, log_bytes: 64 * 4096, compression: Compression::None, ..tiny(0) };
    let database = Database::create(Memory::new(1000 * 4096), options, 3).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    for value_bytes in [4096, 500, 20] {
        for number in 0..20_000u32 {
            let key = [&number.to_be_bytes()[..], &[value_bytes as u8]].concat();
            match tree.insert(key, vec![number as u8; value_bytes], Durability::Batch) {
                Ok(()) => {}
                Err(Error::Full) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
    }
    let (before, entries) = (database.stats(), tree.iter().count());
    for (count, value_bytes) in [(1, 4096), (3, 8192), (100, 200), (12, 16_000)] {
        let mut batch = Batch::new();
        (0..count).for_each(|number: u8| batch.insert(&tree, [200, number], vec![number; value_bytes]));
        match database.commit(&batch, Durability::Sync) {
            Err(Error::Full) => {}
            other => return Err(format!("{count} values of {value_bytes} bytes on a full store: {other:?}")),
        }
        let after = database.stats();
        if (after.log_bytes, after.value_bytes) != (before.log_bytes, before.value_bytes) {
            return Err(format!("of {count} values of {value_bytes} bytes something was written"));
        }
    }
    if tree.iter().count() != entries {
        return Err("a refused batch did something".to_owned());
    }
    unsound(&database).map_or(Ok(()), Err)
}

/// A put on a nearly full store makes room by moving messages and by checkpoints. However much that is, changed nodes take no more memory
/// than at other times.
pub(super) fn bounded() -> Result<(), String> {
    let options = Options {
        leaf_bytes: 8 << 10,
        basement_bytes: 2 << 10,
        fanout: 8,
        buffer_bytes: 64 << 10,
        memtable_bytes: 32 << 10,
        fresh_bytes: 64 << 10,
        cache_bytes: 1 << 20,
        log_bytes: 1 << 20,
        compression: Compression::None,
        ..Options::default()
    };
    let failed = |error: Error| error.to_string();
    // Beside what one change may make: four leaves with their headers, before which none stops, and what drained tables bring with them.
    let tables = 4 * (12 << 10) + 3 * options.memtable_bytes + (64 << 10);
    let database = Database::create(Memory::new(12 << 20), options, 3).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let key = |number: u32| number.wrapping_mul(2_654_435_761).to_be_bytes();
    let (mut entries, mut made_room, mut bound) = (0, 0, 0);
    for number in 0..200_000u32 {
        let before = database.stats().checkpoints;
        let put = tree.insert(key(number), [number as u8; 60], Durability::None);
        // A commit's own share makes one at most.
        made_room += u32::from(database.stats().checkpoints > before + 1);
        // It rises with the catalog.
        bound = bound.max(2 * database.engine.fresh_bytes_most() + tables);
        match put {
            Ok(()) => entries += 1,
            Err(Error::Full) => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    let written = database.stats().written_bytes();
    let most = database.engine.most_fresh_bytes();
    println!("{entries} entries, {made_room} puts made room, {most} bytes of changed nodes at most, {written} written");
    if most > bound || entries < 50_000 || made_room == 0 {
        return Err(format!(
            "{most} bytes of changed nodes, not {bound}, for {entries} entries, {made_room} puts made room"
        ));
    }
    if tree.iter().count() != entries {
        return Err("entries are missing".to_owned());
    }
    unsound(&database).map_or(Ok(()), Err)
}

#[test]
fn making_room_takes_bounded_memory() {
    bounded().unwrap();
}

#[test]
fn nothing_is_written_of_a_batch_without_room() {
    nothing_of_refused().unwrap_or_else(|what| panic!("{what}"));
}

/// Every value in a block of its own.
#[test]
fn so_do_deletes_of_large_values() {
    fill_and_empty(3, 4096, 150).unwrap_or_else(|what| panic!("{what}"));
}

#[test]
fn deletes_succeed_on_a_full_store_and_give_the_space_back() {
    // Headers are small beside their blocks, as in use; and larger than they.
    for (rounds, basement_bytes) in [(4, 4096), (2, 256)] {
        let done = fill_and_empty(rounds, basement_bytes, usize::MAX);
        done.unwrap_or_else(|what| panic!("basements of {basement_bytes}: {what}"));
    }
}
