//! `lookup` and `readdir`.

use super::data::Goal;
use super::{Store, Volume};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Attributes, Cookie, DirectoryEntry, Error, InodeNumber, Kind, Name, Result};
use crate::schema::{self, Entry, damaged};

/// Of the entries of one call so many inodes go into memory, for who opens them then.
const REMEMBERED_MAX: usize = 1000;

impl Volume {
    pub(super) fn find(&self, parent: InodeNumber, name: Name<'_>) -> Result<Attributes> {
        let (at, directory, changes) = {
            let gate = self.shared();
            (self.store.moment(), self.inode(parent)?, gate.changes)
        };
        if directory.attributes.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        match name.bytes() {
            b"." => return Ok(directory.attributes),
            b".." => return Ok(self.store.inode_at(&at, Store::parent_of(&directory))?.attributes),
            _ if directory.entries == 0 => return Err(Error::NotFound),
            _ => {}
        }
        // Without the gate: nobody waits for what the storage reads.
        let inode = match self.store.entry_at(&at, &directory.locality, name.bytes())? {
            None => return Err(Error::NotFound),
            Some(Entry::Link { inode, .. }) => self.store.inode_at(&at, inode)?,
            Some(Entry::Embedded(inode)) => inode,
        };
        let attributes = inode.attributes;
        let gate = self.shared();
        // What is in memory is as it is now.
        if gate.changes == changes || mutated(Mutant::OldInodeKept) {
            self.remember(inode);
        }
        Ok(attributes)
    }

    pub(super) fn list(
        &self,
        number: InodeNumber,
        after: Cookie,
        entry: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        // One moment, without the gate, so that `entry` may call back.
        let held = self.settled_list(number)?;
        let now = self.moment(&self.shared());
        let (mut listed, of) = (Vec::new(), self.store.schema);
        let directory = self.store.inode_at(&now.at, number)?;
        if directory.attributes.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        if after == Cookie::START {
            self.walk(Goal::Directories, &now, &directory);
            self.walks(Goal::Directories).listed(number);
            self.walks(Goal::Files).listed(number);
        }
        for (name, next) in [(&b"."[..], Cookie::SELF), (b"..", Cookie::PARENT)] {
            if after >= next {
                continue;
            }
            let attributes = match next {
                Cookie::SELF => directory.attributes,
                _ => self.store.inode_at(&now.at, Store::parent_of(&directory))?.attributes,
            };
            if !entry(DirectoryEntry { name, attributes, next }) {
                return Ok(());
            }
        }
        let mut found = self.store.names_at(&now.at, &directory.locality, after).peekable();
        while let Some(this) = found.next() {
            let (key, value) = this?;
            let cookie = schema::parse_entry_key(of, &key)?.1;
            let inode = match Entry::decode(of, &key, &value)? {
                Entry::Embedded(inode) => inode,
                Entry::Link { inode, .. } => match self.store.inode_at(&now.at, inode) {
                    Err(Error::Stale) => return Err(damaged("an entry without an inode")),
                    inode => inode?,
                },
            };
            let attributes = held.seen(inode.attributes);
            // Of equal hashes only the last leads on behind them all, so that none is left out.
            let is_last = match found.peek() {
                _ if mutated(Mutant::CookieReused) => true,
                Some(Ok((key, _))) => schema::parse_entry_key(of, key)?.1 != cookie,
                _ => true,
            };
            let next = match found.peek() {
                Some(Ok((key, _))) if mutated(Mutant::CookieOfNext) => schema::parse_entry_key(of, key)?.1,
                _ if is_last => cookie,
                _ => Cookie(cookie.0 - 1),
            };
            let name = schema::parse_entry_key(of, &key)?.2;
            if !entry(DirectoryEntry { name, attributes, next }) {
                break;
            }
            if listed.len() < REMEMBERED_MAX {
                listed.push(inode);
            }
        }
        let gate = self.shared();
        if gate.changes == now.changes || mutated(Mutant::OldInodeKept) {
            listed.into_iter().for_each(|inode| self.remember(inode));
        }
        Ok(())
    }
}
