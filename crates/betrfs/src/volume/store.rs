//! The trees, and what is read from them.

use std::collections::BTreeSet;
use std::ops::Range;

use betree::{Batch, Database, Durability, Snapshot};

use super::dictionary::Dictionary;
use crate::operations::{Cookie, Error, InodeNumber, Result};
use crate::refusal::{Refuser, is_refused};
use crate::schema::{self, DataSpan, Entry, Format, Inode, Locality, Located, Place, Schema, damaged};

/// Trees of a file system.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub database: Database,
    pub system: Dictionary,
    pub entries: Dictionary,
    pub inodes: Dictionary,
    pub orphans: Dictionary,
    pub xattrs: Dictionary,
    pub data: Dictionary,
    /// Of the hashes of names.
    pub seed: u64,
    pub schema: Schema,
    /// The moment that it shows; what is there now without one.
    at: Option<Snapshot>,
}

impl From<betree::Error> for Error {
    fn from(error: betree::Error) -> Self {
        match error {
            betree::Error::Full => Self::NoSpace,
            betree::Error::Corrupt { .. } => Self::Corrupt(error.to_string()),
            error => Self::Io(error.to_string()),
        }
    }
}

impl Store {
    pub fn new(database: Database, format: Format, at: Option<Snapshot>) -> Result<Self> {
        let tree = |name| Ok::<_, Error>(Dictionary::new(database.tree(name)?, at.clone()));
        Ok(Self {
            system: tree(schema::SYSTEM)?,
            entries: tree(schema::ENTRIES)?,
            inodes: tree(schema::INODES)?,
            orphans: tree(schema::ORPHANS)?,
            xattrs: tree(schema::XATTRS)?,
            data: tree(schema::DATA)?,
            seed: format.seed,
            schema: format.schema(),
            at,
            database,
        })
    }

    /// All trees at the moment that it shows, or now.
    pub fn moment(&self) -> Snapshot {
        self.at.clone().unwrap_or_else(|| self.database.snapshot())
    }

    /// Whether it shows one moment only, of a snapshot or of a mount to read from, to which nothing can be done.
    pub fn is_past(&self) -> bool {
        self.at.is_some()
    }

    /// Carries out a batch; it becomes durable with the next sync.
    pub fn commit(&self, batch: &Batch) -> Result<()> {
        if is_refused(Refuser::Store) {
            return Err(Error::NoSpace);
        }
        Ok(self.database.commit(batch, Durability::None)?)
    }

    /// What a name leads to in a directory.
    pub fn entry(&self, directory: &Locality, name: &[u8]) -> Result<Option<Entry>> {
        self.entry_at(&self.moment(), directory, name)
    }

    /// What a name led to at a moment.
    pub fn entry_at(&self, at: &Snapshot, directory: &Locality, name: &[u8]) -> Result<Option<Entry>> {
        let key = directory.entry_key(self.seed, name);
        match at.get(&self.entries, &key)? {
            Some(value) => Entry::decode(self.schema, &key, &value).map(Some),
            None => Ok(None),
        }
    }

    /// Entries of a directory behind a cookie, without what lies beside them.
    pub fn names_at(
        &self,
        at: &Snapshot,
        directory: &Locality,
        after: Cookie,
    ) -> impl Iterator<Item = betree::Result<betree::Entry>> + use<> {
        let (at, tree) = (at.clone(), self.entries.clone());
        let found = directory.entries_after(after).into_iter().flat_map(move |keys| at.range(&tree, keys));
        schema::names(self.schema, found)
    }

    /// Entries of a directory behind one's key, in the order of cookies.
    pub fn names_behind(
        &self,
        at: &Snapshot,
        directory: &Locality,
        last: Option<&[u8]>,
    ) -> impl Iterator<Item = betree::Result<betree::Entry>> + use<> {
        let (at, tree, mut keys) = (at.clone(), self.entries.clone(), directory.entries_after(Cookie::START));
        let holds = |keys: &Range<Vec<u8>>, key: &[u8]| (&keys.start[..]..&keys.end[..]).contains(&key);
        if let Some(last) = last
            && let Some(this) = keys.iter().position(|keys| holds(keys, last))
        {
            keys.drain(..this);
            // The next key in order.
            keys[0].start = [last, &[0]].concat();
        }
        schema::names(self.schema, keys.into_iter().flat_map(move |keys| at.range(&tree, keys)))
    }

    /// Data of an inode, in the order of granules.
    pub fn data_at(
        &self,
        at: &Snapshot,
        keys: Vec<DataSpan>,
    ) -> impl Iterator<Item = betree::Result<betree::Entry>> + use<> {
        let (at, tree) = (at.clone(), self.data.clone());
        keys.into_iter().flat_map(move |keys| at.range(&tree, keys))
    }

    /// An inode.
    pub fn inode(&self, number: InodeNumber) -> Result<Inode> {
        self.inode_at(&self.moment(), number)
    }

    /// An inode at a moment.
    pub fn inode_at(&self, at: &Snapshot, number: InodeNumber) -> Result<Inode> {
        self.inode_from(at, number, |_| None)
    }

    /// An inode at a moment, of which some are known.
    pub fn inode_from(
        &self,
        at: &Snapshot,
        number: InodeNumber,
        known: impl Fn(InodeNumber) -> Option<Inode>,
    ) -> Result<Inode> {
        // Where keys begin with paths, it takes the directories above to find one.
        let (mut below, mut seen, mut this) = (Vec::new(), BTreeSet::new(), number);
        let mut found = loop {
            if let Some(inode) = known(this) {
                break inode;
            }
            let value = at.get(&self.inodes, schema::number_key(this))?;
            match value.map(|value| Located::decode(self.schema, this, &value)).transpose()? {
                None if this == number => return Err(Error::Stale),
                None => return Err(damaged("an inode below one that is not there")),
                Some(Located::Here(inode)) => break inode,
                Some(Located::In { parent, name }) => {
                    if self.schema == Schema::Inode {
                        let directory = Locality::unnamed(self.schema, parent);
                        return self.embedded_at(at, &directory, this, &name);
                    }
                    if !seen.insert(this) {
                        return Err(damaged("a directory that is below itself"));
                    }
                    below.push((this, name));
                    this = parent;
                }
            }
        };
        for (this, name) in below.into_iter().rev() {
            found = self.embedded_at(at, &found.locality, this, &name)?;
        }
        Ok(found)
    }

    /// The inode that lies in an entry.
    fn embedded_at(&self, at: &Snapshot, directory: &Locality, number: InodeNumber, name: &[u8]) -> Result<Inode> {
        let entry = self.entry_at(at, directory, name)?;
        match entry.ok_or_else(|| damaged("an inode whose entry is not there"))? {
            Entry::Embedded(inode) if inode.attributes.inode == number => Ok(inode),
            _ => Err(damaged("an inode whose entry is another's")),
        }
    }

    /// Where an inode has what it holds.
    pub fn locality_at(&self, at: &Snapshot, number: InodeNumber) -> Result<Locality> {
        match self.schema {
            Schema::Inode => Ok(Locality::unnamed(self.schema, number)),
            Schema::Path => Ok(self.inode_at(at, number)?.locality),
        }
    }

    /// The directory that a directory is in.
    pub fn parent_of(directory: &Inode) -> InodeNumber {
        match &directory.place {
            Place::Entry { parent, .. } => *parent,
            // The root, or one that was removed.
            Place::Side => directory.attributes.inode,
        }
    }
}
