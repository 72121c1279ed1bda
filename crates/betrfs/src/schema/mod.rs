//! How a file system lies in the trees of a store: `docs/betrfs-format.md` in code.
//!
//! | tree | key | value |
//! |---|---|---|
//! | `system` | `format`, `next` | version, features, hash seed; the first inode number that was never used |
//! | | `debt` and an inode | nothing: it is to be moved to where its path says |
//! | `entries` | directory, hash of the name, name | the inode itself, or the number of one with several names |
//! | | directory, hash of the name, 0, inode | the bytes of a small file's first granule, or a symbolic link's target |
//! | `inodes` | inode | where its only name is; or the inode: the root, with several names, without any |
//! | `orphans` | inode | nothing: an inode without names that was open |
//! | `xattrs` | inode, name | value |
//! | `data` | inode, granule, part | part 0: the granule's bytes; part 1 + n: patches on its n-th block |
//!
//! In the schema `path` a stem ([`path`]) stands in the place of inode and directory in `entries` and `data`, and 0 before hashes.
//!
//! Numbers in keys are big endian, so that keys are in their order; those in values are little endian.

mod beside;
mod inode;
mod keys;
mod locality;
mod path;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::mutant::{Mutant, mutated};
use crate::operations::{Attributes, Cookie, Error, InodeNumber, Kind, Permissions, Result, Timestamp};
use crate::rules::FILE_BYTES_MAX;
pub(crate) use beside::{BESIDE_BYTES, Spot, beside_key, is_beside, names, parse_beside_key};
pub(crate) use keys::{all_of, cookie, key_number, number_key, parse_data_key, parse_entry_key, part_of, xattr_key};
pub use locality::Schema;
pub(crate) use locality::{DataKey, DataSpan, Locality, Moving};

/// Version of the schema that this program writes.
pub(crate) const VERSION: u32 = 2;
/// The one before had nothing beside entries, and is otherwise the same: a mount makes it this version.
pub(crate) const VERSION_WITHOUT_BESIDE: u32 = 1;

/// Features that this program knows.
pub(crate) const FEATURES: u64 = FEATURE_PATHS;
/// Keys begin with paths ([`Schema::Path`]).
const FEATURE_PATHS: u64 = 1;

/// Names of the trees.
pub(crate) const SYSTEM: &str = "system";
pub(crate) const ENTRIES: &str = "entries";
pub(crate) const INODES: &str = "inodes";
pub(crate) const ORPHANS: &str = "orphans";
pub(crate) const XATTRS: &str = "xattrs";
pub(crate) const DATA: &str = "data";

/// Keys of the tree `system`.
pub(crate) const FORMAT_KEY: &[u8] = b"format";
pub(crate) const NEXT_KEY: &[u8] = b"next";
/// Before the numbers of inodes that lie where their paths do not say.
const DEBT: &[u8] = b"debt";

/// Bytes of a file that one value holds: so many that they lie apart in the store, and a small part of them is read with
/// little waste.
pub(crate) const GRANULE_BYTES: u64 = 64 << 10;
/// More entries than any storage has room for.
const ENTRIES_MAX: u64 = 1 << 56;
/// More inode numbers than anybody can give.
const NUMBERS_MAX: u64 = 1 << 62;

/// What a store says of the file system in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    pub version: u32,
    /// What a program must know to use it ([`FEATURES`]).
    pub features: u64,
    /// Of the hashes of names.
    pub seed: u64,
}

impl Format {
    /// Of a new file system.
    pub fn new(schema: Schema, seed: u64) -> Self {
        let features = match schema {
            Schema::Inode => 0,
            Schema::Path if mutated(Mutant::PathsNotSaid) => 0,
            Schema::Path => FEATURE_PATHS,
        };
        Self { version: VERSION, features, seed }
    }

    pub fn schema(self) -> Schema {
        if self.features & FEATURE_PATHS == 0 { Schema::Inode } else { Schema::Path }
    }

    pub fn encode(self) -> Vec<u8> {
        let mut to = self.version.to_le_bytes().to_vec();
        to.extend(self.features.to_le_bytes());
        to.extend(self.seed.to_le_bytes());
        to
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut from = Fields(bytes);
        let format = Self { version: from.u32()?, features: from.u64()?, seed: from.u64()? };
        from.end()?;
        Ok(format)
    }
}

/// Where an inode lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In the entry of its only name.
    Entry { parent: InodeNumber, name: Box<[u8]> },
    /// In the tree `inodes`.
    Side,
}

/// An inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    pub attributes: Attributes,
    /// Entries of a directory.
    pub entries: u64,
    /// Blocks of it may have patches.
    pub is_patched: bool,
    /// It may have holes.
    pub is_sparse: bool,
    /// It may have extended attributes.
    pub has_xattrs: bool,
    /// Where the bytes of its first granule lie, if beside an entry; patches on them lie in the tree `data`, as all else does.
    pub beside: Option<Spot>,
    pub place: Place,
    /// Under which keys it has what it holds.
    pub locality: Locality,
    /// It is listed as one that is to be moved to where its path says.
    pub owes: bool,
}

/// Why a value is not what it should be.
pub(crate) fn damaged(what: &str) -> Error {
    Error::Corrupt(what.to_owned())
}

/// Fields of a value, one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk().ok_or_else(|| damaged("a value that is too short"))?;
        self.0 = rest;
        Ok(*field)
    }

    fn u8(&mut self) -> Result<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Result<Timestamp> {
        let time = Timestamp { seconds: self.u64()? as i64, nanoseconds: self.u32()? };
        if time.nanoseconds < 1_000_000_000 { Ok(time) } else { Err(damaged("a time of more than a second")) }
    }

    fn kind(&mut self) -> Result<Kind> {
        Kind::of_mode(u32::from(self.u8()?) << 12).ok_or_else(|| damaged("an inode of no kind"))
    }

    fn place(&mut self) -> Result<Arc<[u8]>> {
        let length = usize::from(self.u16()?);
        let (at, rest) = self.0.split_at_checked(length).ok_or_else(|| damaged("a value that is too short"))?;
        self.0 = rest;
        if path::is_place(at) { Ok(at.into()) } else { Err(damaged("a place that is no path")) }
    }

    fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(damaged("a value that is too long")) }
    }
}

fn kind_byte(kind: Kind) -> u8 {
    (kind.mode_bits() >> 12) as u8
}

const PATCHED: u8 = 1;
const SPARSE: u8 = 2;
const HAS_XATTRS: u8 = 4;
const BESIDE: u8 = 8;
const ELSEWHERE: u8 = 16;
const MOVING: u8 = 32;

/// Where the value of an inode was found.
#[derive(Clone, Copy)]
struct Found<'a> {
    schema: Schema,
    /// Key of the entry that it is in, and how long the name at its end is.
    entry: Option<(&'a [u8], usize)>,
}

impl Found<'_> {
    /// Where it lies unless it says something else.
    fn locality(self, number: InodeNumber, kind: Kind) -> Locality {
        match self.entry {
            Some((key, name_bytes)) => Locality::named(self.schema, key, name_bytes, kind, number),
            None => Locality::unnamed(self.schema, number),
        }
    }

    fn beside(self, from: &mut Fields<'_>) -> Result<Spot> {
        match (self.schema, self.entry) {
            (Schema::Inode, _) => Ok(Spot::of(InodeNumber(from.u64()?), Cookie(from.u64()?))),
            (Schema::Path, Some((key, name_bytes))) => Ok(Spot::of_stem(key[..key.len() - name_bytes].to_vec())),
            (Schema::Path, None) => Err(damaged("an inode without an entry that has something beside it")),
        }
    }
}

impl Inode {
    fn encode(&self, to: &mut Vec<u8>, by_default: &Locality) {
        let attributes = &self.attributes;
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        to.push(kind_byte(attributes.kind));
        let beside = flag(self.beside.is_some(), BESIDE);
        let elsewhere =
            self.locality.place().filter(|_| self.locality != *by_default && !mutated(Mutant::PlaceNotSaid));
        let moving = elsewhere.and_then(|(_, moving)| moving);
        let places = flag(elsewhere.is_some(), ELSEWHERE) | flag(moving.is_some(), MOVING);
        to.push(
            places
                | beside
                | flag(self.is_patched, PATCHED)
                | flag(self.is_sparse, SPARSE)
                | flag(self.has_xattrs, HAS_XATTRS),
        );
        to.extend(attributes.permissions.bits().to_le_bytes());
        for number in [attributes.links, attributes.uid, attributes.gid, attributes.device] {
            to.extend(number.to_le_bytes());
        }
        for number in [attributes.size_bytes, attributes.blocks, self.entries] {
            to.extend(number.to_le_bytes());
        }
        for time in [attributes.accessed, attributes.modified, attributes.changed, attributes.created] {
            to.extend(time.seconds.to_le_bytes());
            to.extend(time.nanoseconds.to_le_bytes());
        }
        if let Some(spot) = self.beside.as_ref().filter(|_| by_default.place().is_none()) {
            spot.encode(to);
        }
        let mut place = |at: &[u8]| {
            to.extend((at.len() as u16).to_le_bytes());
            to.extend(at);
        };
        if let Some((at, _)) = elsewhere {
            place(at);
        }
        if let Some(Moving { to: target, below }) = moving {
            place(target);
            to.extend(below.to_le_bytes());
        }
    }

    fn decode(inode: InodeNumber, place: Place, found: Found<'_>, from: &mut Fields<'_>) -> Result<Self> {
        let kind = from.kind()?;
        let flags = from.u8()?;
        let permissions = Permissions::of_mode(u32::from(from.u16()?));
        let (links, uid, gid, device) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
        let (size_bytes, blocks, entries) = (from.u64()?, from.u64()?, from.u64()?);
        // Nothing that counts with them has to look whether it can.
        if size_bytes > FILE_BYTES_MAX || entries > ENTRIES_MAX {
            return Err(damaged("a size that nothing has"));
        }
        let (accessed, modified, changed, created) = (from.time()?, from.time()?, from.time()?, from.time()?);
        let beside = match flags & BESIDE {
            0 => None,
            _ => Some(found.beside(from)?),
        };
        let mut locality = found.locality(inode, kind);
        let is_elsewhere = flags & ELSEWHERE != 0;
        if is_elsewhere {
            if found.schema == Schema::Inode {
                return Err(damaged("a place where there are none"));
            }
            let at = from.place()?;
            let moving = match flags & MOVING {
                0 => None,
                _ => Some(Moving { to: from.place()?, below: from.u64()? }),
            };
            locality = Locality::by_path(inode, at, moving);
        }
        from.end()?;
        let attributes = Attributes {
            inode,
            kind,
            permissions,
            links,
            uid,
            gid,
            device,
            size_bytes,
            blocks,
            accessed,
            modified,
            changed,
            created,
        };
        Ok(Self {
            attributes,
            entries,
            is_patched: flags & PATCHED != 0,
            is_sparse: flags & SPARSE != 0,
            has_xattrs: flags & HAS_XATTRS != 0,
            beside,
            place,
            locality,
            owes: is_elsewhere && attributes.links > 0,
        })
    }
}

const EMBEDDED: u8 = 0;
const LINK: u8 = 1;

/// What a name leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// The inode itself: it has this name alone.
    Embedded(Inode),
    /// An inode of the tree `inodes`.
    Link { inode: InodeNumber, kind: Kind },
}

impl Entry {
    pub fn inode(&self) -> InodeNumber {
        match self {
            Self::Embedded(inode) => inode.attributes.inode,
            Self::Link { inode, .. } => *inode,
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Embedded(inode) => inode.attributes.kind,
            Self::Link { kind, .. } => *kind,
        }
    }

    /// From its key and value.
    pub fn decode(schema: Schema, key: &[u8], value: &[u8]) -> Result<Self> {
        let (parent, _, name) = parse_entry_key(schema, key)?;
        let mut from = Fields(value);
        let tag = from.u8()?;
        let inode = InodeNumber(from.u64()?);
        match tag {
            EMBEDDED => {
                let place = Place::Entry { parent, name: name.into() };
                let found = Found { schema, entry: Some((key, name.len())) };
                Ok(Self::Embedded(Inode::decode(inode, place, found, &mut from)?))
            }
            LINK => {
                let kind = from.kind()?;
                from.end()?;
                Ok(Self::Link { inode, kind })
            }
            _ => Err(damaged("an entry of no form")),
        }
    }
}

/// The value of an entry that has the inode itself; where that lies unless it says something else.
pub(crate) fn embedded(inode: &Inode, by_default: &Locality) -> Vec<u8> {
    let mut to = vec![EMBEDDED];
    to.extend(inode.attributes.inode.0.to_le_bytes());
    inode.encode(&mut to, by_default);
    to
}

/// The value of an entry of an inode with several names.
pub(crate) fn link(inode: InodeNumber, kind: Kind) -> Vec<u8> {
    let mut to = vec![LINK];
    to.extend(inode.0.to_le_bytes());
    to.push(kind_byte(kind));
    to
}

const IN_ENTRY: u8 = 0;
const HERE: u8 = 1;

/// What the tree `inodes` says of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Located {
    In { parent: InodeNumber, name: Box<[u8]> },
    Here(Inode),
}

impl Located {
    pub fn decode(schema: Schema, inode: InodeNumber, value: &[u8]) -> Result<Self> {
        let mut from = Fields(value);
        match from.u8()? {
            IN_ENTRY => Ok(Self::In { parent: InodeNumber(from.u64()?), name: from.0.into() }),
            HERE => Ok(Self::Here(Inode::decode(inode, Place::Side, Found { schema, entry: None }, &mut from)?)),
            _ => Err(damaged("an inode without a place")),
        }
    }
}

/// The value of an inode that lies in an entry.
pub(crate) fn in_entry(parent: InodeNumber, name: &[u8]) -> Vec<u8> {
    let mut to = vec![IN_ENTRY];
    to.extend(parent.0.to_le_bytes());
    to.extend(name);
    to
}

/// The value of an inode that lies in the tree `inodes`.
pub(crate) fn here(schema: Schema, inode: &Inode) -> Vec<u8> {
    let mut to = vec![HERE];
    inode.encode(&mut to, &Locality::unnamed(schema, inode.attributes.inode));
    to
}

/// The key that says that an inode is to be moved.
pub(crate) fn debt_key(inode: InodeNumber) -> Vec<u8> {
    [DEBT, &number_key(inode)].concat()
}

/// All such keys.
pub(crate) fn debts() -> std::ops::Range<Vec<u8>> {
    DEBT.to_vec()..[DEBT, &[u8::MAX; 9]].concat()
}

/// The inode of such a key.
pub(crate) fn parse_debt_key(key: &[u8]) -> Result<InodeNumber> {
    match key.strip_prefix(DEBT).map(key_number) {
        Some(Ok((number, []))) => Ok(number),
        _ => Err(damaged("a debt of no inode")),
    }
}

/// The next inode number, from its value.
pub(crate) fn decode_next(value: &[u8]) -> Result<u64> {
    let mut from = Fields(value);
    let next = from.u64()?;
    from.end()?;
    if next <= NUMBERS_MAX { Ok(next) } else { Err(damaged("a next inode number that is none")) }
}
