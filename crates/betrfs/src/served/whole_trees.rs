//! What there are no system calls for: an ioctl of an open folder does something with a whole tree in it.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use fuse::{Request, reply};

use super::caller::all_groups;
use super::{Answer, ENOTTY, Served};
use crate::operations::{Caller, Error, InodeNumber, Name};

/// A name with a zero behind it.
type NameArgument = [u8; 256];

/// `_IOW('P', number, char[256])`.
const fn with_name(number: u32) -> u32 {
    1 << 30 | (size_of::<NameArgument>() as u32) << 16 | (b'P' as u32) << 8 | number
}

/// Removes the tree of this name.
const REMOVE_TREE: u32 = with_name(1);
/// Keeps all as it is under this name, and gives that up.
const KEEP_SNAPSHOT: u32 = with_name(2);
const DROP_SNAPSHOT: u32 = with_name(3);

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

/// One of the calls.
fn call<const NUMBER: u32>(folder: impl AsFd, name: &[u8]) -> io::Result<()> {
    let mut argument: NameArgument = [0; 256];
    let Some(place) = argument.get_mut(..name.len()).filter(|_| name.len() < 256 && !name.contains(&0)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    place.copy_from_slice(name);
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
        if !matches!(command, REMOVE_TREE | KEEP_SNAPSHOT | DROP_SNAPSHOT) {
            return Err(ENOTTY);
        }
        // One at a time: the kernel may keep the thread waiting for what another thread answers.
        let Ok(_one) = self.whole_tree.try_lock() else { return Err(Error::Busy.errno()) };
        let name = CStr::from_bytes_until_nul(data).map_err(|_| Error::Invalid.errno())?;
        let groups = all_groups(request);
        let caller = Caller { groups: &groups, ..self.caller(request) };
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
        if let Some(notices) = self.notices {
            // What the kernel did not remember, it need not forget.
            let _ = notices.forget_name(folder.0, name.to_bytes());
            let _ = notices.forget_attributes(folder.0);
        }
        reply::ioctl(body, 0, &[]);
        Ok(())
    }
}
