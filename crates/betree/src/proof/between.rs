//! What others do at the worst moment: while the log is being written or flushed, between a condition and its batch, while a view
//! is taken. It is done by the same thread, from within the storage's calls or at a marked place, so each order comes for sure.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use storage::{BLOCK_BYTES, Completion, Memory, Operation, Queue, Request, Storage, StorageError, Tag};

use super::workload::unsound;
use crate::mutant::set_between;
use crate::turns::{run, turn};
use crate::{Append, Batch, Compression, Database, Durability, Error, Options, Tree, VALUE_BYTES_MAX};

type Hook = Box<dyn FnOnce() + Send>;

/// A storage that lets others go first, once: before a request of a kind is carried out.
#[derive(Clone)]
struct Slow {
    inner: Memory,
    hook: Arc<Mutex<Option<(Operation, Hook)>>>,
    /// Writes since the last flush.
    unflushed: Arc<AtomicU64>,
}

impl Slow {
    fn at_next(&self, operation: Operation, hook: impl FnOnce() + Send + 'static) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some((operation, Box::new(hook)));
    }

    /// At the one that comes behind so many others.
    fn at_later(&self, others: usize, operation: Operation, hook: impl FnOnce() + Send + 'static) {
        let slow = self.clone();
        let mut at: Hook = Box::new(hook);
        for _ in 0..others {
            let (slow, then) = (slow.clone(), at);
            at = Box::new(move || slow.at_next(operation, then));
        }
        slow.at_next(operation, at);
    }
}

impl Storage for Slow {
    fn capacity_bytes(&self) -> u64 {
        self.inner.capacity_bytes()
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        Ok(Box::new(SlowQueue { inner: self.inner.open_queue()?, slow: self.clone() }))
    }
}

struct SlowQueue {
    inner: Box<dyn Queue>,
    slow: Slow,
}

impl Queue for SlowQueue {
    fn submit(&mut self, tag: Tag, request: Request) {
        let hook = {
            let mut hook = self.slow.hook.lock().unwrap_or_else(PoisonError::into_inner);
            hook.take_if(|(operation, _)| *operation == request.operation())
        };
        if let Some((_, others)) = hook {
            others();
        }
        match request.operation() {
            Operation::Write => drop(self.slow.unflushed.fetch_add(1, Ordering::AcqRel)),
            Operation::Flush => self.slow.unflushed.store(0, Ordering::Release),
            Operation::Read | Operation::Discard => {}
        }
        self.inner.submit(tag, request);
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        self.inner.complete(completions);
    }
}

fn options() -> Options {
    Options { log_bytes: 64 * 4096, compression: Compression::None, large_value_bytes: 8 << 10, ..Options::default() }
}

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

fn store() -> Result<(Slow, Database, Tree), String> {
    store_with(options())
}

fn store_with(options: Options) -> Result<(Slow, Database, Tree), String> {
    let slow = Slow { inner: Memory::new(256 << 20), hook: Arc::default(), unflushed: Arc::default() };
    let database = Database::create(slow.clone(), options, 1).map_err(failed("create"))?;
    let tree = database.tree("t").map_err(failed("tree"))?;
    Ok((slow, database, tree))
}

/// Of those who sync while somebody flushes, one flushes for all, though others go on committing.
pub(super) fn syncs() -> Result<(), String> {
    let (_, database, tree) = store()?;
    tree.insert("first", "1", Durability::None).map_err(failed("first"))?;
    let before = database.stats().flushes;
    let other = tree.clone();
    set_between(Some(Box::new(move || {
        let _ = other.insert("second", "2", Durability::Sync);
        let _ = other.insert("third", "3", Durability::None);
    })));
    database.sync().map_err(failed("sync"))?;
    match database.stats().flushes - before {
        1 => Ok(()),
        flushes => Err(format!("{flushes} flushes for a sync whose batch was durable when it had its turn")),
    }
}

/// Of threads that each sync a batch while somebody flushes all get into the frame behind: there are two frames, and two flushes.
pub(super) fn frames() -> Result<(), String> {
    const THREADS: u8 = 9;
    for seed in 0..20 {
        let (slow, database, tree) = store()?;
        let other = tree.clone();
        slow.at_next(Operation::Flush, move || {
            // Until all have come: none has to wait for that before its batch is visible.
            for _ in 0..10_000 {
                if (0..THREADS).all(|number| other.contains([number]).unwrap_or(false)) {
                    break;
                }
                turn();
            }
        });
        let before = database.stats();
        let refused = AtomicU64::new(0);
        let sync = |number: u8| {
            let (tree, refused) = (&tree, &refused);
            let insert = move || {
                let failed = tree.insert([number], [number; 100], Durability::Sync).is_err();
                refused.fetch_add(u64::from(failed), Ordering::AcqRel);
            };
            Box::new(insert) as Box<dyn FnOnce() + Send + '_>
        };
        run(seed, (0..THREADS).map(sync).collect());
        let after = database.stats();
        let frames = (after.log_bytes - before.log_bytes) / BLOCK_BYTES as u64;
        let flushes = after.flushes - before.flushes;
        if refused.load(Ordering::Acquire) > 0 || frames > 2 || flushes > 2 {
            return Err(format!("order {seed}: {frames} frames, {flushes} flushes for {THREADS} threads that sync"));
        }
        let killed = Database::open(Memory::from_image(slow.inner.image()), options()).map_err(failed("open"))?;
        let found = killed.tree("t").map_err(failed("tree"))?.iter().filter(Result::is_ok).count();
        if found != usize::from(THREADS) {
            return Err(format!("order {seed}: {found} of {THREADS} batches are durable"));
        }
    }
    Ok(())
}

#[test]
fn threads_that_sync_at_once_share_a_frame() {
    frames().unwrap();
}

#[test]
fn who_syncs_while_others_flush_flushes_for_all() {
    syncs().unwrap();
}

/// A batch that comes while the log is written or flushed is in the next frame, and durable when its own sync returns.
pub(super) fn group_commit() -> Result<(), String> {
    for operation in [Operation::Write, Operation::Flush] {
        let (slow, database, tree) = store()?;
        let other = tree.clone();
        slow.at_next(operation, move || {
            let _ = other.insert("second", "2", Durability::None);
        });
        tree.insert("first", "1", Durability::Sync).map_err(failed("first"))?;
        database.sync().map_err(failed("sync"))?;
        let unflushed = slow.unflushed.load(Ordering::Acquire);
        if unflushed > 0 {
            return Err(format!("at a {operation:?}: {unflushed} writes are not flushed after a sync"));
        }
        let copy = Memory::from_image(slow.inner.image());
        let opened = Database::open(copy, options()).map_err(failed("open"))?;
        let found = opened.tree("t").and_then(|tree| Ok((tree.get("first")?, tree.get("second")?)));
        let (first, second) = found.map_err(failed("read"))?;
        if first.is_none() || second.is_none() {
            return Err(format!("at a {operation:?}: {first:?}, {second:?} after a sync"));
        }
        if let Some(what) = unsound(&database) {
            return Err(what);
        }
    }
    Ok(())
}

/// What a condition says holds when the batch gets its place, whatever came since it was asked first.
pub(super) fn conditions() -> Result<(), String> {
    let (slow, database, tree) = store()?;
    let other = tree.clone();
    slow.at_next(Operation::Write, move || {
        let _ = other.insert("key", "theirs", Durability::None);
    });
    let mut batch = Batch::new();
    batch.require(&tree, "key", None);
    batch.insert(&tree, "key", "ours");
    // Its place is written between.
    batch.insert(&tree, "large", vec![1; 64 << 10]);
    match database.commit(&batch, Durability::None) {
        Err(Error::Conflict) => {}
        other => return Err(format!("not refused: {other:?}")),
    }
    let found = (tree.get("key").map_err(failed("get"))?, tree.get("large").map_err(failed("get"))?);
    if found != (Some(b"theirs".to_vec()), None) {
        return Err("a refused batch did something".to_owned());
    }
    unsound(&database).map_or(Ok(()), Err)
}

/// What comes while a batch reads what it asks for counts, be it in memory or in a tree by then; and nobody waits for the read.
pub(super) fn answers() -> Result<(), String> {
    for drained in [false, true] {
        let (slow, database, tree) = store_with(Options { cache_bytes: 0, ..options().operator(1, Append) })?;
        for key in ["key", "length"] {
            tree.insert(key, "old", Durability::Sync).map_err(failed("insert"))?;
        }
        database.checkpoint().map_err(failed("checkpoint"))?;
        let waits = Arc::new(AtomicBool::new(false));
        let (others, other, waited) = (database.clone(), tree.clone(), Arc::clone(&waits));
        let meanwhile = move |key: &'static str, value: Vec<u8>| {
            if others.engine.is_entering() {
                waited.store(true, Ordering::Release);
                return;
            }
            let _ = other.insert(key, value, Durability::None);
            if drained {
                let _ = others.checkpoint();
            }
        };
        let then = meanwhile.clone();
        slow.at_next(Operation::Read, move || then("key", b"theirs".to_vec()));
        let mut batch = Batch::new();
        batch.require(&tree, "key", Some(b"old"));
        batch.insert(&tree, "key", "ours");
        batch.insert(&tree, "large", vec![1; 64 << 10]);
        let conditional = database.commit(&batch, Durability::None);
        slow.at_next(Operation::Read, move || meanwhile("length", vec![2; VALUE_BYTES_MAX - 5]));
        let mut batch = Batch::new();
        batch.upsert(&tree, "length", 1, [3; 10]);
        let appended = database.commit(&batch, Durability::None);
        if waits.load(Ordering::Acquire) {
            return Err("others wait for what a batch reads".to_owned());
        }
        if !matches!((&conditional, &appended), (Err(Error::Conflict), Err(Error::TooLarge { .. }))) {
            return Err(format!("drained {drained}: {conditional:?}, {appended:?}"));
        }
        let lens = ["key", "length"].map(|key| tree.get(key).ok().flatten().map(|value| value.len()));
        if lens != [Some(6), Some(VALUE_BYTES_MAX - 5)] {
            return Err(format!("drained {drained}: values of {lens:?} bytes"));
        }
        if let Some(what) = unsound(&database) {
            return Err(what);
        }
    }
    Ok(())
}

/// What is moved away while a batch asks for it is not there when the batch gets its place, though no message came.
pub(super) fn moved() -> Result<(), String> {
    let (slow, database, tree) = store_with(Options { cache_bytes: 0, ..options() })?;
    tree.insert("key", "old", Durability::Sync).map_err(failed("insert"))?;
    database.checkpoint().map_err(failed("checkpoint"))?;
    let other = database.clone();
    slow.at_next(Operation::Read, move || {
        let _ = other.move_range("t", "key".."kez", "u");
    });
    let mut batch = Batch::new();
    batch.require(&tree, "key", Some(b"old"));
    batch.insert(&tree, "key", "new");
    match database.commit(&batch, Durability::None) {
        Err(Error::Conflict) => {}
        other => return Err(format!("not refused: {other:?}")),
    }
    let there = database.open_tree("u").and_then(|other| Ok((tree.get("key")?, other.get("key")?)));
    if there.map_err(failed("get"))? != (None, Some(b"old".to_vec())) {
        return Err("it is not where it was moved".to_owned());
    }
    unsound(&database).map_or(Ok(()), Err)
}

/// A value that lies where it was written before a range was moved, of a batch that came behind the move, is nobody else's: it stays when
/// the tree of what was moved goes.
pub(super) fn late_values() -> Result<(), String> {
    let (slow, database, tree) = store_with(Options { cache_bytes: 0, ..options().operator(1, Append) })?;
    let large = |byte: u8| vec![byte; 64 << 10];
    tree.insert("key", large(1), Durability::Sync).map_err(failed("insert"))?;
    tree.insert("length", "old", Durability::Sync).map_err(failed("insert"))?;
    database.checkpoint().map_err(failed("checkpoint"))?;
    let other = database.clone();
    slow.at_next(Operation::Read, move || {
        let _ = other.move_range("t", "key".."kez", "u");
    });
    let mut batch = Batch::new();
    batch.insert(&tree, "key", large(2));
    batch.upsert(&tree, "length", 1, "er");
    database.commit(&batch, Durability::Sync).map_err(failed("commit"))?;
    let changed = database.clone_tree("t", "kept").and_then(|()| {
        tree.remove("key", Durability::None)?;
        database.compact()?;
        database.remove_tree("u")?;
        database.checkpoint()?;
        (0..40u8).try_for_each(|number| tree.insert([number], large(number), Durability::None))?;
        database.checkpoint()?;
        database.open_tree("kept")?.get("key")
    });
    if changed.map_err(failed("change"))? != Some(large(2)) {
        return Err("a value is lost with the tree that something else was moved to".to_owned());
    }
    unsound(&database).map_or(Ok(()), Err)
}

/// A view that is taken while batches come, memtables are sealed and drained, one of two trees first: it is the store before or
/// after a batch, in all trees.
pub(super) fn views() -> Result<(), String> {
    for moment in 0..3 {
        let (_, database, a) = store()?;
        let b = database.tree("u").map_err(failed("tree"))?;
        let both = |number: u8| {
            let mut batch = Batch::new();
            batch.insert(&a, "key", [number]);
            batch.insert(&b, "key", [number]);
            batch
        };
        database.commit(&both(1), Durability::None).map_err(failed("commit"))?;
        let (others, batch, later) = (database.clone(), both(2), both(3));
        set_between(Some(Box::new(move || {
            let _ = others.commit(&batch, Durability::None);
            let _ = match moment {
                0 => Ok(()),
                1 => others.checkpoint(),
                // Of the first tree alone.
                _ => others.engine.seal_and_drain_one(),
            };
            if moment == 1 {
                let _ = others.commit(&later, Durability::None);
            }
        })));
        let view = database.snapshot();
        set_between(None);
        let found = (view.get(&a, "key").map_err(failed("get"))?, view.get(&b, "key").map_err(failed("get"))?);
        if found.0 != found.1 || found.0.is_none() {
            return Err(format!("moment {moment}: a view has {found:?}"));
        }
        let now = database.snapshot();
        let newest = now.get(&a, "key").map_err(failed("get"))?;
        let expected = if moment == 1 { 3 } else { 2 };
        if newest != Some(vec![expected]) {
            return Err(format!("moment {moment}: {newest:?} is the newest"));
        }
        if let Some(what) = unsound(&database) {
            return Err(what);
        }
    }
    Ok(())
}

#[test]
fn a_batch_that_comes_while_the_log_is_written_is_in_the_next_frame() {
    group_commit().unwrap();
}

#[test]
fn conditions_hold_when_the_batch_gets_its_place() {
    conditions().unwrap();
}

/// A store that is verified goes on, and what is checked stays for as long.
pub(super) fn verified() -> Result<(), String> {
    let (slow, database, tree) = store_with(Options { cache_bytes: 0, ..options() })?;
    let write = |tree: &Tree, round: u8| {
        (0..200u16).try_for_each(|number| tree.insert(number.to_be_bytes(), vec![round; 500], Durability::None))
    };
    write(&tree, 0).and_then(|()| database.checkpoint()).map_err(failed("write"))?;
    let (others, other) = (database.clone(), tree.clone());
    let waits = Arc::new(AtomicBool::new(true));
    let waited = Arc::clone(&waits);
    // The superblock is read first, then the catalog.
    slow.at_later(2, Operation::Read, move || {
        if !others.engine.is_changing() {
            let rewritten = (1..9).try_for_each(|round| write(&other, round).and_then(|()| others.compact()));
            waited.store(rewritten.is_err(), Ordering::Release);
        }
    });
    if let Some(what) = unsound(&database) {
        return Err(what);
    }
    if waits.load(Ordering::Acquire) { Err("nobody could write meanwhile".to_owned()) } else { Ok(()) }
}

#[test]
fn a_store_that_is_verified_goes_on() {
    verified().unwrap();
}

#[test]
fn what_comes_while_a_batch_asks_counts() {
    answers().unwrap();
}

#[test]
fn what_is_moved_while_a_batch_asks_is_gone() {
    moved().unwrap();
}

#[test]
fn a_value_that_came_behind_a_move_was_not_moved() {
    late_values().unwrap();
}

#[test]
fn a_view_is_of_one_moment() {
    views().unwrap();
}
