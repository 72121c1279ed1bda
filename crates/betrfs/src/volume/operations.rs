//! The trait, by the calls of the files beside this one.

use super::Volume;
use crate::mutant::{Mutant, mutated};
use crate::operations::{
    Allocate, Attributes, Caller, Cookie, DirectoryEntry, Error, InodeNumber, Kind, Name, Operations, Permissions,
    RenameFlags, Result, Seek, SetAttributes, SetXattr, Statistics, XattrName,
};
use crate::rules::{self, NewNode};
use crate::schema;

impl Operations for Volume {
    fn lookup(&self, parent: InodeNumber, name: Name<'_>) -> Result<Attributes> {
        self.find(parent, name)
    }

    fn getattr(&self, inode: InodeNumber) -> Result<Attributes> {
        self.attributes(inode)
    }

    fn setattr(&self, caller: &Caller<'_>, inode: InodeNumber, changes: &SetAttributes) -> Result<Attributes> {
        self.set_attributes(caller, inode, changes)
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        permissions: Permissions,
    ) -> Result<Attributes> {
        let new = NewNode { kind: Kind::File, permissions, device: 0, size_bytes: 0 };
        self.make(caller, parent, name, new, &[], true)
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
        if matches!(kind, Kind::Directory | Kind::Symlink) {
            return Err(Error::Invalid);
        }
        self.make(caller, parent, name, NewNode { kind, permissions, device, size_bytes: 0 }, &[], false)
    }

    fn mkdir(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        permissions: Permissions,
    ) -> Result<Attributes> {
        let new = NewNode { kind: Kind::Directory, permissions, device: 0, size_bytes: 0 };
        self.make(caller, parent, name, new, &[], false)
    }

    fn symlink(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>, target: &[u8]) -> Result<Attributes> {
        rules::target(target)?;
        let permissions = Permissions::of_mode(0o777);
        let new = NewNode { kind: Kind::Symlink, permissions, device: 0, size_bytes: target.len() as u64 };
        self.make(caller, parent, name, new, target, false)
    }

    fn link(&self, caller: &Caller<'_>, inode: InodeNumber, parent: InodeNumber, name: Name<'_>) -> Result<Attributes> {
        self.add_link(caller, inode, parent, name)
    }

    fn unlink(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.remove_name(caller, parent, name)
    }

    fn rmdir(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.remove_directory(caller, parent, name)
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
        self.rename_entry(caller, (parent, name), (new_parent, new_name), flags)
    }

    fn remove_tree(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.detach(caller, parent, name)
    }

    fn reap(&self, entries: usize) -> Result<bool> {
        self.reap_entries(entries)
    }

    fn tmpfile(&self, caller: &Caller<'_>, parent: InodeNumber, permissions: Permissions) -> Result<Attributes> {
        self.make_unnamed(caller, parent, permissions)
    }

    fn open(&self, inode: InodeNumber) -> Result<()> {
        // Nobody removes it in between.
        let _gate = self.shared();
        self.inode(inode)?;
        self.count_open(inode);
        Ok(())
    }

    fn release(&self, inode: InodeNumber) -> Result<()> {
        {
            let _gate = self.shared();
            if !self.count_release(inode)? || self.inode(inode)?.attributes.links > 0 {
                return Ok(());
            }
        }
        self.remove_if_unused(inode)
    }

    fn read(&self, caller: &Caller<'_>, inode: InodeNumber, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_file(caller, inode, offset_bytes, buffer)
    }

    fn write(
        &self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        offset_bytes: u64,
        data: &[u8],
        kill_privileges: bool,
    ) -> Result<Attributes> {
        self.write_file(caller, inode, offset_bytes, data, kill_privileges)
    }

    fn fallocate(
        &self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        mode: Allocate,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<Attributes> {
        self.allocate(caller, inode, mode, offset_bytes, length_bytes)
    }

    fn seek(&self, inode: InodeNumber, offset_bytes: u64, what: Seek) -> Result<u64> {
        self.seek_file(inode, offset_bytes, what)
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
        self.copy(caller, (source, source_offset_bytes), (target, target_offset_bytes), length_bytes)
    }

    fn fsync(&self, inode: InodeNumber) -> Result<()> {
        self.attributes(inode)?;
        self.syncfs()
    }

    fn syncfs(&self) -> Result<()> {
        if mutated(Mutant::SyncDoesNothing) {
            return Ok(());
        }
        Ok(self.store.database.sync()?)
    }

    fn readdir(
        &self,
        inode: InodeNumber,
        after: Cookie,
        entry: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        self.list(inode, after, entry)
    }

    fn readlink(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let _gate = self.shared();
        let inode = self.inode(inode)?;
        match inode.attributes.kind {
            Kind::Symlink => self.target(&inode),
            _ => Err(Error::Invalid),
        }
    }

    fn getxattr(&self, inode: InodeNumber, name: XattrName<'_>) -> Result<Vec<u8>> {
        self.xattr(inode, name)
    }

    fn setxattr(
        &self,
        caller: &Caller<'_>,
        inode: InodeNumber,
        name: XattrName<'_>,
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        self.set_xattr(caller, inode, name, value, how)
    }

    fn listxattr(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.xattr_names(inode)
    }

    fn removexattr(&self, caller: &Caller<'_>, inode: InodeNumber, name: XattrName<'_>) -> Result<()> {
        self.remove_xattr(caller, inode, name)
    }

    fn statfs(&self) -> Result<Statistics> {
        Ok(self.statistics())
    }
}

impl Volume {
    /// Removes an inode that has neither names nor users.
    fn remove_if_unused(&self, number: InodeNumber) -> Result<()> {
        self.change(None, |transaction| {
            // Meanwhile it may have been given a name.
            if self.is_open(number) || transaction.inode(number)?.attributes.links > 0 {
                return Ok(());
            }
            if Self::is_to_reap(transaction.inode(number)?) {
                return Ok(());
            }
            transaction.purge(number)?;
            transaction.batch.remove(&self.store.orphans, schema::number_key(number));
            Ok(())
        })
    }
}
