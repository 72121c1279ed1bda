//! The trait, by the calls of the files beside this one.

use super::Volume;
use crate::fsck::Finding;
use crate::mutant::{Mutant, mutated};
use crate::operations::{
    Allocate, Attributes, Caller, Cookie, DirectoryEntry, Error, InodeNumber, Kind, Name, Operations, Permissions,
    RenameFlags, Result, Seek, SetAttributes, SetXattr, Statistics, XattrName,
};
use crate::rules::{self, NewNode};
use crate::schema;

/// Entries of removed trees between which others have their turn.
const REAPED_AT_A_TIME: usize = 1_000;

impl Operations for Volume {
    fn lookup(&self, parent: InodeNumber, name: Name<'_>) -> Result<Attributes> {
        self.settled(|| self.find(parent, name))
    }

    fn getattr(&self, inode: InodeNumber) -> Result<Attributes> {
        self.settled(|| self.attributes(inode))
    }

    fn setattr(&self, caller: &Caller<'_>, inode: InodeNumber, changes: &SetAttributes) -> Result<Attributes> {
        self.settle()?;
        self.set_attributes(caller, inode, changes)
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        permissions: Permissions,
    ) -> Result<Attributes> {
        self.settle()?;
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
        self.settle()?;
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
        self.settle()?;
        let new = NewNode { kind: Kind::Directory, permissions, device: 0, size_bytes: 0 };
        self.make(caller, parent, name, new, &[], false)
    }

    fn symlink(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>, target: &[u8]) -> Result<Attributes> {
        self.settle()?;
        rules::target(target)?;
        let permissions = Permissions::of_mode(0o777);
        let new = NewNode { kind: Kind::Symlink, permissions, device: 0, size_bytes: target.len() as u64 };
        self.make(caller, parent, name, new, target, false)
    }

    fn link(&self, caller: &Caller<'_>, inode: InodeNumber, parent: InodeNumber, name: Name<'_>) -> Result<Attributes> {
        self.settle()?;
        self.add_link(caller, inode, parent, name)
    }

    fn unlink(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.settle()?;
        self.remove_name(caller, parent, name)
    }

    fn rmdir(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.settle()?;
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
        self.settle()?;
        self.rename_entry(caller, (parent, name), (new_parent, new_name), flags)
    }

    fn remove_tree(&self, caller: &Caller<'_>, parent: InodeNumber, name: Name<'_>) -> Result<()> {
        self.settle()?;
        self.detach(caller, parent, name)
    }

    fn clone_tree(
        &self,
        caller: &Caller<'_>,
        parent: InodeNumber,
        name: Name<'_>,
        new_parent: InodeNumber,
        new_name: Name<'_>,
    ) -> Result<Attributes> {
        self.settle()?;
        self.copy_tree(caller, (parent, name), (new_parent, new_name))
    }

    fn grow(&self, caller: &Caller<'_>) -> Result<u64> {
        self.may_manage(caller)?;
        Ok(self.store.database.grow()?)
    }

    fn quiesce(&self, caller: &Caller<'_>) -> Result<()> {
        self.may_manage(caller)?;
        self.settle_to_last()?;
        while self.reap(REAPED_AT_A_TIME)? {}
        Ok(self.store.database.quiesce()?)
    }

    fn findings(&self, caller: &Caller<'_>) -> Result<Vec<String>> {
        self.may_manage(caller)?;
        let mut findings: Vec<Finding> = self.store.database.verify()?.into_iter().map(Finding::Store).collect();
        findings.extend(self.check()?);
        Ok(findings.iter().map(ToString::to_string).collect())
    }

    fn trim(&self, caller: &Caller<'_>) -> Result<u64> {
        self.may_manage(caller)?;
        Ok(self.store.database.trim()?)
    }

    fn reap(&self, entries: usize) -> Result<bool> {
        Ok(self.reap_entries(entries)? || self.move_owed()?)
    }

    fn keep_snapshot(&self, caller: &Caller<'_>, name: &str) -> Result<()> {
        self.settle_to_last()?;
        self.keep(caller, name)
    }

    fn drop_snapshot(&self, caller: &Caller<'_>, name: &str) -> Result<()> {
        self.give_up(caller, name)
    }

    fn work(&self, bytes: u64) -> Result<bool> {
        // What is over owes nothing.
        Ok(!self.store.is_past() && self.store.database.work(bytes)?)
    }

    fn tmpfile(&self, caller: &Caller<'_>, parent: InodeNumber, permissions: Permissions) -> Result<Attributes> {
        self.settle()?;
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
        self.settle_of(inode)?;
        {
            let _gate = self.shared();
            if !self.count_release(inode)? || self.inode(inode)?.attributes.links > 0 {
                return Ok(());
            }
        }
        self.settle()?;
        self.remove_if_unused(inode)
    }

    fn read(&self, caller: &Caller<'_>, inode: InodeNumber, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        self.settle_of(inode)?;
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
        self.settle()?;
        self.allocate(caller, inode, mode, offset_bytes, length_bytes)
    }

    fn seek(&self, inode: InodeNumber, offset_bytes: u64, what: Seek) -> Result<u64> {
        self.settle_of(inode)?;
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
        self.settle()?;
        self.copy(caller, (source, source_offset_bytes), (target, target_offset_bytes), length_bytes)
    }

    fn fsync(&self, inode: InodeNumber) -> Result<()> {
        self.attributes(inode)?;
        self.syncfs()
    }

    fn syncfs(&self) -> Result<()> {
        if self.store.is_past() || mutated(Mutant::SyncDoesNothing) {
            return Ok(());
        }
        self.sync()
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
        self.settle_of(inode)?;
        let (now, inode) = self.moment_of(inode)?;
        match inode.attributes.kind {
            Kind::Symlink => self.target(&now, &inode),
            _ => Err(Error::Invalid),
        }
    }

    fn getxattr(&self, inode: InodeNumber, name: XattrName<'_>) -> Result<Vec<u8>> {
        self.settle_of(inode)?;
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
        self.settle()?;
        self.set_xattr(caller, inode, name, value, how)
    }

    fn listxattr(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.settle_of(inode)?;
        self.xattr_names(inode)
    }

    fn removexattr(&self, caller: &Caller<'_>, inode: InodeNumber, name: XattrName<'_>) -> Result<()> {
        self.settle()?;
        self.remove_xattr(caller, inode, name)
    }

    fn statfs(&self) -> Result<Statistics> {
        Ok(self.statistics())
    }
}

impl Volume {
    /// Removes an inode that has neither names nor users.
    pub(super) fn remove_if_unused(&self, number: InodeNumber) -> Result<()> {
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
