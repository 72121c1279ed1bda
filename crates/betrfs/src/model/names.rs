//! Calls on names.

use super::{Body, Directory, Node, State};
use crate::acl;
use crate::operations::{Attributes, Caller, Cookie, Error, InodeNumber, Kind, Name, RenameFlags, Result};
use crate::rules::{self, LINKS_MAX, NewNode};

impl State {
    /// What a name leads to.
    pub(super) fn find(&self, parent: InodeNumber, name: Name<'_>) -> Result<InodeNumber> {
        let directory = self.directory(parent)?;
        match name.bytes() {
            b"." => Ok(parent),
            b".." => Ok(directory.parent),
            name => directory.entries.get(name).map(|(inode, _)| *inode).ok_or(Error::NotFound),
        }
    }

    /// The same where there may be none.
    fn find_if_there(&self, parent: InodeNumber, name: Name<'_>) -> Result<Option<InodeNumber>> {
        match self.find(parent, name) {
            Ok(inode) => Ok(Some(inode)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An inode that no name leads to yet.
    pub(super) fn add_node(
        &mut self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        new: NewNode,
        body: Body,
    ) -> Result<InodeNumber> {
        self.directory(parent)?;
        let above = self.node(parent)?;
        let inode = InodeNumber(self.last_inode.0 + 1);
        let default = above.xattrs.get(acl::DEFAULT).filter(|_| new.kind != Kind::Symlink);
        let mut attributes = rules::new_attributes(caller, &above.attributes, inode, new, default.is_none());
        let xattrs = match default {
            Some(list) => acl::inherit(list, &mut attributes)?.into_iter().collect(),
            None => std::collections::BTreeMap::new(),
        };
        self.last_inode = inode;
        self.nodes.insert(inode, Node { attributes, body, xattrs, opened: 0 });
        Ok(inode)
    }

    /// An inode with a name.
    pub(super) fn make(
        &mut self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        new: NewNode,
        body: Body,
    ) -> Result<Attributes> {
        self.may_add(parent, name)?;
        if new.kind == Kind::Directory && self.node(parent)?.attributes.links >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        let inode = self.add_node(caller, parent, new, body)?;
        self.put(caller, parent, name, inode)?;
        Ok(self.node(inode)?.attributes)
    }

    /// Refuses a name that is taken, and a directory that nobody finds any more.
    pub(super) fn may_add(&self, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        if self.find_if_there(parent, name)?.is_some() {
            return Err(Error::Exists);
        }
        if self.node(parent)?.attributes.links == 0 { Err(Error::NotFound) } else { Ok(()) }
    }

    /// Enters a name; a directory's parent is counted with it.
    pub(super) fn put(
        &mut self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        inode: InodeNumber,
    ) -> Result<()> {
        if let Body::Directory(directory) = &mut self.node_mut(inode)?.body {
            directory.parent = parent;
            self.node_mut(parent)?.attributes.links += 1;
        }
        let directory = self.directory_mut(parent)?;
        directory.last_cookie.0 += 1;
        directory.entries.insert(name.bytes().to_vec(), (inode, directory.last_cookie));
        self.touch(caller, parent)
    }

    /// Takes a name away; what it led to keeps its own count.
    fn take(&mut self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<InodeNumber> {
        let (inode, _) = self.directory_mut(parent)?.entries.remove(name.bytes()).ok_or(Error::NotFound)?;
        if self.node(inode)?.attributes.kind == Kind::Directory {
            self.node_mut(parent)?.attributes.links -= 1;
        }
        self.touch(caller, parent)?;
        Ok(inode)
    }

    fn touch(&mut self, caller: &Caller<'_>, inode: InodeNumber) -> Result<()> {
        let attributes = &mut self.node_mut(inode)?.attributes;
        (attributes.modified, attributes.changed) = (caller.now, caller.now);
        Ok(())
    }

    /// One name less; a directory has no other.
    fn drop_link(&mut self, caller: &Caller<'_>, inode: InodeNumber) -> Result<()> {
        let node = self.node_mut(inode)?;
        // One that is open still is in nothing: what it was in may be removed, too.
        if let Body::Directory(directory) = &mut node.body {
            directory.parent = inode;
        }
        let attributes = &mut node.attributes;
        attributes.links = if attributes.kind == Kind::Directory { 0 } else { attributes.links - 1 };
        attributes.changed = caller.now;
        self.forget_if_unused(inode);
        Ok(())
    }

    pub(super) fn link(
        &mut self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        parent: InodeNumber,
        name: Name<'_>,
    ) -> Result<Attributes> {
        let attributes = self.node(inode)?.attributes;
        if attributes.kind == Kind::Directory {
            return Err(Error::NotPermitted);
        }
        self.may_add(parent, name)?;
        if attributes.links >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        self.put(caller, parent, name, inode)?;
        let attributes = &mut self.node_mut(inode)?.attributes;
        attributes.links += 1;
        attributes.changed = caller.now;
        Ok(*attributes)
    }

    pub(super) fn unlink(&mut self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        let inode = self.find(parent, name)?;
        if self.node(inode)?.attributes.kind == Kind::Directory {
            return Err(Error::IsDirectory);
        }
        self.take(caller, parent, name)?;
        self.drop_link(caller, inode)
    }

    pub(super) fn rmdir(&mut self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        let inode = self.find(parent, name)?;
        match name.bytes() {
            b"." => return Err(Error::Invalid),
            b".." => return Err(Error::NotEmpty),
            _ => {}
        }
        if !self.directory(inode)?.entries.is_empty() {
            return Err(Error::NotEmpty);
        }
        self.take(caller, parent, name)?;
        self.drop_link(caller, inode)
    }

    pub(super) fn remove_tree(&mut self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        if name.is_dots() {
            return Err(Error::Invalid);
        }
        let inode = self.find(parent, name)?;
        self.may_remove_tree(caller, parent, inode)?;
        self.remove_all(caller, parent, name.bytes())
    }

    fn may_remove_tree(&self, caller: &Caller<'_>, parent: InodeNumber, inode: InodeNumber) -> Result<()> {
        let above = self.node(parent)?;
        let has_list = above.xattrs.contains_key(acl::ACCESS);
        let node = self.node(inode)?;
        rules::may_remove(caller, &above.attributes, has_list, node.attributes.uid)?;
        match &node.body {
            Body::Directory(directory) => {
                directory.entries.values().try_for_each(|(below, _)| self.may_remove_tree(caller, inode, *below))
            }
            _ => Ok(()),
        }
    }

    fn remove_all(&mut self, caller: &Caller<'_>, parent: InodeNumber, name: &[u8]) -> Result<()> {
        let name = Name::new(name)?;
        let inode = self.find(parent, name)?;
        if let Body::Directory(directory) = &self.node(inode)?.body {
            for below in directory.entries.keys().cloned().collect::<Vec<_>>() {
                self.remove_all(caller, inode, &below)?;
            }
        }
        self.take(caller, parent, name)?;
        self.drop_link(caller, inode)
    }

    /// Whether a directory is another or lies below it.
    fn is_below(&self, mut inode: InodeNumber, above: InodeNumber) -> Result<bool> {
        loop {
            if inode == above {
                return Ok(true);
            }
            let parent = self.directory(inode)?.parent;
            if parent == inode {
                return Ok(false);
            }
            inode = parent;
        }
    }

    pub(super) fn rename(
        &mut self,
        caller: &Caller<'_>,
        (parent, name): (InodeNumber, Name<'_>),
        (new_parent, new_name): (InodeNumber, Name<'_>),
        flags: RenameFlags,
    ) -> Result<()> {
        self.directory(parent)?;
        self.directory(new_parent)?;
        if name.is_dots() || new_name.is_dots() {
            return Err(Error::Busy);
        }
        let moved = self.find(parent, name)?;
        let replaced = self.find_if_there(new_parent, new_name)?;
        let kind = self.node(moved)?.attributes.kind;
        if kind == Kind::Directory && self.is_below(new_parent, moved)? {
            return Err(Error::Invalid);
        }
        match (flags, replaced) {
            (RenameFlags::NoReplace, Some(_)) => return Err(Error::Exists),
            (RenameFlags::Exchange, None) => return Err(Error::NotFound),
            (_, Some(replaced)) if replaced == moved => return Ok(()),
            (RenameFlags::Exchange, Some(replaced)) => {
                let other = self.node(replaced)?.attributes.kind;
                if other == Kind::Directory && self.is_below(parent, replaced)? {
                    return Err(Error::Invalid);
                }
                self.take(caller, parent, name)?;
                self.take(caller, new_parent, new_name)?;
                self.put(caller, new_parent, new_name, moved)?;
                self.put(caller, parent, name, replaced)?;
                self.node_mut(replaced)?.attributes.changed = caller.now;
            }
            (RenameFlags::Replace, Some(replaced)) => {
                let node = self.node(replaced)?;
                let is_empty = match &node.body {
                    Body::Directory(Directory { entries, .. }) => entries.is_empty(),
                    _ => true,
                };
                rules::may_replace(kind, node.attributes.kind, is_empty)?;
                self.take(caller, new_parent, new_name)?;
                self.drop_link(caller, replaced)?;
                self.take(caller, parent, name)?;
                self.put(caller, new_parent, new_name, moved)?;
            }
            (_, None) => {
                if self.node(new_parent)?.attributes.links == 0 {
                    return Err(Error::NotFound);
                }
                self.take(caller, parent, name)?;
                self.put(caller, new_parent, new_name, moved)?;
            }
        }
        self.node_mut(moved)?.attributes.changed = caller.now;
        Ok(())
    }

    /// Entries behind a cookie in the order of theirs.
    pub(super) fn list(&self, inode: InodeNumber, after: Cookie) -> Result<Vec<(Vec<u8>, Attributes, Cookie)>> {
        let directory = self.directory(inode)?;
        let mut found = vec![(b".".to_vec(), inode, Cookie::SELF), (b"..".to_vec(), directory.parent, Cookie::PARENT)];
        found.extend(directory.entries.iter().map(|(name, (inode, cookie))| (name.clone(), *inode, *cookie)));
        found.retain(|(_, _, cookie)| *cookie > after);
        found.sort_by_key(|(_, _, cookie)| *cookie);
        found.into_iter().map(|(name, inode, cookie)| Ok((name, self.node(inode)?.attributes, cookie))).collect()
    }
}
