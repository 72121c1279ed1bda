//! Threads in orders that seeds say: commits, group commit, views, checkpoints, snapshots and verification beside each other, where each
//! thread may stop before every lock and every request.

use std::sync::{Mutex, PoisonError};

use storage::{Completion, Memory, Queue, Request, Storage, StorageError, Tag};

use super::mutants::notices;
use super::workload::{tiny, unsound};
use crate::mutant::Mutant;
use crate::turns::{run, turn};
use crate::{Batch, Compression, Database, Durability, Error, Options, Tree};

/// A storage before each request of which others may go on.
#[derive(Clone)]
pub(super) struct Turning<S>(pub S);

impl<S: Storage> Storage for Turning<S> {
    fn capacity_bytes(&self) -> u64 {
        self.0.capacity_bytes()
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        Ok(Box::new(TurningQueue(self.0.open_queue()?)))
    }
}

struct TurningQueue(Box<dyn Queue>);

impl Queue for TurningQueue {
    fn submit(&mut self, tag: Tag, request: Request) {
        turn();
        self.0.submit(tag, request);
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        self.0.complete(completions);
    }
}

/// Where values lie apart somebody waits for requests of another thread with a lock of the storage's own.
pub(super) fn options() -> Options {
    Options { large_value_bytes: usize::MAX, compression: Compression::None, cache_bytes: 1 << 14, ..tiny(2) }
}

pub(super) fn store(options: Options) -> Result<(Memory, Database), Error> {
    let memory = Memory::new(1 << 20);
    let database = Database::create(Turning(memory.clone()), options, 1)?;
    Ok((memory, database))
}

pub(super) type Threads<'a> = Vec<Box<dyn FnOnce() + Send + 'a>>;

/// What threads complain of.
#[derive(Default)]
pub(super) struct Complaints(Mutex<Vec<String>>);

impl Complaints {
    pub fn check(&self, fine: bool, what: impl FnOnce() -> String) {
        if !fine {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what());
        }
    }

    pub fn done<T>(&self, what: &str, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.check(false, || format!("{what}: {error}"))).ok()
    }

    pub fn end(self, database: &Database) -> Result<(), String> {
        let complaints = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        complaints.into_iter().next().or_else(|| unsound(database)).map_or(Ok(()), Err)
    }
}

/// Each writer's batches are numbered. Whatever a sync has said is in every later state of the storage that it does not have to
/// flush, and of each writer a prefix.
pub(super) fn group_commit(seed: u64) -> Result<(), String> {
    let (memory, database) = store(options()).map_err(|error| error.to_string())?;
    let tree = database.tree("t").map_err(|error| error.to_string())?;
    let complaints = Complaints::default();
    // What each writer knows to be durable.
    let synced = Mutex::new([0u8; 3]);
    let write = |writer: u8| {
        for number in 1..=4u8 {
            let how = [Durability::None, Durability::Sync, Durability::Batch][usize::from(number + writer) % 3];
            let mut batch = Batch::new();
            batch.insert(&tree, [writer, number], vec![number; 60]);
            if complaints.done("a commit", database.commit(&batch, how)).is_some() && how == Durability::Sync {
                synced.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(writer)] = number;
            }
            let durable = *synced.lock().unwrap_or_else(PoisonError::into_inner);
            judge(&complaints, memory.image(), durable);
        }
    };
    let threads: Threads<'_> =
        (0..3).map(|writer| Box::new(move || write(writer)) as Box<dyn FnOnce() + Send>).collect();
    run(seed, threads);
    complaints.end(&database)
}

/// A store that was killed with these bytes has what was synced, and of each writer everything up to some batch.
fn judge(complaints: &Complaints, image: storage::Image, synced: [u8; 3]) {
    let Some(database) = complaints.done("open", Database::open(Memory::from_image(image), options())) else { return };
    let Some(tree) = complaints.done("tree", database.tree("t")) else { return };
    for (writer, synced) in (0u8..).zip(synced) {
        let there: Vec<bool> = (1..=4u8).map(|number| tree.contains([writer, number]).unwrap_or(false)).collect();
        let count = there.iter().take_while(|there| **there).count();
        complaints.check(there.iter().skip(count).all(|there| !there), || format!("a batch is missing: {there:?}"));
        complaints.check(count >= usize::from(synced), || format!("{synced} were synced: {there:?}"));
    }
}

/// Two trees that batches change alike, while memtables go into them and checkpoints are made: every view has them alike, and none
/// has less than one before.
pub(super) fn views(seed: u64) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let (_, database) = store(options()).map_err(failed)?;
    let (a, b) = (database.tree("a").map_err(failed)?, database.tree("b").map_err(failed)?);
    let complaints = Complaints::default();
    let both = |number: u8| {
        let mut batch = Batch::new();
        [&a, &b].iter().for_each(|tree| batch.insert(tree, "key", vec![number; 300]));
        complaints.done("a commit", database.commit(&batch, Durability::None));
    };
    both(1);
    let look = || {
        let mut before = 0;
        for _ in 0..4 {
            let view = database.snapshot();
            for _ in 0..2 {
                let of = |tree: &Tree| {
                    complaints.done("get", view.get(tree, "key")).flatten().and_then(|value| value.first().copied())
                };
                let found = (of(&a), of(&b));
                complaints
                    .check(found.0 == found.1 && found.0 >= Some(before), || format!("{found:?} behind {before}"));
                before = found.0.unwrap_or(0);
            }
        }
    };
    let threads: Threads<'_> = vec![
        Box::new(|| (2..7).for_each(&both)),
        Box::new(look),
        Box::new(|| {
            for _ in 0..2 {
                complaints.done("a checkpoint", database.checkpoint());
            }
            complaints.done("compact", database.compact());
        }),
    ];
    run(seed, threads);
    complaints.end(&database)
}

/// A counter that only rises where nobody else raised it meanwhile, and one that grows by operands.
pub(super) fn conditions(seed: u64) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let (_, database) = store(options()).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let complaints = Complaints::default();
    let raise = || {
        let mut raised = 0;
        while raised < 3 {
            let Some(old) = complaints.done("get", tree.get("n")) else { return };
            let number = old.as_ref().and_then(|old| old.first().copied()).unwrap_or(0);
            let mut batch = Batch::new();
            batch.require(&tree, "n", old.as_deref());
            batch.insert(&tree, "n", vec![number + 1; 200]);
            // What is asked for an operand is asked again where a condition may be forgotten: some batches have none.
            if number % 2 == 0 {
                batch.upsert(&tree, "text", 2, "x");
            }
            match database.commit(&batch, Durability::None) {
                Ok(()) => raised += 1,
                Err(Error::Conflict) => {}
                Err(error) => return complaints.check(false, || error.to_string()),
            }
        }
    };
    let threads: Threads<'_> = vec![
        Box::new(raise),
        Box::new(raise),
        Box::new(|| {
            for _ in 0..3 {
                complaints.done("a checkpoint", database.checkpoint());
            }
        }),
    ];
    run(seed, threads);
    let number = tree.get("n").map_err(failed)?.and_then(|value| value.first().copied());
    complaints.check(number == Some(6), || format!("raised six times to {number:?}"));
    let text = tree.get("text").map_err(failed)?.map_or(0, |text| text.len());
    complaints.check(text == 3, || format!("{text} of three operands"));
    complaints.end(&database)
}

/// Snapshots are saved, read and removed, and the store is verified, while others write and compact.
pub(super) fn snapshots(seed: u64) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let (_, database) = store(options()).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let complaints = Complaints::default();
    let write = |round: u8| {
        for number in 0..6u8 {
            complaints.done("insert", tree.insert([number], vec![round; 150], Durability::None));
        }
    };
    write(0);
    let keep = || {
        for name in ["one", "two"] {
            complaints.done("save", database.save_snapshot(name));
            let Some(view) = complaints.done("open", database.open_snapshot(name)) else { continue };
            complaints.done("remove", database.remove_snapshot(name));
            let first: Vec<_> = view.range::<&[u8]>(&tree, ..).collect();
            let again: Vec<_> = view.range::<&[u8]>(&tree, ..).collect();
            let read = |entries: &[Result<_, Error>]| {
                entries.iter().filter_map(|entry| entry.as_ref().ok().cloned()).collect::<Vec<_>>()
            };
            complaints.check(read(&first).len() == 6 && read(&first) == read(&again), || {
                format!("a snapshot reads as {first:?}")
            });
        }
    };
    let threads: Threads<'_> = vec![
        Box::new(|| (1..4).for_each(&write)),
        Box::new(keep),
        Box::new(|| {
            for _ in 0..3 {
                let found = complaints.done("verify", database.verify()).unwrap_or_default();
                complaints.check(found.is_empty(), || format!("verify: {found:?}"));
            }
        }),
        Box::new(|| {
            for _ in 0..3 {
                complaints.done("compact", database.compact());
                complaints.done("a checkpoint", database.checkpoint());
            }
        }),
    ];
    run(seed, threads);
    complaints.end(&database)
}

/// A counter that is moved to another tree while it is raised, and begins anew where it was: nothing is raised in both, and whoever looks
/// finds what was raised so far.
pub(super) fn moves(seed: u64) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let (_, database) = store(options()).map_err(failed)?;
    let tree = database.tree("a").map_err(failed)?;
    let complaints = Complaints::default();
    let number = |value: Option<crate::Value>| u32::from(value.and_then(|value| value.first().copied()).unwrap_or(0));
    let raise = || {
        let mut raised = 0;
        while raised < 3 {
            let Some(old) = complaints.done("get", tree.get("n")) else { return };
            let next = old.as_ref().and_then(|old| old.first().copied()).unwrap_or(0) + 1;
            let mut batch = Batch::new();
            batch.require(&tree, "n", old.as_deref());
            batch.insert(&tree, "n", vec![next; 200]);
            batch.insert(&tree, "z", vec![next; 200]);
            match database.commit(&batch, Durability::None) {
                Ok(()) => raised += 1,
                Err(Error::Conflict) => {}
                Err(error) => return complaints.check(false, || error.to_string()),
            }
        }
    };
    let in_both = || {
        let other = database.open_tree("b");
        let view = database.snapshot();
        // Before it is there nobody finds it, by its name or in a view.
        let there = other.ok().and_then(|other| view.get(&other, "n").ok().flatten());
        Some(number(complaints.done("get", view.get(&tree, "n"))?) + number(there))
    };
    let look = || {
        let mut before = 0;
        for _ in 0..6 {
            let found = in_both().unwrap_or(0);
            complaints.check(found >= before, || format!("{found} behind {before}"));
            before = found;
        }
    };
    let threads: Threads<'_> = vec![
        Box::new(raise),
        Box::new(raise),
        Box::new(look),
        Box::new(|| {
            complaints.done("move", database.move_range("a", "m".."o", "b"));
        }),
    ];
    run(seed, threads);
    let found = in_both();
    complaints.check(found == Some(6), || format!("raised six times to {found:?}"));
    complaints.end(&database)
}

/// All of them, in so many orders each.
pub(super) fn orders(count: u64) -> Result<(), String> {
    for seed in 0..count {
        for (name, proof) in [
            ("group commit", group_commit as fn(u64) -> Result<(), String>),
            ("views", views),
            ("conditions", conditions),
            ("snapshots", snapshots),
            ("moves", moves),
        ] {
            proof(seed).map_err(|what| format!("{name}, order {seed}: {what}"))?;
        }
    }
    Ok(())
}

#[test]
fn in_every_order_of_threads_the_store_is_one() {
    orders(if std::env::var_os("PLUMB_LONG").is_some() { 20_000 } else { 60 }).unwrap();
}

/// What goes wrong only where others come in between, without anybody saying where.
#[test]
fn some_order_of_threads_shows_each_defect_of_their_meeting() {
    let meetings = [
        Mutant::GroupCountsLate,
        Mutant::ConditionAskedEarly,
        Mutant::AnswerGrowsOld,
        Mutant::DrainedCountsAsOld,
        Mutant::ViewNumberFirst,
        Mutant::ReadersIgnored,
        Mutant::OpenSnapshotForgotten,
        Mutant::MoveOvertaken,
    ];
    let unnoticed: Vec<Mutant> =
        meetings.into_iter().filter(|mutant| !notices(|| orders(200), Some(*mutant))).collect();
    assert_eq!(unnoticed, []);
}
