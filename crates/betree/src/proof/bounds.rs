//! Work and lengths are bounded: whatever is waiting, and however long a batch is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use storage::Memory;

use super::workload::unsound;
use crate::engine::COPIED;
use crate::memtable::RANGES_MAX;
use crate::{Append, Batch, Database, Durability, Error, Growth, Operator, Options, Pacing, VALUE_BYTES_MAX};

fn failed(error: Error) -> String {
    error.to_string()
}

/// Counts in the value how often it was applied; there is no join.
struct Count {
    applied: Arc<AtomicU64>,
    growth: Growth,
}

impl Operator for Count {
    fn apply(&self, existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        self.applied.fetch_add(1, Ordering::Relaxed);
        let before = existing.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?))).unwrap_or(0);
        Some((before.wrapping_mul(31) + operand.len() as u64).to_le_bytes().to_vec())
    }

    fn growth(&self, _operand: &[u8]) -> Growth {
        self.growth
    }
}

/// Upserts of one key that cannot be joined: each is applied as often as somebody looks, and a list of them is bounded.
#[test]
fn upserts_of_one_key_are_applied_once_a_look() {
    for growth in [Growth::UpTo(8), Growth::Unknown] {
        let applied = Arc::new(AtomicU64::new(0));
        let options = Options { memtable_bytes: 1 << 20, log_bytes: 8 << 20, ..Options::default() }
            .operator(9, Count { applied: Arc::clone(&applied), growth });
        let database = Database::create(Memory::new(64 << 20), options, 1).unwrap();
        let tree = database.tree("t").unwrap();
        let mut expected = 0u64;
        for number in 0..20_000u64 {
            let mut batch = Batch::new();
            batch.upsert(&tree, "k", 9, vec![1; (number % 7) as usize]);
            expected = expected.wrapping_mul(31) + number % 7;
            database.commit(&batch, Durability::None).unwrap();
        }
        let committed = applied.load(Ordering::Relaxed);
        assert!(committed <= 3 * 20_000, "{committed} applications for 20,000 commits");
        assert_eq!(tree.get("k").unwrap().unwrap(), expected.to_le_bytes());
        let looked = applied.load(Ordering::Relaxed) - committed;
        assert!(looked <= 20_000, "{looked} applications for one look");
        database.checkpoint().unwrap();
        let before = applied.load(Ordering::Relaxed);
        assert_eq!(tree.get("k").unwrap().unwrap(), expected.to_le_bytes());
        let waiting = applied.load(Ordering::Relaxed) - before;
        assert!(waiting <= 2 * crate::bytes::message::UPSERTS_MAX as u64, "{waiting} upserts wait in the tree");
        assert_eq!(unsound(&database), None);
    }
}

/// A value never gets longer than one may be: the batch that would make it so is refused, and the next is not.
#[test]
fn results_that_are_too_long_are_refused() {
    struct Twice;
    impl Operator for Twice {
        fn apply(&self, existing: Option<&[u8]>, _: &[u8]) -> Option<Vec<u8>> {
            existing.map(|value| [value, value].concat())
        }
    }
    let options = Options::default().operator(2, Append).operator(3, crate::Patch).operator(4, Twice);
    let memory = Memory::new(256 << 20);
    let database = Database::create(memory, options, 1).unwrap();
    let tree = database.tree("t").unwrap();
    let upsert = |key: &str, operator: u16, operand: Vec<u8>| {
        let mut batch = Batch::new();
        batch.upsert(&tree, key, operator, operand);
        database.commit(&batch, Durability::None)
    };
    let too_large = |result| matches!(result, Err(Error::TooLarge { what: "a value", .. }));
    let part = VALUE_BYTES_MAX / 4;
    for round in 0..4 {
        upsert("a", 2, vec![1; part]).unwrap();
        if round % 2 == 0 {
            database.checkpoint().unwrap();
        }
    }
    assert!(too_large(upsert("a", 2, vec![1])));
    assert_eq!(tree.get("a").unwrap().unwrap().len(), VALUE_BYTES_MAX);
    // Beside others in a batch it takes them along.
    let mut batch = Batch::new();
    batch.insert(&tree, "beside", "it");
    batch.upsert(&tree, "a", 2, "x");
    assert!(too_large(database.commit(&batch, Durability::None)));
    assert_eq!(tree.get("beside").unwrap(), None);
    // Made shorter in the same batch it has room again, however that is done.
    for shorten in 0..3 {
        let mut batch = Batch::new();
        match shorten {
            0 => batch.remove_range(&tree, "A".."b"),
            1 => batch.upsert(&tree, "a", 3, crate::Patch::cut(part)),
            _ => batch.remove(&tree, "a"),
        }
        batch.upsert(&tree, "a", 2, vec![2; VALUE_BYTES_MAX - part]);
        database.commit(&batch, Durability::None).unwrap();
        assert!(too_large(upsert("a", 2, vec![1; part + 1])), "{shorten}");
    }
    // After a range delete a noted length is too large.
    tree.remove_range("A".."b", Durability::None).unwrap();
    upsert("a", 2, vec![3; VALUE_BYTES_MAX]).unwrap();
    tree.insert("b", vec![1; VALUE_BYTES_MAX / 2], Durability::None).unwrap();
    upsert("b", 4, Vec::new()).unwrap();
    assert!(too_large(upsert("b", 4, Vec::new())));
    assert_eq!(tree.get("b").unwrap().unwrap().len(), VALUE_BYTES_MAX);
    assert!(too_large(upsert("c", 3, crate::Patch::write(VALUE_BYTES_MAX, b"x"))));
    upsert("c", 3, crate::Patch::write(VALUE_BYTES_MAX - 1, b"x")).unwrap();
    assert!(matches!(upsert("c", 3, vec![0xff]), Err(Error::InvalidOperand { id: 3, .. })));
    assert_eq!(unsound(&database), None);
}

fn with_log(log_bytes: u64) -> Result<(Database, Options), String> {
    let options = Options { log_bytes, compression: crate::Compression::None, ..Options::default() };
    Ok((Database::create(Memory::new(512 << 20), options.clone(), 1).map_err(failed)?, options))
}

/// Values that lie apart do not count against the log, nor do small ones of a batch that would not fit otherwise.
#[test]
fn long_batches_lie_apart() {
    let (database, _) = with_log(16 << 20).unwrap();
    let tree = database.tree("t").unwrap();
    for round in 0..4u8 {
        let mut batch = Batch::new();
        for number in 0..20u8 {
            batch.insert(&tree, [number], vec![round ^ number; 1 << 20]);
        }
        database.commit(&batch, Durability::Sync).unwrap();
    }
    for number in 0..20u8 {
        assert_eq!(tree.get([number]).unwrap().unwrap(), vec![3 ^ number; 1 << 20]);
    }
    let mut batch = Batch::new();
    for number in 0..4096u16 {
        batch.insert(&tree, number.to_be_bytes(), vec![number as u8; 4096]);
    }
    database.commit(&batch, Durability::Sync).unwrap();
    for number in 0..4096u16 {
        assert_eq!(tree.get(number.to_be_bytes()).unwrap().unwrap(), vec![number as u8; 4096]);
    }
    assert_eq!(unsound(&database), None);
    // What is too much for the log, however it lies, is refused.
    let mut batch = Batch::new();
    for number in 0..5000u16 {
        batch.insert(&tree, number.to_be_bytes(), vec![1; 1000]);
    }
    assert!(matches!(database.commit(&batch, Durability::None), Err(Error::TooLarge { what: "a batch", .. })));
}

/// A batch that is refused writes nothing, and keeps none of the blocks that its values would have had.
pub(super) fn refused() -> Result<(), String> {
    let (database, _) = with_log(16 << 20)?;
    let tree = database.tree("t").map_err(failed)?;
    tree.insert("there", vec![1; 64 << 10], Durability::Sync).map_err(failed)?;
    database.checkpoint().map_err(failed)?;
    let before = database.stats();
    let big = |batch: &mut Batch| (0..20u8).for_each(|number| batch.insert(&tree, [number], vec![number; 1 << 20]));
    for round in 0..20 {
        let mut batch = Batch::new();
        big(&mut batch);
        if round % 2 == 0 {
            batch.require(&tree, "there", None);
        } else {
            batch.upsert(&tree, "there", 7, "");
        }
        match database.commit(&batch, Durability::Sync) {
            Err(Error::Conflict | Error::UnknownOperator { .. }) => {}
            other => return Err(format!("not refused: {other:?}")),
        }
    }
    for (count, bytes) in [(1, VALUE_BYTES_MAX + 1), (5000, 1000)] {
        let mut batch = Batch::new();
        big(&mut batch);
        (0..count).for_each(|number: u16| batch.insert(&tree, number.to_be_bytes(), vec![0; bytes]));
        match database.commit(&batch, Durability::Sync) {
            Err(Error::TooLarge { .. }) => {}
            other => return Err(format!("not refused: {other:?}")),
        }
    }
    let after = database.stats();
    if after.written_bytes() != before.written_bytes() {
        return Err("something of a refused batch was written".to_owned());
    }
    // Refused once its values are on their places.
    database.engine.refuse_next(20);
    for _ in 0..20 {
        let mut batch = Batch::new();
        big(&mut batch);
        match database.commit(&batch, Durability::Sync) {
            Err(Error::Conflict) => {}
            other => return Err(format!("not refused: {other:?}")),
        }
    }
    let free = database.stats().free_bytes;
    if free != before.free_bytes {
        return Err(format!("{free} bytes are free, not {}", before.free_bytes));
    }
    let mut batch = Batch::new();
    big(&mut batch);
    database.commit(&batch, Durability::Sync).map_err(failed)?;
    unsound(&database).map_or(Ok(()), Err)
}

#[test]
fn a_refused_batch_leaves_nothing() {
    refused().unwrap();
}

/// Whatever is moved, changed nodes take no more memory than they may, but for the tables that were drained.
pub(super) fn fresh(compact: bool) -> Result<(), String> {
    let options = Options {
        leaf_bytes: 8 << 10,
        basement_bytes: 2 << 10,
        fanout: 8,
        buffer_bytes: 32 << 10,
        memtable_bytes: 32 << 10,
        fresh_bytes: 128 << 10,
        cache_bytes: 1 << 20,
        log_bytes: 1 << 20,
        compression: crate::Compression::None,
        ..Options::default()
    };
    let bound = 2 * options.fresh_bytes + 3 * options.memtable_bytes + (64 << 10);
    let database = Database::create(Memory::new(64 << 20), options, 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    for number in 0..30_000u32 {
        let key = number.wrapping_mul(2_654_435_761).to_be_bytes();
        tree.insert(key, [number as u8; 60], Durability::None).map_err(failed)?;
    }
    if compact {
        database.compact().map_err(failed)?;
    } else {
        // Nothing is left that the policy would move.
        while database.work(1 << 20).map_err(failed)? {}
    }
    if tree.iter().count() != 30_000 {
        return Err("entries are missing".to_owned());
    }
    if let Some(what) = unsound(&database) {
        return Err(what);
    }
    let most = database.engine.most_fresh_bytes();
    if most > bound { Err(format!("{most} bytes of changed nodes, not {bound}")) } else { Ok(()) }
}

/// What a commit does does not grow with the number of trees: no tree's version is copied, none is made, and as much is logged. Where
/// memtables are full, those that have something are looked at, once for all of them.
pub(super) fn beside_trees() -> Result<(), String> {
    let mut logged = Vec::new();
    for count in [1u32, 100, 4000] {
        let database = Database::create(Memory::new(256 << 20), Options::default(), 1).map_err(failed)?;
        // Made together, and no log frame for each.
        let trees = (0..count).map(|number| database.tree(&number.to_string())).collect::<Result<Vec<_>, _>>();
        let trees = trees.map_err(failed)?;
        // What making them left in the log.
        database.checkpoint().map_err(failed)?;
        let (copied, before) = (COPIED.get(), (database.engine.view().version.number, database.stats()));
        for number in 0..4000u32 {
            let tree = &trees[(number.wrapping_mul(2_654_435_761) % count) as usize];
            tree.insert(number.to_be_bytes(), [7; 60], Durability::None).map_err(failed)?;
        }
        let copied = COPIED.get() - copied;
        let versions = database.engine.view().version.number - before.0;
        if copied + versions > 0 {
            return Err(format!("{copied} of {count} trees' versions copied, {versions} made by 4,000 commits"));
        }
        let worked = database.stats().worked_bytes - before.1.worked_bytes;
        database.sync().map_err(failed)?;
        logged.push((worked, (database.stats().log_bytes - before.1.log_bytes) >> 16));
        // A seal copies those that are full, and the way to each.
        let before = COPIED.get();
        database.engine.seal_and_drain_one().map_err(failed)?;
        let copied = COPIED.get() - before;
        if copied > 40 * u64::from(count) + 40 {
            return Err(format!("{copied} versions copied to seal {count} trees"));
        }
    }
    if logged.iter().all(|one| *one == logged[0]) { Ok(()) } else { Err(format!("worked and logged: {logged:?}")) }
}

#[test]
fn a_commit_does_not_grow_with_the_trees() {
    beside_trees().unwrap();
}

/// Keys taken away by range deletes of one each, in an order that jumps, among keys that stay: what waits is bounded, and the
/// work for each. A range that has no other key is a delete, and one with room for others is not. `PLUMB_LONG=1`: a million.
fn range_deletes(others: bool) {
    let count: u32 = if std::env::var_os("PLUMB_LONG").is_some() { 1_000_000 } else { 30_000 };
    let options = Options { memtable_bytes: 1 << 20, fresh_bytes: 4 << 20, log_bytes: 8 << 20, ..Options::default() };
    let database = Database::create(Memory::new(2 << 30), options, 1).unwrap();
    let tree = database.tree("t").unwrap();
    let key = |number: u32| number.wrapping_mul(0x9e37_79b9).to_be_bytes();
    for number in 0..2 * count {
        tree.insert(key(number), [number as u8; 60], Durability::None).unwrap();
    }
    let before = database.stats();
    for number in (0..2 * count).step_by(2) {
        let key = key(number);
        let end = match others {
            true => (u64::from(u32::from_be_bytes(key)) + 1).to_be_bytes()[4..].to_vec(),
            false => [&key[..], &[0]].concat(),
        };
        tree.remove_range(&key[..]..&end[..], Durability::None).unwrap();
    }
    let worked = database.stats().worked_bytes - before.worked_bytes;
    // As for as many bytes of inserts.
    let inserted = before.worked_bytes * 2;
    assert!(worked < inserted, "{worked} bytes of work for {count} deletes, {inserted} for as many inserts and more");
    let left = tree.iter().inspect(|entry| assert!(entry.is_ok())).count();
    assert_eq!(left, count as usize);
    database.quiesce().unwrap();
    assert_eq!(tree.keys::<&[u8]>(..).count(), count as usize);
    assert_eq!(unsound(&database), None);
}

/// Range deletes that wait in memory are bounded by their number, however few bytes they have: by as many again where others do the work.
pub(super) fn ranges_in_memory() -> Result<(), String> {
    for pacing in [Pacing::Rising, Pacing::AtOnce, Pacing::Elsewhere] {
        let options = Options { memtable_bytes: 256 << 20, log_bytes: 64 << 20, pacing, ..Options::default() };
        let database = Database::create(Memory::new(4 << 30), options, 1).map_err(failed)?;
        let tree = database.tree("t").map_err(failed)?;
        let mut most = 0;
        for number in 0..3 * RANGES_MAX as u32 {
            let key = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
            let end = (u64::from(u32::from_be_bytes(key)) + 1).to_be_bytes();
            tree.remove_range(&key[..]..&end[4..], Durability::None).map_err(failed)?;
            most = most.max(database.engine.active_ranges());
        }
        println!("{pacing:?}: {most} range deletes in memory at most");
        if most > 2 * RANGES_MAX || (pacing == Pacing::AtOnce && most > RANGES_MAX) {
            return Err(format!("{pacing:?}: {most} range deletes are in memory"));
        }
        if most < RANGES_MAX / 2 {
            return Err(format!("{pacing:?}: something else bounds them at {most}"));
        }
    }
    Ok(())
}

#[test]
fn range_deletes_in_memory_are_bounded() {
    ranges_in_memory().unwrap();
}

#[test]
fn many_range_deletes_of_single_keys_cost_little_each() {
    range_deletes(false);
}

#[test]
fn many_range_deletes_with_room_for_others_cost_little_each() {
    range_deletes(true);
}

#[test]
fn changed_nodes_take_bounded_memory() {
    fresh(false).unwrap();
    fresh(true).unwrap();
}
