//! What every engine is asked to do.

use crate::Result;
use crate::plan::Plan;

/// An ordered map on a device. What is put is in the engine's log before long and is not synced, except where that is said.
pub trait Engine {
    /// Name and version, as the engine itself or its package gives them.
    fn version(&self) -> String;

    /// What it does in another way than by one call of its own.
    fn remarks(&self) -> &'static str;

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// One put that is durable when it returns.
    fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Reads up to `rows` entries from a key on; how many there were, and their bytes.
    fn scan(&mut self, from: &[u8], rows: u64) -> Result<(u64, u64)>;

    /// Adds to a counter of 8 bytes, little endian.
    fn add(&mut self, key: &[u8], amount: u64) -> Result<()>;

    /// Deletes every key from `from` up to but without `to`.
    fn remove_range(&mut self, from: &[u8], to: &[u8]) -> Result<()>;

    /// Waits until nothing is owed, as the engine sees it, and everything is durable.
    fn rest(&mut self) -> Result<()>;

    /// Moves everything to where it would be in the end.
    fn compact(&mut self) -> Result<()>;
}

/// Opens an empty store in the plan's folder.
pub fn open(name: &str, plan: &Plan) -> Result<Box<dyn Engine>> {
    use crate::engines::{betree, fjall, redb, rocksdb, sqlite};
    let folder = plan.folder.join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(match name {
        "betree" => Box::new(betree::Betree::open(&folder, plan)?),
        "rocksdb" => Box::new(rocksdb::RocksDb::open(&folder, plan)?),
        "fjall" => Box::new(fjall::Fjall::open(&folder, plan)?),
        "redb" => Box::new(redb::Redb::open(&folder, plan)?),
        "sqlite" => Box::new(sqlite::Sqlite::open(&folder, plan)?),
        _ => return Err(format!("{name}: no engine").into()),
    })
}

/// The counter in a value.
pub fn counter(value: Option<&[u8]>) -> u64 {
    value.and_then(|value| value.first_chunk().copied()).map_or(0, u64::from_le_bytes)
}

/// Puts that engines with transactions do in one.
pub const TRANSACTION: u64 = 1000;
