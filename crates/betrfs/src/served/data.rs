//! Requests about what files hold.

use fuse::{FallocateMode, OpenFlags, Operation, Request, reply};

use super::caller::groups;
use super::names::entry_of;
use super::{Answer, Served, convert, remembered};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Allocate, Error, InodeNumber, Name, Permissions, Seek, SetAttributes};

/// Flags of open(2), on every architecture with the numbers of asm-generic.
const O_TRUNC: u32 = 0o1_000;
const O_DSYNC: u32 = 0o10_000;
const O_DIRECT: u32 = 0o40_000;
/// Values of lseek(2)'s whence.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;
/// Most that one request copies, so that no other waits long for it.
const COPY_BYTES_MAX: u64 = 16 << 20;

/// How the kernel treats a file that was opened with these flags.
fn open_flags(flags: u32) -> OpenFlags {
    if flags & O_DIRECT != 0 {
        OpenFlags::DIRECT_IO | OpenFlags::PARALLEL_DIRECT_WRITES | OpenFlags::NOFLUSH
    } else {
        OpenFlags::KEEP_CACHE | OpenFlags::NOFLUSH
    }
}

impl Served<'_> {
    pub(super) fn of_data(&self, request: &Request<'_>, body: &mut Vec<u8>) -> Answer {
        let inode = InodeNumber(request.node);
        match request.operation {
            Operation::Open { flags, kill_privileges } => {
                self.done(self.open(request, inode, flags, kill_privileges))?;
                reply::opened(body, 0, open_flags(flags));
            }
            Operation::Create { name, mode, umask, flags, .. } => {
                let groups = groups(request, mode);
                let caller = self.maker(request, umask, &groups);
                let permissions = Permissions::of_mode(mode);
                let made = Name::new(name).and_then(|name| self.operations.create(&caller, inode, name, permissions));
                reply::created(body, &entry_of(&self.done(made)?), 0, open_flags(flags));
            }
            Operation::TemporaryFile { mode, umask, flags } => {
                let groups = groups(request, mode);
                let caller = self.maker(request, umask, &groups);
                let made = self.done(self.operations.tmpfile(&caller, inode, Permissions::of_mode(mode)))?;
                reply::created(body, &entry_of(&made), 0, open_flags(flags));
            }
            Operation::Read { offset, length, .. } => {
                body.resize(length as usize, 0);
                let read = self.done(self.operations.read(&self.caller(request), inode, offset, body))?;
                body.truncate(read);
            }
            Operation::Write { offset, data, flags, kill_privileges, .. } => {
                self.done(self.operations.write(&self.caller(request), inode, offset, data, kill_privileges))?;
                // Through the page cache the kernel follows with an FSYNC of its own.
                if flags & O_DSYNC != 0 && flags & O_DIRECT != 0 && !mutated(Mutant::SyncWriteWaits) {
                    self.done(self.operations.fsync(inode))?;
                }
                // A request's length is 32 bits wide.
                reply::written(body, data.len() as u32);
            }
            Operation::Fsync { .. } => self.done(self.operations.fsync(inode))?,
            Operation::Fallocate { offset, length, mode, .. } => {
                let how = self.done(allocation(mode))?;
                self.done(self.operations.fallocate(&self.caller(request), inode, how, offset, length))?;
            }
            Operation::Seek { offset, whence, .. } => {
                let what = match whence {
                    SEEK_DATA => Seek::Data,
                    SEEK_HOLE => Seek::Hole,
                    _ => return Err(Error::Invalid.errno()),
                };
                reply::offset(body, self.done(self.operations.seek(inode, offset, what))?);
            }
            Operation::CopyRange { offset, to_node, to_offset, length, .. } => {
                let (caller, length) = (self.caller(request), length.min(COPY_BYTES_MAX));
                let to = InodeNumber(to_node);
                let copied = self.operations.copy_file_range(&caller, inode, offset, to, to_offset, length);
                // No more than was asked for, which is less than 32 bits wide.
                reply::written(body, self.done(copied)? as u32);
            }
            Operation::Release { .. } => self.done(self.operations.release(inode))?,
            _ => return Err(super::ENOSYS),
        }
        Ok(())
    }

    fn open(&self, request: &Request<'_>, inode: InodeNumber, flags: u32, kill_privileges: bool) -> Result<(), Error> {
        self.operations.open(inode)?;
        if flags & O_TRUNC == 0 {
            return Ok(());
        }
        let changes = SetAttributes { size_bytes: Some(0), kill_privileges, ..SetAttributes::default() };
        let cut = self.operations.setattr(&self.caller(request), inode, &changes);
        if cut.is_err() {
            // The kernel will not release what was not opened.
            self.operations.release(inode)?;
        }
        cut.map(|_| ())
    }

    pub(super) fn set_attributes(
        &self,
        request: &Request<'_>,
        inode: InodeNumber,
        changes: &fuse::SetAttributes,
        body: &mut Vec<u8>,
    ) -> Answer {
        let caller = self.caller(request);
        let changed = self.operations.setattr(&caller, inode, &convert::changes(changes, caller.now));
        let changed = self.done(changed)?;
        reply::attributes(body, &convert::attributes(&changed), remembered(&changed));
        Ok(())
    }
}

/// What `fallocate` is asked to do. The kernel passes no range that is collapsed or inserted.
fn allocation(mode: FallocateMode) -> Result<Allocate, Error> {
    const KEEP: FallocateMode = FallocateMode::KEEP_SIZE;
    match mode {
        _ if mode.is_empty() => Ok(Allocate::Extend),
        KEEP => Ok(Allocate::KeepSize),
        FallocateMode::ZERO_RANGE => Ok(Allocate::ZeroRange),
        _ if mode == KEEP | FallocateMode::PUNCH_HOLE => Ok(Allocate::PunchHole),
        _ if mode == KEEP | FallocateMode::ZERO_RANGE => Ok(Allocate::ZeroRangeKeepSize),
        _ => Err(Error::NotSupported),
    }
}
