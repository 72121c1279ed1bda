//! A counter store: raising a counter writes a message and reads nothing, however many counters there are.
//!
//! ```text
//! cargo run --release -p plumb-betree --example counters -- FILE [NAME=AMOUNT]...
//! ```
//!
//! Adds to the counters that are named and prints all of them. What was added is durable when it ends.

use std::error::Error;
use std::path::Path;

use betree::{Add, Batch, Database, Durability, Options};
use storage::{File, FileOptions};

/// The number of the operator that adds, in this store for good.
const ADD: u16 = 1;

/// Opens the store in a file, which is made where there is none.
fn open(path: &Path) -> Result<Database, Box<dyn Error>> {
    let options = Options { log_bytes: 4 << 20, ..Options::default() }.operator(ADD, Add);
    let is_new = !path.exists();
    let file = File::open(path, &FileOptions { capacity_bytes: Some(256 << 20), ..FileOptions::default() })?;
    // A number that other stores do not have: the log's frames are told apart by it.
    let id = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
    Ok(if is_new { Database::create(file, options, id)? } else { Database::open(file, options)? })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("the file of the store is missing")?;
    let database = open(path.as_ref())?;
    let counters = database.tree("counters")?;
    let mut batch = Batch::new();
    for argument in arguments {
        let (name, amount) = argument.split_once('=').ok_or(format!("{argument}: not NAME=AMOUNT"))?;
        let amount: u64 = amount.parse().map_err(|error| format!("{argument}: {error}"))?;
        batch.upsert(&counters, name, ADD, amount.to_le_bytes());
    }
    // All of them or none.
    database.commit(&batch, Durability::Sync)?;
    for entry in counters.iter() {
        let (name, value) = entry?;
        let value = value.first_chunk().copied().map_or(0, u64::from_le_bytes);
        println!("{} {value}", String::from_utf8_lossy(&name));
    }
    Ok(())
}
