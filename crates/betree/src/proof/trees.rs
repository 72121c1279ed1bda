//! Trees that are removed and renamed, at every cut of the power; handles that belong to another store or to a tree that
//! is gone; and a store that is only read.

use std::collections::BTreeMap;

use crash::{Cuts, VolatileCache};
use storage::{Memory, Recorded};

use super::crash::survivors;
use super::workload::{Map, batch, content, random, tiny, unsound};
use crate::{Batch, Database, Durability, Error};

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

/// Every tree with what is in it.
pub(super) fn all(database: &Database) -> Result<BTreeMap<String, Map>, Error> {
    database.tree_names().into_iter().map(|name| Ok((name.clone(), content(&database.open_tree(&name)?)?))).collect()
}

/// Fills, renames and removes trees; each cut leaves one of the states, and none that is older than what returned.
pub(super) fn cuts(seed: u64) -> Result<u64, String> {
    let memory = Memory::new(1 << 20);
    drop(Database::create(memory.clone(), tiny(seed), 9).map_err(failed("create"))?);
    let before = memory.image();
    let (recorded, recording) = Recorded::new(memory);
    let mut random = random(seed);
    let mut states = vec![BTreeMap::new()];
    {
        let database = Database::open(recorded, tiny(seed)).map_err(failed("open"))?;
        let note = |states: &mut Vec<BTreeMap<String, Map>>| -> Result<(), String> {
            states.push(all(&database).map_err(failed("read"))?);
            recording.mark(states.len() as u64 - 1);
            Ok(())
        };
        for round in 0..4u64 {
            for name in ["a", "b"] {
                let tree = database.tree(name).map_err(failed("tree"))?;
                note(&mut states)?;
                let mut map = content(&tree).map_err(failed("read"))?;
                for number in 1..6 {
                    let next = batch(&tree, round * 10 + number, &mut random, &mut map);
                    database.commit(&next, Durability::Sync).map_err(failed("commit"))?;
                    note(&mut states)?;
                }
            }
            if round == 1 {
                database.save_snapshot("kept").map_err(failed("save"))?;
            }
            database.rename_tree("a", "c").map_err(failed("rename"))?;
            note(&mut states)?;
            let taken = database.rename_tree("c", "b");
            if !matches!(taken, Err(Error::NameTaken { .. })) {
                return Err(format!("a name that is taken: {taken:?}"));
            }
            database.remove_tree("b").map_err(failed("remove"))?;
            note(&mut states)?;
            database.remove_tree("c").map_err(failed("remove"))?;
            note(&mut states)?;
            if let Some(what) = unsound(&database) {
                return Err(what);
            }
        }
    }
    let mut looked = 0;
    for cut in Cuts::new(before, &recording.take(), VolatileCache::default()) {
        for choice in 0..3 {
            let memory = Memory::from_image(survivors(&cut, choice, &mut random));
            let database = Database::open(memory, tiny(seed)).map_err(failed("open"))?;
            let found = all(&database).map_err(failed("read"))?;
            let acknowledged = cut.mark.map_or(0, |mark| mark as usize);
            if !states.iter().skip(acknowledged).any(|state| *state == found) {
                let names: Vec<_> = found.keys().collect();
                return Err(format!("cut after {} entries, with trees {names:?}: no such state", cut.entries));
            }
            if let Some(what) = unsound(&database) {
                return Err(what);
            }
            looked += 1;
        }
    }
    Ok(looked)
}

#[test]
fn trees_are_removed_and_renamed_whole() {
    for seed in 0..3 {
        let states = cuts(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        println!("{states} states");
    }
}

#[test]
fn a_removed_tree_gives_its_space_back_and_stays_in_views() {
    let database = Database::create(Memory::new(8 << 20), tiny(0), 1).unwrap();
    let used = || {
        let stats = database.stats();
        stats.capacity_bytes - stats.free_bytes
    };
    let tree = database.tree("t").unwrap();
    let (mut random, mut map) = (random(1), Map::new());
    database.checkpoint().unwrap();
    let empty = used();
    for number in 1..200 {
        let next = batch(&tree, number, &mut random, &mut map);
        database.commit(&next, Durability::None).unwrap();
    }
    database.save_snapshot("kept").unwrap();
    let view = database.snapshot();
    database.remove_tree("t").unwrap();
    assert!(matches!(database.open_tree("t"), Err(Error::NoSuchName { what: "tree", .. })));
    assert!(matches!(tree.insert("k", "v", Durability::None), Err(Error::TreeRemoved)));
    assert_eq!(tree.get("k").unwrap(), None);
    let again = database.tree("t").unwrap();
    again.insert("new", "one", Durability::Sync).unwrap();
    for _ in 0..3 {
        database.checkpoint().unwrap();
    }
    let found: Map = view.range::<&[u8]>(&tree, ..).map(Result::unwrap).collect();
    assert!(found == map);
    drop(view);
    let kept = database.open_snapshot("kept").unwrap();
    let found: Map = kept.range::<&[u8]>(&tree, ..).map(Result::unwrap).collect();
    assert!(found == map);
    assert_eq!(kept.get(&again, "new").unwrap(), None);
    drop(kept);
    database.remove_snapshot("kept").unwrap();
    for _ in 0..3 {
        database.checkpoint().unwrap();
    }
    assert!(used() <= empty + 4 * 4096, "{} and {empty} bytes", used());
    assert_eq!(unsound(&database), None);
    assert_eq!(database.stats().memory_bytes, 0);
}

#[test]
fn handles_of_another_store_are_refused() {
    let open = || Database::create(Memory::new(8 << 20), tiny(0), 1).unwrap();
    let (one, other) = (open(), open());
    let (mine, theirs) = (one.tree("t").unwrap(), other.tree("t").unwrap());
    theirs.insert("k", "theirs", Durability::None).unwrap();
    let changes: [fn(&mut Batch, &crate::Tree); 4] = [
        |batch, tree| batch.insert(tree, "k", "v"),
        |batch, tree| batch.upsert(tree, "k", 1, "v"),
        |batch, tree| batch.remove_range(tree, "a".."z"),
        |batch, tree| batch.require(tree, "k", None),
    ];
    for change in changes {
        let mut batch = Batch::new();
        change(&mut batch, &theirs);
        assert!(matches!(one.commit(&batch, Durability::None), Err(Error::OtherStore)));
        change(&mut batch, &mine);
        assert!(matches!(one.commit(&batch, Durability::None), Err(Error::OtherStore)));
        assert!(matches!(other.commit(&batch, Durability::None), Err(Error::OtherStore)));
    }
    assert!(matches!(one.snapshot().get(&theirs, "k"), Err(Error::OtherStore)));
    let mut iter = one.snapshot().prefix(&theirs, "k");
    assert!(matches!(iter.next(), Some(Err(Error::OtherStore))) && iter.next().is_none());
    assert_eq!(other.snapshot().get(&theirs, "k").unwrap().unwrap(), b"theirs");
    one.commit(&Batch::new(), Durability::Sync).unwrap();
}

#[test]
fn a_store_that_is_read_is_not_written() {
    let memory = Memory::new(1 << 20);
    let database = Database::create(memory.clone(), tiny(0), 1).unwrap();
    let tree = database.tree("t").unwrap();
    let (mut random, mut map) = (random(1), Map::new());
    for number in 1..40 {
        let next = batch(&tree, number, &mut random, &mut map);
        database.commit(&next, Durability::Sync).unwrap();
    }
    drop((tree, database));
    let before = memory.image();
    let (recorded, recording) = Recorded::new(memory);
    let database = Database::open_read_only(recorded, tiny(0)).unwrap();
    let tree = database.open_tree("t").unwrap();
    assert!(content(&tree).unwrap() == map);
    assert!(matches!(tree.insert("k", "v", Durability::None), Err(Error::ReadOnly)));
    assert!(matches!(database.tree("new"), Err(Error::ReadOnly)));
    for refused in [database.checkpoint(), database.compact(), database.sync(), database.save_snapshot("s")] {
        assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    }
    drop((tree, database));
    // Neither writes nor flushes: one moment at which the power can go.
    assert_eq!(Cuts::new(before, &recording.take(), VolatileCache::default()).count(), 1);
}
