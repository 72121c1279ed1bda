//! A store that is filled and emptied again and again has room for as much each time, and so it has after every power cut.

use crash::{Cuts, VolatileCache};
use storage::{Memory, Recorded, Storage};

use super::crash::survivors;
use super::workload::{Map, content, number, random, unsound};
use crate::{Batch, Compression, Database, Durability, Error, Options, Tree};

/// How a full store is emptied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Emptied {
    /// Key by key, in the order in which they came.
    ByKey,
    /// A short range after the other, in another order.
    ByRanges,
    /// All but every hundredth key, which goes a round later.
    AlmostAll,
}

/// Leaves of 16 KiB, so that a header is much beside one.
fn options() -> Options {
    Options {
        leaf_bytes: 16 << 10,
        basement_bytes: 4 << 10,
        fanout: 8,
        buffer_bytes: 32 << 10,
        memtable_bytes: 16 << 10,
        fresh_bytes: 64 << 10,
        cache_bytes: 1 << 20,
        log_bytes: 64 * 4096,
        compression: Compression::None,
        ..Options::default()
    }
}

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

const NUMBER: &[u8] = b"!number";

/// A store with the map that it must be.
struct Side {
    database: Database,
    tree: Tree,
    map: Map,
    /// Keys in the order in which they came, of this round and the ones before.
    keys: Vec<Vec<u8>>,
    kept: Vec<Vec<u8>>,
    batches: u64,
    maps: Vec<Map>,
    tell: bool,
}

impl Side {
    fn open(storage: impl Storage + 'static, tell: bool) -> Result<Self, String> {
        let database = Database::open(storage, options()).map_err(failed("open"))?;
        let tree = database.tree("t").map_err(failed("tree"))?;
        let map = Map::new();
        Ok(Self { database, tree, maps: vec![map.clone()], map, keys: vec![], kept: vec![], batches: 0, tell })
    }

    /// One batch, which may be refused.
    fn commit(&mut self, change: impl FnOnce(&Tree, &mut Batch, &mut Map)) -> Result<(), Error> {
        let (mut batch, mut map) = (Batch::new(), None);
        if self.tell {
            batch.insert(&self.tree, NUMBER, (self.batches + 1).to_le_bytes());
            map = Some(self.map.clone());
        }
        change(&self.tree, &mut batch, map.as_mut().unwrap_or(&mut self.map));
        self.database.commit(&batch, Durability::Batch)?;
        self.batches += 1;
        if let Some(mut map) = map {
            map.insert(NUMBER.to_vec(), self.batches.to_le_bytes().to_vec());
            self.maps.push(map.clone());
            self.map = map;
        }
        Ok(())
    }

    /// Inserts until it is full or there are so many; how many there were. Keys are new ones each round.
    fn fill(&mut self, round: u32, most: usize) -> Result<usize, String> {
        for count in 0..most {
            let key = [&round.to_be_bytes()[..], &(count as u32).wrapping_mul(0x9e37_79b9).to_be_bytes()].concat();
            let value = vec![count as u8; 200 + count % 300];
            match self.commit(|tree, batch, _| batch.insert(tree, &key, value.clone())) {
                Ok(()) => {
                    self.map.insert(key.clone(), value.clone());
                    if let Some(last) = self.maps.last_mut().filter(|_| self.tell) {
                        last.insert(key.clone(), value);
                    }
                    self.keys.push(key);
                }
                Err(Error::Full) => return Ok(count),
                Err(error) => return Err(format!("insert: {error}")),
            }
        }
        Ok(most)
    }

    fn empty(&mut self, how: Emptied) -> Result<(), String> {
        let mut keys = std::mem::take(&mut self.keys);
        let on_full = failed("a delete on a full store");
        match how {
            Emptied::ByKey | Emptied::AlmostAll => {
                let spared = |at: usize| how == Emptied::AlmostAll && at.is_multiple_of(100);
                let kept = keys.iter().enumerate().filter(|(at, _)| spared(*at)).map(|(_, key)| key.clone()).collect();
                let older = std::mem::replace(&mut self.kept, kept);
                let now = keys.iter().enumerate().filter(|(at, _)| !spared(*at)).map(|(_, key)| key);
                for key in now.chain(&older) {
                    self.commit(|tree, batch, map| {
                        batch.remove(tree, key);
                        map.remove(key);
                    })
                    .map_err(&on_full)?;
                }
            }
            Emptied::ByRanges => {
                keys.sort();
                // From both ends of the middle.
                let ranges: Vec<&[Vec<u8>]> = keys.chunks(17).collect();
                for at in (0..ranges.len()).map(|at| (at * 7919) % ranges.len()).chain(0..ranges.len()) {
                    let [first, .., last] = ranges[at] else { continue };
                    self.commit(|tree, batch, map| {
                        batch.remove_range(tree, &first[..]..=&last[..]);
                        map.retain(|key, _| key < first || key > last);
                    })
                    .map_err(&on_full)?;
                }
                self.commit(|tree, batch, map| {
                    for key in keys.chunks(17).filter(|chunk| chunk.len() == 1).flatten() {
                        batch.remove(tree, key);
                        map.remove(key);
                    }
                })
                .map_err(&on_full)?;
            }
        }
        Ok(())
    }
}

/// Fills and empties a store; what fits the last times is no less than what fitted at first, but for a tenth.
pub(super) fn rounds(how: Emptied, rounds: u32) -> Result<(), String> {
    let memory = Memory::new(400 * 4096);
    drop(Database::create(memory.clone(), options(), 3).map_err(failed("create"))?);
    let mut side = Side::open(memory.clone(), false)?;
    let mut fitted = Vec::new();
    for round in 0..rounds {
        fitted.push(side.fill(round, usize::MAX)?);
        side.empty(how)?;
        if round % 10 == 0 || round + 1 == rounds {
            if content(&side.tree).map_err(failed("read"))? != side.map {
                return Err(format!("round {round}: the store differs"));
            }
            match how {
                Emptied::ByKey => side.database.quiesce().map_err(failed("quiesce"))?,
                _ => side.database.compact().map_err(failed("compact"))?,
            }
            if let Some(what) = unsound(&side.database) {
                return Err(what);
            }
        }
    }
    println!("{how:?}: {fitted:?}");
    let least = fitted.iter().min().copied().unwrap_or(0);
    if least * 10 < fitted[0] * 9 {
        return Err(format!("{how:?}: at first {} entries fitted, and then {least}", fitted[0]));
    }
    let tree = &side.tree;
    tree.remove_range::<&[u8]>(.., Durability::Sync).map_err(failed("remove_range"))?;
    side.database.compact().map_err(failed("compact"))?;
    // A root, the catalog, and what waits for the next checkpoint.
    let stats = side.database.stats();
    let used = stats.capacity_bytes - 80 * 4096 - stats.free_bytes;
    if used > 4 * 4096 { Err(format!("{how:?}: {used} bytes are in use by nothing")) } else { Ok(()) }
}

#[test]
fn as_much_fits_the_hundredth_time() {
    let long = std::env::var_os("PLUMB_LONG").is_some();
    for (how, times) in [(Emptied::ByKey, 100), (Emptied::ByRanges, 20), (Emptied::AlmostAll, 20)] {
        rounds(how, if long { 100 } else { times }).unwrap_or_else(|what| panic!("{what}"));
    }
}

/// Cuts the power while a store is emptied and filled: each state is one of the batches' and sound, and takes new ones.
pub(super) fn cuts(how: Emptied, seed: u64, every: usize) -> Result<u64, String> {
    let memory = Memory::new(400 * 4096);
    drop(Database::create(memory.clone(), options(), 3).map_err(failed("create"))?);
    let before = memory.image();
    let (recorded, recording) = Recorded::new(memory);
    let mut side = Side::open(recorded, true)?;
    for round in 0..3 {
        side.fill(round, 150)?;
        side.empty(how)?;
        side.database.quiesce().map_err(failed("quiesce"))?;
        recording.mark(side.batches);
    }
    let log = recording.take();
    let (mut random, mut states) = (random(seed), 0);
    for (number_of_cut, cut) in Cuts::new(before, &log, VolatileCache::default()).enumerate() {
        if number_of_cut % every != 0 {
            continue;
        }
        let image = survivors(&cut, number_of_cut / every % 5, &mut random);
        let acknowledged = cut.mark.unwrap_or(0);
        let check = || -> Result<(), String> {
            let mut left = Side::open(Memory::from_image(image), true)?;
            let found = content(&left.tree).map_err(failed("read"))?;
            let last = number(&found);
            if last < acknowledged {
                return Err(format!("batch {acknowledged} was acknowledged, and {last} is the last"));
            }
            if side.maps.get(last as usize) != Some(&found) {
                return Err(format!("batch {last}: the content is not what it left"));
            }
            left.map = found;
            left.fill(9, 5)?;
            left.database.compact().map_err(failed("compact"))?;
            unsound(&left.database).map_or(Ok(()), Err)
        };
        check().map_err(|what| format!("{how:?}, cut after {} entries: {what}", cut.entries))?;
        states += 1;
    }
    Ok(states)
}

#[test]
fn a_cut_while_it_is_emptied_leaves_a_prefix() {
    let every = if std::env::var_os("PLUMB_LONG").is_some() { 1 } else { 19 };
    for how in [Emptied::ByKey, Emptied::ByRanges, Emptied::AlmostAll] {
        let states = cuts(how, 1, every).unwrap_or_else(|what| panic!("{what}"));
        println!("{how:?}: {states} states");
        assert!(states > 0);
    }
}
