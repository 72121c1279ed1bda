//! A store on a storage that became larger: it takes what there is more, whole or not at all.

use crash::{Cuts, VolatileCache};
use storage::{Image, Memory, Recorded};

use super::crash::survivors;
use super::workload::{Map, content, random, tiny, unsound};
use crate::{Database, Durability, Error, Options};

const SMALL: u64 = 400 * 4096;
const LARGE: u64 = 700 * 4096;

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

fn options() -> Options {
    Options { memtable_bytes: 16 << 10, fresh_bytes: 32 << 10, ..tiny(0) }
}

/// Inserts until it is full; how many there were.
fn fill(database: &Database, map: &mut Map) -> Result<usize, String> {
    let tree = database.tree("t").map_err(failed("tree"))?;
    for count in 0..20_000u32 {
        let key = [&(map.len() as u32).to_be_bytes()[..], b"k"].concat();
        match tree.insert(&key, vec![count as u8; 300], Durability::Batch) {
            Ok(()) => drop(map.insert(key, vec![count as u8; 300])),
            Err(Error::Full) => return Ok(count as usize),
            Err(error) => return Err(format!("insert: {error}")),
        }
    }
    Err("it never got full".to_owned())
}

pub(super) fn grows(seed: u64) -> Result<(), String> {
    let memory = Memory::new(SMALL);
    let mut map = Map::new();
    {
        let database = Database::create(memory.clone(), options(), 3).map_err(failed("create"))?;
        fill(&database, &mut map)?;
        if database.grow().map_err(failed("grow"))? != 0 {
            return Err("it grew on a storage of its size".to_owned());
        }
    }
    // The same bytes at the beginning of a larger storage.
    let mut larger = Image::new(LARGE);
    for (number, bytes) in memory.image().blocks() {
        larger.write(number * bytes.len() as u64, bytes);
    }
    let (recorded, recording) = Recorded::new(Memory::from_image(larger.clone()));
    let database = Database::open(recorded, options()).map_err(failed("open"))?;
    if database.grow().map_err(failed("grow"))? != LARGE - SMALL {
        return Err("it did not take what there is".to_owned());
    }
    recording.mark(1);
    let before = map.clone();
    let more = fill(&database, &mut map)?;
    if more < 100 {
        return Err(format!("only {more} entries more fit"));
    }
    if content(&database.tree("t").map_err(failed("tree"))?).map_err(failed("read"))? != map {
        return Err("it is another store".to_owned());
    }
    if let Some(what) = unsound(&database) {
        return Err(what);
    }
    drop(database);
    let log = recording.take();
    let mut random = random(seed);
    for (number, cut) in Cuts::new(larger, &log, VolatileCache::default()).enumerate() {
        // All cuts while it grew, and some afterwards.
        if cut.mark.is_some() && number % 23 != 0 {
            continue;
        }
        let opened = Database::open(Memory::from_image(survivors(&cut, number % 5, &mut random)), options());
        let opened = opened.map_err(|error| format!("cut {number}: {error}"))?;
        let found = content(&opened.tree("t").map_err(failed("tree"))?).map_err(failed("read"))?;
        if !before.iter().all(|(key, value)| found.get(key) == Some(value)) {
            return Err(format!("cut {number}: entries are missing"));
        }
        if cut.mark.is_some() && opened.grow().map_err(failed("grow again"))? != 0 {
            return Err(format!("cut {number}: it has forgotten that it grew"));
        }
        if let Some(what) = unsound(&opened) {
            return Err(format!("cut {number}: {what}"));
        }
    }
    Ok(())
}

#[test]
fn a_store_grows_with_its_storage() {
    for seed in 0..2 {
        grows(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}
