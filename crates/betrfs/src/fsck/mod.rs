//! Checking a file system: every rule of the format, from one moment of the store.
//!
//! It takes memory for each inode, and reads every entry, attribute and byte of data once, in the order of the trees.

mod beside;
mod contents;
mod finding;
mod names;
mod places;
mod repair;

use std::collections::BTreeMap;

use betree::{Database, Snapshot, Tree};
use storage::Storage;

use crate::operations::{Error, InodeNumber, Kind, Result};
use crate::schema::{self, Inode, Locality, Located, Spot};
use crate::volume::{Store, Volume, VolumeOptions, open_store};

pub use finding::Finding;
#[cfg(test)]
pub(crate) use repair::repair_store;
pub use repair::{Repair, repair};

/// Where an inode says that it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Home {
    /// In the entry of this directory, under a name with this cookie.
    Entry(InodeNumber, crate::operations::Cookie),
    Side,
    /// The tree `inodes` does not have it.
    Nowhere,
}

/// What is known of an inode.
#[derive(Clone, Debug)]
struct Known {
    home: Home,
    /// What it says of itself, once that was found.
    says: Option<Says>,
    /// Names that lead to it.
    names: u32,
    /// Entries in it, and how many are directories.
    entries: u64,
    directories: u32,
    is_orphan: bool,
}

/// What an inode says of itself.
#[derive(Clone, Debug)]
struct Says {
    kind: Kind,
    links: u32,
    entries: u64,
    size_bytes: u64,
    is_patched: bool,
    has_xattrs: bool,
    beside: Option<Spot>,
    locality: Locality,
    owes: bool,
}

impl Says {
    fn of(inode: &Inode) -> Self {
        let Inode { attributes, entries, is_patched, has_xattrs, beside, locality, owes, .. } = inode;
        Self {
            kind: attributes.kind,
            links: attributes.links,
            entries: *entries,
            size_bytes: attributes.size_bytes,
            is_patched: *is_patched,
            has_xattrs: *has_xattrs,
            beside: beside.clone(),
            locality: locality.clone(),
            owes: *owes,
        }
    }
}

impl Default for Known {
    fn default() -> Self {
        Self { home: Home::Nowhere, says: None, names: 0, entries: 0, directories: 0, is_orphan: false }
    }
}

/// A check under way.
struct Check<'a> {
    store: &'a Store,
    at: Snapshot,
    next: u64,
    known: BTreeMap<InodeNumber, Known>,
    /// What lies beside entries.
    starts: Vec<beside::Start>,
    findings: Vec<Finding>,
}

impl Check<'_> {
    fn find(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Goes through a tree; what is no key or value of it is a finding, and so is the end of what can be read.
    fn scan(
        &mut self,
        tree: &Tree,
        name: &'static str,
        mut one: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        for entry in self.at.range::<&[u8]>(tree, ..) {
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(error @ betree::Error::Corrupt { .. }) => {
                    self.find(Finding::Store(error.to_string()));
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            match one(self, &key, &value) {
                Err(Error::Corrupt(what)) => self.find(Finding::Malformed { tree: name, key, what }),
                result => result?,
            }
        }
        Ok(())
    }

    /// The tree `inodes`.
    fn inodes(&mut self) -> Result<()> {
        self.scan(&self.store.inodes.clone(), schema::INODES, |check, key, value| {
            let (number, rest) = schema::key_number(key)?;
            if !rest.is_empty() {
                return Err(schema::damaged("a key that is too long"));
            }
            let (home, says) = match Located::decode(check.store.schema, number, value)? {
                Located::In { parent, name } => (Home::Entry(parent, schema::cookie(check.store.seed, &name)), None),
                Located::Here(inode) => (Home::Side, Some(Says::of(&inode))),
            };
            check.known.insert(number, Known { home, says, ..Known::default() });
            if number.0 >= check.next {
                check.find(Finding::NumberNeverGiven { inode: number, next: check.next });
            }
            Ok(())
        })
    }
}

/// Checks the file system of a store as it is now. The first finding leads; others may follow from it.
pub(crate) fn check_store(store: &Store, next: u64) -> Result<Vec<Finding>> {
    let at = store.moment();
    let mut check = Check { store, at, next, known: BTreeMap::new(), starts: Vec::new(), findings: Vec::new() };
    check.inodes()?;
    check.names()?;
    check.contents()?;
    check.places()?;
    Ok(check.findings)
}

/// Checks a file system that is not mounted: the store with its checksums, then every rule of the format. Opening the store
/// recovers its log; nothing else is changed.
///
/// # Errors
///
/// Where there is no file system, and what the storage met other than damage.
pub fn check(storage: impl Storage + 'static, options: &VolumeOptions) -> Result<Vec<Finding>> {
    let of_store = options.store(&storage);
    let database = Database::open(storage, of_store)?;
    let mut findings: Vec<Finding> = database.verify()?.into_iter().map(Finding::Store).collect();
    let (store, next) = open_store(database, None)?;
    findings.extend(check_store(&store, next)?);
    Ok(findings)
}

impl Volume {
    /// Checks it while it is mounted, as it is at one moment. Inodes that are open without a name are no finding.
    ///
    /// # Errors
    ///
    /// What the storage met other than damage.
    pub fn check(&self) -> Result<Vec<Finding>> {
        let (store, next) = self.settled_store()?;
        check_store(store, next)
    }
}
