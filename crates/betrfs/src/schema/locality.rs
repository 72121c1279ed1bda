//! Where an inode has what it holds: the keys of a directory's entries, and those of a file's data.

use std::ops::{Bound, Range};
use std::sync::Arc;

use super::keys::{cookie, number_key, parse_entry_key};
use super::{Spot, damaged, inode, path};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Cookie, InodeNumber, Kind, Result};

/// A way to make keys, of which a file system has one for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Schema {
    /// Keys begin with the numbers of inodes: a rename moves nothing.
    #[default]
    Inode,
    /// Keys begin with paths, as in the published file system: what is near in a walk is near on the storage, and a rename moves keys.
    Path,
}

/// A key of the tree `data`.
pub(crate) type DataKey = Vec<u8>;
/// Keys of the tree `data`.
pub(crate) type DataSpan = (Bound<DataKey>, Bound<DataKey>);

/// Under which keys an inode has its entries or its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Locality {
    number: InodeNumber,
    lies: Lies,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Lies {
    ByNumber,
    ByPath { at: Arc<[u8]>, moving: Option<Box<Moving>> },
}

/// A move under way: what comes before a cookie or a granule is at its new place already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Moving {
    pub to: Arc<[u8]>,
    pub below: u64,
}

impl Schema {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inode => "inode",
            Self::Path => "path",
        }
    }
}

impl Moving {
    fn edge(&self) -> u64 {
        self.below + u64::from(mutated(Mutant::MoveOnBothSides))
    }
}

impl Locality {
    /// Of an inode without a name of its own.
    pub fn unnamed(schema: Schema, number: InodeNumber) -> Self {
        match schema {
            Schema::Inode => Self { number, lies: Lies::ByNumber },
            Schema::Path => Self::by_path(number, Arc::default(), None),
        }
    }

    /// Of what an entry with this key leads to.
    pub fn named(schema: Schema, entry_key: &[u8], name_bytes: usize, kind: Kind, number: InodeNumber) -> Self {
        match schema {
            Schema::Inode => Self::unnamed(schema, number),
            Schema::Path => Self::by_path(number, path::below(entry_key, name_bytes, kind), None),
        }
    }

    /// At a place of its own, and on the way to another.
    pub fn by_path(number: InodeNumber, at: Arc<[u8]>, moving: Option<Moving>) -> Self {
        Self { number, lies: Lies::ByPath { at, moving: moving.map(Box::new) } }
    }

    /// Where it lies, and is moved to, in the schema that has places.
    pub fn place(&self) -> Option<(&Arc<[u8]>, Option<&Moving>)> {
        match &self.lies {
            Lies::ByNumber => None,
            Lies::ByPath { at, moving } => Some((at, moving.as_deref())),
        }
    }

    /// About what it takes in memory.
    pub fn bytes(&self) -> usize {
        self.place().map_or(0, |(at, _)| at.len())
    }

    /// Where a position lies in a schema with places: its place, and what comes before another.
    fn at(&self, position: u64) -> &[u8] {
        match &self.lies {
            Lies::ByPath { moving: Some(moving), .. } if position < moving.edge() => &moving.to,
            Lies::ByPath { at, .. } => at,
            Lies::ByNumber => &[],
        }
    }

    /// Pieces of positions from one on, each of which lies at one place. The last has no end.
    fn pieces(&self, from: u64) -> Vec<(&[u8], u64, Option<u64>)> {
        match &self.lies {
            Lies::ByPath { at, moving: Some(moving) } if from < moving.below => {
                vec![(&*moving.to, from, Some(moving.below)), (&**at, moving.below, None)]
            }
            _ => vec![(self.at(from), from, None)],
        }
    }

    fn entry_stem(&self, at: &[u8], cookie: u64) -> Vec<u8> {
        match &self.lies {
            Lies::ByNumber => inode::entry_stem(self.number, Cookie(cookie)),
            Lies::ByPath { .. } => path::entry_stem(at, self.number, Cookie(cookie)),
        }
    }

    /// The key of an entry.
    pub fn entry_key(&self, seed: u64, name: &[u8]) -> Vec<u8> {
        let cookie = cookie(seed, name).0;
        let mut key = self.entry_stem(self.at(cookie), cookie);
        key.extend(name);
        key
    }

    /// Whether a key is that of an entry of it.
    pub fn has_entry(&self, key: &[u8], cookie: Cookie, name: &[u8]) -> bool {
        self.entry_stem(self.at(cookie.0), cookie.0) == key[..key.len() - name.len()]
    }

    /// Of a directory with an entry that has this key.
    pub fn of_entry(schema: Schema, key: &[u8], number: InodeNumber) -> Result<Self> {
        let (_, _, name) = parse_entry_key(schema, key)?;
        // Behind the place: the directory's number, a byte, and the hash.
        Self::of_place(schema, &key[..key.len().saturating_sub(name.len() + 17)], number)
    }

    /// Of a file with data that has this key.
    pub fn of_data(schema: Schema, key: &[u8], number: InodeNumber) -> Result<Self> {
        Self::of_place(schema, &key[..key.len().saturating_sub(inode::DATA_KEY_BYTES)], number)
    }

    fn of_place(schema: Schema, at: &[u8], number: InodeNumber) -> Result<Self> {
        match schema {
            Schema::Inode => Ok(Self::unnamed(schema, number)),
            Schema::Path if path::is_place(at) => Ok(Self::by_path(number, at.into(), None)),
            Schema::Path => Err(damaged("a place that is no path")),
        }
    }

    /// Where something lies beside the entry of a name.
    pub fn spot(&self, seed: u64, name: &[u8]) -> Spot {
        let cookie = cookie(seed, name).0;
        Spot::of_stem(self.entry_stem(self.at(cookie), cookie))
    }

    /// Keys of a directory's entries behind a cookie, in the order of cookies.
    pub fn entries_after(&self, after: Cookie) -> Vec<Range<Vec<u8>>> {
        let span = |(at, from, end): (&[u8], u64, Option<u64>)| {
            let end = match (end, &self.lies) {
                (Some(end), _) => self.entry_stem(at, end),
                (None, Lies::ByNumber) => number_key(InodeNumber(self.number.0 + 1)).to_vec(),
                (None, Lies::ByPath { .. }) => path::entries_end(at, self.number),
            };
            self.entry_stem(at, from)..end
        };
        self.pieces(after.0.saturating_add(1)).into_iter().map(span).collect()
    }

    fn data_key_at(&self, at: &[u8], granule: u64, part: u8) -> DataKey {
        let mut key = Vec::with_capacity(at.len() + inode::DATA_KEY_BYTES);
        key.extend(at);
        key.extend(number_key(path::number_at(at, self.number)));
        key.extend(granule.to_be_bytes());
        key.push(part);
        key
    }

    /// The key of a part of a granule: 0 is the granule's bytes, `1 + n` the patches on its n-th block.
    pub fn data_key(&self, granule: u64, part: u8) -> DataKey {
        self.data_key_at(self.at(granule), granule, part)
    }

    /// Keys from a part of a granule to a part of another, in their order.
    pub fn data_between(&self, first: (u64, u8), last: (u64, u8)) -> Vec<DataSpan> {
        let span = |(at, from, end): (&[u8], u64, Option<u64>)| {
            let start = if from == first.0 { first.1 } else { 0 };
            let end = match end {
                Some(end) if end <= last.0 => Bound::Excluded(self.data_key_at(at, end, 0)),
                _ => Bound::Included(self.data_key_at(at, last.0, last.1)),
            };
            (Bound::Included(self.data_key_at(at, from, start)), end)
        };
        let pieces = self.pieces(first.0).into_iter();
        pieces.filter(|(_, from, _)| *from == first.0 || *from <= last.0).map(span).collect()
    }

    /// All keys from a granule on, in their order.
    pub fn data_from(&self, granule: u64) -> Vec<DataSpan> {
        let span = |(at, from, end): (&[u8], u64, Option<u64>)| {
            let end = match end {
                Some(end) => self.data_key_at(at, end, 0),
                None => path::stem(at, InodeNumber(self.number.0 + 1)),
            };
            (Bound::Included(self.data_key_at(at, from, 0)), Bound::Excluded(end))
        };
        self.pieces(granule).into_iter().map(span).collect()
    }
}
