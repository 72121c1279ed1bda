//! The trees, and what is read from them.

use betree::{Batch, Database, Durability, Snapshot};

use super::dictionary::Dictionary;
use crate::operations::{Error, InodeNumber, Result};
use crate::schema::{self, Entry, Inode, Located, Place, damaged};

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
    pub fn new(database: Database, seed: u64, at: Option<Snapshot>) -> Result<Self> {
        let tree = |name| Ok::<_, Error>(Dictionary::new(database.tree(name)?, at.clone()));
        Ok(Self {
            system: tree(schema::SYSTEM)?,
            entries: tree(schema::ENTRIES)?,
            inodes: tree(schema::INODES)?,
            orphans: tree(schema::ORPHANS)?,
            xattrs: tree(schema::XATTRS)?,
            data: tree(schema::DATA)?,
            seed,
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
        Ok(self.database.commit(batch, Durability::None)?)
    }

    /// What a name leads to.
    pub fn entry(&self, parent: InodeNumber, name: &[u8]) -> Result<Option<Entry>> {
        self.entry_at(&self.moment(), parent, name)
    }

    /// What a name led to at a moment.
    pub fn entry_at(&self, at: &Snapshot, parent: InodeNumber, name: &[u8]) -> Result<Option<Entry>> {
        match at.get(&self.entries, schema::entry_key(parent, self.seed, name))? {
            Some(value) => Entry::decode(parent, name, &value).map(Some),
            None => Ok(None),
        }
    }

    /// An inode.
    pub fn inode(&self, number: InodeNumber) -> Result<Inode> {
        self.inode_at(&self.moment(), number)
    }

    /// An inode at a moment.
    pub fn inode_at(&self, at: &Snapshot, number: InodeNumber) -> Result<Inode> {
        let Some(value) = at.get(&self.inodes, schema::number_key(number))? else { return Err(Error::Stale) };
        let (parent, name) = match Located::decode(number, &value)? {
            Located::Here(inode) => return Ok(inode),
            Located::In { parent, name } => (parent, name),
        };
        let entry = at.get(&self.entries, schema::entry_key(parent, self.seed, &name))?;
        let entry = entry.ok_or_else(|| damaged("an inode whose entry is not there"))?;
        match Entry::decode(parent, &name, &entry)? {
            Entry::Embedded(inode) if inode.attributes.inode == number => Ok(inode),
            _ => Err(damaged("an inode whose entry is another's")),
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
