//! A SQLite database after random overwrites, read by key: what YCSB's workload C does.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::access::ZIPF_EXPONENT;
use super::tool::ran;
use super::{CellPlace, Database, StudyError};

/// Rows inserted, and rows written over, in one transaction.
const INSERTS: u32 = 1000;
const OVERWRITES: u32 = 100;
/// The database's name in the cell's folder.
const NAME: &str = "ycsb.db";

/// Makes the database and writes over its rows.
pub fn make(data: &Database, place: &CellPlace) -> Result<Vec<PathBuf>, StudyError> {
    let script = place.scratch.join("make.sql");
    fs::write(&script, statements(data, place.seed)).map_err(StudyError::file("write", &script))?;
    ran(&mut sqlite(place, &script), "sqlite3")?;
    let reads = place.scratch.join("read.sql");
    fs::write(&reads, queries(data, place.seed)).map_err(StudyError::file("write", &reads))?;
    Ok(vec![place.folder.join(NAME)])
}

/// The command that reads rows.
pub fn command(place: &CellPlace) -> Vec<OsString> {
    let command = sqlite(place, &place.scratch.join("read.sql"));
    std::iter::once(command.get_program()).chain(command.get_args()).map(OsString::from).collect()
}

fn sqlite(place: &CellPlace, script: &std::path::Path) -> Command {
    let mut command = Command::new("sqlite3");
    // Nothing of the user's own settings.
    command.args(["-batch", "-bail", "-init", "/dev/null"]).arg(place.folder.join(NAME));
    command.arg(format!(".read '{}'", script.display()));
    command
}

/// Rows in the order of their keys, then new values in any order.
fn statements(data: &Database, seed: u64) -> String {
    let mut sql = String::from("PRAGMA page_size = 4096;\nCREATE TABLE usertable (k INTEGER PRIMARY KEY, v BLOB);\n");
    let value = data.value.0;
    let mut first = 0;
    while first < data.rows {
        let last = (first + INSERTS).min(data.rows);
        let _ = writeln!(
            sql,
            "INSERT INTO usertable SELECT value, randomblob({value}) FROM generate_series({first}, {});",
            last - 1
        );
        first = last;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut left = data.overwrites;
    while left > 0 {
        let rows = left.min(OVERWRITES);
        sql.push_str("BEGIN;\n");
        for _ in 0..rows {
            let key = random.random_range(0..data.rows);
            let _ = writeln!(sql, "UPDATE usertable SET v = randomblob({value}) WHERE k = {key};");
        }
        sql.push_str("COMMIT;\n");
        left -= rows;
    }
    sql
}

/// Rows by key; which keys are often asked for has nothing to do with their order.
fn queries(data: &Database, seed: u64) -> String {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(1));
    let mut keys: Vec<u32> = (0..data.rows).collect();
    for last in (1..keys.len()).rev() {
        keys.swap(last, random.random_range(0..=last));
    }
    let mut sql = String::from("PRAGMA mmap_size = 0;\n.output /dev/null\n");
    let Ok(zipf) = Zipf::new(f64::from(data.rows), ZIPF_EXPONENT) else { return sql };
    for _ in 0..data.reads {
        let rank = (zipf.sample(&mut random) as usize).saturating_sub(1);
        if let Some(key) = keys.get(rank) {
            let _ = writeln!(sql, "SELECT v FROM usertable WHERE k = {key};");
        }
    }
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_rows_as_asked_for() {
        let data = Database { rows: 2500, overwrites: 250, reads: 40, ..Database::default() };
        let sql = statements(&data, 1);
        assert_eq!(sql.matches("INSERT").count(), 3);
        assert!(sql.contains("generate_series(2000, 2499)"));
        assert_eq!((sql.matches("UPDATE").count(), sql.matches("COMMIT").count()), (250, 3));
        assert_eq!(queries(&data, 1).matches("SELECT").count(), 40);
        assert_ne!(queries(&data, 1), queries(&data, 2));
    }
}
