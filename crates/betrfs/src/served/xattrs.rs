//! Requests about extended attributes.

use fuse::{Operation, Request, reply};

use super::{Answer, Served};
use crate::operations::{Error, InodeNumber, Permissions, SetAttributes, SetXattr, XattrName};

/// Flags of setxattr(2).
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

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
                let value = XattrName::new(name).and_then(|name| self.operations.getxattr(inode, name));
                reply::xattr(body, &self.done(value)?, room_bytes)
            }
            Operation::ListXattr { room_bytes } => {
                let mut names = self.done(self.operations.listxattr(inode))?;
                names.iter_mut().for_each(|name| name.push(0));
                reply::xattr(body, &names.concat(), room_bytes)
            }
            Operation::RemoveXattr { name } => {
                let caller = self.caller(request);
                let name = XattrName::new(name);
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
        self.operations.setxattr(&self.caller(request), inode, XattrName::new(name)?, value, how)
    }

    /// The set-group-ID bit goes with an access ACL that somebody outside of the group has set.
    fn kill_set_group_id(&self, request: &Request<'_>, inode: InodeNumber) -> Result<(), Error> {
        let permissions = self.operations.getattr(inode)?.permissions;
        let permissions = permissions.without(Permissions::SET_GROUP_ID);
        let changes = SetAttributes { permissions: Some(permissions), ..SetAttributes::default() };
        self.operations.setattr(&self.caller(request), inode, &changes).map(|_| ())
    }
}
