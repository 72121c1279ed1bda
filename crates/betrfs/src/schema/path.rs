//! The schema `path`: keys begin with the path of what they belong to, as in the published file system, so that a walk through a tree of
//! directories goes through keys in their order, and what is below a directory is one range.
//!
//! A *stem* is what the keys of one inode begin with: where it lies, and its number. It lies below the stem of its directory:
//!
//! | of | lies at |
//! |---|---|
//! | the root, and what has several names or none | nothing: its stem is its number |
//! | a directory | the stem of the one above, 1, hash of the name (u64), name, 0 |
//! | another | the stem of its directory, 0, hash of the name (u64), name, 0 |
//!
//! Behind a directory's stem come 0, hash and name of each entry. So a directory's entries follow each other, and then come those of the
//! directories in it. Siblings are in the order of hashes, in which a directory is listed, since a cookie must be good for ever. Names
//! have no NUL, so nothing needs an escape. The number makes a stem unique: what lies where another once lay, or lies still, never meets
//! it.

use std::sync::Arc;

use super::damaged;
use super::keys::{key_number, number_key};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Cookie, InodeNumber, Kind, Result};

/// Before the hash and the name of an entry, and of what is no directory.
const DIRECT: u8 = 0;
/// Before those of a directory that is on the way.
const BELOW: u8 = 1;
/// Stems are no longer, so that a name fits behind them; what has a longer path lies at its number.
const STEM_BYTES_MAX: usize = betree::KEY_BYTES_MAX - 300;

/// The number that stands behind a place.
pub(super) fn number_at(at: &[u8], number: InodeNumber) -> InodeNumber {
    if mutated(Mutant::PathWithoutNumber) && !at.is_empty() { InodeNumber(0) } else { number }
}

/// What the keys of an inode that lies somewhere begin with.
pub(super) fn stem(at: &[u8], number: InodeNumber) -> Vec<u8> {
    let mut key = Vec::with_capacity(at.len() + 64);
    key.extend(at);
    key.extend(number_key(number_at(at, number)));
    key
}

/// What stands before the names in the keys of entries from a cookie on.
pub(super) fn entry_stem(at: &[u8], directory: InodeNumber, cookie: Cookie) -> Vec<u8> {
    let mut key = stem(at, directory);
    key.push(if mutated(Mutant::PathsUpwards) { BELOW } else { DIRECT });
    key.extend(cookie.0.to_be_bytes());
    key
}

/// The first key behind all entries of a directory.
pub(super) fn entries_end(at: &[u8], directory: InodeNumber) -> Vec<u8> {
    let mut key = stem(at, directory);
    key.push(if mutated(Mutant::PathsUpwards) { BELOW + 1 } else { BELOW });
    key
}

/// Where what an entry leads to lies, from the entry's key.
pub(super) fn below(entry_key: &[u8], name_bytes: usize, kind: Kind) -> Arc<[u8]> {
    let mut at = entry_key.to_vec();
    if let Some(marker) = entry_key.len().checked_sub(name_bytes + 9).and_then(|marker| at.get_mut(marker))
        && kind == Kind::Directory
    {
        *marker = if mutated(Mutant::PathsUpwards) { DIRECT } else { BELOW };
    }
    at.push(0);
    let is_long = at.len() + 8 > STEM_BYTES_MAX && !mutated(Mutant::LongPathKept);
    if is_long { Arc::default() } else { at.into() }
}

/// Marker, hash, name and what is behind it.
fn component(key: &[u8]) -> Option<(u8, [u8; 8], &[u8])> {
    let (marker, rest) = key.split_first()?;
    let (hash, rest) = rest.split_first_chunk()?;
    Some((*marker, *hash, rest))
}

/// Directory, cookie and name of an entry's key.
pub(super) fn parse_entry_key(key: &[u8]) -> Result<(InodeNumber, Cookie, &[u8])> {
    let (mut directory, mut rest) = key_number(key)?;
    loop {
        let component = component(rest).map(|(marker, hash, name)| match mutated(Mutant::PathsUpwards) {
            true => (BELOW - marker.min(BELOW), hash, name),
            false => (marker, hash, name),
        });
        match component {
            Some((DIRECT, hash, name)) => return Ok((directory, Cookie(u64::from_be_bytes(hash)), name)),
            Some((BELOW, _, name)) => {
                let end = name.iter().position(|byte| *byte == 0).ok_or_else(|| damaged("a path without an end"))?;
                (directory, rest) = key_number(&name[end + 1..])?;
            }
            _ => return Err(damaged("an entry's key that is no path")),
        }
    }
}

/// Whether something can lie there.
pub(super) fn is_place(at: &[u8]) -> bool {
    if at.is_empty() {
        return true;
    }
    let mut key = at;
    while key.len() <= STEM_BYTES_MAX
        && let Ok((_, rest)) = key_number(key)
        && let Some((marker, _, name)) = component(rest)
    {
        match name.iter().position(|byte| *byte == 0) {
            Some(end) if end > 0 && end + 1 == name.len() => return marker <= BELOW,
            Some(end) if end > 0 && marker == BELOW => key = &name[end + 1..],
            _ => return false,
        }
    }
    false
}
