//! Snapshots are saved and removed in steps, and messages are moved down so, and others commit between them: what they wait for is a
//! step, however much is owed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use storage::Memory;

use super::workload::unsound;
use crate::engine::Engine;
use crate::mutant::set_between;
use crate::turns::run;
use crate::{Compression, Database, Durability, Error, Options, Tree};

/// Bytes of work in a step, and in the largest piece beyond it: a request of 256 KiB.
const STEP_BYTES: u64 = (256 << 10) + (256 << 10);

/// The same where all trees have to be as they are: the way down of what was put meanwhile, and a checkpoint of that.
const HELD_BYTES: u64 = 4 << 20;

/// What a put of 128 bytes may do by itself, with what was put together from those before: see `pacing/rising.rs`.
const PUT_BYTES: u64 = 300 * 68 + (64 << 10) / 512 + (64 << 10);

fn options() -> Options {
    Options {
        leaf_bytes: 64 << 10,
        basement_bytes: 4096,
        fanout: 8,
        buffer_bytes: 256 << 10,
        memtable_bytes: 64 << 10,
        fresh_bytes: 4 << 20,
        log_bytes: 16 << 20,
        compression: Compression::None,
        ..Options::default()
    }
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// What is seen at the moments at which others may have the trees.
#[derive(Default)]
struct Seen {
    moments: u64,
    puts: u64,
    worked: u64,
    most_between: u64,
    most_in_a_put: u64,
}

/// Puts a few entries at each such moment, and some while somebody has the trees.
fn arm(database: &Database, tree: &Tree, seen: &Arc<Mutex<Seen>>, meanwhile: u64) {
    let (database, tree, seen) = (database.clone(), tree.clone(), Arc::clone(seen));
    set_between(Some(Box::new(move || {
        let engine: &Engine = &database.engine;
        if engine.is_changing() {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..meanwhile {
                let put = tree.insert(key(1 << 40 | seen.puts), [7; 100], Durability::None);
                seen.puts += u64::from(put.is_ok());
            }
        } else {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let worked = || database.stats().worked_bytes;
            seen.moments += 1;
            seen.most_between = seen.most_between.max(worked() - seen.worked);
            for _ in 0..5 {
                let before = worked();
                let put = tree.insert(key(1 << 40 | seen.puts), [7; 100], Durability::None);
                seen.puts += u64::from(put.is_ok());
                seen.most_in_a_put = seen.most_in_a_put.max(worked() - before);
            }
            seen.worked = worked();
        }
        arm(&database, &tree, &seen, meanwhile);
    })));
}

/// With megabytes owed, nobody waits for more than a step of it, and what is saved is a state between the call and its return.
pub(super) fn waits() -> Result<(), String> {
    saved(options(), 0)?;
    others_go_on("quiesce", options(), 0, STEP_BYTES, Database::quiesce).map(drop)?;
    let saves_and_removes = |database: &Database| {
        database.save_snapshot("old")?;
        database.remove_snapshot("old")
    };
    others_go_on("removing", options(), 0, STEP_BYTES, saves_and_removes).map(drop)
}

/// The same where trees are cloned, renamed and removed, for which nobody may change any.
pub(super) fn trees() -> Result<(), String> {
    others_go_on("renaming", options(), 0, HELD_BYTES, |database| database.rename_tree("t", "u")).map(drop)?;
    let clones_and_removes = |database: &Database| {
        database.clone_tree("t", "u")?;
        database.remove_tree("u")
    };
    others_go_on("cloning", options(), 0, HELD_BYTES, clones_and_removes).map(drop)
}

/// A tree that changes while it is looked through to be removed.
pub(super) fn removed_meanwhile() -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let database = Database::create(Memory::new(8 << 20), options(), 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let put = |numbers: std::ops::Range<u64>, byte: u8| {
        numbers.into_iter().try_for_each(|number| tree.insert(key(number), [byte; 100], Durability::None))
    };
    put(0..2000, 1).map_err(failed)?;
    database.checkpoint().map_err(failed)?;
    let (others, same) = (database.clone(), tree.clone());
    set_between(Some(Box::new(move || {
        for number in 1000..3000 {
            let _ = same.insert(key(number), [2; 100], Durability::None);
        }
        let _ = others.compact();
    })));
    let removed = database.remove_tree("t");
    set_between(None);
    removed.map_err(failed)?;
    if database.open_tree("t").is_ok() {
        return Err("it is still there".to_owned());
    }
    unsound(&database).map_or(Ok(()), Err)
}

/// The same where every message is moved to its leaf.
pub(super) fn compacted() -> Result<(), String> {
    others_go_on("compact", options(), 0, STEP_BYTES, Database::compact).map(drop)
}

/// What others could not do while somebody saves a snapshot, none of them does at once.
pub(super) fn shares() -> Result<(), String> {
    saved(Options { memtable_bytes: 4 << 20, ..options() }, 500)
}

const ENTRIES: u64 = 24_000;

fn saved(options: Options, meanwhile: u64) -> Result<(), String> {
    let (database, tree, puts) =
        others_go_on("a save", options, meanwhile, STEP_BYTES, |database| database.save_snapshot("s"))?;
    let view = database.open_snapshot("s").map_err(|error| error.to_string())?;
    let found = view.range::<&[u8]>(&tree, ..).count() as u64;
    if !(ENTRIES..=ENTRIES + puts).contains(&found) {
        return Err(format!("{found} entries were saved of {ENTRIES} and {puts}"));
    }
    Ok(())
}

/// Others put while somebody does what takes long; the store, and how many puts there were.
fn others_go_on(
    name: &str,
    options: Options,
    meanwhile: u64,
    most_bytes: u64,
    takes_long: impl Fn(&Database) -> Result<(), Error>,
) -> Result<(Database, Tree, u64), String> {
    let failed = |error: Error| error.to_string();
    let database = Database::create(Memory::new(64 << 20), options, 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    for number in 0..ENTRIES {
        tree.insert(key(number), [7; 100], Durability::None).map_err(failed)?;
    }
    let before = database.stats().worked_bytes;
    let seen = Arc::new(Mutex::new(Seen { worked: before, ..Seen::default() }));
    arm(&database, &tree, &seen, meanwhile);
    let done = takes_long(&database);
    set_between(None);
    done.map_err(failed)?;
    let all = database.stats().worked_bytes - before;
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.most_between = seen.most_between.max(before + all - seen.worked);
    println!(
        "{name}: {all} bytes owed and worked, {} moments, {} at most between two, {} of {} puts one did at most",
        seen.moments, seen.most_between, seen.most_in_a_put, seen.puts
    );
    if all < 8 * STEP_BYTES || seen.most_between > most_bytes || seen.most_in_a_put > PUT_BYTES + STEP_BYTES {
        let (before, put) = (seen.most_between, seen.most_in_a_put);
        return Err(format!("{name}: {all} bytes of work, {before} before others could go on, {put} of a put"));
    }
    let puts = seen.puts;
    drop(seen);
    let found = tree.range::<&[u8]>(..).filter(Result::is_ok).count() as u64;
    if found != ENTRIES + puts {
        return Err(format!("{name}: {found} entries of {ENTRIES} and {puts}"));
    }
    unsound(&database).map_or(Ok((database, tree, puts)), Err)
}

/// What was committed before it is saved is in it, though memtables were sealed before that and no checkpoint has them.
pub(super) fn behind_a_seal() -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let database = Database::create(Memory::new(4 << 20), options(), 1).map_err(failed)?;
    let (a, b) = (database.tree("a").map_err(failed)?, database.tree("b").map_err(failed)?);
    a.insert("key", "old", Durability::None).map_err(failed)?;
    b.insert("key", "old", Durability::None).map_err(failed)?;
    database.engine.seal_and_drain_one().map_err(failed)?;
    a.insert("key", "new", Durability::None).map_err(failed)?;
    database.save_snapshot("s").map_err(failed)?;
    a.insert("key", "newest", Durability::None).map_err(failed)?;
    let found = database.open_snapshot("s").and_then(|view| view.get(&a, "key")).map_err(failed)?;
    if found.as_deref() == Some(b"new") { Ok(()) } else { Err(format!("saved: {found:?}")) }
}

/// Of two that save under one name one is told that it is taken; who saves under another one is not; and one who makes a checkpoint of
/// all, or compacts, or removes a snapshot meanwhile is in nobody's way.
fn together(seed: u64) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let small = Options { memtable_bytes: 2048, fresh_bytes: 16 << 10, leaf_bytes: 4096, ..options() };
    let database =
        Database::create(Memory::new(8 << 20), Options { log_bytes: 1 << 20, ..small }, 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let put = |number: u64| tree.insert(key(number), [7; 100], Durability::None);
    (0..40).try_for_each(put).map_err(failed)?;
    database.save_snapshot("old").map_err(failed)?;
    (40..80).try_for_each(put).map_err(failed)?;
    let told = Mutex::new(BTreeMap::new());
    let save = |name: &'static str| {
        let (told, database) = (&told, &database);
        let told = move |result: Result<(), Error>| {
            let result = match result {
                Ok(()) => "saved".to_owned(),
                Err(Error::NameTaken { .. }) => "taken".to_owned(),
                Err(error) => error.to_string(),
            };
            *told.lock().unwrap_or_else(PoisonError::into_inner).entry((name, result)).or_insert(0) += 1;
        };
        Box::new(move || told(database.save_snapshot(name))) as Box<dyn FnOnce() + Send + '_>
    };
    let mut threads = vec![save("a"), save("a"), save("b")];
    threads.push(Box::new(|| (80..110).for_each(|number| drop(put(number)))));
    threads.push(Box::new(|| {
        let _ = database.checkpoint();
        let _ = database.remove_snapshot("old");
        let _ = database.compact();
    }));
    run(seed, threads);
    let told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    let told: Vec<_> = told.iter().map(|((name, what), count)| (*name, what.as_str(), *count)).collect();
    if told != [("a", "saved", 1), ("a", "taken", 1), ("b", "saved", 1)] {
        return Err(format!("{told:?}"));
    }
    for name in ["a", "b"] {
        let view = database.open_snapshot(name).map_err(failed)?;
        let found = view.range::<&[u8]>(&tree, ..).filter(Result::is_ok).count();
        if !(80..=110).contains(&found) {
            return Err(format!("{name}: {found} entries"));
        }
        drop(view);
        database.remove_snapshot(name).map_err(failed)?;
    }
    database.compact().map_err(failed)?;
    unsound(&database).map_or(Ok(()), Err)
}

#[test]
fn a_put_waits_for_a_step_of_a_snapshot() {
    waits().unwrap();
}

#[test]
fn a_put_waits_for_a_step_of_a_compaction() {
    compacted().unwrap();
}

#[test]
fn a_put_waits_for_a_step_of_what_is_done_to_trees() {
    trees().unwrap();
}

#[test]
fn a_tree_that_changes_is_removed_whole() {
    removed_meanwhile().unwrap();
}

#[test]
fn a_put_does_a_step_for_others_at_most() {
    shares().unwrap();
}

#[test]
fn a_snapshot_has_what_was_committed_before() {
    behind_a_seal().unwrap();
}

#[test]
fn snapshots_that_are_saved_at_once_are_each_one() {
    let seeds = if std::env::var_os("PLUMB_LONG").is_some() { 5000 } else { 40 };
    (0..seeds).for_each(|seed| together(seed).unwrap_or_else(|what| panic!("order {seed}: {what}")));
}
