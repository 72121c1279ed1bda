//! Requests about names.

use fuse::{Operation, Request, reply};

use super::caller::groups;
use super::{Answer, REMEMBERED, Served, convert, remembered};
use crate::operations::{Attributes, Error, InodeNumber, Kind, Name, Permissions, RenameFlags};

/// Flags of renameat2(2).
const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;

/// A node as answers say it.
pub(super) fn entry_of(attributes: &Attributes) -> reply::Entry {
    let valid = remembered(attributes);
    let attributes = convert::attributes(attributes);
    // Inode numbers are never used again, so that every node is of the first generation.
    reply::Entry { node: attributes.ino, generation: 0, attributes, valid }
}

/// No node, as the answer to a lookup says it, so that the kernel remembers that too.
fn nothing() -> reply::Entry {
    reply::Entry { node: 0, generation: 0, attributes: fuse::Attributes::default(), valid: REMEMBERED }
}

impl Served<'_> {
    pub(super) fn of_names(&self, request: &Request<'_>, body: &mut Vec<u8>) -> Answer {
        let parent = InodeNumber(request.node);
        let made = match request.operation {
            Operation::Lookup { name } => match Name::new(name).and_then(|name| self.operations.lookup(parent, name)) {
                Err(Error::NotFound) => {
                    reply::entry(body, &nothing());
                    return Ok(());
                }
                found => found,
            },
            Operation::ReadLink => {
                *body = self.done(self.operations.readlink(parent))?;
                return Ok(());
            }
            Operation::Symlink { name, target } => {
                let caller = self.maker(request, 0, &[]);
                Name::new(name).and_then(|name| self.operations.symlink(&caller, parent, name, target))
            }
            Operation::MakeNode { name, mode, rdev, umask } => {
                let groups = groups(request, mode);
                let caller = self.maker(request, umask, &groups);
                let permissions = Permissions::of_mode(mode);
                Name::new(name).and_then(|name| match Kind::of_mode(mode) {
                    Some(kind) => self.operations.mknod(&caller, parent, name, kind, permissions, rdev),
                    None => Err(Error::Invalid),
                })
            }
            Operation::MakeDirectory { name, mode, umask } => {
                let caller = self.maker(request, umask, &[]);
                let permissions = Permissions::of_mode(mode);
                Name::new(name).and_then(|name| self.operations.mkdir(&caller, parent, name, permissions))
            }
            Operation::Link { node, new_name } => {
                let caller = self.caller(request);
                Name::new(new_name).and_then(|name| self.operations.link(&caller, InodeNumber(node), parent, name))
            }
            _ => return self.done(self.remove_or_rename(request, parent)),
        };
        reply::entry(body, &entry_of(&self.done(made)?));
        Ok(())
    }

    fn remove_or_rename(&self, request: &Request<'_>, parent: InodeNumber) -> Result<(), Error> {
        let caller = self.caller(request);
        match request.operation {
            Operation::Unlink { name } => self.operations.unlink(&caller, parent, Name::new(name)?),
            Operation::RemoveDirectory { name } => self.operations.rmdir(&caller, parent, Name::new(name)?),
            Operation::Rename { name, new_parent, new_name, flags } => {
                let how = match flags {
                    0 => RenameFlags::Replace,
                    RENAME_NOREPLACE => RenameFlags::NoReplace,
                    RENAME_EXCHANGE => RenameFlags::Exchange,
                    _ => return Err(Error::Invalid),
                };
                let (name, new_name) = (Name::new(name)?, Name::new(new_name)?);
                self.operations.rename(&caller, parent, name, InodeNumber(new_parent), new_name, how)
            }
            _ => Err(Error::NotSupported),
        }
    }
}
