//! Who asks which keys there are reads no values that lie apart.

use rand::Rng;
use storage::Memory;

use super::workload::random;
use crate::{Compression, Database, Durability, Error, Options};

const VALUES: u8 = 60;
const VALUE_BYTES: usize = 40 << 10;

fn failed(error: Error) -> String {
    error.to_string()
}

/// Bytes read for the keys and for whether they are there, of as many as all values are.
pub(super) fn keys_alone() -> Result<(), String> {
    let memory = Memory::new(64 << 20);
    let options = Options {
        memtable_bytes: 1 << 20,
        fresh_bytes: 2 << 20,
        log_bytes: 4 << 20,
        compression: Compression::None,
        ..Options::default()
    };
    let database = Database::create(memory.clone(), options.clone(), 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let mut value = vec![0; VALUE_BYTES];
    for number in 0..VALUES {
        random(u64::from(number)).fill_bytes(&mut value);
        tree.insert([number], value.clone(), Durability::None).map_err(failed)?;
    }
    database.checkpoint().map_err(failed)?;
    drop((tree, database));
    let all_bytes = u64::from(VALUES) * VALUE_BYTES as u64;
    for way in ["keys", "keys from the back", "contains", "values"] {
        let database = Database::open(memory.clone(), options.clone()).map_err(failed)?;
        let tree = database.tree("t").map_err(failed)?;
        let before = database.stats().read_bytes;
        let found = match way {
            "keys" => tree.keys::<&[u8]>(..).filter(Result::is_ok).count(),
            "keys from the back" => tree.keys::<&[u8]>(..).rev().filter(Result::is_ok).count(),
            "contains" => (0..VALUES).filter(|number| tree.contains([*number]).is_ok_and(|there| there)).count(),
            _ => tree.iter().filter(Result::is_ok).count(),
        };
        let read = database.stats().read_bytes - before;
        println!("{way}: {read} of {all_bytes} bytes read");
        if found != usize::from(VALUES) {
            return Err(format!("{way}: {found} of {VALUES} found"));
        }
        // A header and a block of places; the values tell that they were not in memory.
        let is_right = if way == "values" { read >= all_bytes } else { read <= 64 << 10 };
        if !is_right {
            return Err(format!("{way}: {read} bytes were read, the values have {all_bytes}"));
        }
    }
    Ok(())
}

#[test]
fn keys_are_read_without_their_values() {
    keys_alone().unwrap_or_else(|what| panic!("{what}"));
}
