//! Damage: no flipped bit goes unnoticed where it matters, and none makes the store return what was never written.

use rand::RngExt;
use storage::{Image, Memory};

use super::workload::{Map, batch, content, random, tiny};
use crate::{Batch, Database, Durability, Options};

/// How a store ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Closed,
    /// As if its program was killed.
    Killed,
}

/// A store at rest, and what is in it; the last `logged` batches are in the log alone.
pub(super) fn at_rest(seed: u64, options: &Options, logged: u64, end: End) -> Result<(Image, Map), String> {
    let memory = Memory::new(1 << 20);
    let failed = |error: crate::Error| error.to_string();
    let database = Database::create(memory.clone(), options.clone(), 5).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let (mut random, mut map) = (random(seed), Map::new());
    for number in 1..60 {
        let batch = batch(&tree, number, &mut random, &mut map);
        database.commit(&batch, Durability::Sync).map_err(failed)?;
    }
    // As much as fills a long block.
    for number in 0..options.basement_bytes / 1024 {
        let (key, value) = (format!("long/{number}").into_bytes(), vec![number as u8; 900]);
        tree.insert(&key, value.clone(), Durability::None).map_err(failed)?;
        map.insert(key, value);
    }
    database.checkpoint().map_err(failed)?;
    for number in 60..60 + logged {
        let batch = batch(&tree, number, &mut random, &mut map);
        database.commit(&batch, Durability::Sync).map_err(failed)?;
    }
    let image = memory.image();
    drop((tree, database));
    Ok((if end == End::Closed { memory.image() } else { image }, map))
}

/// Whether it is found that somebody else wrote to a store: it is not opened, or `verify` has findings, and then a read may fail.
/// What is read is right.
pub(super) fn is_noticed(damaged: Image, options: &Options, map: &Map) -> Result<bool, String> {
    let Ok(database) = Database::open(Memory::from_image(damaged), options.clone()) else { return Ok(true) };
    let findings = database.verify().map_err(|error| error.to_string())?;
    let tree = database.tree("t").map_err(|error| error.to_string())?;
    match content(&tree) {
        Ok(found) if found != *map => Err("wrong content".to_owned()),
        Err(_) if findings.is_empty() => Err("a read fails, verify does not".to_owned()),
        Ok(_) | Err(_) => Ok(!findings.is_empty()),
    }
}

/// Flips bits of a closed store, the last batches of which are in its log: either `verify` finds it and no read
/// returns anything wrong, or nothing refers to it.
pub(super) fn flips(seed: u64, count: usize) -> Result<usize, String> {
    let (image, map) = at_rest(seed, &tiny(seed), 6, End::Closed)?;
    let mut random = random(seed);
    let mut noticed = 0;
    // Only places that are in use are of interest: those that are not zero, and the superblocks.
    let used: Vec<u64> = (0..image.capacity_bytes() / 4096)
        .filter(|block| {
            let mut bytes = [0; 4096];
            image.read(block * 4096, &mut bytes);
            bytes.iter().any(|byte| *byte != 0)
        })
        .collect();
    for _ in 0..count {
        let block = used[random.random_range(0..used.len())];
        let (at, bit) = (block * 4096 + random.random_range(0..4096), random.random_range(0..8));
        let mut damaged = image.clone();
        damaged.flip(at, bit);
        let is_noticed =
            is_noticed(damaged, &tiny(seed), &map).map_err(|what| format!("bit {bit} of byte {at}: {what}"))?;
        noticed += usize::from(is_noticed);
    }
    Ok(noticed)
}

/// Any bit of one copy of a superblock: its twin serves.
pub(super) fn superblocks(seed: u64) -> Result<(), String> {
    let (image, map) = at_rest(seed, &tiny(seed), 4, End::Killed)?;
    for bit in 0..4 * 200 * 8u64 {
        let (copy, bit) = (bit / 1600, bit % 1600);
        let mut damaged = image.clone();
        damaged.flip(copy * 4096 + bit / 8, (bit % 8) as u8);
        let failed = |error: crate::Error| format!("bit {bit} of copy {copy}: {error}");
        let database = Database::open(Memory::from_image(damaged), tiny(seed)).map_err(failed)?;
        if content(&database.tree("t").map_err(failed)?).map_err(failed)? != map {
            return Err(format!("bit {bit} of copy {copy}: wrong content"));
        }
    }
    Ok(())
}

/// Any bit of the log's frames but the last, all of which were synced: the store is not opened, unless its user accepts
/// the damage; then it has a prefix. Of the last frame of a store that was not closed nobody can tell whether it was torn.
pub(super) fn log(seed: u64, stride: usize, end: End) -> Result<(), String> {
    const LOGGED: u64 = 6;
    // So much room that no checkpoint takes the frames away.
    let options = Options { memtable_bytes: 1 << 20, log_bytes: 64 * 4096, ..tiny(seed) };
    let (image, map) = at_rest(seed, &options, LOGGED, end)?;
    let failed = |error: crate::Error| error.to_string();
    let open = |image: Image, accept_log_damage: bool| {
        Database::open(Memory::from_image(image), Options { accept_log_damage, ..options.clone() })
    };
    let sound = open(image.clone(), false).map_err(failed)?;
    let frames = sound.engine.log_frames();
    if (frames.len() as u64) != LOGGED {
        return Err(format!("{} frames", frames.len()));
    }
    for (number, (start, bytes)) in frames.into_iter().enumerate() {
        for at in (0..bytes).step_by(stride) {
            let mut damaged = image.clone();
            damaged.flip(start * 4096 + at, (at % 8) as u8);
            let refused = open(damaged.clone(), false);
            let last = number as u64 + 1 == LOGGED && end == End::Killed;
            match &refused {
                Err(crate::Error::Corrupt { .. }) if !last => {}
                Ok(_) if last => {}
                other => return Err(format!("byte {at} of frame {number}: {:?}", other.as_ref().err())),
            }
            let closed = crate::verify(Memory::from_image(damaged.clone())).map_err(failed)?;
            if closed.is_empty() != last {
                return Err(format!("byte {at} of frame {number}, closed: {closed:?}"));
            }
            let database = open(damaged, true).map_err(failed)?;
            let found = content(&database.tree("t").map_err(failed)?).map_err(failed)?;
            if super::workload::number(&found) != super::workload::number(&map) - LOGGED + number as u64 {
                return Err(format!("byte {at} of frame {number}: not what was before"));
            }
        }
    }
    Ok(())
}

/// Damage in each frame of the log is accepted once. From then on the store is as sound as any, though the frames behind
/// the damage still lie there; and what was found then may not be damaged again.
pub(super) fn accepted(seed: u64, end: End) -> Result<(), String> {
    let options = Options { memtable_bytes: 1 << 20, log_bytes: 64 * 4096, ..tiny(seed) };
    let (image, _) = at_rest(seed, &options, 6, end)?;
    let failed = |what: &'static str| move |error: crate::Error| format!("{what}: {error}");
    let open = |memory: &Memory, accept_log_damage: bool| {
        Database::open(memory.clone(), Options { accept_log_damage, ..options.clone() })
    };
    let frames = open(&Memory::from_image(image.clone()), false).map_err(failed("open"))?.engine.log_frames();
    for (number, (start, bytes)) in frames.iter().enumerate() {
        for more in 0..4 {
            let mut damaged = image.clone();
            damaged.flip(start * 4096 + bytes / 2, 3);
            let memory = Memory::from_image(damaged);
            let database = open(&memory, true).map_err(failed("accept"))?;
            let tree = database.tree("t").map_err(failed("tree"))?;
            let mut map = content(&tree).map_err(failed("read"))?;
            for _ in 0..more {
                let next = super::workload::number(&map) + 1;
                let batch = batch(&tree, next, &mut random(next), &mut map);
                database.commit(&batch, Durability::Sync).map_err(failed("commit"))?;
            }
            // Of a program that is killed now, all of the log is looked through.
            let killed = Memory::from_image(memory.image());
            drop((tree, database));
            let what = format!("frame {number}, then {more} batches");
            for memory in [&killed, &memory, &memory] {
                let findings = crate::verify(memory.clone()).map_err(failed("verify"))?;
                if let Some(finding) = findings.first() {
                    return Err(format!("{what}: {finding}"));
                }
                let database = open(memory, false).map_err(|error| format!("{what}: {error}"))?;
                if content(&database.tree("t").map_err(failed("tree"))?).map_err(failed("read"))? != map {
                    return Err(format!("{what}: wrong content"));
                }
            }
            // All frames were found, so that damage is damage even where no frame is behind it.
            let Some((start, bytes)) = open(&memory, false).map_err(failed("open"))?.engine.log_frames().pop() else {
                continue;
            };
            let mut damaged = memory.image();
            damaged.flip(start * 4096 + bytes / 2, 3);
            if !matches!(open(&Memory::from_image(damaged), false), Err(crate::Error::Corrupt { .. })) {
                return Err(format!("{what}: damage in the last frame that was found goes unnoticed"));
            }
        }
    }
    Ok(())
}

/// A closed store was opened again, and its program killed. Damage in the first frame since then is noticed, as frames behind it
/// say that it was durable; also where the superblock of that opening is lost, and the one before it says that the store is closed.
pub(super) fn reopened(seed: u64) -> Result<(), String> {
    let options = Options { memtable_bytes: 1 << 20, log_bytes: 64 * 4096, ..tiny(seed) };
    let (closed, mut map) = at_rest(seed, &options, 2, End::Closed)?;
    let failed = |error: crate::Error| error.to_string();
    let memory = Memory::from_image(closed);
    let database = Database::open(memory.clone(), options.clone()).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let before = database.engine.log_frames().len();
    for value in [b"one", b"two", b"six"] {
        tree.insert(b"new", value, Durability::Sync).map_err(failed)?;
        map.insert(b"new".to_vec(), value.to_vec());
    }
    let frames = database.engine.log_frames();
    let (start, bytes) = *frames.get(before).ok_or("a checkpoint came between")?;
    let newest = database.engine.superblock_generation() % 2;
    let sound = memory.image();
    drop((tree, database));
    for is_lost in [false, true] {
        let mut damaged = sound.clone();
        if is_lost {
            [newest, newest + 2].into_iter().for_each(|copy| damaged.flip(copy * 4096 + 30, 1));
        }
        let opened = Database::open(Memory::from_image(damaged.clone()), options.clone()).map_err(failed)?;
        if content(&opened.tree("t").map_err(failed)?).map_err(failed)? != map {
            return Err(format!("not all that was written, superblock lost: {is_lost}"));
        }
        damaged.flip(start * 4096 + bytes / 2, 3);
        let refused = Database::open(Memory::from_image(damaged), options.clone());
        if !matches!(refused, Err(crate::Error::Corrupt { .. })) {
            return Err(format!("damage in the log goes unnoticed, superblock lost: {is_lost}"));
        }
    }
    Ok(())
}

#[test]
fn damage_after_a_close_is_noticed() {
    for seed in 0..3 {
        reopened(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn accepted_damage_is_over() {
    for seed in 0..2 {
        for end in [End::Closed, End::Killed] {
            accepted(seed, end).unwrap_or_else(|what| panic!("seed {seed}, {end:?}: {what}"));
        }
    }
}

#[test]
fn a_damaged_log_is_noticed() {
    for seed in 0..2 {
        for (end, stride) in [(End::Closed, 29), (End::Killed, 13)] {
            log(seed, stride, end).unwrap_or_else(|what| panic!("seed {seed}, {end:?}: {what}"));
        }
    }
}

#[test]
fn one_copy_of_a_superblock_is_enough() {
    superblocks(1).unwrap_or_else(|what| panic!("{what}"));
}

#[test]
fn flipped_bits_are_noticed() {
    let mut noticed = 0;
    for seed in 0..5 {
        noticed += flips(seed, 500).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    assert!(noticed > 100, "{noticed} of 2500: most places belong to nothing any more");
}

/// Turns over a bit at `steps` places of every block that the newest checkpoint refers to, first and last among them.
pub(super) fn covered(seed: u64, steps: u64) -> Result<(), String> {
    let blocks = covered_with(&tiny(seed), seed, steps)?.len();
    if blocks <= 5 {
        return Err(format!("{blocks} blocks"));
    }
    Ok(())
}

/// The same where blocks are longer than those of the storage.
pub(super) fn long_blocks(seed: u64, steps: u64) -> Result<(), String> {
    let options = Options {
        leaf_bytes: 64 << 10,
        basement_bytes: 16 << 10,
        large_value_bytes: usize::MAX,
        compression: crate::Compression::None,
        ..tiny(seed)
    };
    let lengths = covered_with(&options, seed, steps)?;
    if lengths.iter().any(|bytes| *bytes > 4096) { Ok(()) } else { Err(format!("blocks of {lengths:?} bytes")) }
}

/// Returns how long the blocks are.
fn covered_with(options: &Options, seed: u64, steps: u64) -> Result<Vec<u64>, String> {
    let (image, map) = at_rest(seed, options, 0, End::Closed)?;
    let failed = |error: crate::Error| error.to_string();
    let sound = Database::open(Memory::from_image(image.clone()), options.clone()).map_err(failed)?;
    let places = sound.engine.reachable_blocks();
    let lengths = places.iter().map(|(_, bytes)| *bytes).collect();
    for (start, stored_bytes) in places {
        let step = (stored_bytes / steps).max(1);
        for at in (0..stored_bytes).step_by(step as usize).chain([stored_bytes - 1]) {
            let mut damaged = image.clone();
            damaged.flip(start * 4096 + at, (at % 8) as u8);
            if crate::verify(Memory::from_image(damaged.clone())).map_err(failed)?.is_empty() {
                return Err(format!("byte {at} of block {start}, closed"));
            }
            let open = || Database::open(Memory::from_image(damaged.clone()), options.clone());
            let Ok(database) = open() else { continue };
            if database.open_tree("t").and_then(|tree| content(&tree)).is_ok_and(|found| found != map) {
                return Err(format!("byte {at} of block {start} changes what is read"));
            }
            if database.verify().map_err(failed)?.is_empty() {
                return Err(format!("byte {at} of block {start}"));
            }
            // Short scans read pages, `verify` looks at these too. What is merged with something new is read whole.
            let merged = open().map_err(failed)?;
            let tree = merged.open_tree("t").map_err(failed)?;
            let new = |key: &[u8]| [key, &[0xff, 0xfe]].concat();
            let mut batch = Batch::new();
            map.keys().step_by(4).for_each(|key| batch.insert(&tree, new(key), b""));
            let is_merged = merged.commit(&batch, Durability::None).is_ok();
            if is_merged && merged.compact().is_ok() {
                let found = content(&tree).map(|mut found| {
                    map.keys().for_each(|key| drop(found.remove(&new(key))));
                    found
                });
                if found.is_ok_and(|found| found != map) {
                    return Err(format!("byte {at} of block {start} changes what is merged"));
                }
            }
        }
    }
    Ok(lengths)
}

#[test]
fn every_reachable_block_is_covered_by_a_checksum() {
    covered(9, 40).unwrap_or_else(|what| panic!("{what}"));
    long_blocks(9, 20).unwrap_or_else(|what| panic!("{what}"));
}
