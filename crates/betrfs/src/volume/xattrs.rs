//! Extended attributes.

use super::Volume;
use crate::acl;
use crate::operations::{Caller, Error, InodeNumber, Result, SetXattr, XattrName};
use crate::rules::XATTR_BYTES_MAX;
use crate::schema;

impl Volume {
    pub(super) fn xattr(&self, number: InodeNumber, name: XattrName<'_>) -> Result<Vec<u8>> {
        let _gate = self.shared();
        if !self.inode(number)?.has_xattrs {
            return Err(Error::NoData);
        }
        self.store.xattrs.get(schema::xattr_key(number, name.bytes()))?.ok_or(Error::NoData)
    }

    pub(super) fn set_xattr(
        &self,
        caller: &Caller<'_>,
        number: InodeNumber,
        name: XattrName<'_>,
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        if value.len() > XATTR_BYTES_MAX {
            return Err(Error::TooBig);
        }
        self.change(Some(value.len()), |transaction| {
            let xattrs = &transaction.store().xattrs;
            let key = schema::xattr_key(number, name.bytes());
            let inode = transaction.inode(number)?;
            if how != SetXattr::Either {
                match (how, inode.has_xattrs && xattrs.get(&key)?.is_some()) {
                    (SetXattr::Create, true) => return Err(Error::Exists),
                    (SetXattr::Replace, false) => return Err(Error::NoData),
                    _ => {}
                }
            }
            let mut keep = true;
            if acl::is_list(name.bytes()) {
                let list = acl::parse(value)?;
                if name.bytes() == acl::ACCESS {
                    inode.attributes.permissions = list.permissions(inode.attributes.permissions);
                    keep = !list.is_minimal();
                }
            }
            inode.attributes.changed = caller.now;
            if keep {
                inode.has_xattrs = true;
                transaction.batch.insert(xattrs, key, value);
            } else if inode.has_xattrs {
                transaction.batch.remove(xattrs, key);
            }
            Ok(())
        })
    }

    pub(super) fn xattr_names(&self, number: InodeNumber) -> Result<Vec<Vec<u8>>> {
        let _gate = self.shared();
        if !self.inode(number)?.has_xattrs {
            return Ok(Vec::new());
        }
        let name = |entry: betree::Result<betree::Entry>| {
            let (key, _) = entry?;
            Ok(schema::key_number(&key)?.1.to_vec())
        };
        self.store.xattrs.range(schema::all_of(number)).map(name).collect()
    }

    pub(super) fn remove_xattr(&self, caller: &Caller<'_>, number: InodeNumber, name: XattrName<'_>) -> Result<()> {
        self.change(None, |transaction| {
            let xattrs = &transaction.store().xattrs;
            let key = schema::xattr_key(number, name.bytes());
            let inode = transaction.inode(number)?;
            if !inode.has_xattrs || xattrs.get(&key)?.is_none() {
                return Err(Error::NoData);
            }
            inode.attributes.changed = caller.now;
            transaction.batch.remove(xattrs, key);
            Ok(())
        })
    }
}
