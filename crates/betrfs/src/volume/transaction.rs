//! One operation's changes: one batch, which happens whole or not at all, and then the inodes in memory.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use betree::Batch;

use super::recent::Touched;
use super::rekey::Budget;
use super::store::Store;
use super::{Exclusive, Volume};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Caller, Error, InodeNumber, Kind, Name, Result, Timestamp};
use crate::rules;
use crate::schema::{self, Entry, Inode, Locality, Place, Schema};

/// An inode before and after.
#[derive(Debug)]
struct Change {
    before: Option<Place>,
    /// `None`: it is gone.
    after: Option<Inode>,
}

/// An operation under way. Nothing has happened before [`commit`](Self::commit).
pub(super) struct Transaction<'a> {
    pub volume: &'a Volume,
    pub exclusive: &'a mut Exclusive,
    pub batch: Batch,
    /// What has a user more when it has happened.
    pub opens: Option<InodeNumber>,
    changes: BTreeMap<InodeNumber, Change>,
    /// Something is to be moved that was not before.
    owes: bool,
    /// What happens to granules that may be in memory.
    pub touched: Vec<Touched>,
}

impl<'a> Transaction<'a> {
    pub fn new(volume: &'a Volume, exclusive: &'a mut Exclusive) -> Self {
        let (batch, changes) = (Batch::new(), BTreeMap::new());
        Self { volume, exclusive, batch, opens: None, changes, owes: false, touched: Vec::new() }
    }

    pub fn store(&self) -> &'a Store {
        &self.volume.store
    }

    /// An inode, to be changed.
    pub fn inode(&mut self, number: InodeNumber) -> Result<&mut Inode> {
        if !self.changes.contains_key(&number) {
            let inode = self.volume.inode(number)?;
            self.changes.insert(number, Change { before: Some(inode.place.clone()), after: Some(inode) });
        }
        self.changes.get_mut(&number).and_then(|change| change.after.as_mut()).ok_or(Error::Stale)
    }

    /// Whether nobody knows of an inode yet.
    pub fn is_new(&self, number: InodeNumber) -> bool {
        self.changes.get(&number).is_some_and(|change| change.before.is_none())
    }

    /// A directory, to be changed.
    pub fn directory(&mut self, number: InodeNumber) -> Result<&mut Inode> {
        let inode = self.inode(number)?;
        if inode.attributes.kind == Kind::Directory { Ok(inode) } else { Err(Error::NotDirectory) }
    }

    /// An inode that was just read, to be changed.
    pub fn adopt(&mut self, inode: Inode) {
        let change = || Change { before: Some(inode.place.clone()), after: Some(inode.clone()) };
        self.changes.entry(inode.attributes.inode).or_insert_with(change);
    }

    /// A new inode.
    pub fn add(&mut self, inode: Inode) {
        self.changes.insert(inode.attributes.inode, Change { before: None, after: Some(inode) });
    }

    /// Where an inode has what it holds when this has happened.
    pub fn locality(&self, number: InodeNumber) -> Result<Locality> {
        match (self.volume.store.schema, self.changes.get(&number)) {
            (Schema::Inode, _) => Ok(Locality::unnamed(Schema::Inode, number)),
            (Schema::Path, Some(change)) => Ok(change.after.as_ref().ok_or(Error::Stale)?.locality.clone()),
            (Schema::Path, None) => Ok(self.volume.inode(number)?.locality),
        }
    }

    /// The entries of a directory changed by so many, and by so many directories.
    pub fn count(&mut self, caller: &Caller<'_>, parent: InodeNumber, entries: i64, directories: i64) -> Result<()> {
        if entries > 0 && mutated(Mutant::CountForgotten) {
            return Ok(());
        }
        let parent = self.directory(parent)?;
        parent.entries =
            parent.entries.checked_add_signed(entries).ok_or_else(|| schema::damaged("a count of entries"))?;
        let links = i64::from(parent.attributes.links) + directories;
        parent.attributes.links = u32::try_from(links).map_err(|_| schema::damaged("a count of links"))?;
        (parent.attributes.modified, parent.attributes.changed) = (caller.now, caller.now);
        Ok(())
    }

    /// Gives an inode a name. One that lies in an entry moves into this one; others are named by number.
    pub fn enter(
        &mut self,
        parent: InodeNumber,
        name: Name<'_>,
        number: InodeNumber,
        budget: &mut Budget,
    ) -> Result<()> {
        let inode = self.inode(number)?;
        let kind = inode.attributes.kind;
        match inode.place {
            Place::Entry { .. } => self.place(number, Place::Entry { parent, name: name.bytes().into() }, budget)?,
            Place::Side => {
                let key = self.locality(parent)?.entry_key(self.volume.store.seed, name.bytes());
                self.batch.insert(&self.volume.store.entries, key, schema::link(number, kind));
            }
        }
        Ok(())
    }

    /// Takes a name away. An inode that lies in its entry must get another place before the end.
    pub fn leave(&mut self, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        let key = self.locality(parent)?.entry_key(self.volume.store.seed, name.bytes());
        self.batch.remove(&self.volume.store.entries, key);
        Ok(())
    }

    /// Brings an inode into the side table, whose name stays where it is.
    pub fn move_aside(&mut self, number: InodeNumber, budget: &mut Budget) -> Result<()> {
        let inode = self.inode(number)?;
        let kind = inode.attributes.kind;
        if mutated(Mutant::LinkMovesNothing) {
            return Ok(());
        }
        if let Place::Entry { parent, name } = inode.place.clone() {
            self.place(number, Place::Side, budget)?;
            let key = self.locality(parent)?.entry_key(self.volume.store.seed, &name);
            self.batch.insert(&self.volume.store.entries, key, schema::link(number, kind));
        }
        Ok(())
    }

    /// An inode has one name less; without any it becomes an orphan while it is open, and goes where it is not.
    pub fn drop_link(&mut self, caller: &Caller<'_>, number: InodeNumber) -> Result<()> {
        let volume = self.volume;
        let inode = self.inode(number)?;
        let attributes = &mut inode.attributes;
        attributes.links = match attributes.kind {
            Kind::Directory => 0,
            _ => attributes.links.checked_sub(1).ok_or_else(|| schema::damaged("a name of an inode without links"))?,
        };
        attributes.changed = caller.now;
        if attributes.links > 0 {
            return Ok(());
        }
        if volume.is_open(number) {
            self.place(number, Place::Side, &mut Budget::none())?;
            if !mutated(Mutant::OrphanNotRecorded) {
                self.batch.insert(&volume.store.orphans, schema::number_key(number), []);
            }
            return Ok(());
        }
        self.purge(number)
    }

    /// A file was read, which may be gone by now.
    pub fn note_access(&mut self, number: InodeNumber, now: Timestamp) -> Result<()> {
        match self.inode(number) {
            // Another read may have noted it meanwhile.
            Ok(inode) if rules::notes_access(&inode.attributes, now) => inode.attributes.accessed = now,
            Ok(_) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Removes everything of an inode but its names.
    pub fn purge(&mut self, number: InodeNumber) -> Result<()> {
        let inode = self.inode(number)?.clone();
        self.remove_data(&inode);
        let store = &self.volume.store;
        if inode.has_xattrs && !mutated(Mutant::XattrsLeak) {
            self.batch.remove_range(&store.xattrs, schema::all_of(number));
        }
        self.batch.remove(&store.inodes, schema::number_key(number));
        if inode.owes {
            self.batch.remove(&store.system, schema::debt_key(number));
        }
        if let Some(change) = self.changes.get_mut(&number) {
            change.after = None;
        }
        Ok(())
    }

    /// What a name leads to, with its inode.
    pub fn find(&mut self, parent: InodeNumber, name: Name<'_>) -> Result<Option<InodeNumber>> {
        let directory = self.directory(parent)?;
        if directory.entries == 0 {
            return Ok(None);
        }
        let locality = directory.locality.clone();
        let entry = self.volume.store.entry(&locality, name.bytes())?;
        if let Some(Entry::Embedded(inode)) = &entry {
            self.volume.remember(inode.clone());
        }
        Ok(entry.map(|entry| entry.inode()))
    }

    /// Lists what lies elsewhere than its path says, and no more what does not.
    fn note_debts(&mut self) -> Result<()> {
        let store = self.store();
        if store.schema == Schema::Inode {
            return Ok(());
        }
        let mut owing = Vec::new();
        for (number, change) in &self.changes {
            let Some(inode) = &change.after else { continue };
            let is_elsewhere = self.wanted(&inode.place, inode.attributes.kind, *number)? != inode.locality;
            let owes = is_elsewhere && inode.attributes.links > 0;
            if owes != inode.owes {
                owing.push((*number, owes));
            }
        }
        for (number, owes) in owing {
            self.inode(number)?.owes = owes;
            let key = schema::debt_key(number);
            if owes && mutated(Mutant::DebtForgotten) {
                continue;
            }
            if owes {
                self.batch.insert(&store.system, key, []);
                self.owes = true;
            } else if !mutated(Mutant::DebtStays) {
                self.batch.remove(&store.system, key);
            }
        }
        Ok(())
    }

    /// Carries it out.
    pub fn commit(mut self) -> Result<()> {
        self.note_debts()?;
        let store = &self.volume.store;
        let mut later = Batch::new();
        if mutated(Mutant::DataBeforeSize) {
            store.commit(&std::mem::take(&mut self.batch))?;
        } else if mutated(Mutant::SizeBeforeData) {
            later = std::mem::take(&mut self.batch);
        }
        for (number, change) in &self.changes {
            let Some(inode) = &change.after else { continue };
            let entry = match &inode.place {
                Place::Entry { parent, name } => {
                    let (kind, key) = (inode.attributes.kind, self.locality(*parent)?.entry_key(store.seed, name));
                    let by_default = Locality::named(store.schema, &key, name.len(), kind, *number);
                    Some((key, schema::embedded(inode, &by_default)))
                }
                Place::Side => None,
            };
            let counts_later = inode.attributes.kind == Kind::Directory && mutated(Mutant::CountOutsideOfBatch);
            let batch = if counts_later { &mut later } else { &mut self.batch };
            match (&inode.place, entry) {
                (Place::Entry { parent, name }, Some((key, value))) => {
                    batch.insert(&store.entries, key, value);
                    let forgets = change.before.is_some() && mutated(Mutant::PlaceNotMoved);
                    if change.before.as_ref() != Some(&inode.place) && !forgets {
                        let value = schema::in_entry(*parent, name);
                        batch.insert(&store.inodes, schema::number_key(*number), value);
                    }
                }
                _ => batch.insert(&store.inodes, schema::number_key(*number), schema::here(store.schema, inode)),
            }
        }
        if let Some(next) = self.exclusive.numbers.unsaved().filter(|_| !mutated(Mutant::NumberReused)) {
            self.batch.insert(&store.system, schema::NEXT_KEY, next.to_le_bytes());
        }
        if mutated(Mutant::ChangeSeenEarly) {
            let changed = self.changes.values().filter_map(|change| change.after.clone());
            changed.for_each(|inode| self.volume.remember(inode));
        }
        store.commit(&self.batch)?;
        if !later.is_empty() {
            store.commit(&later)?;
        }
        if self.owes {
            self.volume.may_move.store(true, Ordering::Release);
        }
        self.exclusive.numbers.saved();
        self.exclusive.changes += 1;
        if !self.touched.is_empty() {
            self.volume.recent().note(self.touched, self.exclusive.changes);
        }
        if let Some(number) = self.opens {
            self.volume.count_open(number);
        }
        let mut cache = self.volume.cache();
        for (number, change) in self.changes {
            match change.after {
                Some(inode) => cache.put(inode),
                None if mutated(Mutant::StaleCache) => {}
                None => cache.remove(number),
            }
        }
        Ok(())
    }
}
