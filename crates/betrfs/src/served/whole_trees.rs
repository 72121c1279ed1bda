//! What there are no system calls for: an ioctl of an open folder does something with a whole tree in it.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use fuse::{Request, reply};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::caller::all_groups;
use super::{Answer, ENOTTY, Served};
use crate::operations::{Caller, Error, InodeNumber, Name};

/// A name with a zero behind it.
type NameArgument = [u8; 256];

/// Which way an argument goes: to the file system (`_IOW`), or back (`_IOR`).
const GIVEN: u32 = 1;
const ANSWERED: u32 = 2;

/// The request `number` of type 'P' with such an argument (include/uapi/asm-generic/ioctl.h).
const fn request<Argument>(direction: u32, number: u32) -> u32 {
    direction << 30 | (size_of::<Argument>() as u32) << 16 | (b'P' as u32) << 8 | number
}

/// Removes the tree of this name.
const REMOVE_TREE: u32 = request::<NameArgument>(GIVEN, 1);
/// Keeps all as it is under this name, and gives that up.
const KEEP_SNAPSHOT: u32 = request::<NameArgument>(GIVEN, 2);
const DROP_SNAPSHOT: u32 = request::<NameArgument>(GIVEN, 3);

/// Copies a tree in the folder of this number to a new name here.
const CLONE_TREE: u32 = request::<CloneArgument>(GIVEN, 4);
/// Takes what the storage has become larger, and tells the storage what is free; the answer is how many bytes.
const GROW: u32 = request::<u64>(ANSWERED, 5);
const TRIM: u32 = request::<u64>(ANSWERED, 6);
/// Does all that is owed; the answer is 0.
const QUIESCE: u32 = request::<u64>(ANSWERED, 7);

/// Checks everything.
const CHECK: u32 = request::<CheckAnswer>(ANSWERED, 8);

/// How much there is to say, and what of it has room: lines, with zeroes behind them.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct CheckAnswer {
    findings: u64,
    lines: [u8; 4088],
}

impl CheckAnswer {
    fn of(findings: &[String]) -> Self {
        let mut answer = Self { findings: findings.len() as u64, lines: [0; 4088] };
        let mut end = 0;
        for finding in findings {
            let line = finding.bytes().map(|byte| if byte == 0 || byte == b'\n' { b' ' } else { byte });
            let Some(place) = answer.lines.get_mut(end..=end + finding.len()) else { break };
            place.iter_mut().zip(line.chain([b'\n'])).for_each(|(place, byte)| *place = byte);
            end += finding.len() + 1;
        }
        answer
    }

    fn lines(&self) -> Vec<String> {
        let end = self.lines.iter().position(|byte| *byte == 0).unwrap_or(self.lines.len());
        String::from_utf8_lossy(&self.lines[..end]).lines().map(str::to_owned).collect()
    }
}

/// What is to be copied, and what the copy is called.
#[repr(C)]
struct CloneArgument {
    parent: u64,
    name: NameArgument,
    new_name: NameArgument,
}

/// Removes what is called `name` in an open folder of a mount, with all that is below it, in one step. The caller must be
/// allowed to remove each entry. The space comes back by and by.
///
/// # Errors
///
/// `ENOTTY` where the folder is not in a file system of this crate, `EACCES` and `EPERM` where the caller may not, `ENOENT`, and
/// `EBUSY` where a mount or another removal is in the way.
pub fn remove_mounted_tree(folder: impl AsFd, name: &[u8]) -> io::Result<()> {
    call::<REMOVE_TREE>(folder, name)
}

/// Keeps a mounted file system as it is now under a name; `folder` is any open folder of it.
///
/// # Errors
///
/// `ENOTTY` as above, `EPERM` for who owns neither the root folder nor the machine, `EEXIST`, and what the storage met.
pub fn keep_mounted_snapshot(folder: impl AsFd, name: &str) -> io::Result<()> {
    call::<KEEP_SNAPSHOT>(folder, name.as_bytes())
}

/// Gives a kept snapshot of a mounted file system up.
///
/// # Errors
///
/// `ENOENT`, and as [`keep_mounted_snapshot`].
pub fn drop_mounted_snapshot(folder: impl AsFd, name: &str) -> io::Result<()> {
    call::<DROP_SNAPSHOT>(folder, name.as_bytes())
}

/// Makes a copy of what is called `name` in the folder whose inode number is `parent`, with all that is below it, called `new_name` in an
/// open folder of the same mount. The copy is there when all of it is. The caller must own all that is copied, or be root.
///
/// # Errors
///
/// `ENOTTY` as above, `EACCES`, `EEXIST`, `ENOENT`, `ENOSPC`, and `EBUSY` where another such call is under way.
pub fn clone_mounted_tree(folder: impl AsFd, new_name: &[u8], parent: u64, name: &[u8]) -> io::Result<()> {
    let argument = CloneArgument { parent, name: name_argument(name)?, new_name: name_argument(new_name)? };
    // SAFETY: the number says that the kernel reads this structure, and writes nothing.
    unsafe {
        let ioctl = rustix::ioctl::Setter::<CLONE_TREE, CloneArgument>::new(argument);
        rustix::ioctl::ioctl(folder, ioctl)?;
    }
    Ok(())
}

/// Has a mounted file system take into use what the storage below has become larger; how many bytes. `folder` is any open folder of it.
///
/// # Errors
///
/// `ENOTTY` as above, `EPERM` for who owns neither the root folder nor the machine, and what the storage met.
pub fn grow_mounted(folder: impl AsFd) -> io::Result<u64> {
    ask::<GROW>(folder)
}

/// Has a mounted file system tell the storage below what is free; how many bytes.
///
/// # Errors
///
/// As [`grow_mounted`].
pub fn trim_mounted(folder: impl AsFd) -> io::Result<u64> {
    ask::<TRIM>(folder)
}

/// Has a mounted file system do all that it owes to the storage.
///
/// # Errors
///
/// As [`grow_mounted`].
pub fn quiesce_mounted(folder: impl AsFd) -> io::Result<()> {
    ask::<QUIESCE>(folder).map(drop)
}

/// What a check of a mounted file system has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountedFindings {
    /// How many there are.
    pub count: u64,
    /// The first of them, as far as there was room.
    pub first: Vec<String>,
}

/// Has a mounted file system checked while it is used.
///
/// # Errors
///
/// As [`grow_mounted`].
pub fn check_mounted(folder: impl AsFd) -> io::Result<MountedFindings> {
    // SAFETY: the number says that the kernel writes this structure, and any bytes are one.
    let answer: CheckAnswer = unsafe {
        let ioctl = rustix::ioctl::Getter::<CHECK, CheckAnswer>::new();
        rustix::ioctl::ioctl(folder, ioctl)?
    };
    Ok(MountedFindings { count: answer.findings, first: answer.lines() })
}

/// One of the calls that answer a number.
fn ask<const NUMBER: u32>(folder: impl AsFd) -> io::Result<u64> {
    // SAFETY: each number says that the kernel writes eight bytes, and any are a number.
    unsafe {
        let ioctl = rustix::ioctl::Getter::<NUMBER, u64>::new();
        Ok(rustix::ioctl::ioctl(folder, ioctl)?)
    }
}

fn name_argument(name: &[u8]) -> io::Result<NameArgument> {
    let mut argument: NameArgument = [0; 256];
    let Some(place) = argument.get_mut(..name.len()).filter(|_| name.len() < 256 && !name.contains(&0)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    place.copy_from_slice(name);
    Ok(argument)
}

/// One of the calls with a name.
fn call<const NUMBER: u32>(folder: impl AsFd, name: &[u8]) -> io::Result<()> {
    let argument = name_argument(name)?;
    // SAFETY: each number says that the kernel reads an array of this length, and writes nothing.
    unsafe {
        let ioctl = rustix::ioctl::Setter::<NUMBER, NameArgument>::new(argument);
        rustix::ioctl::ioctl(folder, ioctl)?;
    }
    Ok(())
}

impl Served<'_> {
    pub(super) fn ioctl(
        &self,
        request: &Request<'_>,
        folder: InodeNumber,
        command: u32,
        data: &[u8],
        body: &mut Vec<u8>,
    ) -> Answer {
        if !matches!(command, REMOVE_TREE | KEEP_SNAPSHOT | DROP_SNAPSHOT | CLONE_TREE | GROW | TRIM | QUIESCE | CHECK)
        {
            return Err(ENOTTY);
        }
        // One at a time: the kernel may keep the thread waiting for what another thread answers.
        let Ok(_one) = self.whole_tree.try_lock() else { return Err(Error::Busy.errno()) };
        let groups = all_groups(request);
        let caller = Caller { groups: &groups, ..self.caller(request) };
        match command {
            CLONE_TREE => {
                self.clone_tree(&caller, folder, data)?;
                reply::ioctl(body, 0, &[]);
                return Ok(());
            }
            GROW | TRIM | QUIESCE => {
                let of_all = match command {
                    GROW => self.operations.grow(&caller),
                    TRIM => self.operations.trim(&caller),
                    _ => self.operations.quiesce(&caller).map(|()| 0),
                };
                reply::ioctl(body, 0, &self.done(of_all)?.to_ne_bytes());
                return Ok(());
            }
            CHECK => {
                let findings = self.done(self.operations.findings(&caller))?;
                reply::ioctl(body, 0, CheckAnswer::of(&findings).as_bytes());
                return Ok(());
            }
            _ => {}
        }
        let name = CStr::from_bytes_until_nul(data).map_err(|_| Error::Invalid.errno())?;
        if command != REMOVE_TREE {
            let name = name.to_str().map_err(|_| Error::Invalid.errno())?;
            let done = match command {
                KEEP_SNAPSHOT => self.operations.keep_snapshot(&caller, name),
                _ => self.operations.drop_snapshot(&caller, name),
            };
            self.done(done)?;
            reply::ioctl(body, 0, &[]);
            return Ok(());
        }
        let removed = Name::new(name.to_bytes()).and_then(|name| self.operations.remove_tree(&caller, folder, name));
        self.done(removed)?;
        self.is_other(folder, name.to_bytes());
        reply::ioctl(body, 0, &[]);
        Ok(())
    }

    fn clone_tree(&self, caller: &Caller<'_>, folder: InodeNumber, data: &[u8]) -> Answer {
        let invalid = Error::Invalid.errno();
        let (parent, names) = data.split_first_chunk().ok_or(invalid)?;
        let (name, new_name) = names.split_at_checked(size_of::<NameArgument>()).ok_or(invalid)?;
        let until_zero = |bytes| CStr::from_bytes_until_nul(bytes).map(CStr::to_bytes).map_err(|_| invalid);
        let (parent, name, new_name) =
            (InodeNumber(u64::from_ne_bytes(*parent)), until_zero(name)?, until_zero(new_name)?);
        let cloned = Name::new(name)
            .and_then(|name| self.operations.clone_tree(caller, parent, name, folder, Name::new(new_name)?));
        self.done(cloned)?;
        self.is_other(folder, new_name);
        Ok(())
    }

    /// Tells the kernel that a name in a folder is not what it was.
    fn is_other(&self, folder: InodeNumber, name: &[u8]) {
        if let Some(notices) = self.notices {
            // What the kernel did not remember, it need not forget.
            let _ = notices.forget_name(folder.0, name);
            let _ = notices.forget_attributes(folder.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_come_back_as_far_as_there_is_room() {
        let few = ["one: a\nb".to_owned(), "two".to_owned()];
        assert_eq!(CheckAnswer::of(&few).lines(), ["one: a b", "two"]);
        assert_eq!(CheckAnswer::of(&[]).lines(), Vec::<String>::new());
        let many: Vec<String> = (0..1000).map(|number| format!("finding {number:05}")).collect();
        let answer = CheckAnswer::of(&many);
        assert_eq!((answer.findings, answer.lines().len()), (1000, 4088 / 14));
        assert_eq!(answer.lines()[..], many[..4088 / 14]);
        assert_eq!(CheckAnswer::of(&["x".repeat(4087)]).lines(), ["x".repeat(4087)]);
        assert_eq!(CheckAnswer::of(&["x".repeat(4088)]).lines().len(), 0);
    }
}
