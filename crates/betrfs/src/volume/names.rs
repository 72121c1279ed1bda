//! Calls that make, take away and change names.

use std::collections::BTreeSet;

use super::transaction::Transaction;
use super::{Store, Volume};
use crate::acl;
use crate::mutant::{Mutant, mutated};
use crate::operations::{Attributes, Caller, Error, InodeNumber, Kind, Name, Permissions, RenameFlags, Result};
use crate::rules::{self, LINKS_MAX, NewNode};
use crate::schema::{self, Inode, Place};

impl Transaction<'_> {
    /// Refuses a name that is taken, and a directory that was removed.
    fn may_add(&mut self, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.directory(parent)?;
        if name.is_dots() || self.find(parent, name)?.is_some() {
            return Err(Error::Exists);
        }
        if self.inode(parent)?.attributes.links == 0 { Err(Error::NotFound) } else { Ok(()) }
    }

    /// A new inode at a place, with what it gets from its directory.
    fn new_node(&mut self, caller: &Caller<'_>, parent: InodeNumber, new: NewNode, place: Place) -> Result<&mut Inode> {
        let store = self.store();
        let above = self.directory(parent)?.clone();
        let number = self.exclusive.numbers.take(parent);
        let default = match above.has_xattrs && new.kind != Kind::Symlink {
            true => store.xattrs.get(schema::xattr_key(parent, acl::DEFAULT))?,
            false => None,
        };
        let locality = self.wanted(&place, new.kind, number)?;
        let mut attributes = rules::new_attributes(caller, &above.attributes, number, new, default.is_none());
        let mut has_xattrs = false;
        if let Some(list) = default {
            for (name, value) in acl::inherit(&list, &mut attributes)? {
                self.batch.insert(&store.xattrs, schema::xattr_key(number, &name), value);
                has_xattrs = true;
            }
        }
        self.add(Inode {
            attributes,
            entries: 0,
            is_patched: false,
            is_sparse: false,
            has_xattrs,
            beside: None,
            place,
            locality,
            owes: false,
        });
        self.inode(number)
    }

    /// Whether a directory is another or lies below it.
    fn is_below(&mut self, number: InodeNumber, above: InodeNumber) -> Result<bool> {
        let (mut inode, mut seen) = (self.volume.inode(number)?, BTreeSet::new());
        loop {
            let this = inode.attributes.inode;
            if !seen.insert(this) {
                return Err(schema::damaged("a directory that is below itself"));
            }
            if this == above {
                return Ok(true);
            }
            let parent = Store::parent_of(&inode);
            if parent == this {
                return Ok(false);
            }
            inode = self.volume.inode(parent)?;
        }
    }
}

/// By how much a name of this kind changes the count of its parent's directories.
fn directories(kind: Kind) -> i64 {
    i64::from(kind == Kind::Directory)
}

impl Volume {
    /// Makes an inode with a name; `target` is what a symbolic link holds. `opens`: it has a user from the beginning.
    pub(super) fn make(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        new: NewNode,
        target: &[u8],
        opens: bool,
    ) -> Result<Attributes> {
        self.change(Some(target.len()), |transaction| {
            transaction.may_add(parent, name)?;
            if new.kind == Kind::Directory && transaction.inode(parent)?.attributes.links >= LINKS_MAX {
                return Err(Error::TooManyLinks);
            }
            let place = Place::Entry { parent, name: name.bytes().into() };
            let attributes = transaction.new_node(caller, parent, new, place)?.attributes;
            transaction.count(caller, parent, 1, directories(new.kind))?;
            if new.kind == Kind::Symlink {
                transaction.put_start(attributes.inode, target)?;
            }
            // Before anybody else can remove it.
            transaction.opens = opens.then_some(attributes.inode);
            Ok(attributes)
        })
    }

    pub(super) fn make_unnamed(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        permissions: Permissions,
    ) -> Result<Attributes> {
        let new = NewNode { kind: Kind::File, permissions, device: 0, size_bytes: 0 };
        self.change(Some(0), |transaction| {
            let inode = transaction.new_node(caller, parent, new, Place::Side)?;
            inode.attributes.links = 0;
            let attributes = inode.attributes;
            transaction.batch.insert(&self.store.orphans, schema::number_key(attributes.inode), []);
            transaction.opens = Some(attributes.inode);
            Ok(attributes)
        })
    }

    pub(super) fn add_link(
        &self,
        caller: &Caller<'_>,
        number: InodeNumber,
        parent: InodeNumber,
        name: Name<'_>,
    ) -> Result<Attributes> {
        self.change(Some(0), |transaction| {
            let inode = transaction.inode(number)?;
            if inode.attributes.kind == Kind::Directory {
                return Err(Error::NotPermitted);
            }
            let links = inode.attributes.links;
            transaction.may_add(parent, name)?;
            if links >= LINKS_MAX {
                return Err(Error::TooManyLinks);
            }
            if links == 0 && !mutated(Mutant::LinkedOrphanStays) {
                transaction.batch.remove(&self.store.orphans, schema::number_key(number));
            }
            let mut budget = self.budget();
            transaction.move_aside(number, &mut budget)?;
            transaction.enter(parent, name, number, &mut budget)?;
            transaction.count(caller, parent, 1, 0)?;
            let attributes = &mut transaction.inode(number)?.attributes;
            attributes.links += 1;
            attributes.changed = caller.now;
            Ok(*attributes)
        })
    }

    pub(super) fn remove_name(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.change(None, |transaction| {
            transaction.directory(parent)?;
            if name.is_dots() {
                return Err(Error::IsDirectory);
            }
            let number = transaction.find(parent, name)?.ok_or(Error::NotFound)?;
            if transaction.inode(number)?.attributes.kind == Kind::Directory {
                return Err(Error::IsDirectory);
            }
            transaction.leave(parent, name)?;
            transaction.count(caller, parent, -1, 0)?;
            transaction.drop_link(caller, number)
        })
    }

    pub(super) fn remove_directory(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.change(None, |transaction| {
            transaction.directory(parent)?;
            match name.bytes() {
                b"." => return Err(Error::Invalid),
                b".." => return Err(Error::NotEmpty),
                _ => {}
            }
            let number = transaction.find(parent, name)?.ok_or(Error::NotFound)?;
            let directory = transaction.directory(number)?;
            if directory.entries > 0 && !(mutated(Mutant::RmdirByLinks) && directory.attributes.links == 2) {
                return Err(Error::NotEmpty);
            }
            transaction.leave(parent, name)?;
            transaction.count(caller, parent, -1, -1)?;
            transaction.drop_link(caller, number)
        })
    }

    pub(super) fn rename_entry(
        &self,
        caller: &Caller<'_>,
        (parent, name): (InodeNumber, Name<'_>),
        (new_parent, new_name): (InodeNumber, Name<'_>),
        flags: RenameFlags,
    ) -> Result<()> {
        self.change(None, |transaction| {
            transaction.directory(parent)?;
            transaction.directory(new_parent)?;
            if name.is_dots() || new_name.is_dots() {
                return Err(Error::Busy);
            }
            let moved = transaction.find(parent, name)?.ok_or(Error::NotFound)?;
            let replaced = transaction.find(new_parent, new_name)?;
            let kind = transaction.inode(moved)?.attributes.kind;
            let below = kind == Kind::Directory && transaction.is_below(new_parent, moved)?;
            if below && !mutated(Mutant::DirectoryBelowItself) {
                return Err(Error::Invalid);
            }
            let mut budget = self.budget();
            let more = if mutated(Mutant::ParentLinksForgotten) { 0 } else { directories(kind) };
            match (flags, replaced) {
                (RenameFlags::NoReplace, Some(_)) => return Err(Error::Exists),
                (RenameFlags::Exchange, None) => return Err(Error::NotFound),
                (_, Some(replaced)) if replaced == moved => return Ok(()),
                (RenameFlags::Exchange, Some(replaced)) => {
                    let other = transaction.inode(replaced)?.attributes.kind;
                    if other == Kind::Directory && transaction.is_below(parent, replaced)? {
                        return Err(Error::Invalid);
                    }
                    transaction.enter(new_parent, new_name, moved, &mut budget)?;
                    transaction.enter(parent, name, replaced, &mut budget)?;
                    let moves = if mutated(Mutant::ExchangeNotCounted) { 0 } else { more - directories(other) };
                    transaction.count(caller, parent, 0, -moves)?;
                    transaction.count(caller, new_parent, 0, moves)?;
                    transaction.inode(replaced)?.attributes.changed = caller.now;
                }
                (RenameFlags::Replace, Some(replaced)) => {
                    let inode = transaction.inode(replaced)?;
                    let other = inode.attributes.kind;
                    rules::may_replace(kind, other, inode.entries == 0)?;
                    transaction.leave(parent, name)?;
                    if !mutated(Mutant::RenameLeaksReplaced) {
                        transaction.drop_link(caller, replaced)?;
                    }
                    transaction.enter(new_parent, new_name, moved, &mut budget)?;
                    transaction.count(caller, parent, -1, -more)?;
                    transaction.count(caller, new_parent, 0, more - directories(other))?;
                }
                (_, None) => {
                    if transaction.inode(new_parent)?.attributes.links == 0 {
                        return Err(Error::NotFound);
                    }
                    if !mutated(Mutant::RenameKeepsOldName) {
                        transaction.leave(parent, name)?;
                    }
                    if mutated(Mutant::RenameInTwoBatches) {
                        self.store.commit(&std::mem::take(&mut transaction.batch))?;
                    }
                    transaction.enter(new_parent, new_name, moved, &mut budget)?;
                    transaction.count(caller, parent, -1, -more)?;
                    transaction.count(caller, new_parent, 1, more)?;
                }
            }
            transaction.inode(moved)?.attributes.changed = caller.now;
            Ok(())
        })
    }
}
