//! One of two file systems that get the same operations.

use std::sync::Mutex;

use fuse::{Handler, Operation, Request};
use rustix::fs::OFlags;

use super::action::{Action, bytes};
use super::compare::reader;
use crate::operations::{
    Attributes, Caller, Cookie, Error, InodeNumber, Name, Operations, Permissions, Result, Seek, SetAttributes,
    Timestamp, XattrName,
};
use crate::served::Served;

/// A file system with the inodes that operations speak of.
pub(super) struct Side<F> {
    pub fs: F,
    pub slots: Vec<InodeNumber>,
    pub opened: Vec<InodeNumber>,
    /// Where the last write ended.
    pub end: (InodeNumber, u64),
}

/// What an operation answered, in terms that are the same on both sides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Done,
    Attributes(Seen),
    Bytes(Vec<u8>),
    Count(u64),
    Names(Vec<Vec<u8>>),
    /// Where data or a hole is differs: it is compared with the contents.
    Sought,
    Error(Error),
}

/// As the server answers a write to a file that was opened with `O_DIRECT` and `O_DSYNC`.
fn write_synced(fs: &impl Operations, caller: &Caller<'_>, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<()> {
    let (now, failed) = (caller.now, Mutex::new(None));
    let note = |error: &Error| *failed.lock().unwrap() = Some(error.clone());
    let clock = || now;
    let served = Served::new(fs, &clock, &note, None);
    let flags = (OFlags::WRONLY | OFlags::DIRECT | OFlags::DSYNC).bits();
    let operation = Operation::Write { handle: 0, offset, data, flags, kill_privileges: false };
    let by = fuse::Caller { uid: caller.uid, gid: caller.gid, pid: 1 };
    let answer = served.answer(&Request { node: inode.0, caller: by, operation }, &mut Vec::new());
    match (answer, failed.into_inner().unwrap()) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(error)) => Err(error),
        (Err(errno), None) => Err(error_of(errno)),
    }
}

/// Of the errors that a write may have.
fn error_of(errno: i32) -> Error {
    let errors = [Error::IsDirectory, Error::Invalid, Error::FileTooBig, Error::NoSpace, Error::ReadOnly, Error::Stale];
    let found = errors.into_iter().find(|error| error.errno() == errno);
    found.unwrap_or_else(|| Error::Io(format!("error {errno}")))
}

/// Attributes without number and space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub mode: u32,
    pub links: u32,
    pub owner: (u32, u32, u32),
    pub size_bytes: u64,
    pub times: [Timestamp; 4],
}

pub(super) fn seen(attributes: &Attributes) -> Seen {
    let Attributes { uid, gid, device, accessed, modified, changed, created, .. } = *attributes;
    Seen {
        mode: attributes.mode(),
        links: attributes.links,
        owner: (uid, gid, device),
        size_bytes: attributes.size_bytes,
        times: [accessed, modified, changed, created],
    }
}

/// Entries of a directory, read a few at a time, `.` and `..` left out.
pub(super) fn entries(
    fs: &impl Operations,
    inode: InodeNumber,
    at_a_time: usize,
) -> Result<Vec<(Vec<u8>, Attributes)>> {
    let (mut found, mut after) = (Vec::new(), Cookie::START);
    loop {
        let mut count = 0;
        fs.readdir(inode, after, &mut |entry| {
            if count == at_a_time {
                return false;
            }
            count += 1;
            after = entry.next;
            found.push((entry.name.to_vec(), entry.attributes));
            true
        })?;
        if count < at_a_time {
            break;
        }
    }
    if found.len() < 2 || found[0].0 != b"." || found[1].0 != b".." {
        return Err(Error::Corrupt("a directory does not begin with . and ..".to_owned()));
    }
    found.drain(..2);
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

impl<F: Operations> Side<F> {
    pub fn new(fs: F) -> Self {
        Self { fs, slots: vec![InodeNumber::ROOT], opened: Vec::new(), end: (InodeNumber::ROOT, 0) }
    }

    fn keep(&mut self, attributes: Attributes) -> Answer {
        if !self.slots.contains(&attributes.inode) {
            self.slots.push(attributes.inode);
        }
        Answer::Attributes(seen(&attributes))
    }

    /// Carries out an operation at a time.
    pub fn apply(&mut self, action: &Action, now: Timestamp) -> Answer {
        self.try_apply(action, now).unwrap_or_else(Answer::Error)
    }

    fn try_apply(&mut self, action: &Action, now: Timestamp) -> Result<Answer> {
        let caller = &Caller { uid: 1000, gid: 100, groups: &[7], umask: 0o022, now };
        let fs = &self.fs;
        let at = |slot: &usize| self.slots[slot % self.slots.len()];
        let permissions = |mode: &u32| Permissions::of_mode(*mode);
        Ok(match action {
            Action::Lookup { parent, name } => {
                let found = fs.lookup(at(parent), Name::new(name)?)?;
                self.keep(found)
            }
            Action::Create { parent, name, mode } => {
                let made = fs.create(caller, at(parent), Name::new(name)?, permissions(mode))?;
                self.opened.push(made.inode);
                self.keep(made)
            }
            Action::Mknod { parent, name, kind, mode } => {
                let made = fs.mknod(caller, at(parent), Name::new(name)?, *kind, permissions(mode), 0x103)?;
                self.keep(made)
            }
            Action::Mkdir { parent, name, mode } => {
                let made = fs.mkdir(caller, at(parent), Name::new(name)?, permissions(mode))?;
                self.keep(made)
            }
            Action::Symlink { parent, name, target } => {
                let made = fs.symlink(caller, at(parent), Name::new(name)?, target)?;
                self.keep(made)
            }
            Action::Link { inode, parent, name } => {
                let linked = fs.link(caller, at(inode), at(parent), Name::new(name)?)?;
                self.keep(linked)
            }
            Action::Unlink { parent, name } => {
                fs.unlink(caller, at(parent), Name::new(name)?)?;
                Answer::Done
            }
            Action::Rmdir { parent, name } => {
                fs.rmdir(caller, at(parent), Name::new(name)?)?;
                Answer::Done
            }
            Action::RemoveTree { parent, name, at_a_time } => {
                fs.remove_tree(caller, at(parent), Name::new(name)?)?;
                while fs.reap(*at_a_time)? {}
                Answer::Done
            }
            Action::CloneTree { parent, name, new_parent, new_name } => {
                let (name, new_name) = (Name::new(name)?, Name::new(new_name)?);
                let made = fs.clone_tree(caller, at(parent), name, at(new_parent), new_name)?;
                self.keep(made)
            }
            Action::Rename { parent, name, new_parent, new_name, flags } => {
                let (name, new_name) = (Name::new(name)?, Name::new(new_name)?);
                fs.rename(caller, at(parent), name, at(new_parent), new_name, *flags)?;
                Answer::Done
            }
            Action::Tmpfile { parent, mode } => {
                let made = fs.tmpfile(caller, at(parent), permissions(mode))?;
                self.opened.push(made.inode);
                self.keep(made)
            }
            Action::Open { inode } => {
                let inode = at(inode);
                fs.open(inode)?;
                self.opened.push(inode);
                Answer::Done
            }
            Action::Release { inode } => {
                let inode = at(inode);
                fs.release(inode)?;
                let place = self.opened.iter().position(|one| *one == inode);
                self.opened.swap_remove(place.ok_or_else(|| Error::Corrupt("nobody opened it".to_owned()))?);
                Answer::Done
            }
            Action::Read { inode, offset, length } => {
                let mut buffer = vec![0xaa; *length];
                let length = fs.read(caller, at(inode), *offset, &mut buffer)?;
                buffer.truncate(length);
                Answer::Bytes(buffer)
            }
            Action::Write { inode, offset, length, seed, kill } => {
                let inode = at(inode);
                let written = fs.write(caller, inode, *offset, &bytes(*seed, *length), *kill)?;
                self.end = (inode, offset + *length as u64);
                Answer::Attributes(seen(&written))
            }
            Action::WriteOn { length, seed, kill } => {
                let (inode, offset) = self.end;
                let written = fs.write(caller, inode, offset, &bytes(*seed, *length), *kill)?;
                self.end = (inode, offset + *length as u64);
                Answer::Attributes(seen(&written))
            }
            Action::SyncWrite { inode, offset, length, seed } => {
                let inode = at(inode);
                write_synced(fs, caller, inode, *offset, &bytes(*seed, *length))?;
                self.end = (inode, offset + *length as u64);
                Answer::Attributes(seen(&fs.getattr(inode)?))
            }
            Action::Truncate { inode, size } => self.set(caller, *inode, |changes| changes.size_bytes = Some(*size))?,
            Action::Chmod { inode, mode } => {
                self.set(caller, *inode, |changes| changes.permissions = Some(permissions(mode)))?
            }
            Action::Chown { inode, uid } => self.set(caller, *inode, |changes| changes.uid = Some(*uid))?,
            Action::Utimes { inode, seconds } => self.set(caller, *inode, |changes| {
                changes.accessed = Some(Timestamp { seconds: *seconds, nanoseconds: 999_999_999 });
                changes.modified = Some(Timestamp { seconds: -*seconds, nanoseconds: 1 });
            })?,
            Action::Fallocate { inode, mode, offset, length } => {
                Answer::Attributes(seen(&fs.fallocate(caller, at(inode), *mode, *offset, *length)?))
            }
            Action::Seek { inode, offset, what } => self.seek(at(inode), *offset, *what)?,
            Action::Copy { source, from, target, to, length } => {
                Answer::Count(fs.copy_file_range(caller, at(source), *from, at(target), *to, *length)?)
            }
            Action::SetXattr { inode, name, value, how } => {
                fs.setxattr(caller, at(inode), XattrName::new(name)?, value, *how)?;
                Answer::Bytes(fs.getxattr(at(inode), XattrName::new(name)?)?)
            }
            Action::RemoveXattr { inode, name } => {
                fs.removexattr(caller, at(inode), XattrName::new(name)?)?;
                Answer::Done
            }
            Action::Readdir { inode } => {
                Answer::Names(entries(fs, at(inode), 3)?.into_iter().map(|(name, _)| name).collect())
            }
            Action::Fsync { inode } => {
                fs.fsync(at(inode))?;
                Answer::Done
            }
            Action::Syncfs => {
                fs.syncfs()?;
                Answer::Done
            }
        })
    }

    fn set(&self, caller: &Caller<'_>, slot: usize, set: impl FnOnce(&mut SetAttributes)) -> Result<Answer> {
        let mut changes = SetAttributes::default();
        set(&mut changes);
        let inode = self.slots[slot % self.slots.len()];
        Ok(Answer::Attributes(seen(&self.fs.setattr(caller, inode, &changes)?)))
    }

    /// What lies before data, and what a hole has, must be zeroes.
    fn seek(&self, inode: InodeNumber, offset: u64, what: Seek) -> Result<Answer> {
        let size = self.fs.getattr(inode)?.size_bytes;
        let wrong = |what: &str| Error::Corrupt(format!("{what} at {offset} of {size}"));
        let zeroes = |begin: u64, end: u64| -> Result<bool> {
            let mut buffer = vec![1; (end - begin) as usize];
            let length = self.fs.read(&reader(), inode, begin, &mut buffer)?;
            Ok(buffer[..length].iter().all(|byte| *byte == 0))
        };
        match (what, self.fs.seek(inode, offset, what)) {
            (Seek::Data, Ok(found)) if found < offset || found >= size || !zeroes(offset, found)? => {
                Err(wrong("data that was passed over"))
            }
            (Seek::Data, Err(Error::NoSuchAddress)) if offset < size && !zeroes(offset, size)? => {
                Err(wrong("data that was not found"))
            }
            (Seek::Hole, Ok(found)) if found < offset || found > size => Err(wrong("a hole outside of the file")),
            (Seek::Hole, Ok(found)) if found < size && !zeroes(found, (found / 4096 + 1) * 4096)? => {
                Err(wrong("a hole with data"))
            }
            (Seek::Data, Err(Error::NoSuchAddress)) if offset < size => Ok(Answer::Sought),
            (_, Err(error)) => Err(error),
            (_, Ok(_)) => Ok(Answer::Sought),
        }
    }
}
