//! What lies beside an entry: the first bytes of a small file, or where a symbolic link leads, so that whoever has looked a name up has
//! them in memory, and who goes through a directory goes through its small files.
//!
//! It stays where it was put when its inode gets another name, so that a rename moves no data.

use super::{damaged, number_key, parse_entry_key};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Cookie, InodeNumber, Result};

/// Most bytes of a first granule that lie beside an entry: who lists a directory reads them, too.
pub(crate) const BESIDE_BYTES: usize = 2 << 10;

/// Where in the tree `entries` something lies beside an entry: at the name that its inode had when it was put there. The name may
/// have changed since, and the directory may be gone; numbers of directories are never given again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Spot {
    pub directory: InodeNumber,
    pub cookie: Cookie,
}

/// The key of what lies beside an entry. Names have no NUL, so that it comes just before the names with its hash.
pub(crate) fn beside_key(spot: Spot, inode: InodeNumber) -> [u8; 25] {
    let mut key = [0; 25];
    key[..8].copy_from_slice(&number_key(spot.directory));
    key[8..16].copy_from_slice(&spot.cookie.0.to_be_bytes());
    key[17..].copy_from_slice(&number_key(inode));
    key
}

/// Whether a key of the tree `entries` is of something beside an entry.
pub(crate) fn is_beside(key: &[u8]) -> bool {
    key.get(16) == Some(&0)
}

/// What is found in the tree `entries` without what lies beside entries.
pub(crate) fn names(found: betree::Iter) -> impl Iterator<Item = betree::Result<betree::Entry>> {
    found.filter(|entry| !matches!(entry, Ok((key, _)) if is_beside(key) && !mutated(Mutant::BesideListed)))
}

/// Spot and inode of such a key.
pub(crate) fn parse_beside_key(key: &[u8]) -> Result<(Spot, InodeNumber)> {
    let (directory, cookie, rest) = parse_entry_key(key)?;
    match <[u8; 9]>::try_from(rest) {
        Ok([0, n0, n1, n2, n3, n4, n5, n6, n7]) => {
            let inode = InodeNumber(u64::from_be_bytes([n0, n1, n2, n3, n4, n5, n6, n7]));
            Ok((Spot { directory, cookie }, inode))
        }
        _ => Err(damaged("a key beside an entry of another length")),
    }
}
