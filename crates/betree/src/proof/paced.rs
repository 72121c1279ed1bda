//! Paced work: a put does a bounded part of what is owed, and what is owed is bounded.

use storage::Memory;

use crate::{Compression, Database, Durability, Error, Options, Pacing, Tree};

/// Room for new messages; everything else is in proportion to it as in use.
const MEMTABLE_BYTES: u64 = 64 << 10;

/// What a put of this many bytes may do while there is room, at most: see `pacing/rising.rs`; and a piece.
const WORK_PER_BYTE: u64 = 68;
const PIECE_BYTES: u64 = 16 << 10;

pub(super) fn puts(seed: u64, count: u64) -> Result<(), String> {
    let options = Options {
        leaf_bytes: 32 << 10,
        basement_bytes: 4096,
        fanout: 8,
        buffer_bytes: 64 << 10,
        memtable_bytes: MEMTABLE_BYTES,
        fresh_bytes: 128 << 10,
        log_bytes: 1 << 20,
        compression: Compression::None,
        ..Options::default()
    };
    let failed = |error: Error| error.to_string();
    let database = Database::create(Memory::new(64 << 20), options, 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let mut before = database.stats();
    for number in 0..count {
        let key = (number ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        tree.insert(key, vec![number as u8; 100], Durability::None).map_err(failed)?;
        let now = database.stats();
        // What one put may hold beyond the bound is one put.
        if now.memory_bytes > 3 * MEMTABLE_BYTES + 1024 {
            return Err(format!("put {number}: {} bytes in memory", now.memory_bytes));
        }
        let worked = now.worked_bytes - before.worked_bytes;
        let allowed = 300 * WORK_PER_BYTE + MEMTABLE_BYTES / 512 + PIECE_BYTES;
        if worked > allowed {
            return Err(format!("put {number}: {worked} bytes of work"));
        }
        before = now;
    }
    // All of it got somewhere.
    if before.checkpoints < 3 || before.worked_bytes < count * 100 {
        return Err(format!("{} checkpoints, {} bytes of work", before.checkpoints, before.worked_bytes));
    }
    if tree.iter().count() as u64 != count {
        return Err("entries are missing".to_owned());
    }
    Ok(())
}

/// Where one tree has used the room up, puts into others that have little of it go on without working; up to a bound.
pub(super) fn slight_trees() -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let options = Options { memtable_bytes: MEMTABLE_BYTES, pacing: Pacing::Elsewhere, ..Options::default() };
    let database = Database::create(Memory::new(64 << 20), options, 1).map_err(failed)?;
    let heavy = database.tree("heavy").map_err(failed)?;
    let slight: Vec<Tree> =
        ["a", "b", "c"].map(|name| database.tree(name)).into_iter().collect::<Result<_, _>>().map_err(failed)?;
    let filled = |database: &Database| database.stats().memory_bytes as f64 / MEMTABLE_BYTES as f64;
    let mut number = 0u64;
    let mut put = |tree: &Tree| {
        number += 1;
        tree.insert(number.to_be_bytes(), [7; 100], Durability::None)
    };
    let worked = |database: &Database| database.stats().worked_bytes;
    let before = worked(&database);
    while filled(&database) < 1.95 {
        put(&heavy).map_err(failed)?;
    }
    let mut most = 0.0;
    for number in 0..1000 {
        most = filled(&database);
        put(&slight[number % slight.len()]).map_err(failed)?;
        if worked(&database) > before {
            break;
        }
    }
    if !(2.2..2.3).contains(&most) {
        return Err(format!("others went on until {most:.3} times the room was used up"));
    }
    // Whoever has used it up makes room.
    while filled(&database) < 1.99 {
        put(&heavy).map_err(failed)?;
    }
    let before = worked(&database);
    (0..3).try_for_each(|_| put(&heavy)).map_err(failed)?;
    if worked(&database) > before { Ok(()) } else { Err("who has used up the room does not make any".to_owned()) }
}

#[test]
fn who_has_little_in_memory_does_not_wait_for_who_has_much() {
    slight_trees().unwrap();
}

#[test]
fn a_put_does_a_bounded_part_of_what_is_owed() {
    for seed in 0..2 {
        puts(seed, 20_000).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}
