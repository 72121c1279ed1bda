//! A POSIX file system in memory, simple and obviously right: what the real one is held against, and something to mount.

mod clones;
mod content;
mod data;
mod names;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::acl;
use crate::operations::{
    Allocate, Attributes, Caller, Cookie, DirectoryEntry, Error, InodeNumber, Kind, Name, Operations, Permissions,
    RenameFlags, Result, Seek, SetAttributes, SetXattr, Statistics, Timestamp, XattrName,
};
use crate::rules::{self, BLOCK_BYTES, NewNode, XATTR_BYTES_MAX};
use content::Content;

/// What `statfs` says of it: there is no bound but memory.
const BLOCKS: u64 = 1 << 32;

/// A file system in memory. Nothing of it is durable.
#[derive(Debug)]
pub struct Model {
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct Node {
    attributes: Attributes,
    body: Body,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    opened: u32,
}

#[derive(Clone, Debug)]
enum Body {
    File(Content),
    Directory(Directory),
    Symlink(Vec<u8>),
    Other,
}

#[derive(Clone, Debug)]
struct Directory {
    parent: InodeNumber,
    /// Entries with their cookies, which count up.
    entries: BTreeMap<Vec<u8>, (InodeNumber, Cookie)>,
    last_cookie: Cookie,
}

#[derive(Clone, Debug)]
struct State {
    nodes: BTreeMap<InodeNumber, Node>,
    last_inode: InodeNumber,
}

impl State {
    fn node(&self, inode: InodeNumber) -> Result<&Node> {
        self.nodes.get(&inode).ok_or(Error::Stale)
    }

    fn node_mut(&mut self, inode: InodeNumber) -> Result<&mut Node> {
        self.nodes.get_mut(&inode).ok_or(Error::Stale)
    }

    fn directory(&self, inode: InodeNumber) -> Result<&Directory> {
        match &self.node(inode)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Error::NotDirectory),
        }
    }

    fn directory_mut(&mut self, inode: InodeNumber) -> Result<&mut Directory> {
        match &mut self.node_mut(inode)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Error::NotDirectory),
        }
    }

    /// Removes an inode that has neither links nor users.
    fn forget_if_unused(&mut self, inode: InodeNumber) {
        if self.nodes.get(&inode).is_some_and(|node| node.attributes.links == 0 && node.opened == 0) {
            self.nodes.remove(&inode);
        }
    }
}

impl Model {
    /// An empty file system, made at a time.
    pub fn new(now: Timestamp) -> Self {
        let root = InodeNumber::ROOT;
        let body = Body::Directory(Directory { parent: root, entries: BTreeMap::new(), last_cookie: Cookie::PARENT });
        let node = Node { attributes: rules::root_attributes(now), body, xattrs: BTreeMap::new(), opened: 0 };
        Self { state: Mutex::new(State { nodes: BTreeMap::from([(root, node)]), last_inode: root }) }
    }

    /// A copy that goes its own way; nothing is open in it, so what has no name is gone.
    pub fn remounted(&self) -> Self {
        let mut state = self.state().clone();
        for node in state.nodes.values_mut() {
            node.opened = 0;
        }
        state.nodes.retain(|_, node| node.attributes.links > 0);
        Self { state: Mutex::new(state) }
    }

    /// A copy that goes its own way, as open as this one.
    #[cfg(test)]
    pub(crate) fn copied(&self) -> Self {
        Self { state: Mutex::new(self.state().clone()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Operations for Model {
    fn lookup(&self, parent: InodeNumber, name: Name<'_>) -> Result<Attributes> {
        let state = self.state();
        let found = state.find(parent, name)?;
        Ok(state.node(found)?.attributes)
    }

    fn getattr(&self, inode: InodeNumber) -> Result<Attributes> {
        Ok(self.state().node(inode)?.attributes)
    }

    fn setattr(&self, caller: &Caller<'_>, inode: InodeNumber, changes: &SetAttributes) -> Result<Attributes> {
        let mut state = self.state();
        let node = state.node_mut(inode)?;
        let before = node.attributes;
        rules::set_attributes(&mut node.attributes, caller, changes)?;
        if let Some(permissions) = changes.permissions
            && let Some(list) = node.xattrs.get_mut(acl::ACCESS)
        {
            acl::set_permissions(list, permissions);
        }
        if let Body::File(content) = &mut node.body {
            content.punch(node.attributes.size_bytes, before.size_bytes.max(node.attributes.size_bytes));
            node.attributes.blocks = content.units();
        }
        Ok(node.attributes)
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        permissions: Permissions,
    ) -> Result<Attributes> {
        let mut state = self.state();
        let new = NewNode { kind: Kind::File, permissions, device: 0, size_bytes: 0 };
        let made = state.make(caller, parent, name, new, Body::File(Content::default()))?;
        state.node_mut(made.inode)?.opened = 1;
        Ok(made)
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        kind: Kind,
        permissions: Permissions,
        device: u32,
    ) -> Result<Attributes> {
        let body = match kind {
            Kind::Directory | Kind::Symlink => return Err(Error::Invalid),
            Kind::File => Body::File(Content::default()),
            _ => Body::Other,
        };
        self.state().make(caller, parent, name, NewNode { kind, permissions, device, size_bytes: 0 }, body)
    }

    fn mkdir(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        permissions: Permissions,
    ) -> Result<Attributes> {
        let body = Body::Directory(Directory { parent, entries: BTreeMap::new(), last_cookie: Cookie::PARENT });
        let new = NewNode { kind: Kind::Directory, permissions, device: 0, size_bytes: 0 };
        self.state().make(caller, parent, name, new, body)
    }

    fn symlink(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>, target: &[u8]) -> Result<Attributes> {
        rules::target(target)?;
        let permissions = Permissions::of_mode(0o777);
        let new = NewNode { kind: Kind::Symlink, permissions, device: 0, size_bytes: target.len() as u64 };
        self.state().make(caller, parent, name, new, Body::Symlink(target.to_vec()))
    }

    fn link(&self, caller: &Caller<'_>, inode: InodeNumber, parent: InodeNumber, name: Name<'_>) -> Result<Attributes> {
        self.state().link(caller, inode, parent, name)
    }

    fn unlink(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.state().unlink(caller, parent, name)
    }

    fn rmdir(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.state().rmdir(caller, parent, name)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        new_parent: InodeNumber,
        new_name: Name<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        self.state().rename(caller, (parent, name), (new_parent, new_name), flags)
    }

    fn remove_tree(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.state().remove_tree(caller, parent, name)
    }

    fn clone_tree(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        new_parent: InodeNumber,
        new_name: Name<'_>,
    ) -> Result<Attributes> {
        self.state().clone_tree(caller, (parent, name), (new_parent, new_name))
    }

    fn reap(&self, _entries: usize) -> Result<bool> {
        Ok(false)
    }

    fn tmpfile(&self, caller: &Caller<'_>, parent: InodeNumber, permissions: Permissions) -> Result<Attributes> {
        let mut state = self.state();
        let new = NewNode { kind: Kind::File, permissions, device: 0, size_bytes: 0 };
        let made = state.add_node(caller, parent, new, Body::File(Content::default()))?;
        let node = state.node_mut(made)?;
        (node.attributes.links, node.opened) = (0, 1);
        Ok(node.attributes)
    }

    fn open(&self, inode: InodeNumber) -> Result<()> {
        self.state().node_mut(inode)?.opened += 1;
        Ok(())
    }

    fn release(&self, inode: InodeNumber) -> Result<()> {
        let mut state = self.state();
        let node = state.node_mut(inode).map_err(|_| Error::Invalid)?;
        node.opened = node.opened.checked_sub(1).ok_or(Error::Invalid)?;
        state.forget_if_unused(inode);
        Ok(())
    }

    fn read(&self, caller: &Caller<'_>, inode: InodeNumber, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        self.state().read(caller, inode, offset_bytes, buffer)
    }

    fn write(
        &self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        offset_bytes: u64,
        data: &[u8],
        kill_privileges: bool,
    ) -> Result<Attributes> {
        self.state().write(caller, inode, offset_bytes, data, kill_privileges)
    }

    fn fallocate(
        &self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        mode: Allocate,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<Attributes> {
        self.state().fallocate(caller, inode, mode, offset_bytes, length_bytes)
    }

    fn seek(&self, inode: InodeNumber, offset_bytes: u64, what: Seek) -> Result<u64> {
        self.state().seek(inode, offset_bytes, what)
    }

    fn copy_file_range(
        &self,
        caller: &Caller<'_>,
        source: InodeNumber,
        source_offset_bytes: u64,
        target: InodeNumber,
        target_offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<u64> {
        let source = (source, source_offset_bytes);
        self.state().copy_file_range(caller, source, (target, target_offset_bytes), length_bytes)
    }

    fn fsync(&self, inode: InodeNumber) -> Result<()> {
        self.getattr(inode).map(drop)
    }

    fn syncfs(&self) -> Result<()> {
        Ok(())
    }

    fn readdir(
        &self,
        inode: InodeNumber,
        after: Cookie,
        entry: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        // Handed over without the lock, so that `entry` may call back.
        for (name, attributes, next) in self.state().list(inode, after)? {
            if !entry(DirectoryEntry { name: &name, attributes, next }) {
                break;
            }
        }
        Ok(())
    }

    fn readlink(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        match &self.state().node(inode)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Error::Invalid),
        }
    }

    fn getxattr(&self, inode: InodeNumber, name: XattrName<'_>) -> Result<Vec<u8>> {
        self.state().node(inode)?.xattrs.get(name.bytes()).cloned().ok_or(Error::NoData)
    }

    fn setxattr(
        &self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        name: XattrName<'_>,
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        if value.len() > XATTR_BYTES_MAX {
            return Err(Error::TooBig);
        }
        let mut state = self.state();
        let node = state.node_mut(inode)?;
        match (how, node.xattrs.contains_key(name.bytes())) {
            (SetXattr::Create, true) => return Err(Error::Exists),
            (SetXattr::Replace, false) => return Err(Error::NoData),
            _ => {}
        }
        let mut keep = true;
        if acl::is_list(name.bytes()) {
            let list = acl::parse(value)?;
            if name.bytes() == acl::ACCESS {
                node.attributes.permissions = list.permissions(node.attributes.permissions);
                keep = !list.is_minimal();
            }
        }
        match keep {
            true => drop(node.xattrs.insert(name.bytes().to_vec(), value.to_vec())),
            false => drop(node.xattrs.remove(name.bytes())),
        }
        node.attributes.changed = caller.now;
        Ok(())
    }

    fn listxattr(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        Ok(self.state().node(inode)?.xattrs.keys().cloned().collect())
    }

    fn removexattr(&self, caller: &Caller<'_>, inode: InodeNumber, name: XattrName<'_>) -> Result<()> {
        let mut state = self.state();
        let node = state.node_mut(inode)?;
        node.xattrs.remove(name.bytes()).ok_or(Error::NoData)?;
        node.attributes.changed = caller.now;
        Ok(())
    }

    fn statfs(&self) -> Result<Statistics> {
        let used = self.state().nodes.len() as u64;
        Ok(Statistics {
            block_bytes: BLOCK_BYTES as u32,
            blocks: BLOCKS,
            free_blocks: BLOCKS - used,
            available_blocks: BLOCKS - used,
            inodes: BLOCKS,
            free_inodes: BLOCKS - used,
            name_bytes_max: 255,
        })
    }
}
