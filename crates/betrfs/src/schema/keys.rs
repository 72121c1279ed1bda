//! Keys that are the same in every schema, and parts of those that are not.

use twox_hash::XxHash3_128;

use super::{GRANULE_BYTES, Schema, damaged, inode, path};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Cookie, InodeNumber, Result};
use crate::rules::FILE_BYTES_MAX;

/// Cookies below this are of `.` and `..`.
const FIRST_HASH: u64 = 16;

/// A number as the start of keys.
pub(crate) fn number_key(inode: InodeNumber) -> [u8; 8] {
    inode.0.to_be_bytes()
}

/// The number at the start of a key.
pub(crate) fn key_number(key: &[u8]) -> Result<(InodeNumber, &[u8])> {
    let (number, rest) = key.split_first_chunk().ok_or_else(|| damaged("a key that is too short"))?;
    Ok((InodeNumber(u64::from_be_bytes(*number)), rest))
}

/// All keys that begin with an inode's number.
pub(crate) fn all_of(inode: InodeNumber) -> std::ops::Range<[u8; 8]> {
    number_key(inode)..number_key(InodeNumber(inode.0.saturating_add(1)))
}

/// The cookie of a name, by which a directory is in order. Names with equal hashes have equal cookies; of 10 million names, two
/// have equal ones once in 200,000 directories.
pub(crate) fn cookie(seed: u64, name: &[u8]) -> Cookie {
    if mutated(Mutant::CookieReused) {
        return Cookie(FIRST_HASH + u64::from(name.last().copied().unwrap_or(0) % 4));
    }
    let hash = XxHash3_128::oneshot_with_seed(seed, name) as u64 >> 1;
    Cookie(hash.max(FIRST_HASH))
}

/// Directory, cookie and name of an entry's key.
pub(crate) fn parse_entry_key(schema: Schema, key: &[u8]) -> Result<(InodeNumber, Cookie, &[u8])> {
    match schema {
        Schema::Inode => inode::parse_entry_key(key),
        Schema::Path => path::parse_entry_key(key),
    }
}

/// The key of an extended attribute.
pub(crate) fn xattr_key(inode: InodeNumber, name: &[u8]) -> Vec<u8> {
    [&number_key(inode)[..], name].concat()
}

/// Inode, granule and part of a data key.
pub(crate) fn parse_data_key(schema: Schema, key: &[u8]) -> Result<(InodeNumber, u64, u8)> {
    let Some((_, last)) = key.split_last_chunk::<{ inode::DATA_KEY_BYTES }>() else {
        return Err(damaged("a data key that is too short"));
    };
    if schema == Schema::Inode && last.len() < key.len() {
        return Err(damaged("a data key that is too long"));
    }
    let (number, _) = key_number(last)?;
    let (granule, part) = part_of(last)?;
    Ok((number, granule, part))
}

/// Granule and part of a data key.
pub(crate) fn part_of(key: &[u8]) -> Result<(u64, u8)> {
    match key.split_last_chunk() {
        Some((_, &[g0, g1, g2, g3, g4, g5, g6, g7, part])) => {
            let granule = u64::from_be_bytes([g0, g1, g2, g3, g4, g5, g6, g7]);
            if granule > FILE_BYTES_MAX / GRANULE_BYTES {
                return Err(damaged("data behind where files end"));
            }
            Ok((granule, part))
        }
        None => Err(damaged("a data key that is too short")),
    }
}
