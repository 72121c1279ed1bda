//! Where an inode has what it holds: the keys of a directory's entries, and those of a file's data.

use std::ops::{Bound, Range};

use super::keys::{cookie, number_key};
use super::{Spot, inode};
use crate::operations::{Cookie, InodeNumber};

/// A way to make keys, of which a file system has one for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Schema {
    /// Keys begin with the numbers of inodes.
    #[default]
    Inode,
}

/// A key of the tree `data`.
pub(crate) type DataKey = Vec<u8>;
/// Keys of the tree `data`.
pub(crate) type DataSpan = (Bound<DataKey>, Bound<DataKey>);

/// Under which keys an inode has its entries or its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Locality {
    number: InodeNumber,
}

impl Locality {
    /// Under the inode's number.
    pub fn of_number(number: InodeNumber) -> Self {
        Self { number }
    }

    /// The key of an entry.
    pub fn entry_key(&self, seed: u64, name: &[u8]) -> Vec<u8> {
        let mut key = inode::entry_stem(self.number, cookie(seed, name));
        key.extend(name);
        key
    }

    /// Where something lies beside the entry of a name.
    pub fn spot(&self, seed: u64, name: &[u8]) -> Spot {
        Spot::of(self.number, cookie(seed, name))
    }

    /// Keys of a directory's entries behind a cookie, in the order of cookies.
    pub fn entries_after(&self, after: Cookie) -> Vec<Range<Vec<u8>>> {
        let start = inode::entry_stem(self.number, Cookie(after.0.saturating_add(1)));
        vec![start..number_key(InodeNumber(self.number.0 + 1)).to_vec()]
    }

    /// The key of a part of a granule: 0 is the granule's bytes, `1 + n` the patches on its n-th block.
    pub fn data_key(&self, granule: u64, part: u8) -> DataKey {
        let mut key = Vec::with_capacity(inode::DATA_KEY_BYTES);
        key.extend(number_key(self.number));
        key.extend(granule.to_be_bytes());
        key.push(part);
        key
    }

    /// Keys from a part of a granule to a part of another, in their order.
    pub fn data_between(&self, first: (u64, u8), last: (u64, u8)) -> Vec<DataSpan> {
        vec![(Bound::Included(self.data_key(first.0, first.1)), Bound::Included(self.data_key(last.0, last.1)))]
    }

    /// All keys from a granule on, in their order.
    pub fn data_from(&self, granule: u64) -> Vec<DataSpan> {
        let end = number_key(InodeNumber(self.number.0 + 1)).to_vec();
        vec![(Bound::Included(self.data_key(granule, 0)), Bound::Excluded(end))]
    }
}
