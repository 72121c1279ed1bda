//! `lookup` and `readdir`.

use super::{Store, Volume};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Attributes, Cookie, DirectoryEntry, Error, InodeNumber, Kind, Name, Result};
use crate::schema::{self, Entry, damaged};

impl Volume {
    pub(super) fn find(&self, parent: InodeNumber, name: Name<'_>) -> Result<Attributes> {
        let _gate = self.shared();
        let directory = self.inode(parent)?;
        if directory.attributes.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        match name.bytes() {
            b"." => return Ok(directory.attributes),
            b".." => return Ok(self.inode(Store::parent_of(&directory))?.attributes),
            _ if directory.entries == 0 => return Err(Error::NotFound),
            _ => {}
        }
        match self.store.entry(parent, name.bytes())? {
            None => Err(Error::NotFound),
            Some(Entry::Link { inode, .. }) => Ok(self.inode(inode)?.attributes),
            Some(Entry::Embedded(inode)) => {
                let attributes = inode.attributes;
                self.remember(inode);
                Ok(attributes)
            }
        }
    }

    pub(super) fn list(
        &self,
        number: InodeNumber,
        after: Cookie,
        entry: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        // One moment, without the gate, so that `entry` may call back.
        let now = self.store.moment();
        let directory = self.store.inode_at(&now, number)?;
        if directory.attributes.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        for (name, next) in [(&b"."[..], Cookie::SELF), (b"..", Cookie::PARENT)] {
            if after >= next {
                continue;
            }
            let attributes = match next {
                Cookie::SELF => directory.attributes,
                _ => self.store.inode_at(&now, Store::parent_of(&directory))?.attributes,
            };
            if !entry(DirectoryEntry { name, attributes, next }) {
                return Ok(());
            }
        }
        let mut found = now.range(&self.store.entries, schema::entries_after(number, after)).peekable();
        while let Some(this) = found.next() {
            let (key, value) = this?;
            let (_, cookie, name) = schema::parse_entry_key(&key)?;
            let attributes = match Entry::decode(number, name, &value)? {
                Entry::Embedded(inode) => inode.attributes,
                Entry::Link { inode, .. } => match self.store.inode_at(&now, inode) {
                    Err(Error::Stale) => return Err(damaged("an entry without an inode")),
                    inode => inode?.attributes,
                },
            };
            // Of equal hashes only the last leads on behind them all, so that none is left out.
            let is_last = match found.peek() {
                _ if mutated(Mutant::CookieReused) => true,
                Some(Ok((key, _))) => schema::parse_entry_key(key)?.1 != cookie,
                _ => true,
            };
            let next = match found.peek() {
                Some(Ok((key, _))) if mutated(Mutant::CookieOfNext) => schema::parse_entry_key(key)?.1,
                _ if is_last => cookie,
                _ => Cookie(cookie.0 - 1),
            };
            if !entry(DirectoryEntry { name, attributes, next }) {
                break;
            }
        }
        Ok(())
    }
}
