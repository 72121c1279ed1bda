//! A cloned range: what it costs does not grow with the range nor with the tree, and nothing outside of it is kept for it.

use std::ops::Range;

use storage::Memory;

use super::workload::unsound;
use crate::{Compression, Database, Durability, Error, Options};

const VALUE_BYTES: usize = 96;
/// Every fifth value lies apart.
const LARGE_BYTES: usize = 6000;

fn key(number: u32) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

/// A store of `count` keys, some messages of which wait.
fn filled(count: u32) -> Result<Database, Error> {
    let options = Options {
        leaf_bytes: 32 << 10,
        basement_bytes: 4 << 10,
        fanout: 8,
        buffer_bytes: 64 << 10,
        memtable_bytes: 64 << 10,
        fresh_bytes: 1 << 20,
        log_bytes: 4 << 20,
        cache_bytes: 0,
        large_value_bytes: 5 << 10,
        compression: Compression::None,
        ..Options::default()
    };
    let database = Database::create(Memory::new(256 << 20), options, 1)?;
    let tree = database.tree("whole")?;
    for number in 0..count {
        let number = number.wrapping_mul(7919) % count;
        let bytes = if number.is_multiple_of(5) { LARGE_BYTES } else { VALUE_BYTES };
        tree.insert(key(number), vec![number as u8; bytes], Durability::None)?;
    }
    database.checkpoint()?;
    Ok(database)
}

/// How a range becomes a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Cloned,
    Moved,
}

/// Bytes read and written by the clone or the move of a range.
fn cost(database: &Database, how: How, range: Range<Vec<u8>>) -> Result<(u64, u64), Error> {
    let before = database.stats();
    match how {
        How::Cloned => database.clone_range("whole", range, "part")?,
        How::Moved => database.move_range("whole", range, "part")?,
    }
    let now = database.stats();
    let written = |stats: &crate::Stats| stats.leaf_bytes + stats.run_bytes + stats.header_bytes + stats.value_bytes;
    Ok((now.read_bytes - before.read_bytes, written(&now) - written(&before)))
}

/// What a range of half of `count` keys costs.
fn of_half(how: How, count: u32) -> Result<(u64, u64), String> {
    let failed = |error: Error| error.to_string();
    let database = filled(count).map_err(failed)?;
    let (start, end) = (count / 4 + 3, count / 4 * 3 + 3);
    let cost = cost(&database, how, key(start)..key(end)).map_err(failed)?;
    let part = database.open_tree("part").map_err(failed)?;
    let keys: Result<Vec<Vec<u8>>, Error> = part.keys::<&[u8]>(..).collect();
    if keys.map_err(failed)? != (start..end).map(key).collect::<Vec<_>>() {
        return Err("the clone has other keys than the range".to_owned());
    }
    let left = database.open_tree("whole").map_err(failed)?.keys::<&[u8]>(..).count() as u32;
    if left != if how == How::Moved { count - (end - start) } else { count } {
        return Err(format!("{left} keys are left of {count}"));
    }
    Ok(cost)
}

/// A range of a tree sixteen times as large costs no more but what another level of nodes does.
pub(super) fn cost_does_not_grow() -> Result<(), String> {
    for how in [How::Cloned, How::Moved] {
        let (small, large) = (of_half(how, 4_000)?, of_half(how, 64_000)?);
        println!("{how:?}, bytes read and written for half of 4,000 and of 64,000 keys: {small:?}, {large:?}");
        let bounded = |small: u64, large: u64| large <= 2 * small + (256 << 10);
        if !bounded(small.0, large.0) || !bounded(small.1, large.1) {
            return Err(format!("{small:?} bytes were read and written for a small range, {large:?} for a large one"));
        }
    }
    Ok(())
}

/// With the rest of its tree removed, the clone takes what its own entries take.
pub(super) fn nothing_else_is_kept() -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let database = filled(20_000).map_err(failed)?;
    let free_bytes = |database: &Database| {
        let stats = database.stats();
        stats.free_bytes + stats.waiting_bytes
    };
    let empty = database.stats().capacity_bytes - (4 << 20);
    let whole = empty - free_bytes(&database);
    database.clone_range("whole", key(5_000)..key(7_000), "part").map_err(failed)?;
    database.remove_tree("whole").map_err(failed)?;
    database.compact().map_err(failed)?;
    if let Some(what) = unsound(&database) {
        return Err(what);
    }
    let part = empty - free_bytes(&database);
    if part > whole / 10 + whole / 20 {
        return Err(format!("{part} bytes are in use by a tenth of what took {whole}"));
    }
    database.remove_tree("part").map_err(failed)?;
    database.checkpoint().map_err(failed)?;
    let left = empty - free_bytes(&database);
    // The superblocks' blocks, and the catalog.
    if left <= (16 + 4) << 12 { Ok(()) } else { Err(format!("{left} bytes are in use by nothing")) }
}

/// A range is moved: it is in the one tree or in the other.
pub(super) fn moved() -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let database = filled(5_000).map_err(failed)?;
    let range = key(1_000)..key(4_000);
    database.move_range("whole", range, "part").map_err(failed)?;
    let whole = database.open_tree("whole").map_err(failed)?;
    database.compact().map_err(failed)?;
    let part = database.open_tree("part").map_err(failed)?;
    let count = |tree: &crate::Tree| tree.keys::<&[u8]>(..).count();
    let value = part.get(key(1_000)).map_err(failed)?;
    if (count(&whole), count(&part)) != (2_000, 3_000) || value.is_none_or(|value| value.len() != LARGE_BYTES) {
        return Err(format!("{} and {} keys are left of 2,000 and 3,000", count(&whole), count(&part)));
    }
    unsound(&database).map_or(Ok(()), Err)
}

#[test]
fn the_clone_of_a_large_range_costs_what_that_of_a_small_one_does() {
    cost_does_not_grow().unwrap();
}

#[test]
fn what_is_outside_of_a_range_is_not_kept_for_its_clone() {
    nothing_else_is_kept().unwrap();
}

#[test]
fn a_range_that_is_moved_is_in_one_tree() {
    moved().unwrap();
}
