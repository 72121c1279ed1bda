//! A running store: views, kept snapshots and conditions beside commits.

use rand::RngExt;
use storage::Memory;

use super::workload::{Map, batch, content, durability, number, random, tiny, unsound};
use crate::{Batch, Database, Durability, Error, Snapshot, Tree};

fn same(snapshot: &Snapshot, tree: &Tree, map: &Map) -> Result<(), String> {
    let found: Map =
        snapshot.range::<&[u8]>(tree, ..).collect::<Result<_, Error>>().map_err(|error| error.to_string())?;
    if found == *map { Ok(()) } else { Err(format!("a view differs: {} and {} entries", found.len(), map.len())) }
}

pub(super) fn live(seed: u64, batches: u64) -> Result<(), String> {
    let memory = Memory::new(4 << 20);
    let mut options = tiny(seed);
    options.memtable_bytes = 600;
    let failed = |error: Error| error.to_string();
    let database = Database::create(memory, options, 11).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let (mut random, mut map) = (random(seed), Map::new());
    let mut kept: Vec<(Snapshot, Map)> = Vec::new();
    let mut saved: Vec<(String, Map)> = Vec::new();
    for next in 1..=batches {
        let mut refused = batch(&tree, next, &mut random, &mut map.clone());
        refused.require(&tree, super::workload::NUMBER, Some(b"something else"));
        if !matches!(database.commit(&refused, Durability::Sync), Err(Error::Conflict)) {
            return Err("a batch whose condition does not hold".to_owned());
        }
        let held = number(&map).to_le_bytes();
        let mut batch: Batch = batch(&tree, next, &mut random, &mut map);
        batch.require(&tree, super::workload::NUMBER, (next > 1).then_some(&held[..]));
        database.commit(&batch, durability(&mut random)).map_err(failed)?;
        match random.random_range(0..12) {
            0 | 1 => {
                kept.truncate(2);
                kept.insert(0, (database.snapshot(), map.clone()));
            }
            2 => {
                let name = format!("s{next}");
                database.save_snapshot(&name).map_err(failed)?;
                saved.push((name, map.clone()));
            }
            3 if !saved.is_empty() => database.remove_snapshot(&saved.remove(0).0).map_err(failed)?,
            4 => database.checkpoint().map_err(failed)?,
            5 => database.quiesce().map_err(failed)?,
            _ => {}
        }
        if content(&tree).map_err(failed)? != map {
            return Err(format!("batch {next}: the content differs"));
        }
        // Lookups go another way than scans.
        for key in super::workload::keys() {
            if tree.get(&key).map_err(failed)? != map.get(&key).cloned() {
                return Err(format!("batch {next}: key {key:?} reads wrong"));
            }
        }
        for (snapshot, then) in &kept {
            same(snapshot, &tree, then)?;
        }
        for (name, then) in &saved {
            same(&database.open_snapshot(name).map_err(failed)?, &tree, then)?;
        }
        if next % 8 == 0
            && let Some(what) = unsound(&database)
        {
            return Err(what);
        }
    }
    Ok(())
}

#[test]
fn views_and_snapshots_never_change() {
    for seed in 0..6 {
        live(seed, 150).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}
