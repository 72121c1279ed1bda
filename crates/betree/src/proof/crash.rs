//! Power cuts: whatever survives, the store opens, holds everything acknowledged, and is some prefix of the batches.

use std::collections::BTreeSet;

use crash::{Cut, Cuts, VolatileCache};
use rand::{Rng, RngExt};
use storage::{Image, Memory, Recorded};
use twox_hash::XxHash3_128;

use super::below::{Below, DEVICES};
use super::workload::{Map, batch, content, durability, number, random, tiny, unsound};
use crate::{Database, Durability};

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub states: u64,
    /// Of those that differ in any byte.
    pub distinct: BTreeSet<u128>,
    pub recoveries_behind: u64,
}

/// A store as it was when the power went, with the map of each batch so far.
struct Story {
    below: Below,
    before: Image,
    maps: Vec<Map>,
    /// How many of the batches are known to have survived.
    kept: usize,
}

/// Goes on with a store for some batches, cuts the power at every moment, and checks what is left: with none, all, and
/// random parts of the undecided writes. A few of the states go on themselves, `depth` times.
fn explore(story: Story, seed: u64, batches: usize, depth: usize, seen: &mut Seen) -> Result<(), String> {
    let mut random = random(seed);
    let options = tiny(seed);
    let (recorded, recording) = Recorded::new(story.below.storage(&story.before)?);
    let recorded = std::sync::Arc::new(recorded);
    let mut maps = story.maps;
    {
        let failed = |what: &str, error: crate::Error| format!("{what}: {error}");
        let mut database =
            Database::open(std::sync::Arc::clone(&recorded), options.clone()).map_err(|e| failed("open", e))?;
        let mut tree = database.tree("t").map_err(|e| failed("tree", e))?;
        // What is in it now is in it for good.
        recording.mark(maps.len() as u64 - 1);
        for _ in 0..batches {
            let mut map = maps.last().cloned().unwrap_or_default();
            let next = maps.len() as u64;
            let batch = batch(&tree, next, &mut random, &mut map);
            maps.push(map);
            let how = durability(&mut random);
            database.commit(&batch, how).map_err(|e| failed("commit", e))?;
            if how == Durability::Sync {
                recording.mark(next);
            }
            // Often so little that many batches come while a flush or a checkpoint is on its way.
            let bytes = random.random_range(0..3000);
            database.work(bytes).map_err(|e| failed("work", e))?;
            let done = match random.random_range(0..30) {
                0 => database.checkpoint(),
                1 => database.quiesce(),
                2 => database.sync(),
                3 => match database.snapshot_names().first() {
                    Some(name) => database.remove_snapshot(name),
                    None => database.save_snapshot("kept"),
                },
                4 => {
                    drop((tree, database));
                    database = Database::open(std::sync::Arc::clone(&recorded), options.clone())
                        .map_err(|e| failed("open again", e))?;
                    tree = database.tree("t").map_err(|e| failed("tree", e))?;
                    Ok(())
                }
                _ => continue,
            };
            done.map_err(|e| failed("maintenance", e))?;
            if content(&tree).map_err(|e| failed("read", e))? != maps[maps.len() - 1] {
                return Err(format!("batch {next}: the running store differs"));
            }
            recording.mark(next);
        }
        if let Some(what) = unsound(&database) {
            return Err(what);
        }
    }
    let log = recording.take();
    for cut in Cuts::new(story.before, &log, VolatileCache::default()) {
        // Marks are only ever raised.
        let acknowledged = cut.mark.map_or(story.kept, |mark| mark as usize);
        for choice in 0..choices(&cut) {
            let image = survivors(&cut, choice, &mut random);
            seen.states += 1;
            if !seen.distinct.insert(digest(&image)) {
                continue;
            }
            let last = check(image.clone(), &maps, acknowledged, seed)
                .map_err(|what| format!("cut after {} entries, choice {choice}: {what}", cut.entries))?;
            seen.recoveries_behind += u64::from(last + 1 < maps.len());
            if depth > 0 && random.random_range(0..40) == 0 {
                let story =
                    Story { below: story.below, before: image, maps: maps[..=last].to_vec(), kept: acknowledged };
                explore(story, random.next_u64(), 12, depth - 1, seen)?;
            }
        }
    }
    Ok(())
}

/// Of all bytes that are not zero, and where they are.
pub(super) fn digest(image: &Image) -> u128 {
    let of_block = |(number, bytes): (u64, &[u8; 4096])| XxHash3_128::oneshot_with_seed(number, bytes);
    image.blocks().map(of_block).fold(0, |all, one| all ^ one)
}

/// How many ways of a cut are looked at.
fn choices(cut: &Cut) -> usize {
    match cut.undecided.len() {
        0 => 1,
        1 => 4,
        _ => 6,
    }
}

/// Nothing, everything, whole writes by lot, or single sectors by lot survive.
pub(super) fn survivors(cut: &Cut, choice: usize, random: &mut impl Rng) -> Image {
    match choice {
        0 => cut.image(4096, |_, _| false),
        1 => cut.image(4096, |_, _| true),
        2 => cut.image(512, |_, _| random.random_bool(0.5)),
        3 => cut.image(512, |_, _| random.random_bool(0.9)),
        _ => {
            let mut last = (None, false);
            cut.image(4096, |write, _| {
                if last.0 != Some(write.id) {
                    last = (Some(write.id), random.random_bool(0.5));
                }
                last.1
            })
        }
    }
}

/// Opens what is left; returns the batch up to which it recovered.
fn check(image: Image, maps: &[Map], acknowledged: usize, seed: u64) -> Result<usize, String> {
    let memory = Memory::from_image(image);
    let database = Database::open(memory.clone(), tiny(seed)).map_err(|error| format!("open: {error}"))?;
    let tree = database.tree("t").map_err(|error| format!("tree: {error}"))?;
    let found = content(&tree).map_err(|error| format!("read: {error}"))?;
    let last = number(&found) as usize;
    if last < acknowledged {
        return Err(format!("batch {acknowledged} was acknowledged, and {last} is the last"));
    }
    match maps.get(last) {
        Some(map) if *map == found => {}
        Some(_) => return Err(format!("batch {last} is the last, and the content is not what it left")),
        None => return Err(format!("batch {last} was never made")),
    }
    match unsound(&database) {
        Some(what) => Err(what),
        None => Ok(last),
    }
}

/// One story from an empty store on what `below` says. What a cut leaves is looked at in memory.
pub(super) fn story(below: Below, seed: u64, batches: usize, depth: usize) -> Result<Seen, String> {
    let memory = Memory::new(1 << 20);
    let failed = |error: crate::Error| error.to_string();
    let database = Database::create(memory.clone(), tiny(seed), u128::from(seed) + 1).map_err(failed)?;
    drop(database);
    let mut seen = Seen::default();
    let story = Story { below, before: memory.image(), maps: vec![Map::new()], kept: 0 };
    explore(story, seed, batches, depth, &mut seen)?;
    Ok(seen)
}

/// Short stories; `PLUMB_LONG=1` tells longer ones until a million distinct states have been looked at.
#[test]
fn every_cut_leaves_a_prefix_with_everything_acknowledged() {
    let long = std::env::var_os("PLUMB_LONG").is_some();
    let (stories, batches, enough) = if long { (1200, 120, 1_000_000) } else { (5, 50, u64::MAX) };
    let (mut states, mut distinct) = (0, 0);
    for seed in 0..stories {
        if distinct >= enough {
            break;
        }
        match story(Below::Memory, seed, batches, if long { 2 } else { 1 }) {
            Ok(seen) => {
                assert!(seen.recoveries_behind > 0, "cuts lose what nobody was promised");
                states += seen.states;
                // Stores of different seeds have different names, so no state is another story's.
                distinct += seen.distinct.len() as u64;
                if long {
                    println!("seed {seed}: {} states, {} distinct", seen.states, seen.distinct.len());
                }
            }
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    println!("{states} states after a power cut, {distinct} distinct");
    assert!(!long || distinct >= enough, "too few stories for a million");
}

/// Outstanding together on a device, requests complete at times and in orders of its own, and cuts come in between.
#[test]
fn so_does_every_cut_of_a_modelled_device() {
    let (stories, batches) = if std::env::var_os("PLUMB_LONG").is_some() { (40, 120) } else { (1, 40) };
    for device in DEVICES {
        for seed in 0..stories {
            let seen = story(Below::Device(device), seed, batches, 1);
            let seen = seen.unwrap_or_else(|what| panic!("{device}, seed {seed}: {what}"));
            assert!(seen.recoveries_behind > 0, "cuts lose what nobody was promised");
            println!("{device}, seed {seed}: {} states, {} distinct", seen.states, seen.distinct.len());
        }
    }
}
