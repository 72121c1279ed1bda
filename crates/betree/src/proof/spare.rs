//! What a store says is spare is what fits.

use rand::{Rng, RngExt};
use storage::Memory;

use super::workload::{random, unsound};
use crate::{Database, Durability, Error, Options};

/// Fills a store until it is full. What was said to be spare on the way, and what fitted from then on, in bytes of keys and values.
fn filled(value_bytes: usize) -> Result<Vec<(u64, u64)>, String> {
    let failed = |error: Error| error.to_string();
    let options = Options {
        leaf_bytes: 128 << 10,
        buffer_bytes: 1 << 20,
        memtable_bytes: 256 << 10,
        fresh_bytes: 1 << 20,
        log_bytes: 2 << 20,
        cache_bytes: 4 << 20,
        ..Options::default()
    };
    let database = Database::create(Memory::new(48 << 20), options, 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let (mut random, mut value) = (random(1), vec![0; value_bytes]);
    let mut said = vec![(database.stats().spare_bytes, 0)];
    let mut fitted = 0;
    loop {
        random.fill_bytes(&mut value);
        match tree.insert(random.random::<u64>().to_be_bytes(), value.clone(), Durability::None) {
            Ok(()) => fitted += 8 + value_bytes as u64,
            Err(Error::Full) => break,
            Err(error) => return Err(error.to_string()),
        }
        // Where what deletes and newer nodes have given up is free.
        if fitted > said.len() as u64 * (4 << 20) {
            database.compact().map_err(failed)?;
            said.push((database.stats().spare_bytes, fitted));
        }
    }
    println!("values of {value_bytes}: {} spare when full", database.stats().spare_bytes);
    let said = said.into_iter().map(|(spare, before)| (spare, fitted - before)).collect();
    unsound(&database).map_or(Ok(said), Err)
}

/// At every time as much fits as is said to be spare, but for a tenth, and not more than an eighth of the store besides.
pub(super) fn fits() -> Result<(), String> {
    for value_bytes in [200, 4096, 40_000] {
        for (spare, fitted) in filled(value_bytes)? {
            println!("values of {value_bytes}: {spare} bytes spare, {fitted} fitted");
            if fitted * 10 < spare * 9 || fitted > spare + (6 << 20) {
                return Err(format!(
                    "values of {value_bytes}: {spare} bytes are said to be spare, and {fitted} fitted"
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_spare_fits() {
    fits().unwrap_or_else(|what| panic!("{what}"));
}
