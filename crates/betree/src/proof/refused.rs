//! A checkpoint for which there is no room: it changes nothing, and the next one is as safe as any.

use crash::{Cuts, VolatileCache};
use storage::{Memory, Recorded};

use super::crash::survivors;
use super::workload::{Map, batch, content, random, tiny, unsound};
use crate::{Database, Durability, Error};

pub(super) fn checkpoints(seed: u64) -> Result<(), String> {
    let failed = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let memory = Memory::new(1 << 20);
    let mut options = tiny(seed);
    // No checkpoints but those that are asked for.
    (options.memtable_bytes, options.log_bytes) = (1 << 20, 64 * 4096);
    // Nor blocks that were lent and come back.
    options.large_value_bytes = usize::MAX;
    drop(Database::create(memory.clone(), options.clone(), 7).map_err(failed("create"))?);
    let before = memory.image();
    let (recorded, recording) = Recorded::new(memory);
    let mut maps = vec![Map::new()];
    let mut random = random(seed);
    {
        let database = Database::open(recorded, options.clone()).map_err(failed("open"))?;
        let tree = database.tree("t").map_err(failed("tree"))?;
        for round in 0..8u64 {
            let taken = database.engine.take_free_space(round % 3);
            for _ in 0..2 {
                let number = maps.len() as u64;
                let mut map = maps.last().cloned().unwrap_or_default();
                let batch = batch(&tree, number, &mut random, &mut map);
                match database.commit(&batch, Durability::Sync) {
                    Ok(()) => maps.push(map),
                    Err(Error::Full) => {}
                    Err(error) => return Err(format!("commit: {error}")),
                }
                recording.mark(maps.len() as u64 - 1);
            }
            match database.checkpoint() {
                Err(Error::Full) => {}
                other => return Err(format!("a checkpoint without room: {other:?}")),
            }
            database.engine.give_free_space(taken);
            let number = maps.len() as u64;
            let mut map = maps.last().cloned().unwrap_or_default();
            let batch = batch(&tree, number, &mut random, &mut map);
            maps.push(map);
            database.commit(&batch, Durability::Sync).map_err(failed("commit"))?;
            recording.mark(number);
            database.checkpoint().map_err(failed("checkpoint"))?;
            if let Some(what) = unsound(&database) {
                return Err(what);
            }
        }
    }
    for cut in Cuts::new(before, &recording.take(), VolatileCache::default()) {
        for choice in 0..4 {
            let image = survivors(&cut, choice, &mut random);
            let database = Database::open(Memory::from_image(image), options.clone()).map_err(failed("open"))?;
            let tree = database.tree("t").map_err(failed("tree"))?;
            let found = content(&tree).map_err(failed("read"))?;
            let acknowledged = cut.mark.map_or(0, |mark| mark as usize);
            if !maps.iter().skip(acknowledged).any(|map| *map == found) {
                return Err(format!("cut after {} entries: wrong content", cut.entries));
            }
            if let Some(what) = unsound(&database) {
                return Err(what);
            }
        }
    }
    Ok(())
}

#[test]
fn a_checkpoint_without_room_changes_nothing() {
    for seed in 0..3 {
        checkpoints(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}
