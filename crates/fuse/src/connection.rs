//! The control files of a connection (`fusectl`, Documentation/filesystems/fuse.rst).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// The control files of one connection.
pub(crate) struct ConnectionControl {
    root: OwnedFd,
    number: u32,
    abort: File,
    /// Each can be read once: the kernel keeps what the first read said, and takes
    /// no seek. They are opened beforehand, since opening needs memory.
    waiting: Vec<File>,
}

/// Readings that are had without opening a file: two before an abort, one after it.
const READINGS: usize = 3;

impl ConnectionControl {
    /// Opens the files of connection `number`, in a mount of its own.
    pub(crate) fn open(number: u32) -> io::Result<Self> {
        let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let abort = open_control(&root, number, "abort", OFlags::WRONLY)?;
        let mut control = Self { root, number, abort, waiting: Vec::with_capacity(READINGS) };
        control.refill()?;
        Ok(control)
    }

    /// Fails everything that is outstanding and everything to come. Needs no
    /// memory and waits for nobody.
    pub(crate) fn abort(&self) -> io::Result<()> {
        (&self.abort).write_all(b"1")
    }

    /// Requests that the server has not answered. [`READINGS`] times after a
    /// [`refill`](Self::refill) this needs no memory.
    pub(crate) fn waiting(&mut self) -> io::Result<u64> {
        if self.waiting.is_empty() {
            self.refill()?;
        }
        let Some(mut file) = self.waiting.pop() else { return Ok(0) };
        let mut text = [0; 24];
        let length = file.read(&mut text)?;
        let number = std::str::from_utf8(text.get(..length).unwrap_or_default()).ok();
        number.and_then(|text| text.trim().parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Opens files for the next readings; best when nobody waits.
    pub(crate) fn refill(&mut self) -> io::Result<()> {
        while self.waiting.len() < READINGS {
            self.waiting.push(open_control(&self.root, self.number, "waiting", OFlags::RDONLY)?);
        }
        Ok(())
    }
}

fn open_control(root: &OwnedFd, number: u32, file: &str, access: OFlags) -> io::Result<File> {
    Ok(openat(root, format!("{number}/{file}"), access | OFlags::CLOEXEC, Mode::empty())?.into())
}
