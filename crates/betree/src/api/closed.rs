//! Looking at a store that nobody has open, without a change to it.

use storage::Storage;

use crate::engine::ClosedStore;
use crate::error::Result;

/// Checks a closed store: what [`Database::verify`](crate::Database::verify) checks, and the log. Writes nothing, not
/// even what recovery would. The list is empty when nothing is wrong.
///
/// # Errors
///
/// [`Error::NotAStore`](crate::Error::NotAStore), [`Error::Unsupported`](crate::Error::Unsupported), and what the
/// storage met.
pub fn verify(storage: impl Storage + 'static) -> Result<Vec<String>> {
    Ok(ClosedStore::open(Box::new(storage))?.verify()?.list)
}

/// Describes a closed store line by line: superblock, log, free space, and every node, run and block of its trees and
/// snapshots; with `entries` also what is in the blocks. Writes nothing to the storage.
///
/// # Errors
///
/// As [`verify`]; and [`Error::Corrupt`](crate::Error::Corrupt) where a block cannot be read, after the lines before.
pub fn dump(storage: impl Storage + 'static, entries: bool, mut line: impl FnMut(&str)) -> Result<()> {
    ClosedStore::open(Box::new(storage))?.dump(entries, &mut line)
}
