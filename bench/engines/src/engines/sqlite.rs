//! SQLite: a B-tree with a write-ahead log. Puts are in transactions of many, as redb's.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use crate::Result;
use crate::engine::{Engine, TRANSACTION, counter};
use crate::plan::Plan;

pub struct Sqlite {
    connection: Connection,
    /// Puts in the open transaction.
    open: Option<u64>,
}

const GET: &str = "SELECT value FROM t WHERE key = ?1";
const PUT: &str = "INSERT INTO t (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";

impl Sqlite {
    pub fn open(folder: &Path, plan: &Plan) -> Result<Self> {
        let connection = Connection::open(folder.join("store"))?;
        let kib = (plan.cache_bytes + plan.write_bytes()) / 1024;
        connection.execute_batch(&format!(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -{kib};
             CREATE TABLE t (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
        ))?;
        Ok(Self { connection, open: None })
    }

    fn commit(&mut self) -> Result<()> {
        if self.open.take().is_some() {
            self.connection.execute_batch("COMMIT")?;
        }
        Ok(())
    }

    fn write(&mut self, work: impl FnOnce(&Connection) -> Result<()>) -> Result<()> {
        if self.open.is_none() {
            self.connection.execute_batch("BEGIN IMMEDIATE")?;
        }
        work(&self.connection)?;
        let count = self.open.map_or(1, |count| count + 1);
        self.open = Some(count);
        if count >= TRANSACTION { self.commit() } else { Ok(()) }
    }
}

impl Engine for Sqlite {
    fn version(&self) -> String {
        format!("SQLite {}", rusqlite::version())
    }

    fn remarks(&self) -> &'static str {
        "1,000 puts a transaction; counters are read and put; a range is DELETE; it is not compacted"
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|connection| Ok(connection.prepare_cached(PUT)?.execute(params![key, value]).map(drop)?))
    }

    fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.commit()?;
        self.connection.execute_batch("PRAGMA synchronous = FULL")?;
        self.put(key, value)?;
        self.commit()?;
        Ok(self.connection.execute_batch("PRAGMA synchronous = NORMAL")?)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.connection.prepare_cached(GET)?.query_row(params![key], |row| row.get(0)).optional()?)
    }

    fn scan(&mut self, from: &[u8], rows: u64) -> Result<(u64, u64)> {
        let mut select =
            self.connection.prepare_cached("SELECT key, value FROM t WHERE key >= ?1 ORDER BY key LIMIT ?2")?;
        let mut rows = select.query(params![from, i64::try_from(rows).unwrap_or(i64::MAX)])?;
        let mut found = (0, 0);
        while let Some(row) = rows.next()? {
            let (key, value): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
            found = (found.0 + 1, found.1 + (key.len() + value.len()) as u64);
        }
        Ok(found)
    }

    fn add(&mut self, key: &[u8], amount: u64) -> Result<()> {
        let sum = counter(self.get(key)?.as_deref()).wrapping_add(amount);
        self.put(key, &sum.to_le_bytes())
    }

    fn remove_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.write(|connection| {
            let mut delete = connection.prepare_cached("DELETE FROM t WHERE key >= ?1 AND key < ?2")?;
            Ok(delete.execute(params![from, to]).map(drop)?)
        })
    }

    fn rest(&mut self) -> Result<()> {
        self.commit()?;
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    /// Without `VACUUM`, which makes a second copy of everything and does not get to its end in so little memory.
    fn compact(&mut self) -> Result<()> {
        self.rest()
    }
}
