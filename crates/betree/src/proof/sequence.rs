//! Blocks that a program writes one after the other, each a value of its own: they are written once, and take what they have.

use rand::Rng;
use storage::{BLOCK_BYTES, Memory};

use super::workload::{random, unsound};
use crate::{Database, Durability, Error, Options};

const VALUES: u64 = 6000;

/// Bytes written, and bytes of the storage in use, for each byte of the keys and values, once nothing is owed.
pub(super) fn factors() -> Result<(f64, f64), String> {
    let failed = |error: Error| error.to_string();
    let (memtable_bytes, fresh_bytes, log_bytes) = (2 << 20, 4 << 20, 8 << 20);
    let options = Options { memtable_bytes, fresh_bytes, log_bytes, ..Options::default() };
    let database = Database::create(Memory::new(128 << 20), options, 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    database.checkpoint().map_err(failed)?;
    let before = database.stats();
    let (mut random, mut value) = (random(1), vec![0; BLOCK_BYTES]);
    for number in 0..VALUES {
        // They do not compress.
        random.fill_bytes(&mut value);
        tree.insert(number.to_be_bytes(), value.clone(), Durability::None).map_err(failed)?;
    }
    database.quiesce().map_err(failed)?;
    let after = database.stats();
    let user_bytes = (VALUES * (8 + BLOCK_BYTES as u64)) as f64;
    let written = (after.written_bytes() - before.written_bytes()) as f64 / user_bytes;
    let space = (before.free_bytes - after.free_bytes) as f64 / user_bytes;
    if tree.iter().filter(Result::is_ok).count() as u64 != VALUES {
        return Err("values are missing".to_owned());
    }
    unsound(&database).map_or(Ok((written, space)), Err)
}

pub(super) fn written_once() -> Result<(), String> {
    let (written, space) = factors()?;
    println!("written {written:.3} times, space {space:.3} times");
    if written > 1.15 || space > 1.1 {
        return Err(format!("values of a block in sequence are written {written:.3} times and take {space:.3} times"));
    }
    Ok(())
}

#[test]
fn blocks_in_sequence_are_written_once() {
    written_once().unwrap_or_else(|what| panic!("{what}"));
}
