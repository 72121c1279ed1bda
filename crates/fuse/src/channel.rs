//! The connection to the kernel: `/dev/fuse`.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::FuseError;

/// An open `/dev/fuse`.
pub(crate) struct Channel {
    file: File,
}

/// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, uint32_t)`.
const CLONE: libc::c_ulong = 2 << 30 | 4 << 16 | 229 << 8;

impl From<OwnedFd> for Channel {
    /// Of a device that is open already, and waits.
    fn from(device: OwnedFd) -> Self {
        Self { file: device.into() }
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.file.into()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// What one look into the channel found.
#[derive(Debug)]
pub(crate) enum Received {
    /// A request of so many bytes.
    Request(usize),
    /// Nothing now.
    Nothing,
    /// The connection is gone: unmounted, or aborted.
    Ended,
}

impl Channel {
    /// Opens the device. A connection it becomes when a file system is mounted with it. A wait for a request ends at once, or
    /// when there is one.
    pub(crate) fn open(waits: bool) -> Result<Self, FuseError> {
        let flags = if waits { 0 } else { libc::O_NONBLOCK };
        match OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/fuse") {
            Ok(file) => Ok(Self { file }),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Err(FuseError::Missing),
            Err(source) => Err(FuseError::Refused(source)),
        }
    }

    /// Another descriptor of the same connection, for another thread: requests that it takes wait in a queue of its own.
    /// Where the device may not be opened again, it is the same descriptor.
    pub(crate) fn another(&self) -> io::Result<Self> {
        let Ok(other) = Self::open(true) else { return Ok(Self { file: self.file.try_clone()? }) };
        let number = self.file.as_raw_fd().cast_unsigned();
        // SAFETY: the argument is a pointer to a descriptor's number (`fuse_dev_ioctl_clone` in fs/fuse/dev.c), which is
        // read and not kept.
        let cloned = unsafe { libc::ioctl(other.file.as_raw_fd(), CLONE, &raw const number) };
        if cloned == 0 { Ok(other) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes one request into `buffer`.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        loop {
            let error = match (&self.file).read(buffer) {
                Ok(length) => return Ok(Received::Request(length)),
                Err(error) => error,
            };
            match error.raw_os_error() {
                // ENOENT: the request was withdrawn while it was being read.
                Some(libc::EINTR | libc::ENOENT) => {}
                Some(libc::EAGAIN) => return Ok(Received::Nothing),
                Some(libc::ENODEV | libc::ECONNABORTED) => return Ok(Received::Ended),
                _ => return Err(error),
            }
        }
    }

    /// Answers a request with a header and a body. Says whether the connection is
    /// still there.
    pub(crate) fn reply(&self, header: &[u8], body: &[u8]) -> io::Result<bool> {
        loop {
            let error = match (&self.file).write_vectored(&[IoSlice::new(header), IoSlice::new(body)]) {
                Ok(_) => return Ok(true),
                Err(error) => error,
            };
            return match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                // The one who asked has been killed meanwhile.
                Some(libc::ENOENT) => Ok(true),
                Some(libc::ENODEV | libc::ECONNABORTED) => Ok(false),
                _ => Err(error),
            };
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
