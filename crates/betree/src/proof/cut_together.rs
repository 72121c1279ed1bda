//! Power cuts while several threads commit, sync, save snapshots and make checkpoints, in orders that seeds say: of each writer a
//! prefix with all that was acknowledged is left, and so it is in a snapshot.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crash::{Cuts, VolatileCache};
use storage::{Image, Memory, Recorded};

use super::crash::{digest, survivors};
use super::mutants::notices;
use super::schedules::{Turning, options};
use super::workload::{random, unsound};
use crate::mutant::Mutant;
use crate::turns::run;
use crate::{Batch, Database, Durability, Error, Options, Tree};

const WRITERS: u8 = 3;
const BATCHES: u8 = 12;

/// Nodes of several blocks for half of the seeds.
fn sized(seed: u64) -> Options {
    match seed % 2 {
        0 => options(),
        _ => Options { leaf_bytes: 48 << 10, basement_bytes: 12 << 10, memtable_bytes: 9000, ..options() },
    }
}

/// How many of a writer's batches are there; none may be missing in between.
fn prefix(has: impl Fn([u8; 2]) -> Result<bool, Error>, writer: u8) -> Result<u8, String> {
    let there = (1..=BATCHES).map(|number| has([writer, number])).collect::<Result<Vec<_>, _>>();
    let there = there.map_err(|error| format!("get: {error}"))?;
    let count = there.iter().take_while(|there| **there).count();
    if there.iter().skip(count).any(|there| *there) {
        return Err(format!("a batch of writer {writer} is missing: {there:?}"));
    }
    Ok(count as u8)
}

/// What a cut left, where so many of each writer's were acknowledged.
fn judge(image: Image, seed: u64, acknowledged: u64) -> Result<(), String> {
    let failed = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let database = Database::open(Memory::from_image(image), sized(seed)).map_err(failed("open"))?;
    let tree: Tree = database.open_tree("t").map_err(failed("tree"))?;
    for writer in 0..WRITERS {
        let count = prefix(|key| tree.contains(key), writer)?;
        let acknowledged = (acknowledged >> (8 * writer)) as u8;
        if count < acknowledged {
            return Err(format!("{acknowledged} of writer {writer} were acknowledged, and {count} are there"));
        }
        for name in database.snapshot_names() {
            let view = database.open_snapshot(&name).map_err(failed("snapshot"))?;
            let saved = prefix(|key| Ok(view.get(&tree, key)?.is_some()), writer)?;
            if saved > count {
                return Err(format!("{saved} of writer {writer} are in a snapshot, and {count} in the tree"));
            }
        }
    }
    unsound(&database).map_or(Ok(()), Err)
}

/// Threads in one order, and every cut of what they did; the states that were looked at.
fn cuts(seed: u64) -> Result<BTreeSet<u128>, String> {
    let failed = |error: Error| error.to_string();
    let memory = Memory::new(2 << 20);
    drop(Database::create(memory.clone(), sized(seed), 1).and_then(|database| database.tree("t")).map_err(failed)?);
    let before = memory.image();
    let (recorded, recording) = Recorded::new(memory);
    let wrong = Mutex::new(None);
    let told = |what: String| {
        wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    };
    {
        let database = Database::open(Turning(std::sync::Arc::new(recorded)), sized(seed)).map_err(failed)?;
        let tree = database.open_tree("t").map_err(failed)?;
        let acknowledged = Mutex::new([0u8; WRITERS as usize]);
        // What is durable is said before anybody else goes on.
        let acknowledge = |writer: u8, number: u8| {
            let mut all = acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
            all[usize::from(writer)] = number;
            recording.mark(all.iter().rev().fold(0, |mark, number| mark << 8 | u64::from(*number)));
        };
        let write = |writer: u8| {
            for number in 1..=BATCHES {
                let how = [Durability::None, Durability::Sync, Durability::Batch][usize::from(number + writer) % 3];
                let mut batch = Batch::new();
                batch.insert(&tree, [writer, number], vec![number; 40 + 700 * usize::from(seed % 2 == 1)]);
                match database.commit(&batch, how) {
                    Ok(()) if how == Durability::Sync => acknowledge(writer, number),
                    Ok(()) => {}
                    Err(error) => told(format!("commit: {error}")),
                }
            }
        };
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        (0..WRITERS).for_each(|writer| threads.push(Box::new(move || write(writer))));
        threads.push(Box::new(|| {
            for name in ["one", "two"] {
                let saved = database.save_snapshot(name);
                let removed = if name == "one" { database.remove_snapshot(name) } else { Ok(()) };
                saved.and(removed).unwrap_or_else(|error| told(format!("snapshot: {error}")));
            }
        }));
        threads.push(Box::new(|| {
            let made = database.checkpoint().and_then(|()| database.compact());
            made.unwrap_or_else(|error| told(format!("checkpoint: {error}")));
        }));
        run(seed, threads);
    }
    if let Some(what) = wrong.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(what);
    }
    let (log, mut random) = (recording.take(), random(seed));
    let mut seen = BTreeSet::new();
    for cut in Cuts::new(before, &log, VolatileCache::default()) {
        for choice in 0..if cut.undecided.is_empty() { 1 } else { 5 } {
            let image = survivors(&cut, choice, &mut random);
            if seen.insert(digest(&image)) {
                judge(image, seed, cut.mark.unwrap_or(0))
                    .map_err(|what| format!("cut after {} entries, choice {choice}: {what}", cut.entries))?;
            }
        }
    }
    Ok(seen)
}

#[test]
fn every_cut_of_threads_that_commit_leaves_a_prefix_of_each() {
    let seeds = if std::env::var_os("PLUMB_LONG").is_some() { 600 } else { 4 };
    let distinct: usize =
        (0..seeds).map(|seed| cuts(seed).unwrap_or_else(|what| panic!("order {seed}: {what}")).len()).sum();
    println!("{distinct} distinct states of {seeds} orders");
    assert!(distinct > 100 * seeds as usize, "{distinct} states");
}

#[test]
fn cuts_of_threads_show_what_is_not_flushed() {
    let proof = || (0..6).try_for_each(|seed| cuts(seed).map(drop));
    for mutant in [Mutant::SyncWithoutFlush, Mutant::NoFlushBeforeSuperblock, Mutant::SyncCountsLate] {
        assert!(notices(proof, Some(mutant)), "{mutant:?}");
    }
}
