//! What lies beside an entry: the first bytes of a small file, or where a symbolic link leads, so that whoever has looked a name up has
//! them in memory, and who goes through a directory goes through its small files.
//!
//! In the schema `inode` it stays where it was put when its inode gets another name, so that a rename moves no data. In the schema `path`
//! it goes with its entry.

use super::keys::{number_key, parse_entry_key};
use super::{Schema, damaged, inode};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Cookie, InodeNumber, Result};

/// Most bytes of a first granule that lie beside an entry: who lists a directory reads them, too.
pub(crate) const BESIDE_BYTES: usize = 2 << 10;

/// Where in the tree `entries` something lies beside an entry, as what stands before the name in the entry's key: at the name that its
/// inode had when it was put there. The name may have changed since, and the directory may be gone; numbers of directories are never given
/// again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Spot(Box<[u8]>);

impl Spot {
    /// Beside a name with a cookie in a directory, by their numbers.
    pub(super) fn of(directory: InodeNumber, cookie: Cookie) -> Self {
        Self::of_stem(inode::entry_stem(directory, cookie))
    }

    /// From what stands before the name.
    pub(super) fn of_stem(stem: Vec<u8>) -> Self {
        Self(stem.into())
    }

    /// As an inode says it whose spot is not that of its entry.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        // Two numbers, the other way round than in keys.
        for number in self.0.chunks(8) {
            to.extend(number.iter().rev());
        }
    }
}

/// The key of what lies beside an entry. Names have no NUL, so that it comes just before the names with its hash.
pub(crate) fn beside_key(spot: &Spot, inode: InodeNumber) -> Vec<u8> {
    [&spot.0[..], &[0], &number_key(inode)].concat()
}

/// Whether a key of the tree `entries` is of something beside an entry.
pub(crate) fn is_beside(schema: Schema, key: &[u8]) -> bool {
    parse_entry_key(schema, key).is_ok_and(|(_, _, name)| name.first() == Some(&0))
}

/// What is found in the tree `entries` without what lies beside entries.
pub(crate) fn names(
    schema: Schema,
    found: impl Iterator<Item = betree::Result<betree::Entry>>,
) -> impl Iterator<Item = betree::Result<betree::Entry>> {
    found
        .filter(move |entry| !matches!(entry, Ok((key, _)) if is_beside(schema, key) && !mutated(Mutant::BesideListed)))
}

/// Spot and inode of such a key.
pub(crate) fn parse_beside_key(schema: Schema, key: &[u8]) -> Result<(Spot, InodeNumber)> {
    let (_, _, rest) = parse_entry_key(schema, key)?;
    match <[u8; 9]>::try_from(rest) {
        Ok([0, n0, n1, n2, n3, n4, n5, n6, n7]) => {
            let inode = InodeNumber(u64::from_be_bytes([n0, n1, n2, n3, n4, n5, n6, n7]));
            Ok((Spot(key[..key.len() - rest.len()].into()), inode))
        }
        _ => Err(damaged("a key beside an entry of another length")),
    }
}
