//! The schema `inode`: everything lies under the number of what it belongs to, so that a rename moves nothing.

use super::damaged;
use super::keys::{key_number, number_key};
use crate::operations::{Cookie, InodeNumber, Result};

/// Number, granule and part: a key of the tree `data`, and the last bytes of one of any schema.
pub(super) const DATA_KEY_BYTES: usize = 17;

/// Directory, cookie and name of an entry's key.
pub(super) fn parse_entry_key(key: &[u8]) -> Result<(InodeNumber, Cookie, &[u8])> {
    let (parent, rest) = key_number(key)?;
    let (hash, name) = rest.split_first_chunk().ok_or_else(|| damaged("an entry's key that is too short"))?;
    Ok((parent, Cookie(u64::from_be_bytes(*hash)), name))
}

/// What stands before the names in the keys of a directory's entries from a cookie on.
pub(super) fn entry_stem(directory: InodeNumber, cookie: Cookie) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    key.extend(number_key(directory));
    key.extend(cookie.0.to_be_bytes());
    key
}
