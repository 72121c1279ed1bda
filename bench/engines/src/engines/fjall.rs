//! fjall: a log-structured merge tree.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::Result;
use crate::engine::{Engine, counter};
use crate::plan::Plan;

pub struct Fjall {
    database: Database,
    keyspace: Keyspace,
}

impl Fjall {
    pub fn open(folder: &Path, plan: &Plan) -> Result<Self> {
        let write = plan.write_bytes();
        // The only bound of all its write buffers that there is.
        #[allow(deprecated)]
        let database = Database::builder(folder.join("store"))
            .cache_size(plan.cache_bytes)
            .max_write_buffer_size(Some(write))
            .open()?;
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(write / 2)
                .data_block_compression_policy(fjall::config::CompressionPolicy::disabled())
        };
        let keyspace = database.keyspace("t", options)?;
        Ok(Self { database, keyspace })
    }
}

impl Engine for Fjall {
    fn version(&self) -> String {
        format!("fjall {}", crate::locked_version("fjall"))
    }

    fn remarks(&self) -> &'static str {
        "counters are read and put; a range is read and its keys removed"
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspace.insert(key, value)?)
    }

    fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value)?;
        Ok(self.database.persist(PersistMode::SyncData)?)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.keyspace.get(key)?.map(|value| value.to_vec()))
    }

    fn scan(&mut self, from: &[u8], rows: u64) -> Result<(u64, u64)> {
        let mut found = (0, 0);
        for entry in self.keyspace.range(from..).take(usize::try_from(rows).unwrap_or(usize::MAX)) {
            let (key, value) = entry.into_inner()?;
            let value = value.to_vec();
            found = (found.0 + 1, found.1 + (key.len() + value.len()) as u64);
        }
        Ok(found)
    }

    fn add(&mut self, key: &[u8], amount: u64) -> Result<()> {
        let sum = counter(self.keyspace.get(key)?.as_deref()).wrapping_add(amount);
        Ok(self.keyspace.insert(key, sum.to_le_bytes())?)
    }

    fn remove_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        for entry in self.keyspace.range(from..to) {
            self.keyspace.remove(entry.key()?)?;
        }
        Ok(())
    }

    fn rest(&mut self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        self.database.persist(PersistMode::SyncAll)?;
        // Its threads merge on; the figures of a process say when they have stopped.
        crate::measure::wait_until_idle()
    }

    fn compact(&mut self) -> Result<()> {
        self.rest()?;
        Ok(self.keyspace.major_compact()?)
    }
}
