//! Who may know what of a file is in memory.
//!
//! It says what somebody else has read, so the rule is the kernel's for cachestat(2): who has it open for writing, or owns it. Only what
//! the kernel itself says of the descriptor and of the caller counts; names are never looked at, so that no link, rename or path below
//! /proc leads elsewhere.

use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;

use crate::mutants::{Mutant, mutated};

/// `overflowuid`: users that this process's user namespace has no number for.
const NOBODY: u32 = 65_534;

/// Why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It is not open, but only found (`O_PATH`).
    NotOpen,
    /// It is somebody else's, and not open for writing.
    NotYours,
}

impl Refusal {
    /// For the caller.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotOpen => "the descriptor is of no open file",
            Self::NotYours => "the file is not yours, and not open for writing",
        }
    }
}

/// Whether a caller of this user who sent this descriptor may know it. The user is that of the moment of connecting, as the kernel has it.
///
/// # Errors
/// Why not.
pub fn check(user: u32, file: BorrowedFd<'_>) -> Result<(), Refusal> {
    let flags = rustix::fs::fcntl_getfl(file).map_err(|_| Refusal::NotOpen)?;
    if flags.contains(OFlags::PATH) && !mutated(Mutant::FoundIsOpen) {
        return Err(Refusal::NotOpen);
    }
    let access = flags & OFlags::RWMODE;
    let writes = (access == OFlags::RDWR || access == OFlags::WRONLY) && !mutated(Mutant::WritersMayNot);
    if writes || mutated(Mutant::EverybodyMayKnow) {
        return Ok(());
    }
    let owner = rustix::fs::fstat(file).map_err(|_| Refusal::NotOpen)?.st_uid;
    if owner == user && owner != NOBODY { Ok(()) } else { Err(Refusal::NotYours) }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::{File, Permissions};
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

    use super::*;

    /// A user that is not this one.
    const OTHER: u32 = 12_345;

    #[test]
    pub(crate) fn owners_and_writers_may_know_and_others_may_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let owner = std::fs::metadata(&path).unwrap().uid();
        let read_only = File::open(&path).unwrap();
        let writable = File::options().append(true).open(&path).unwrap();
        assert_eq!(check(owner, read_only.as_fd()), Ok(()));
        assert_eq!(check(OTHER, read_only.as_fd()), Err(Refusal::NotYours));
        assert_eq!(check(OTHER, writable.as_fd()), Ok(()), "who may write may ask the kernel, too");

        // Another name, and the same file by /proc: the file counts.
        let link = folder.path().join("link");
        std::fs::hard_link(&path, &link).unwrap();
        assert_eq!(check(OTHER, File::open(&link).unwrap().as_fd()), Err(Refusal::NotYours));
        let again = File::open(format!("/proc/self/fd/{}", read_only.as_raw_fd())).unwrap();
        assert_eq!(check(OTHER, again.as_fd()), Err(Refusal::NotYours));
        let found = File::options().read(true).custom_flags(libc::O_PATH).open(&path).unwrap();
        assert_eq!(check(owner, found.as_fd()), Err(Refusal::NotOpen));

        // Neither reading nor writing: for ioctls alone.
        let neither = File::options().read(true).custom_flags(3).open(&path).unwrap();
        assert_eq!(check(OTHER, neither.as_fd()), Err(Refusal::NotYours));

        // Another file takes the name after it was opened.
        let mine = folder.path().join("mine");
        std::fs::write(&mine, "y").unwrap();
        std::fs::rename(&mine, &path).unwrap();
        assert_eq!(check(OTHER, read_only.as_fd()), Err(Refusal::NotYours));
    }

    #[test]
    fn what_is_nobodys_is_not_somebodys() {
        let memory: OwnedFd = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let read_only = File::open(format!("/proc/self/fd/{}", memory.as_raw_fd())).unwrap();
        if std::os::unix::fs::fchown(&read_only, Some(NOBODY), None).is_err() {
            println!("skipped: only root gives files away");
            return;
        }
        assert_eq!(check(NOBODY, read_only.as_fd()), Err(Refusal::NotYours));
    }
}
