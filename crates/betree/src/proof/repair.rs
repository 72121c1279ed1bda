//! A repair saves every entry that can be read and names the ranges of all others.

use storage::Memory;

use super::workload::{Map, batch, content, random, tiny, unsound};
use crate::{Database, Durability, Error, Options};

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

/// Damages blocks of a store one by one, one of `stride`, the log among them; how many repairs lost something.
pub(super) fn blocks(seed: u64, stride: usize) -> Result<usize, String> {
    let memory = Memory::new(1 << 20);
    let options = tiny(seed);
    let (mut random, mut map) = (random(seed), Map::new());
    let mut blocks = {
        let database = Database::create(memory.clone(), options.clone(), 5).map_err(failed("create"))?;
        let tree = database.tree("t").map_err(failed("tree"))?;
        for number in 1..80 {
            let batch = batch(&tree, number, &mut random, &mut map);
            database.commit(&batch, Durability::Sync).map_err(failed("commit"))?;
            if number == 70 {
                database.checkpoint().map_err(failed("checkpoint"))?;
            }
        }
        database.engine.blocks_of("t")
    };
    let image = memory.image();
    let sound = Database::open_read_only(Memory::from_image(image.clone()), options.clone()).map_err(failed("open"))?;
    blocks.extend(sound.engine.log_frames().into_iter().map(|(start, _)| start));
    drop(sound);
    let mut lossy = 0;
    for block in blocks.into_iter().step_by(stride) {
        let mut damaged = image.clone();
        damaged.flip(block * 4096 + 30, 3);
        let (from, to) = (Memory::from_image(damaged), Memory::new(1 << 20));
        let before = from.image();
        let repaired = crate::repair(from.clone(), to.clone(), options.clone(), 6, |_| {}).map_err(failed("repair"))?;
        let what = |error: String| format!("block {block}: {error}");
        let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        before.read(0, &mut a);
        from.image().read(0, &mut b);
        if a != b {
            return Err(what("the damaged store was written to".to_owned()));
        }
        let new = Database::open(to, Options { ..options.clone() }).map_err(failed("open the new one"))?;
        let found = content(&new.open_tree("t").map_err(failed("tree"))?).map_err(failed("read"))?;
        if repaired.entries != found.len() as u64 {
            return Err(what(format!("{} entries were counted, and there are {}", repaired.entries, found.len())));
        }
        let named = |key: &[u8]| {
            let behind = |lost: &crate::Lost| lost.end.as_ref().is_some_and(|end| key >= &end[..]);
            repaired.lost.iter().any(|lost| key >= &lost.start[..] && !behind(lost))
        };
        lossy += usize::from(!repaired.lost.is_empty() || repaired.log.is_some());
        // Where the log ends early, the store is an older one.
        let differs = found.iter().any(|(key, value)| map.get(key) != Some(value));
        let missing = map.keys().any(|key| !found.contains_key(key) && !named(key));
        if repaired.log.is_none() && (differs || missing) {
            return Err(what(format!("not what it was, and {:?} are named", repaired.lost)));
        }
        if let Some(finding) = unsound(&new) {
            return Err(what(finding));
        }
    }
    Ok(lossy)
}

/// Damage in one page of each block of four: of those blocks the entries of the other pages are saved. Returns how many
/// entries are lost, of how many.
fn pages() -> Result<(usize, usize), String> {
    const ENTRIES: u32 = 2000;
    let options = Options { compression: crate::Compression::None, ..Options::default() };
    let memory = Memory::new(64 << 20);
    let options = Options { log_bytes: 1 << 20, memtable_bytes: 1 << 20, ..options };
    let database = Database::create(memory.clone(), options.clone(), 5).map_err(failed("create"))?;
    let tree = database.tree("t").map_err(failed("tree"))?;
    for number in 0..ENTRIES {
        tree.insert(number.to_be_bytes(), vec![number as u8; 100], Durability::None).map_err(failed("insert"))?;
    }
    database.compact().map_err(failed("compact"))?;
    let blocks = database.engine.reachable_blocks();
    drop((tree, database));
    let mut damaged = memory.image();
    let long = blocks.iter().filter(|(_, bytes)| *bytes > 3 * 4096);
    long.for_each(|(start, _)| damaged.flip(start * 4096 + 4096 + 2000, 3));
    let to = Memory::new(64 << 20);
    crate::repair(Memory::from_image(damaged), to.clone(), options.clone(), 6, |_| {}).map_err(failed("repair"))?;
    let new = Database::open(to, options).map_err(failed("open the new one"))?;
    let found = content(&new.open_tree("t").map_err(failed("tree"))?).map_err(failed("read"))?;
    if found.iter().any(|(key, value)| value.len() != 100 || value.first() != key.last()) {
        return Err("an entry is another".to_owned());
    }
    Ok((ENTRIES as usize - found.len(), ENTRIES as usize))
}

#[test]
fn a_repair_saves_the_other_pages_of_a_damaged_block() {
    let (lost, all) = pages().unwrap_or_else(|what| panic!("{what}"));
    assert!(lost > all / 8 && lost < all / 3, "{lost} of {all} entries are lost");
}

#[test]
fn a_repair_saves_what_can_be_read() {
    for seed in 0..3 {
        let lossy = blocks(seed, 1).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert!(lossy > 5, "{lossy} repairs lost something");
    }
}
