//! Copies of whole trees, which are seen when all of them is there.
//!
//! A copy is made below a directory without a name, which is listed as an orphan as removed trees are: whatever ends in between leaves
//! something to be taken apart. Its last batch takes it off that list and gives it its name. What is copied is read at the moment of the
//! call. Each file's granules are values of their own again; patches on them are put on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use betree::Snapshot;

use super::rekey::Budget;
use super::transaction::Transaction;
use super::{Store, Volume};
use crate::acl;
use crate::mutant::{Mutant, mutated};
use crate::operations::{Attributes, Caller, Cookie, Error, InodeNumber, Kind, Name, Result, Timestamp};
use crate::rules;
use crate::schema::{self, Entry, Inode, Locality, Place, Schema};

/// Entries of a batch, at most.
const STEP_ENTRIES: usize = 100;
/// Directories that are fetched together, in parts of about so many entries, and of so many parts each: what comes behind is read ahead by
/// who reads it.
const TOGETHER: usize = 16;
const PART_ENTRIES: u64 = 32;
const PARTS_MAX: u64 = 4;
/// What a key takes in a batch, about.
const KEY_BYTES: usize = 64;
/// Inodes with several names that a tree may have: where the copy of each is must be known until the end.
const LINKED_MAX: usize = 1 << 20;

/// What is copied, and where to.
pub(crate) type Names<'a> = (InodeNumber, Name<'a>);

/// A copy under way.
pub(crate) struct Cloning<'a> {
    volume: &'a Volume,
    caller: &'a Caller<'a>,
    /// The moment that it is of.
    at: Snapshot,
    original: Inode,
    /// Its copy.
    top: InodeNumber,
    /// Directories in it, whose links count them when it gets its name.
    directories: u32,
    /// The one whose entries are being copied, and those that come then.
    under_way: Option<Directory>,
    pending: Vec<Directory>,
    /// Copies of inodes with several names.
    linked: BTreeMap<InodeNumber, InodeNumber>,
}

/// A directory whose entries are to be copied.
struct Directory {
    original: Locality,
    copy: InodeNumber,
    modified: Timestamp,
    /// Parts that are to be fetched; none where they have been.
    parts: u64,
    /// The last entry that was copied.
    last: Option<Vec<u8>>,
}

impl Directory {
    fn new(original: &Inode, copy: InodeNumber) -> Self {
        let parts = (original.entries / PART_ENTRIES + 1).min(PARTS_MAX);
        Self { original: original.locality.clone(), copy, modified: original.attributes.modified, parts, last: None }
    }
}

impl Volume {
    pub(super) fn copy_tree(&self, caller: &Caller<'_>, from: Names<'_>, to: Names<'_>) -> Result<Attributes> {
        let mut cloning = Cloning::begin(self, caller, from, to)?;
        while cloning.step()? {}
        cloning.finish(to)
    }

    /// Whether a directory without a name is a copy that is being made.
    pub(super) fn is_building(&self, number: InodeNumber) -> bool {
        self.building().contains(&number) && !mutated(Mutant::CloneTakenApart)
    }

    fn has_list(&self, at: &Snapshot, inode: &Inode) -> Result<bool> {
        let key = schema::xattr_key(inode.attributes.inode, acl::ACCESS);
        Ok(inode.has_xattrs && at.contains(&self.store.xattrs, key)?)
    }

    /// Whether a caller finds what is in a directory by its path.
    fn may_reach(&self, caller: &Caller<'_>, at: &Snapshot, directory: &Inode) -> Result<()> {
        let (mut directory, mut seen) = (directory.clone(), BTreeSet::new());
        loop {
            if !seen.insert(directory.attributes.inode) {
                return Err(schema::damaged("a directory that is below itself"));
            }
            rules::may_search(caller, &directory.attributes, self.has_list(at, &directory)?)?;
            let (this, above) = (directory.attributes.inode, Store::parent_of(&directory));
            if this == above {
                return Ok(());
            }
            directory = self.store.inode_at(at, above)?;
        }
    }

    /// Refuses a place for a copy.
    fn may_place(&self, caller: &Caller<'_>, at: &Snapshot, (parent, name): Names<'_>) -> Result<()> {
        let above = self.store.inode_at(at, parent)?;
        if above.attributes.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        rules::may_add(caller, &above.attributes, self.has_list(at, &above)?)?;
        let key = above.locality.entry_key(self.store.seed, name.bytes());
        if at.contains(&self.store.entries, key)? {
            return Err(Error::Exists);
        }
        if above.attributes.links == 0 { Err(Error::NotFound) } else { Ok(()) }
    }
}

impl<'a> Cloning<'a> {
    /// Looks whether it may be, and makes the copy's top without a name.
    pub fn begin(volume: &'a Volume, caller: &'a Caller<'a>, from: Names<'_>, to: Names<'_>) -> Result<Self> {
        if volume.store.is_past() {
            return Err(Error::ReadOnly);
        }
        if from.1.is_dots() || to.1.is_dots() {
            return Err(Error::Invalid);
        }
        let at = volume.store.moment();
        let above = volume.store.inode_at(&at, from.0)?;
        if above.attributes.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        let key = above.locality.entry_key(volume.store.seed, from.1.bytes());
        let entry = at.get(&volume.store.entries, &key)?.ok_or(Error::NotFound)?;
        let original = inode_of(&volume.store, &at, &key, &entry)?;
        volume.may_reach(caller, &at, &above)?;
        volume.may_place(caller, &at, to)?;
        let top = volume.change(Some(0), |transaction| {
            let number = transaction.exclusive.numbers.take(to.0);
            let place = Place::Entry { parent: to.0, name: to.1.bytes().into() };
            // It lies where it is going to be.
            let locality = transaction.wanted(&place, original.attributes.kind, number)?;
            let mut copy = copy_of(caller, &original, Place::Side, locality, number)?;
            copy.attributes.links = 0;
            volume.building().insert(number);
            transaction.copy_xattrs(caller, &at, &original, &mut copy)?;
            if !mutated(Mutant::CloneNotListed) {
                transaction.batch.insert(&volume.store.orphans, schema::number_key(number), []);
            }
            transaction.add(copy);
            Ok(number)
        })?;
        let mut cloning = Self {
            volume,
            caller,
            at,
            original: original.clone(),
            top,
            directories: 0,
            under_way: None,
            pending: Vec::new(),
            linked: BTreeMap::new(),
        };
        match original.attributes.kind {
            Kind::Directory => cloning.pending.push(Directory::new(&original, top)),
            _ => cloning.copy_rest(&original, top, 0)?,
        }
        Ok(cloning)
    }

    /// The directory to go on with. Its entries are fetched with those of the ones after it, by many requests at the device.
    fn next(&mut self) -> Option<Directory> {
        if self.pending.last()?.parts > 0 {
            let first = self.pending.len().saturating_sub(TOGETHER);
            let mut ranges = Vec::new();
            for directory in self.pending.get_mut(first..).into_iter().flatten() {
                let parts = std::mem::take(&mut directory.parts);
                // Cookies are hashes: as many in each part.
                let begins = (0..parts).map(|part| Cookie(u64::MAX / parts * part));
                ranges.extend(begins.flat_map(|begin| directory.original.entries_after(begin)));
            }
            // What cannot be read is met when it is copied.
            let _ = self.at.read_ahead_ranges(&self.volume.store.entries, &ranges);
        }
        self.pending.pop()
    }

    /// Copies some entries of one directory; whether there are more.
    pub fn step(&mut self) -> Result<bool> {
        let Some(mut under_way) = self.under_way.take().or_else(|| self.next()) else { return Ok(false) };
        let at = match mutated(Mutant::CloneOfNow) {
            true => self.volume.store.moment(),
            false => self.at.clone(),
        };
        let last = std::mem::take(&mut under_way.last);
        let mut found = self.volume.store.names_behind(&at, &under_way.original, last.as_deref()).take(STEP_ENTRIES);
        let mut bytes_left = self.volume.options.write_bytes_max / 2;
        let mut large = None;
        self.volume.change(Some(bytes_left), |transaction| {
            let copy = under_way.copy;
            while bytes_left > 0 && large.is_none() {
                let Some(entry) = found.next() else { break };
                let (key, value) = entry?;
                let original = inode_of(&self.volume.store, &at, &key, &value)?;
                let name = schema::parse_entry_key(self.volume.store.schema, &key)?.2;
                let made = transaction.copy_entry(self.caller, &at, &mut self.linked, &original, copy, name)?;
                let of_top = original.attributes.kind == Kind::Directory && copy == self.top;
                self.directories += u32::from(of_top);
                match made {
                    Some(made) if original.attributes.kind == Kind::Directory => {
                        self.pending.push(Directory::new(&original, made));
                    }
                    Some(made) => {
                        let next = transaction.copy_data(&at, &original, made, 0, &mut bytes_left)?;
                        large = next.map(|granule| (original, made, granule));
                    }
                    None => {}
                }
                under_way.last = Some(key);
            }
            if under_way.last.is_none() {
                // Copying what is in it was no change of it.
                transaction.inode(copy)?.attributes.modified = under_way.modified;
            }
            Ok(())
        })?;
        if let Some((original, made, granule)) = large {
            self.copy_rest(&original, made, granule)?;
        }
        self.under_way = under_way.last.is_some().then_some(under_way);
        Ok(self.under_way.is_some() || !self.pending.is_empty())
    }

    /// Copies what an inode holds from a granule on.
    fn copy_rest(&self, original: &Inode, copy: InodeNumber, granule: u64) -> Result<()> {
        let mut next = Some(granule);
        while let Some(granule) = next {
            let mut bytes_left = self.volume.options.write_bytes_max / 2;
            next = self.volume.change(Some(bytes_left), |transaction| {
                transaction.copy_data(&self.at, original, copy, granule, &mut bytes_left)
            })?;
        }
        Ok(())
    }

    /// Gives it its name.
    pub fn finish(self, (parent, name): Names<'_>) -> Result<Attributes> {
        self.volume.settle()?;
        let (volume, caller) = (self.volume, self.caller);
        volume.change(Some(0), |transaction| {
            volume.may_place(caller, &volume.store.moment(), (parent, name))?;
            let is_directory = self.original.attributes.kind == Kind::Directory;
            transaction.count(caller, parent, 1, i64::from(is_directory))?;
            let place = Place::Entry { parent, name: name.bytes().into() };
            transaction.place(self.top, place, &mut Budget::none())?;
            let inode = transaction.inode(self.top)?;
            inode.attributes.links = if is_directory { 2 + self.directories } else { 1 };
            inode.attributes.changed = caller.now;
            let attributes = inode.attributes;
            transaction.batch.remove(&volume.store.orphans, schema::number_key(self.top));
            Ok(attributes)
        })
    }
}

impl Drop for Cloning<'_> {
    fn drop(&mut self) {
        self.volume.building().remove(&self.top);
        // Where it got no name there is something to be taken apart; files have no entries, and go at once or with the next mount.
        self.volume.may_reap.store(true, Ordering::Release);
        if self.original.attributes.kind != Kind::Directory {
            let _ = self.volume.remove_if_unused(self.top);
        }
    }
}

/// The inode of an entry at a moment.
fn inode_of(store: &Store, at: &Snapshot, key: &[u8], value: &[u8]) -> Result<Inode> {
    match Entry::decode(store.schema, key, value)? {
        Entry::Embedded(inode) => Ok(inode),
        Entry::Link { inode, .. } => store.inode_at(at, inode),
    }
}

/// A copy of an inode without what it holds.
fn copy_of(
    caller: &Caller<'_>,
    original: &Inode,
    place: Place,
    locality: Locality,
    number: InodeNumber,
) -> Result<Inode> {
    let attributes = rules::cloned_attributes(caller, &original.attributes, number)?;
    let nothing = Inode { entries: 0, has_xattrs: false, beside: None, owes: false, ..original.clone() };
    Ok(Inode { attributes, place, locality, ..nothing })
}

impl Transaction<'_> {
    /// Copies an inode with a name in a directory; its number, where it was not copied for another name already.
    fn copy_entry(
        &mut self,
        caller: &Caller<'_>,
        at: &Snapshot,
        linked: &mut BTreeMap<InodeNumber, InodeNumber>,
        original: &Inode,
        parent: InodeNumber,
        name: &[u8],
    ) -> Result<Option<InodeNumber>> {
        let is_directory = original.attributes.kind == Kind::Directory;
        // Links of a directory without a name are 0, whatever is in it.
        let counts = is_directory && self.inode(parent)?.attributes.links > 0;
        self.count(caller, parent, 1, i64::from(counts))?;
        let is_linked = !is_directory && original.attributes.links > 1;
        if let Some(copy) = linked.get(&original.attributes.inode).filter(|_| is_linked).copied() {
            self.move_aside(copy, &mut Budget::none())?;
            self.enter(parent, Name::new(name)?, copy, &mut Budget::none())?;
            self.inode(copy)?.attributes.links += 1;
            return Ok(None);
        }
        let number = self.exclusive.numbers.take(parent);
        let place = match self.store().schema {
            // What another name would move may be in this batch.
            Schema::Path if is_linked => Place::Side,
            _ => Place::Entry { parent, name: name.into() },
        };
        let locality = self.wanted(&place, original.attributes.kind, number)?;
        let mut copy = copy_of(caller, original, place, locality, number)?;
        self.copy_xattrs(caller, at, original, &mut copy)?;
        self.add(copy);
        if self.inode(number)?.place == Place::Side {
            self.enter(parent, Name::new(name)?, number, &mut Budget::none())?;
        }
        if is_linked && !mutated(Mutant::CloneSplitsLinks) {
            if linked.len() >= LINKED_MAX {
                return Err(Error::TooManyLinks);
            }
            linked.insert(original.attributes.inode, number);
        }
        Ok(Some(number))
    }

    fn copy_xattrs(&mut self, caller: &Caller<'_>, at: &Snapshot, original: &Inode, copy: &mut Inode) -> Result<()> {
        if !original.has_xattrs {
            return Ok(());
        }
        let store = self.store();
        for found in at.range(&store.xattrs, schema::all_of(original.attributes.inode)) {
            let (key, value) = found?;
            let name = schema::key_number(&key)?.1;
            if rules::clones_xattr(caller, name) {
                copy.has_xattrs = true;
                self.batch.insert(&store.xattrs, schema::xattr_key(copy.attributes.inode, name), value);
            }
        }
        Ok(())
    }

    /// Copies what an inode holds from a granule on, as long as bytes are left; the granule to go on with, if there is more.
    fn copy_data(
        &mut self,
        at: &Snapshot,
        original: &Inode,
        copy: InodeNumber,
        granule: u64,
        bytes_left: &mut usize,
    ) -> Result<Option<u64>> {
        if !matches!(original.attributes.kind, Kind::File | Kind::Symlink) {
            return Ok(None);
        }
        let (data, locality) = (&self.store().data, self.inode(copy)?.locality.clone());
        let mut next = granule;
        loop {
            let Some(found) = self.volume.granule_at(at, original, next)? else { return Ok(None) };
            if *bytes_left == 0 {
                return Ok(Some(found.index));
            }
            next = found.index + 1;
            for (part, value) in found.parts {
                *bytes_left = bytes_left.saturating_sub(value.len() + KEY_BYTES);
                if (found.index, part) == (0, 0) {
                    self.put_start(copy, &value)?;
                } else {
                    self.batch.insert(data, locality.data_key(found.index, part), value);
                }
            }
        }
    }
}
