//! `getattr` and `setattr`.

use super::Volume;
use super::transaction::Transaction;
use crate::acl;
use crate::operations::{Attributes, Caller, InodeNumber, Permissions, Result, SetAttributes};
use crate::rules;
use crate::schema;

impl Volume {
    pub(super) fn attributes(&self, number: InodeNumber) -> Result<Attributes> {
        let _gate = self.shared();
        Ok(self.inode(number)?.attributes)
    }

    pub(super) fn set_attributes(
        &self,
        caller: &Caller<'_>,
        number: InodeNumber,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let grows = changes.size_bytes.is_some_and(|size| size > 0);
        self.change(grows.then_some(0), |transaction| {
            let inode = transaction.inode(number)?;
            let before = inode.attributes.size_bytes;
            rules::set_attributes(&mut inode.attributes, caller, changes)?;
            let (after, has_xattrs) = (inode.attributes.size_bytes, inode.has_xattrs);
            if changes.size_bytes.is_some() {
                transaction.resize(number, before, after)?;
            }
            if let Some(permissions) = changes.permissions
                && has_xattrs
            {
                transaction.change_access_list(number, permissions)?;
            }
            Ok(transaction.inode(number)?.attributes)
        })
    }
}

impl Transaction<'_> {
    /// An access list says what `chmod` said.
    fn change_access_list(&mut self, number: InodeNumber, permissions: Permissions) -> Result<()> {
        let store = self.store();
        let key = schema::xattr_key(number, acl::ACCESS);
        if let Some(mut list) = store.xattrs.get(&key)? {
            acl::set_permissions(&mut list, permissions);
            self.batch.insert(&store.xattrs, key, list);
        }
        Ok(())
    }
}
