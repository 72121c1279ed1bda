//! redb: a copy-on-write B-tree. Puts are in transactions of many, the last of which is committed before anything else.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use crate::Result;
use crate::engine::{Engine, TRANSACTION, counter};
use crate::plan::Plan;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("t");

pub struct Redb {
    database: Database,
    open: Option<(WriteTransaction, u64)>,
}

impl Redb {
    pub fn open(folder: &Path, plan: &Plan) -> Result<Self> {
        let cache_bytes = (plan.cache_bytes + plan.write_bytes()) as usize;
        let database = Database::builder().set_cache_size(cache_bytes).create(folder.join("store"))?;
        let mut redb = Self { database, open: None };
        redb.write(|_| Ok(()))?;
        redb.commit(Durability::Immediate)?;
        Ok(redb)
    }

    fn commit(&mut self, durability: Durability) -> Result<()> {
        let (mut transaction, _) = match self.open.take() {
            Some(open) => open,
            None if matches!(durability, Durability::None) => return Ok(()),
            None => (self.database.begin_write()?, 0),
        };
        transaction.set_durability(durability)?;
        Ok(transaction.commit()?)
    }

    fn write(&mut self, work: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>) -> Result<()>) -> Result<()> {
        let (transaction, count) = match &mut self.open {
            Some(open) => open,
            none => none.insert((self.database.begin_write()?, 0)),
        };
        work(&mut transaction.open_table(TABLE)?)?;
        *count += 1;
        if *count >= TRANSACTION { self.commit(Durability::None) } else { Ok(()) }
    }
}

impl Engine for Redb {
    fn version(&self) -> String {
        format!("redb {}", crate::locked_version("redb"))
    }

    fn remarks(&self) -> &'static str {
        "1,000 puts a transaction; counters are read and put; a range is drained"
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|table| Ok(table.insert(key, value).map(drop)?))
    }

    fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value)?;
        self.commit(Durability::Immediate)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let own = |value: Option<redb::AccessGuard<'_, &[u8]>>| value.map(|value| value.value().to_vec());
        match &self.open {
            Some((transaction, _)) => Ok(own(transaction.open_table(TABLE)?.get(key)?)),
            None => Ok(own(self.database.begin_read()?.open_table(TABLE)?.get(key)?)),
        }
    }

    fn scan(&mut self, from: &[u8], rows: u64) -> Result<(u64, u64)> {
        self.commit(Durability::None)?;
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let mut found = (0, 0);
        for entry in table.range(from..)?.take(usize::try_from(rows).unwrap_or(usize::MAX)) {
            let (key, value) = entry?;
            // The value is copied, as the other engines do.
            let value = value.value().to_vec();
            found = (found.0 + 1, found.1 + (key.value().len() + value.len()) as u64);
        }
        Ok(found)
    }

    fn add(&mut self, key: &[u8], amount: u64) -> Result<()> {
        self.write(|table| {
            let sum = counter(table.get(key)?.as_ref().map(|value| value.value())).wrapping_add(amount);
            Ok(table.insert(key, &sum.to_le_bytes()[..]).map(drop)?)
        })
    }

    fn remove_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.write(|table| Ok(table.retain_in(from..to, |_, _| false)?))
    }

    fn rest(&mut self) -> Result<()> {
        self.commit(Durability::Immediate)
    }

    fn compact(&mut self) -> Result<()> {
        self.rest()?;
        Ok(self.database.compact().map(drop)?)
    }
}
