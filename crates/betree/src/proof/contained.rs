//! Damage stays where it is: with any block of one tree damaged everything else goes on, for good.

use storage::Memory;

use super::workload::{Map, tiny};
use crate::{Batch, Database, Durability, Error, Options, Tree};

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

const KEYS: u32 = 150;

/// Batches, of which one may be refused whole where as much waits above damage as may; how many were.
fn write(database: &Database, trees: [&Tree; 2], map: &mut Map, round: u32) -> Result<u32, String> {
    let mut refused = 0;
    for from in (0..KEYS).step_by(10) {
        let (mut batch, before) = (Batch::new(), map.clone());
        for number in (from..from + 10).filter(|number| (number + round).is_multiple_of(3)) {
            let value = vec![round as u8; 20 + number as usize % 90];
            trees.iter().for_each(|tree| batch.insert(tree, key(number), value.clone()));
            map.insert(key(number), value);
        }
        // One that needs what is below.
        let added = round.to_le_bytes();
        trees.iter().for_each(|tree| batch.upsert(tree, key(from), 3, crate::Patch::write(0, &added)));
        let value = map.entry(key(from)).or_default();
        value.resize(value.len().max(4), 0);
        value[..4].copy_from_slice(&added);
        match database.commit(&batch, Durability::Sync) {
            Ok(()) => {}
            Err(Error::Corrupt { what, .. }) if what.contains("no more may wait above damage") => {
                (*map, refused) = (before, refused + 1);
            }
            Err(error) => return Err(format!("a commit beside damage: {error}")),
        }
    }
    Ok(refused)
}

/// Of the damaged tree every key reads right or not at all; how many do not.
fn lost(tree: &Tree, map: &Map) -> Result<usize, String> {
    let mut lost = 0;
    for (key, value) in map {
        match tree.get(key) {
            Ok(found) if found.as_ref() == Some(value) => {}
            Err(Error::Corrupt { what, .. }) if what.contains("in tree \"t\" from key") => lost += 1,
            other => return Err(format!("{key:?} reads as {other:?}")),
        }
    }
    Ok(lost)
}

/// What an iterator that goes past damage says is lost has its tree and its keys as well.
fn named(tree: &Tree) -> Result<(), String> {
    let errors = tree.iter().past_damage().filter_map(Result::err).chain(tree.iter().filter_map(Result::err));
    match errors.map(|error| error.to_string()).find(|error| !error.contains("in tree \"t\" from key")) {
        Some(error) => Err(format!("nobody says where that is: {error}")),
        None => Ok(()),
    }
}

/// Damages blocks of one tree in turn, one of `stride`; returns how many there were.
pub(super) fn blocks(seed: u64, stride: usize) -> Result<usize, String> {
    let options = Options { cache_bytes: 0, ..tiny(seed).operator(3, crate::Patch) };
    let memory = Memory::new(8 << 20);
    let mut map = Map::new();
    let blocks = {
        let database = Database::create(memory.clone(), options.clone(), 5).map_err(failed("create"))?;
        let (tree, other) = (database.tree("t").map_err(failed("t"))?, database.tree("u").map_err(failed("u"))?);
        for round in 0..4 {
            if write(&database, [&tree, &other], &mut map, round)? > 0 {
                return Err("a batch is refused without damage".to_owned());
            }
        }
        database.checkpoint().map_err(failed("checkpoint"))?;
        database.engine.blocks_of("t")
    };
    let image = memory.image();
    let (mut refused, mut rounds) = (0, 0);
    for (number, block) in blocks.iter().enumerate().skip(seed as usize).step_by(stride) {
        let mut damaged = image.clone();
        damaged.flip(block * 4096 + 9, 3);
        let memory = Memory::from_image(damaged);
        let mut then = map.clone();
        let what = |error: String| format!("block {number} of {}: {error}", blocks.len());
        for opened in 0..2 {
            let database = Database::open(memory.clone(), options.clone()).map_err(failed("open")).map_err(what)?;
            let (tree, other) = (database.tree("t").map_err(failed("t"))?, database.tree("u").map_err(failed("u"))?);
            for round in 0..2 {
                let in_round = write(&database, [&tree, &other], &mut then, 10 * (opened + 1) + round).map_err(what)?;
                (refused, rounds) = (refused + in_round, rounds + 1);
            }
            database.checkpoint().map_err(failed("checkpoint")).map_err(what)?;
            database.quiesce().map_err(failed("quiesce")).map_err(what)?;
            database.compact().map_err(failed("compact")).map_err(what)?;
            named(&tree).map_err(what)?;
            if lost(&other, &then).map_err(what)? > 0 {
                return Err(what("the other tree lost something".to_owned()));
            }
            lost(&tree, &then).map_err(what)?;
            // Deleting everything takes the damage along.
            if opened == 1 {
                tree.remove_range::<&[u8]>(.., Durability::Sync).map_err(failed("delete")).map_err(what)?;
                database.quiesce().map_err(failed("quiesce")).map_err(what)?;
                if tree.iter().next().is_some() {
                    return Err(what("something is left".to_owned()));
                }
                then.clear();
                if write(&database, [&tree, &other], &mut then, 40).map_err(what)? > 0 {
                    return Err(what("a batch is refused for damage that is gone".to_owned()));
                }
                if lost(&tree, &then).map_err(what)? > 0 {
                    return Err(what("the damage is not gone".to_owned()));
                }
            }
        }
    }
    // Some twenty in a round.
    if refused > rounds / 4 {
        return Err(format!("{refused} batches of {rounds} rounds are refused"));
    }
    Ok(blocks.len())
}

#[test]
fn damage_stays_where_it_is() {
    let stride = if std::env::var_os("PLUMB_LONG").is_some() { 1 } else { 9 };
    for seed in 0..4 {
        let blocks = blocks(seed, stride).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert!(blocks > 20, "{blocks} blocks");
    }
}

/// What waits above a damaged leaf is bounded: from some batch on those for it are refused, others are not, and a range delete over
/// the damage makes everything as it was.
pub(super) fn waiting() -> Result<(), String> {
    let options = Options { cache_bytes: 0, large_value_bytes: usize::MAX, ..tiny(2) };
    let (buffer_bytes, memtable_bytes) = (options.buffer_bytes, options.memtable_bytes);
    let memory = Memory::new(8 << 20);
    let blocks = {
        let database = Database::create(memory.clone(), options.clone(), 5).map_err(failed("create"))?;
        let tree = database.tree("t").map_err(failed("t"))?;
        for number in 0..KEYS {
            tree.insert(key(number), vec![1; 60], Durability::None).map_err(failed("insert"))?;
        }
        database.compact().map_err(failed("compact"))?;
        database.engine.blocks_of("t")
    };
    let image = memory.image();
    let mut refusals = 0;
    for block in blocks.iter().step_by(3) {
        let mut damaged = image.clone();
        damaged.flip(block * 4096 + 9, 3);
        let database = Database::open(Memory::from_image(damaged), options.clone()).map_err(failed("open"))?;
        let (tree, other) = (database.tree("t").map_err(failed("t"))?, database.tree("u").map_err(failed("u"))?);
        let lost: Vec<u32> = (0..KEYS).filter(|number| tree.get(key(*number)).is_err()).collect();
        // One leaf or a part of it: not a node above.
        let (Some(first), Some(last)) = (lost.first().copied(), lost.last().copied()) else { continue };
        if last - first > KEYS / 8 {
            continue;
        }
        let mut accepted_bytes = 0;
        let mut refused = false;
        // Always other keys, so that nothing takes the place of anything.
        for number in 0..2000u32 {
            let own = [key(first), number.to_be_bytes().to_vec()].concat();
            match tree.insert(&own, vec![2; 100], Durability::None) {
                Ok(()) => accepted_bytes += 110,
                Err(Error::Corrupt { .. }) => {
                    refused = true;
                    break;
                }
                Err(error) => return Err(error.to_string()),
            }
            other.insert(&own, vec![3; 10], Durability::None).map_err(failed("beside damage"))?;
        }
        // As much as sixteen nodes hold, and what was on its way when that was found.
        if !refused || accepted_bytes > 16 * buffer_bytes + 4 * memtable_bytes {
            return Err(format!("block {block}: {accepted_bytes} bytes were accepted, refused {refused}"));
        }
        refusals += 1;
        let beside = if first > KEYS / 2 { 0 } else { KEYS - 1 };
        tree.insert(key(beside), "beside", Durability::Sync).map_err(failed("beside damage in a tree"))?;
        tree.remove_range::<&[u8]>(.., Durability::Sync).map_err(failed("delete"))?;
        database.compact().map_err(failed("compact"))?;
        tree.insert(key(first), "again", Durability::Sync).map_err(failed("insert again"))?;
        if tree.get(key(first)).map_err(failed("get again"))?.as_deref() != Some(b"again") {
            return Err(format!("block {block}: what was inserted again is not there"));
        }
    }
    if refusals < 3 { Err(format!("{refusals} of {} blocks were full of messages", blocks.len())) } else { Ok(()) }
}

#[test]
fn what_waits_above_damage_is_bounded() {
    waiting().unwrap_or_else(|what| panic!("{what}"));
}
