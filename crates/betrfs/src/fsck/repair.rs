//! Repairing what a check found, as far as it is sound: nothing is kept that contradicts the rules, and what has lost its name
//! gets one in `lost+found`.
//!
//! One round mends what it can of each finding by itself; counts that change with it are mended in the next.

use std::collections::BTreeMap;

use betree::{Batch, Database, Durability, Tree};
use storage::Storage;

use super::{Finding, check_store};
use crate::operations::{Error, InodeNumber, Kind, Permissions, Result, Timestamp};
use crate::patch::{self, PATCH};
use crate::rules::{BLOCK_BYTES, root_attributes};
use crate::schema::{self, Entry, GRANULE_BYTES, Inode, Locality, Located, Place, Schema, Spot};
use crate::volume::{Store, VolumeOptions, open_store};

/// Rounds after which what is left counts as beyond repair.
const ROUNDS: usize = 24;
const LOST_AND_FOUND: &[u8] = b"lost+found";
/// What a symbolic link leads to whose target is lost.
const LOST_TARGET: &[u8] = b"lost target";

/// What a repair found and left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repair {
    /// What was wrong at first.
    pub found: Vec<Finding>,
    /// What could not be mended.
    pub left: Vec<Finding>,
}

/// One round.
struct Round<'a> {
    store: &'a Store,
    batch: Batch,
    next: u64,
    now: Timestamp,
    lost_and_found: Option<InodeNumber>,
    /// Where what was made in it has what it holds.
    made: BTreeMap<InodeNumber, Locality>,
}

impl Round<'_> {
    fn tree(&self, name: &str) -> Option<&Tree> {
        let Store { system, entries, inodes, orphans, xattrs, data, .. } = self.store;
        let trees = [
            (schema::SYSTEM, system),
            (schema::ENTRIES, entries),
            (schema::INODES, inodes),
            (schema::ORPHANS, orphans),
            (schema::XATTRS, xattrs),
            (schema::DATA, data),
        ];
        trees.into_iter().find(|(one, _)| *one == name).map(|(_, tree)| &**tree)
    }

    /// Writes an inode to its place.
    fn put(&mut self, inode: &Inode) -> Result<()> {
        let (key, store) = (schema::number_key(inode.attributes.inode), self.store);
        match &inode.place {
            Place::Side => self.batch.insert(&store.inodes, key, schema::here(store.schema, inode)),
            Place::Entry { parent, name } => {
                self.batch.insert(&store.inodes, key, schema::in_entry(*parent, name));
                let entry = self.locality(*parent)?.entry_key(store.seed, name);
                let (kind, number) = (inode.attributes.kind, inode.attributes.inode);
                let by_default = Locality::named(store.schema, &entry, name.len(), kind, number);
                self.batch.insert(&store.entries, entry, schema::embedded(inode, &by_default));
            }
        }
        Ok(())
    }

    /// Where an inode has what it holds.
    fn locality(&self, number: InodeNumber) -> Result<Locality> {
        match self.store.schema {
            Schema::Inode => Ok(Locality::unnamed(self.store.schema, number)),
            Schema::Path => match self.made.get(&number) {
                Some(made) => Ok(made.clone()),
                None => Ok(self.store.inode(number)?.locality),
            },
        }
    }

    /// The first of the keys of a directory's entries, wherever they lie.
    fn entries_of(&self, number: InodeNumber) -> impl Iterator<Item = Result<Vec<u8>>> + use<> {
        let of = self.store.schema;
        let found = match of {
            Schema::Inode => self.store.entries.range(schema::all_of(number)),
            Schema::Path => self.store.entries.iter(),
        };
        // What lies beside them may be of inodes that moved elsewhere.
        schema::names(of, found).filter_map(move |entry| match entry {
            Ok((key, _)) => {
                schema::parse_entry_key(of, &key).is_ok_and(|(parent, ..)| parent == number).then_some(Ok(key))
            }
            Err(error) => Some(Err(error.into())),
        })
    }

    /// The keys that an inode has in the tree `data`, wherever they lie, and how long their values are.
    fn data_of(&self, number: InodeNumber) -> impl Iterator<Item = Result<(Vec<u8>, usize)>> + use<> {
        let of = self.store.schema;
        let found = match of {
            Schema::Inode => self.store.data.range(schema::all_of(number)),
            Schema::Path => self.store.data.iter(),
        };
        found.filter_map(move |entry| match entry {
            Ok((key, value)) => {
                let is_its = schema::parse_data_key(of, &key).is_ok_and(|(inode, ..)| inode == number);
                is_its.then_some(Ok((key, value.len())))
            }
            Err(error) => Some(Err(error.into())),
        })
    }

    fn change(&mut self, number: InodeNumber, change: impl FnOnce(&mut Inode)) -> Result<()> {
        let mut inode = self.store.inode(number)?;
        change(&mut inode);
        self.put(&inode)
    }

    /// An inode of which only the number is known.
    fn blank(&self, number: InodeNumber, kind: Kind) -> Inode {
        let mut attributes = root_attributes(self.now);
        (attributes.inode, attributes.kind) = (number, kind);
        attributes.permissions = Permissions::of_mode(0o600);
        if kind != Kind::Directory {
            attributes.links = 1;
        }
        Inode {
            attributes,
            entries: 0,
            is_patched: true,
            is_sparse: true,
            has_xattrs: true,
            beside: None,
            place: Place::Side,
            locality: Locality::unnamed(self.store.schema, number),
            owes: false,
        }
    }

    /// The directory for what has no name, made where there is none.
    fn lost_and_found(&mut self) -> Result<InodeNumber> {
        if let Some(number) = self.lost_and_found {
            return Ok(number);
        }
        let root = self.locality(InodeNumber::ROOT)?;
        let found = self.store.entry(&root, LOST_AND_FOUND)?.filter(|entry| entry.kind() == Kind::Directory);
        let number = match found {
            Some(entry) => entry.inode(),
            None => {
                let number = InodeNumber(self.next);
                self.next += 1;
                let mut directory = self.blank(number, Kind::Directory);
                directory.attributes.permissions = Permissions::of_mode(0o700);
                directory.place = Place::Entry { parent: InodeNumber::ROOT, name: LOST_AND_FOUND.into() };
                self.put(&directory)?;
                self.made.insert(number, directory.locality);
                number
            }
        };
        self.lost_and_found = Some(number);
        Ok(number)
    }

    /// Gives an inode a name in `lost+found`, and no other.
    fn attach(&mut self, mut inode: Inode) -> Result<()> {
        let parent = self.lost_and_found()?;
        let name = format!("#{}", inode.attributes.inode.0);
        if let Place::Entry { parent, name } = &inode.place {
            let key = self.locality(*parent)?.entry_key(self.store.seed, name);
            self.batch.remove(&self.store.entries, key);
        }
        inode.attributes.links = if inode.attributes.kind == Kind::Directory { 2 } else { 1 };
        inode.place = Place::Entry { parent, name: name.into_bytes().into() };
        self.put(&inode)
    }

    /// An inode whose entry is lost: what it held is kept, as a directory or a file.
    fn recover(&mut self, number: InodeNumber) -> Result<()> {
        for key in self.entries_of(number) {
            // What lies where nothing can is not kept.
            let Ok(locality) = Locality::of_entry(self.store.schema, &key?, number) else { continue };
            return self.attach(Inode { locality, ..self.blank(number, Kind::Directory) });
        }
        let mut file = self.blank(number, Kind::File);
        if let Some((spot, bytes)) = self.beside(number)? {
            (file.beside, file.attributes.size_bytes) = (Some(spot), bytes as u64);
        }
        for found in self.data_of(number) {
            let (key, length) = found?;
            let Ok(locality) = Locality::of_data(self.store.schema, &key, number) else { continue };
            if file.attributes.size_bytes == 0 {
                file.locality = locality;
            } else if file.locality != locality {
                continue;
            }
            let (granule, part) = schema::part_of(&key)?;
            let length = if part == 0 { length as u64 } else { u64::from(part) * BLOCK_BYTES };
            let end = granule.saturating_mul(GRANULE_BYTES).saturating_add(length);
            file.attributes.size_bytes = file.attributes.size_bytes.max(end);
        }
        if file.attributes.size_bytes == 0 {
            self.batch.remove(&self.store.inodes, schema::number_key(number));
            return Ok(());
        }
        self.attach(file)
    }

    /// What lies beside the entry of an inode that is not there, where that should be.
    fn beside(&self, number: InodeNumber) -> Result<Option<(Spot, usize)>> {
        let Some(value) = self.store.inodes.get(schema::number_key(number))? else { return Ok(None) };
        let Located::In { parent, name } = Located::decode(self.store.schema, number, &value)? else { return Ok(None) };
        // Below what is lost itself it is lost.
        let directory = match self.locality(parent) {
            Err(Error::Stale | Error::Corrupt(_)) => return Ok(None),
            directory => directory?,
        };
        let spot = directory.spot(self.store.seed, &name);
        let found = self.store.entries.get(schema::beside_key(&spot, number))?;
        Ok(found.map(|value| (spot, value.len())))
    }

    /// An entry and `inodes` say different things of an inode.
    fn dangling(&mut self, parent: InodeNumber, name: &[u8], number: InodeNumber) -> Result<()> {
        let is_unplaced = self.store.inodes.get(schema::number_key(number))?.is_none();
        let directory = self.locality(parent)?;
        match self.store.entry(&directory, name)? {
            Some(Entry::Embedded(inode)) if is_unplaced => self.put(&inode)?,
            _ => self.batch.remove(&self.store.entries, directory.entry_key(self.store.seed, name)),
        }
        Ok(())
    }

    fn unexpected(&mut self, number: InodeNumber, what: &str) -> Result<()> {
        let store = self.store;
        let mut inode = store.inode(number)?;
        let size = inode.attributes.size_bytes;
        match what {
            "a patch" => inode.is_patched = true,
            "a beginning in two places" => self.batch.remove(&store.data, inode.locality.data_key(0, 0)),
            "an extended attribute" => inode.has_xattrs = true,
            "data behind its end" => {
                let keys = inode.locality.data_from(size.div_ceil(GRANULE_BYTES));
                keys.into_iter().for_each(|keys| self.batch.remove_range(&store.data, keys));
            }
            "bytes behind its end" => {
                inode.is_patched = true;
                for block in size / BLOCK_BYTES..size.next_multiple_of(GRANULE_BYTES) / BLOCK_BYTES {
                    let begin = size.max(block * BLOCK_BYTES) - block * BLOCK_BYTES;
                    let blocks = GRANULE_BYTES / BLOCK_BYTES;
                    let key = inode.locality.data_key(block / blocks, 1 + (block % blocks) as u8);
                    let zeroes = patch::zeroes(begin as usize, (BLOCK_BYTES - begin) as usize);
                    self.batch.upsert(&store.data, key, PATCH, zeroes);
                }
            }
            _ => {
                let keys = inode.locality.data_from(0);
                keys.into_iter().for_each(|keys| self.batch.remove_range(&store.data, keys));
            }
        }
        self.put(&inode)
    }

    fn mend(&mut self, finding: &Finding) -> Result<()> {
        let store = self.store;
        match finding {
            Finding::Store(_) => {}
            Finding::Malformed { tree, key, .. } => {
                if let Some(tree) = self.tree(tree).cloned() {
                    self.batch.remove(&tree, key);
                }
            }
            Finding::NoRoot => {
                let mut root = self.blank(InodeNumber::ROOT, Kind::Directory);
                root.attributes.permissions = Permissions::of_mode(0o755);
                self.put(&root)?;
            }
            Finding::NumberNeverGiven { inode, .. } => self.next = self.next.max(inode.0.saturating_add(1)),
            Finding::BadName { parent, name } => {
                let key = self.locality(*parent)?.entry_key(store.seed, name);
                self.batch.remove(&store.entries, key);
            }
            Finding::Misplaced { key, .. } => self.batch.remove(&store.entries, key),
            Finding::OtherKind { inode, is, key, .. } => {
                self.batch.insert(&store.entries, key, schema::link(*inode, *is));
            }
            Finding::NoDirectory { parent, .. } => {
                let keys: Vec<_> = self.entries_of(*parent).collect::<Result<_>>()?;
                keys.into_iter().for_each(|key| self.batch.remove(&store.entries, key));
            }
            Finding::Dangling { parent, name, inode } => self.dangling(*parent, name, *inode)?,
            Finding::Lost { inode } => self.recover(*inode)?,
            Finding::Links { inode, has: 0, .. } => {
                let inode = store.inode(*inode)?;
                self.attach(inode)?;
            }
            Finding::Links { inode, has, .. } => self.change(*inode, |inode| inode.attributes.links = *has)?,
            Finding::Entries { inode, has, .. } => self.change(*inode, |inode| inode.entries = *has)?,
            Finding::Unreachable { inode } => {
                let inode = store.inode(*inode)?;
                self.attach(inode)?;
            }
            Finding::NoOrphan { inode } => self.batch.insert(&store.orphans, schema::number_key(*inode), []),
            Finding::NotOrphaned { inode } => self.batch.remove(&store.orphans, schema::number_key(*inode)),
            Finding::WithoutInode { inode, tree } => match (self.tree(tree).cloned(), store.schema) {
                (Some(_), Schema::Path) if *tree == schema::DATA => {
                    let keys: Vec<_> = self.data_of(*inode).collect::<Result<_>>()?;
                    keys.into_iter().for_each(|(key, _)| self.batch.remove(&store.data, key));
                }
                (Some(tree), _) => self.batch.remove_range(&tree, schema::all_of(*inode)),
                (None, _) => {}
            },
            Finding::Elsewhere { tree, key, .. } => {
                if let Some(tree) = self.tree(tree).cloned() {
                    self.batch.remove(&tree, key);
                }
            }
            Finding::NotListed { inode } => self.batch.insert(&store.system, schema::debt_key(*inode), []),
            Finding::ListedForNothing { inode } => self.batch.remove(&store.system, schema::debt_key(*inode)),
            Finding::BesideNothing { key, .. } => self.batch.remove(&store.entries, key),
            Finding::NotBeside { inode } => self.change(*inode, |inode| inode.beside = None)?,
            Finding::Unexpected { inode, what } => self.unexpected(*inode, what)?,
            Finding::NoTarget { inode } => {
                self.change(*inode, |inode| {
                    (inode.attributes.size_bytes, inode.beside) = (LOST_TARGET.len() as u64, None);
                })?;
                let key = store.inode(*inode)?.locality.data_key(0, 0);
                self.batch.insert(&store.data, key, LOST_TARGET);
            }
        }
        Ok(())
    }
}

/// Mends a store's file system, round after round.
pub(crate) fn repair_store(store: &Store, mut next: u64, now: Timestamp) -> Result<Repair> {
    let found = check_store(store, next)?;
    let mut left = found.clone();
    for _ in 0..ROUNDS {
        if left.is_empty() {
            break;
        }
        let mut round = Round { store, batch: Batch::new(), next, now, lost_and_found: None, made: BTreeMap::new() };
        for finding in &left {
            match round.mend(finding) {
                // It hangs on something else, which is mended first.
                Ok(()) | Err(Error::Stale | Error::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        next = round.next;
        round.batch.insert(&store.system, schema::NEXT_KEY, next.to_le_bytes());
        store.database.commit(&round.batch, Durability::Sync)?;
        left = check_store(store, next)?;
    }
    Ok(Repair { found, left })
}

/// Mends a file system that is not mounted. Damage of the store itself is not mended here.
///
/// # Errors
///
/// Where there is no file system, and what the storage met.
pub fn repair(storage: impl Storage + 'static, options: &VolumeOptions, now: Timestamp) -> Result<Repair> {
    let of_store = options.store(&storage);
    let database = Database::open(storage, of_store)?;
    let (store, next) = open_store(database, None)?;
    repair_store(&store, next, now)
}
