//! Cloned trees: each is what it would be alone, through removals, snapshots and restarts, at every cut of the power; and no block is
//! free too early or for ever in use.

use std::collections::BTreeMap;
use std::ops::Range;

use crash::{Cuts, VolatileCache};
use rand::RngExt;
use storage::{Memory, Recorded};

use super::crash::survivors;
use super::trees::all;
use super::workload::{Map, batch, content, random, tiny, unsound};
use crate::{Database, Durability, Error};

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

/// A range with ends that are keys, or not; it may be empty.
fn some_range(map: &Map, random: &mut impl RngExt) -> Range<Vec<u8>> {
    let mut end = || {
        let at = random.random_range(0..map.len().max(1));
        let mut key = map.keys().nth(at).cloned().unwrap_or_default();
        if random.random_range(0..3) == 0 {
            key.push(7);
        }
        key
    };
    let (a, b) = (end(), end());
    if random.random_range(0..20) == 0 { a..b } else { a.clone().min(b.clone())..a.max(b) }
}

/// Seeded calls; the trees must be what they are in the model. Returns how many states of a cut were looked at.
pub(super) fn calls(seed: u64, count: usize, cuts: bool) -> Result<u64, String> {
    let memory = Memory::new(4 << 20);
    drop(Database::create(memory.clone(), tiny(seed), 9).map_err(failed("create"))?);
    let before = memory.image();
    let (recorded, recording) = Recorded::new(memory);
    let recorded = std::sync::Arc::new(recorded);
    let open = || Database::open(std::sync::Arc::clone(&recorded), tiny(seed)).map_err(failed("open"));
    let mut random = random(seed);
    let mut database = open()?;
    let mut trees: BTreeMap<String, Map> = BTreeMap::from([("0".to_owned(), Map::new())]);
    database.tree("0").map_err(failed("tree"))?;
    recording.mark(0);
    let mut states = vec![trees.clone()];
    let mut kept: Option<BTreeMap<String, Map>> = None;
    for number in 1..=count as u64 {
        let name = trees.keys().nth(random.random_range(0..trees.len())).cloned().unwrap_or_default();
        match random.random_range(0..20) {
            0..2 => {
                let clone = number.to_string();
                let range = some_range(&trees[&name], &mut random);
                let (within, without): (Map, Map) =
                    trees[&name].clone().into_iter().partition(|(key, _)| range.contains(key));
                let copy = match random.random_range(0..3) {
                    0 => {
                        database.clone_tree(&name, &clone).map_err(failed("clone"))?;
                        trees[&name].clone()
                    }
                    1 => {
                        database.clone_range(&name, range, &clone).map_err(failed("clone"))?;
                        within
                    }
                    _ => {
                        database.move_range(&name, range, &clone).map_err(failed("move"))?;
                        trees.insert(name.clone(), without);
                        within
                    }
                };
                let taken = database.clone_tree(&name, &clone);
                if !matches!(taken, Err(Error::NameTaken { .. })) {
                    return Err(format!("a clone under a name that is taken: {taken:?}"));
                }
                trees.insert(clone, copy);
            }
            2 if trees.len() > 1 => {
                database.remove_tree(&name).map_err(failed("remove"))?;
                trees.remove(&name);
            }
            3 => match kept.take() {
                None => {
                    database.save_snapshot("kept").map_err(failed("save"))?;
                    kept = Some(trees.clone());
                }
                Some(then) => {
                    let view = database.open_snapshot("kept").map_err(failed("snapshot"))?;
                    for (name, map) in then.iter().filter(|(name, _)| trees.contains_key(*name)) {
                        let tree = database.open_tree(name).map_err(failed("tree"))?;
                        let found: Map =
                            view.range::<&[u8]>(&tree, ..).collect::<Result<_, _>>().map_err(failed("read"))?;
                        if found != *map {
                            return Err(format!("call {number}: the snapshot of {name} differs"));
                        }
                    }
                    drop(view);
                    database.remove_snapshot("kept").map_err(failed("remove"))?;
                }
            },
            4 => database.compact().map_err(failed("compact"))?,
            5 => database.quiesce().map_err(failed("quiesce"))?,
            6 => {
                drop(database);
                database = open()?;
            }
            _ => {
                let tree = database.open_tree(&name).map_err(failed("tree"))?;
                let mut map = trees[&name].clone();
                let next = batch(&tree, number, &mut random, &mut map);
                database.commit(&next, Durability::Sync).map_err(failed("commit"))?;
                trees.insert(name.clone(), map);
            }
        }
        states.push(trees.clone());
        recording.mark(states.len() as u64 - 1);
        if all(&database).map_err(failed("read"))? != trees {
            return Err(format!("call {number}: the trees differ"));
        }
        if number % 7 == 0
            && let Some(what) = unsound(&database)
        {
            return Err(format!("call {number}: {what}"));
        }
    }
    let mut looked = 0;
    if cuts {
        for (number, cut) in Cuts::new(before, &recording.take(), VolatileCache::default()).enumerate() {
            let opened = Database::open(Memory::from_image(survivors(&cut, number % 5, &mut random)), tiny(seed));
            let opened = opened.map_err(failed("open"))?;
            let found = all(&opened).map_err(failed("read"))?;
            let Some(acknowledged) = cut.mark else { continue };
            if !states.iter().skip(acknowledged as usize).any(|state| *state == found) {
                return Err(format!("cut {number}: no such state"));
            }
            if let Some(what) = unsound(&opened) {
                return Err(format!("cut {number}: {what}"));
            }
            looked += 1;
        }
    }
    // All that is gone is free: what is left takes the catalog, and a root each.
    if kept.is_some() {
        database.remove_snapshot("kept").map_err(failed("remove"))?;
    }
    let last = trees.keys().next_back().cloned().unwrap_or_default();
    for name in trees.keys().filter(|name| **name != last) {
        database.remove_tree(name).map_err(failed("remove"))?;
    }
    let tree = database.open_tree(&last).map_err(failed("tree"))?;
    if content(&tree).map_err(failed("read"))? != trees[&last] {
        return Err("the last clone is not what it was".to_owned());
    }
    tree.remove_range::<&[u8]>(.., Durability::Sync).map_err(failed("remove_range"))?;
    for _ in 0..3 {
        database.compact().map_err(failed("compact"))?;
    }
    let stats = database.stats();
    let used = (stats.capacity_bytes - tiny(seed).log_bytes - stats.free_bytes) / 4096;
    // The superblocks' blocks, a root, the catalog and the one before; and what the clone of a range may have.
    if used > 16 + 4 + database.engine.without_key_blocks() {
        return Err(format!("{used} blocks are in use by nothing"));
    }
    unsound(&database).map_or(Ok(looked), Err)
}

#[test]
fn clones_are_trees_of_their_own() {
    let (seeds, count) = if std::env::var_os("PLUMB_LONG").is_some() { (200, 400) } else { (9, 150) };
    for seed in 0..seeds {
        calls(seed, count, false).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn a_clone_is_there_whole_or_not_at_all() {
    for seed in 0..3 {
        let looked = calls(seed, 60, true).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        println!("seed {seed}: {looked} states");
    }
}
