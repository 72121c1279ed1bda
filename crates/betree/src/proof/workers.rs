//! Several threads that do what is owed, each at another tree, beside commits, views and checkpoints.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use storage::{Image, Memory};

use super::schedules::{Complaints, Threads, options, store};
use crate::turns::run;
use crate::{Batch, Database, Durability, Error, Options, Pacing, Tree};

const TREES: [&str; 3] = ["a", "b", "c"];
const ROUNDS: u8 = 40;

/// What takes all trees.
type Way<'a> = (&'a str, &'a dyn Fn() -> Result<(), Error>);

/// What a tree has under every key.
type Contents = Vec<(Vec<u8>, Vec<u8>)>;

/// Of each tree.
fn contents(database: &Database) -> Result<Vec<Contents>, Error> {
    TREES.iter().map(|name| database.open_tree(name)?.range::<&[u8]>(..).collect()).collect()
}

fn key(round: u8) -> [u8; 1] {
    [round % 20 * 7 % 20]
}

/// What each tree has after so many rounds.
fn expected(rounds: u8) -> Contents {
    let all: BTreeMap<_, _> = (0..rounds).map(|round| (key(round).to_vec(), vec![round; 250])).collect();
    all.into_iter().collect()
}

/// A store that was killed with these bytes has what was committed before a checkpoint, or more.
fn judge(image: Image, before: u8) -> Result<(), String> {
    let found = Database::open(Memory::from_image(image), options()).and_then(|database| contents(&database));
    let found = found.map_err(|error| error.to_string())?;
    let is_one = |rounds: u8| found.iter().all(|tree| *tree == expected(rounds));
    if (before..=ROUNDS).any(is_one) { Ok(()) } else { Err(format!("after {before} rounds {found:?} is there")) }
}

/// Batches change all trees alike. Whatever the order in which threads take up pieces, put them back for a checkpoint and go on, every
/// view has the trees alike, and in the end they have all that was committed, also when they are opened again.
pub(super) fn work(seed: u64) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let owed = || Options { pacing: Pacing::Elsewhere, ..options() };
    let (memory, database) = store(owed()).map_err(failed)?;
    let trees: Vec<Tree> = TREES.iter().map(|name| database.tree(name)).collect::<Result<_, _>>().map_err(failed)?;
    let complaints = Complaints::default();
    let committed = Mutex::new(0);
    let rounds = || *committed.lock().unwrap_or_else(PoisonError::into_inner);
    let write = || {
        for round in 0..ROUNDS {
            let mut batch = Batch::new();
            trees.iter().for_each(|tree| batch.insert(tree, key(round), vec![round; 250]));
            complaints.done("a commit", database.commit(&batch, Durability::None));
            *committed.lock().unwrap_or_else(PoisonError::into_inner) = round + 1;
        }
    };
    let labour = |bytes: u64| {
        for _ in 0..60 {
            complaints.done("work", database.work(bytes));
        }
    };
    let look = || {
        for _ in 0..4 {
            let view = database.snapshot();
            let of = |tree: &Tree| view.range::<&[u8]>(tree, ..).collect::<Result<Vec<_>, _>>();
            let found: Vec<_> = trees.iter().filter_map(|tree| complaints.done("a scan", of(tree))).collect();
            complaints.check(found.windows(2).all(|two| two[0] == two[1]), || format!("not alike: {found:?}"));
        }
    };
    let threads: Threads<'_> = vec![
        Box::new(write),
        Box::new(|| labour(700)),
        Box::new(|| labour(1 << 20)),
        Box::new(look),
        Box::new(|| {
            let ways: [Way<'_>; 4] = [
                ("a checkpoint", &|| database.checkpoint()),
                ("a snapshot", &|| database.save_snapshot("s")),
                ("removing it", &|| database.remove_snapshot("s")),
                ("compacting", &|| database.compact()),
            ];
            for (what, way) in ways {
                let before = rounds();
                complaints.done(what, way());
                let judged = judge(memory.image(), before);
                complaints.check(judged.is_ok(), || format!("{what}: {judged:?}"));
            }
        }),
    ];
    run(seed, threads);
    let expected = vec![expected(ROUNDS); TREES.len()];
    let found = contents(&database).map_err(failed)?;
    complaints.check(found == expected, || format!("{found:?} and not {expected:?}"));
    complaints.end(&database)?;
    drop((trees, database));
    let database = Database::open(Memory::from_image(memory.image()), owed()).map_err(failed)?;
    let again = contents(&database).map_err(failed)?;
    if again == expected { Ok(()) } else { Err(format!("opened again it has {again:?} and not {expected:?}")) }
}

#[test]
fn several_threads_work_for_one_store() {
    let seeds = if std::env::var_os("PLUMB_LONG").is_some() { 3000 } else { 40 };
    (0..seeds).for_each(|seed| work(seed).unwrap_or_else(|what| panic!("order {seed}: {what}")));
}
