//! Requests about extended attributes.

use fuse::{Operation, Request, reply};

use super::{Answer, Served};
use crate::operations::{Error, InodeNumber, Permissions, SetAttributes, SetXattr, XattrName};

/// Flags of setxattr(2).
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

const TRUSTED: &[u8] = b"trusted.";

/// Classes of names whose rules the kernel knows, xattr(7); of `system.` lists of access alone.
const CLASSES: [&[u8]; 3] = [b"user.", TRUSTED, b"security."];
const ACCESS_LISTS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// A name of a class that there is. The kernel hands over any to a file system in user space.
fn of_class(name: &[u8]) -> Result<XattrName<'_>, Error> {
    let rest = CLASSES.iter().find_map(|class| name.strip_prefix(*class));
    match rest {
        Some([]) => Err(Error::Invalid),
        Some(_) => XattrName::new(name),
        None if ACCESS_LISTS.contains(&name) => XattrName::new(name),
        None => Err(Error::NotSupported),
    }
}

impl Served<'_> {
    pub(super) fn of_xattrs(&self, request: &Request<'_>, body: &mut Vec<u8>) -> Answer {
        let inode = InodeNumber(request.node);
        match request.operation {
            Operation::SetXattr { name, value, flags, kill_set_group_id } => {
                self.done(self.set(request, inode, name, value, flags))?;
                if kill_set_group_id {
                    self.done(self.kill_set_group_id(request, inode))?;
                }
                Ok(())
            }
            Operation::GetXattr { name, room_bytes } => {
                let value = of_class(name).and_then(|name| self.operations.getxattr(inode, name));
                reply::xattr(body, &self.done(value)?, room_bytes)
            }
            Operation::ListXattr { room_bytes } => {
                let mut names = self.done(self.operations.listxattr(inode))?;
                // Who may not read them does not see that they are there: `xattr_permission` of fs/xattr.c. That a caller has
                // CAP_SYS_ADMIN is not told, so root has it and nobody else.
                names.retain(|name| request.caller.uid == 0 || !name.starts_with(TRUSTED));
                names.iter_mut().for_each(|name| name.push(0));
                reply::xattr(body, &names.concat(), room_bytes)
            }
            Operation::RemoveXattr { name } => {
                let caller = self.caller(request);
                let name = of_class(name);
                self.done(name.and_then(|name| self.operations.removexattr(&caller, inode, name)))
            }
            _ => Err(super::ENOSYS),
        }
    }

    fn set(
        &self,
        request: &Request<'_>,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<(), Error> {
        let how = match flags {
            0 => SetXattr::Either,
            XATTR_CREATE => SetXattr::Create,
            XATTR_REPLACE => SetXattr::Replace,
            _ => return Err(Error::Invalid),
        };
        self.operations.setxattr(&self.caller(request), inode, of_class(name)?, value, how)
    }

    /// The set-group-ID bit goes with an access ACL that somebody outside of the group has set.
    fn kill_set_group_id(&self, request: &Request<'_>, inode: InodeNumber) -> Result<(), Error> {
        let permissions = self.operations.getattr(inode)?.permissions;
        let permissions = permissions.without(Permissions::SET_GROUP_ID);
        let changes = SetAttributes { permissions: Some(permissions), ..SetAttributes::default() };
        self.operations.setattr(&self.caller(request), inode, &changes).map(|_| ())
    }
}
