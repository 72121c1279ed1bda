//! From the bytes of a FUSE request to what it asks.

mod forgets;
mod operation;
mod parts;
mod set_attributes;

use zerocopy::FromBytes;

pub use self::forgets::Forgets;
pub use self::operation::Operation;
pub(crate) use self::parts::{Parts, Shape};
pub use self::set_attributes::{SetAttributes, SetTime};
use crate::abi::init::{InitFlags, InitIn};
use crate::abi::input::{
    AccessIn, BatchForgetIn, CopyFileRangeIn, CreateIn, FSYNC_FDATASYNC, FallocateIn, FallocateMode, FlushIn, ForgetIn,
    FsyncIn, GETATTR_FH, GetAttrIn, GetxattrIn, InterruptIn, IoctlIn, LinkIn, LseekIn, MkdirIn, MknodIn,
    OPEN_KILL_SUIDGID, OpenIn, ReleaseIn, Rename2In, RenameIn, SETXATTR_ACL_KILL_SGID, SETXATTR_SHORT_BYTES, SetAttrIn,
    SetxattrIn, TransferIn, WRITE_KILL_SUIDGID,
};
use crate::abi::{InHeader, opcode};

/// Room that a read of `/dev/fuse` needs besides a write's data: the kernel
/// refuses a smaller buffer (`fuse_dev_do_read` in `fs/fuse/dev.c`).
pub(crate) const HEADER_ROOM_BYTES: usize = size_of::<InHeader>() + size_of::<TransferIn>();

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user by whose rights it is done (the file system's uid).
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The thread; 0 for work of the kernel.
    pub pid: u32,
}

/// What the kernel offers first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Init {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) max_readahead: u32,
    pub(crate) flags: InitFlags,
}

/// Why bytes are not a request. The kernel sends none of these; whoever does is
/// not the kernel, and the connection is at an end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    #[error("{bytes} bytes are no FUSE request")]
    Short { bytes: usize },
    #[error("a FUSE request says that it has {said} bytes and has {bytes}")]
    Length { said: u32, bytes: usize },
    #[error("FUSE request {opcode} is cut off after {bytes} bytes")]
    Cut { opcode: u32, bytes: usize },
}

impl<'a> Parts<'a> {
    fn cut(&self) -> ParseError {
        ParseError::Cut { opcode: self.header.opcode, bytes: self.header.len as usize }
    }

    /// What the operation begins with.
    fn own<T: FromBytes>(&self) -> Result<T, ParseError> {
        T::read_from_prefix(self.own).map(|(own, _)| own).map_err(|_| self.cut())
    }

    /// The name that `bytes` begin with, and what follows its zero.
    fn name(&self, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), ParseError> {
        let end = bytes.iter().position(|byte| *byte == 0).ok_or_else(|| self.cut())?;
        Ok((bytes.get(..end).unwrap_or_default(), bytes.get(end + 1..).unwrap_or_default()))
    }

    /// The name that the rest is.
    fn only_name(&self) -> Result<&'a [u8], ParseError> {
        Ok(self.name(self.rest)?.0)
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller { uid: self.header.uid, gid: self.header.gid, pid: self.header.pid }
    }

    /// The kernel's offer, if it is one.
    pub(crate) fn init(&self) -> Result<Option<Init>, ParseError> {
        if self.header.opcode != opcode::INIT {
            return Ok(None);
        }
        let (InitIn { major, minor, max_readahead, flags }, more) =
            InitIn::read_from_prefix(self.own).map_err(|_| self.cut())?;
        let flags2 = u32::read_from_prefix(more).map_or(0, |(flags2, _)| flags2);
        Ok(Some(Init { major, minor, max_readahead, flags: InitFlags::of(flags, flags2) }))
    }

    /// What is asked.
    pub(crate) fn operation(&self) -> Result<Operation<'a>, ParseError> {
        Ok(match self.header.opcode {
            opcode::LOOKUP => Operation::Lookup { name: self.only_name()? },
            opcode::FORGET => Operation::Forget(Forgets::one(self.header.nodeid, self.own::<ForgetIn>()?.nlookup)),
            opcode::BATCH_FORGET => {
                let BatchForgetIn { count, .. } = self.own()?;
                Operation::Forget(Forgets::many(count, self.rest).ok_or_else(|| self.cut())?)
            }
            opcode::GETATTR => {
                let GetAttrIn { getattr_flags, fh, .. } = self.own()?;
                Operation::GetAttr { handle: (getattr_flags & GETATTR_FH != 0).then_some(fh) }
            }
            opcode::SETATTR => Operation::SetAttr(SetAttributes::of(&self.own::<SetAttrIn>()?)),
            opcode::STATFS => Operation::StatFs,
            opcode::ACCESS => Operation::Access { mask: self.own::<AccessIn>()?.mask },
            opcode::SYNCFS => Operation::SyncFs,
            opcode::INTERRUPT => Operation::Interrupt { unique: self.own::<InterruptIn>()?.unique },
            opcode::DESTROY => Operation::Destroy,
            opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::REMOVEXATTR => return self.of_xattrs(),
            opcode::OPENDIR | opcode::READDIR | opcode::READDIRPLUS | opcode::RELEASEDIR | opcode::FSYNCDIR => {
                return self.of_open_folder();
            }
            _ => return if self.header.opcode < opcode::OPEN { self.of_names() } else { self.of_open_file() },
        })
    }

    /// Operations on names.
    fn of_names(&self) -> Result<Operation<'a>, ParseError> {
        Ok(match self.header.opcode {
            opcode::READLINK => Operation::ReadLink,
            opcode::SYMLINK => {
                let (name, target) = self.name(self.rest)?;
                Operation::Symlink { name, target: self.name(target)?.0 }
            }
            opcode::MKNOD => {
                let MknodIn { mode, rdev, umask, .. } = self.own()?;
                Operation::MakeNode { name: self.only_name()?, mode, rdev, umask }
            }
            opcode::MKDIR => {
                let MkdirIn { mode, umask } = self.own()?;
                Operation::MakeDirectory { name: self.only_name()?, mode, umask }
            }
            opcode::UNLINK => Operation::Unlink { name: self.only_name()? },
            opcode::RMDIR => Operation::RemoveDirectory { name: self.only_name()? },
            opcode::RENAME => self.rename(self.own::<RenameIn>()?.newdir, 0)?,
            opcode::LINK => Operation::Link { node: self.own::<LinkIn>()?.oldnodeid, new_name: self.only_name()? },
            _ => Operation::Unsupported,
        })
    }

    fn rename(&self, new_parent: u64, flags: u32) -> Result<Operation<'a>, ParseError> {
        let (name, new_name) = self.name(self.rest)?;
        Ok(Operation::Rename { name, new_parent, new_name: self.name(new_name)?.0, flags })
    }

    /// Operations on files that are open, or become so, and the newest.
    fn of_open_file(&self) -> Result<Operation<'a>, ParseError> {
        Ok(match self.header.opcode {
            opcode::OPEN => {
                let OpenIn { flags, open_flags } = self.own()?;
                Operation::Open { flags, kill_privileges: open_flags & OPEN_KILL_SUIDGID != 0 }
            }
            opcode::CREATE => {
                let CreateIn { flags, mode, umask, open_flags } = self.own()?;
                let kill_privileges = open_flags & OPEN_KILL_SUIDGID != 0;
                Operation::Create { name: self.only_name()?, mode, umask, flags, kill_privileges }
            }
            opcode::TMPFILE => {
                let CreateIn { flags, mode, umask, .. } = self.own()?;
                Operation::TemporaryFile { mode, umask, flags }
            }
            opcode::READ => {
                let TransferIn { fh, offset, size, flags, .. } = self.own()?;
                Operation::Read { handle: fh, offset, length: size, flags }
            }
            opcode::WRITE => {
                let TransferIn { fh, offset, size, transfer_flags, flags, .. } = self.own()?;
                if self.rest.len() != size as usize {
                    return Err(self.cut());
                }
                let kill_privileges = transfer_flags & WRITE_KILL_SUIDGID != 0;
                Operation::Write { handle: fh, offset, data: self.rest, flags, kill_privileges }
            }
            opcode::FSYNC => {
                let FsyncIn { fh, fsync_flags, .. } = self.own()?;
                Operation::Fsync { handle: fh, data_only: fsync_flags & FSYNC_FDATASYNC != 0 }
            }
            opcode::FLUSH => Operation::Flush { handle: self.own::<FlushIn>()?.fh },
            opcode::RELEASE => {
                let ReleaseIn { fh, flags, .. } = self.own()?;
                Operation::Release { handle: fh, flags }
            }
            opcode::FALLOCATE => {
                let FallocateIn { fh, offset, length, mode, .. } = self.own()?;
                Operation::Fallocate { handle: fh, offset, length, mode: FallocateMode::from_bits_retain(mode) }
            }
            opcode::LSEEK => {
                let LseekIn { fh, offset, whence, .. } = self.own()?;
                Operation::Seek { handle: fh, offset, whence }
            }
            opcode::COPY_FILE_RANGE => {
                let CopyFileRangeIn { fh_in, off_in, nodeid_out, fh_out, off_out, len, .. } = self.own()?;
                Operation::CopyRange {
                    handle: fh_in,
                    offset: off_in,
                    to_node: nodeid_out,
                    to_handle: fh_out,
                    to_offset: off_out,
                    length: len,
                }
            }
            opcode::IOCTL => {
                let IoctlIn { fh, cmd, arg, in_size, out_size, .. } = self.own()?;
                let data = self.rest.get(..in_size as usize).ok_or_else(|| self.cut())?;
                Operation::Ioctl { handle: fh, command: cmd, argument: arg, data, room_bytes: out_size }
            }
            opcode::RENAME2 => {
                let Rename2In { newdir, flags, .. } = self.own()?;
                self.rename(newdir, flags)?
            }
            _ => Operation::Unsupported,
        })
    }

    /// Operations on folders that are open, or become so.
    fn of_open_folder(&self) -> Result<Operation<'a>, ParseError> {
        Ok(match self.header.opcode {
            opcode::OPENDIR => Operation::OpenDirectory { flags: self.own::<OpenIn>()?.flags },
            opcode::READDIR | opcode::READDIRPLUS => {
                let TransferIn { fh, offset, size, .. } = self.own()?;
                let plus = self.header.opcode == opcode::READDIRPLUS;
                Operation::ReadDirectory { handle: fh, cookie: offset, room_bytes: size, plus }
            }
            opcode::RELEASEDIR => Operation::ReleaseDirectory { handle: self.own::<ReleaseIn>()?.fh },
            opcode::FSYNCDIR => {
                let FsyncIn { fh, fsync_flags, .. } = self.own()?;
                Operation::FsyncDirectory { handle: fh, data_only: fsync_flags & FSYNC_FDATASYNC != 0 }
            }
            _ => Operation::Unsupported,
        })
    }

    /// Operations on extended attributes.
    fn of_xattrs(&self) -> Result<Operation<'a>, ParseError> {
        Ok(match self.header.opcode {
            opcode::SETXATTR => {
                let own_bytes =
                    if self.shape.setxattr_is_long { size_of::<SetxattrIn>() } else { SETXATTR_SHORT_BYTES };
                let mut own = [0; size_of::<SetxattrIn>()];
                own[..own_bytes].copy_from_slice(self.own.get(..own_bytes).ok_or_else(|| self.cut())?);
                let (name, value) = self.name(self.rest)?;
                let SetxattrIn { size, flags, setxattr_flags, .. } =
                    SetxattrIn::read_from_bytes(&own).map_err(|_| self.cut())?;
                let value = value.get(..size as usize).ok_or_else(|| self.cut())?;
                let kill_set_group_id = setxattr_flags & SETXATTR_ACL_KILL_SGID != 0;
                Operation::SetXattr { name, value, flags, kill_set_group_id }
            }
            opcode::GETXATTR => {
                Operation::GetXattr { name: self.only_name()?, room_bytes: self.own::<GetxattrIn>()?.size }
            }
            opcode::LISTXATTR => Operation::ListXattr { room_bytes: self.own::<GetxattrIn>()?.size },
            opcode::REMOVEXATTR => Operation::RemoveXattr { name: self.only_name()? },
            _ => Operation::Unsupported,
        })
    }
}

#[cfg(test)]
mod tests;
