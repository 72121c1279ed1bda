//! Plumb's Bε-tree.

use std::path::Path;

use betree::{Add, Batch, Compression, Database, Durability, Options, Tree};
use storage::{File, FileOptions};

use crate::Result;
use crate::engine::Engine;
use crate::plan::Plan;

const ADD: u16 = 1;

pub struct Betree {
    database: Database,
    tree: Tree,
}

impl Betree {
    pub fn open(folder: &Path, plan: &Plan) -> Result<Self> {
        // At most three memtables and twice the changed nodes are in memory.
        let write = plan.write_bytes();
        let options = Options {
            cache_bytes: plan.cache_bytes as usize,
            memtable_bytes: write / 7,
            fresh_bytes: write * 2 / 7,
            compression: Compression::None,
            ..Options::default()
        };
        let capacity_bytes = Some((plan.data_bytes() * 4 + (1 << 30)).next_multiple_of(4096));
        let storage = File::open(&folder.join("store"), &FileOptions { capacity_bytes, ..FileOptions::default() })?;
        let database = Database::create(storage, options.operator(ADD, Add), 1)?;
        let tree = database.tree("t")?;
        Ok(Self { database, tree })
    }
}

impl Engine for Betree {
    fn version(&self) -> String {
        format!("Bε-tree of Plumb {}", env!("CARGO_PKG_VERSION"))
    }

    fn remarks(&self) -> &'static str {
        "counters are upserts; direct I/O"
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.tree.insert(key, value, Durability::None)?)
    }

    fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.tree.insert(key, value, Durability::Sync)?)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.tree.get(key)?)
    }

    fn scan(&mut self, from: &[u8], rows: u64) -> Result<(u64, u64)> {
        let mut found = (0, 0);
        for entry in self.tree.range(from..).take(usize::try_from(rows).unwrap_or(usize::MAX)) {
            let (key, value) = entry?;
            found = (found.0 + 1, found.1 + (key.len() + value.len()) as u64);
        }
        Ok(found)
    }

    fn add(&mut self, key: &[u8], amount: u64) -> Result<()> {
        let mut batch = Batch::new();
        batch.upsert(&self.tree, key, ADD, amount.to_le_bytes());
        Ok(self.database.commit(&batch, Durability::None)?)
    }

    fn remove_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        Ok(self.tree.remove_range(from..to, Durability::None)?)
    }

    fn rest(&mut self) -> Result<()> {
        Ok(self.database.quiesce()?)
    }

    fn compact(&mut self) -> Result<()> {
        Ok(self.database.compact()?)
    }
}
