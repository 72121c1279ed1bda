//! The store's own thread: it does what is due, and ends before the store is closed.

use std::sync::Arc;
use std::time::Duration;

use storage::Memory;

use crate::{Batch, Database, Durability, Error, Options, Pacing};

/// Looks, a millisecond apart: far more than it takes on a busy machine.
const LOOKS_MAX: u32 = 20_000;

fn options() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        fresh_bytes: 256 << 10,
        log_bytes: 1 << 20,
        pacing: Pacing::Beside(2),
        ..Options::default()
    }
}

/// Nobody calls for work and nobody commits any more: what is due is done nevertheless.
pub(super) fn works() -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let database = Database::create(Memory::new(64 << 20), options(), 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    // One commit, which does none of it.
    let mut batch = Batch::new();
    (0..500u32).for_each(|number| batch.insert(&tree, number.to_be_bytes(), [7; 100]));
    database.commit(&batch, Durability::None).map_err(failed)?;
    let waits = |_: &u32| {
        std::thread::sleep(Duration::from_millis(1));
        database.stats().memory_bytes >= 64 << 10
    };
    if (0..LOOKS_MAX).take_while(waits).count() == LOOKS_MAX as usize {
        return Err(format!("{} bytes wait", database.stats().memory_bytes));
    }
    let wrong = database.verify().map_err(failed)?;
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}")) }
}

/// A store that is given up while its thread works is closed when the last handle is gone, and not later.
pub(super) fn ends() -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let memory = Memory::new(64 << 20);
    drop(Database::create(memory.clone(), options(), 1).map_err(failed)?);
    for round in 0..40u32 {
        let database = Database::open(memory.clone(), options()).map_err(failed)?;
        let tree = database.tree("t").map_err(failed)?;
        for number in 0..400 * (round % 4 + 1) {
            tree.insert(number.to_be_bytes(), [round as u8; 100], Durability::None).map_err(failed)?;
        }
        let engine = Arc::downgrade(database.engine.engine());
        drop(database);
        if engine.upgrade().is_none() {
            return Err(format!("round {round}: closed while a handle is left"));
        }
        drop(tree);
        if engine.upgrade().is_some() {
            return Err(format!("round {round}: it is not closed"));
        }
        let wrong = crate::verify(memory.clone()).map_err(failed)?;
        if !wrong.is_empty() {
            return Err(format!("round {round}: {wrong:?}"));
        }
    }
    Ok(())
}

#[test]
fn what_is_due_is_done_without_a_commit() {
    works().unwrap();
}

#[test]
fn the_thread_ends_before_the_store_is_closed() {
    ends().unwrap();
}
