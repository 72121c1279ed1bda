//! The connection to the kernel: `/dev/fuse`.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// An open `/dev/fuse`, not blocking.
pub(crate) struct Channel {
    file: File,
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
    /// Opens the device. A connection it becomes when a file system is mounted with it.
    pub(crate) fn open() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/fuse")?;
        Ok(Self { file })
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
