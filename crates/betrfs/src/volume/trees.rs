//! Removing whole trees: in one step for everybody who looks, entry by entry behind them.
//!
//! The directory loses its name and becomes an orphan, with all that is below it. Whoever has time takes orphans apart: each
//! step removes some entries of one directory, and directories in it become orphans themselves.

use std::sync::atomic::Ordering;

use super::Volume;
use super::rekey::Budget;
use super::transaction::Transaction;
use crate::acl;
use crate::mutant::{Mutant, mutated};
use crate::operations::{Caller, Cookie, Error, InodeNumber, Kind, Name, Result};
use crate::rules;
use crate::schema::{self, Entry, Inode, Place};

/// Entries of a step: so many that a batch stays small.
const STEP_ENTRIES: usize = 100;

impl Volume {
    pub(super) fn detach(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        if name.is_dots() {
            return Err(Error::Invalid);
        }
        let detached = self.change(None, |transaction| {
            transaction.directory(parent)?;
            let number = transaction.find(parent, name)?.ok_or(Error::NotFound)?;
            let removed = transaction.inode(number)?.clone();
            let above = transaction.directory(parent)?.clone();
            self.may_remove(caller, &above, &removed)?;
            if removed.attributes.kind == Kind::Directory {
                self.may_empty(caller, &removed)?;
                transaction.leave(parent, name)?;
                transaction.count(caller, parent, -1, -1)?;
                transaction.orphan(caller, number)
            } else {
                transaction.leave(parent, name)?;
                transaction.count(caller, parent, -1, 0)?;
                transaction.drop_link(caller, number)
            }
        });
        self.may_reap.store(true, Ordering::Release);
        detached
    }

    /// Whether a caller may take an entry out of a directory.
    fn may_remove(&self, caller: &Caller<'_>, directory: &Inode, entry: &Inode) -> Result<()> {
        // Entries of an access list are not looked at: only who does not need them gets through.
        let number = directory.attributes.inode;
        let has_list = directory.has_xattrs && self.store.xattrs.get(schema::xattr_key(number, acl::ACCESS))?.is_some();
        rules::may_remove(caller, &directory.attributes, has_list, entry.attributes.uid)
    }

    /// Whether a caller may remove everything below a directory. Who may anyway is not asked.
    fn may_empty(&self, caller: &Caller<'_>, directory: &Inode) -> Result<()> {
        if caller.uid == 0 || mutated(Mutant::TreeForEverybody) {
            return Ok(());
        }
        let mut left = vec![directory.clone()];
        while let Some(directory) = left.pop() {
            for found in self.store.names_at(&self.store.moment(), &directory.locality, Cookie::START) {
                let (key, value) = found?;
                let inode = match Entry::decode(self.store.schema, &key, &value)? {
                    Entry::Embedded(inode) => inode,
                    Entry::Link { inode, .. } => self.inode(inode)?,
                };
                self.may_remove(caller, &directory, &inode)?;
                if inode.attributes.kind == Kind::Directory {
                    left.push(inode);
                }
            }
        }
        Ok(())
    }

    /// Takes removed trees apart, for some entries; whether more is left.
    pub(super) fn reap_entries(&self, entries: usize) -> Result<bool> {
        if self.store.is_past() || !self.may_reap.load(Ordering::Acquire) {
            return Ok(false);
        }
        let mut left = entries.max(1);
        let mut after = None;
        loop {
            // Whoever removes another says so again, after it is there to be found.
            self.may_reap.store(false, Ordering::Release);
            let found = match (self.next_removed(after)?, after) {
                // Directories that were moved may have lower numbers than what they were in.
                (None, Some(_)) if !mutated(Mutant::TreeUpwards) => self.next_removed(None)?,
                (found, _) => found,
            };
            let Some((number, inode)) = found else { return Ok(false) };
            self.may_reap.store(true, Ordering::Release);
            if left == 0 {
                return Ok(true);
            }
            let taken = self.reap_step(number, left.min(STEP_ENTRIES))?;
            left = left.saturating_sub(taken.max(1));
            // One that is open stays, empty.
            after = (inode.entries <= taken as u64).then_some(number);
        }
    }

    /// The next removed directory that is not empty, or that nobody has open.
    fn next_removed(&self, after: Option<InodeNumber>) -> Result<Option<(InodeNumber, Inode)>> {
        let _gate = self.shared();
        let start = after.map_or([0; 8], |number| schema::number_key(InodeNumber(number.0.saturating_add(1))));
        for found in self.store.orphans.range(start..) {
            let (number, _) = schema::key_number(&found?.0)?;
            let inode = self.inode(number)?;
            let is_removed = inode.attributes.kind == Kind::Directory && !self.is_building(number);
            if is_removed && (inode.entries > 0 || !self.is_open(number)) {
                return Ok(Some((number, inode)));
            }
        }
        Ok(None)
    }

    /// Removes some entries of a removed directory; how many.
    fn reap_step(&self, number: InodeNumber, most: usize) -> Result<usize> {
        self.change(None, |transaction| {
            let directory = transaction.inode(number)?;
            // Everything happens when the tree was removed.
            let now = directory.attributes.changed;
            let caller = Caller { uid: 0, gid: 0, groups: &[], umask: 0, now };
            let mut taken = 0;
            let locality = directory.locality.clone();
            for found in self.store.names_at(&self.store.moment(), &locality, Cookie::START).take(most) {
                let (key, value) = found?;
                let entry = Entry::decode(self.store.schema, &key, &value)?;
                transaction.batch.remove(&self.store.entries, &key);
                // Its links are 0 already, whatever is in it.
                transaction.count(&caller, number, -1, 0)?;
                if entry.kind() == Kind::Directory && !mutated(Mutant::TreeSpared) {
                    transaction.orphan(&caller, entry.inode())?;
                } else {
                    transaction.drop_link(&caller, entry.inode())?;
                }
                taken += 1;
            }
            let left = transaction.inode(number)?.entries;
            if taken == 0 && left > 0 {
                return Err(schema::damaged("a count of entries"));
            }
            if left == 0 && !self.is_open(number) {
                transaction.purge(number)?;
                transaction.batch.remove(&self.store.orphans, schema::number_key(number));
            }
            Ok(taken)
        })
    }

    /// How many keys of data there are.
    #[cfg(test)]
    pub(crate) fn data_keys(&self) -> Result<usize> {
        let beside = self
            .store
            .entries
            .iter()
            .filter(|entry| matches!(entry, Ok((key, _)) if schema::is_beside(self.store.schema, key)));
        Ok(self.store.data.iter().chain(beside).collect::<betree::Result<Vec<_>>>()?.len())
    }

    /// Whether a removed directory has something in it still.
    pub(super) fn is_to_reap(inode: &Inode) -> bool {
        inode.attributes.kind == Kind::Directory && inode.entries > 0 && !mutated(Mutant::MountPurgesTrees)
    }
}

impl Transaction<'_> {
    /// A directory loses its name, with all that is in it.
    fn orphan(&mut self, caller: &Caller<'_>, number: InodeNumber) -> Result<()> {
        let orphans = &self.store().orphans;
        self.directory(number)?;
        self.place(number, Place::Side, &mut Budget::none())?;
        let inode = self.inode(number)?;
        inode.attributes.links = 0;
        inode.attributes.changed = caller.now;
        self.batch.insert(orphans, schema::number_key(number), []);
        Ok(())
    }
}
