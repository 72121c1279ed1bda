//! Mounting by `fusermount3`, the set-user-ID program that comes with libfuse.
//!
//! It opens `/dev/fuse`, mounts with it, and sends the descriptor over the socket whose number the environment variable
//! `_FUSE_COMMFD` says: one byte, with the descriptor as ancillary data.

use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::MountError;

const PROGRAM: &str = "fusermount3";

/// Mounts in `folder`, and returns the device.
pub(super) fn mount(folder: &Path, options: &str) -> Result<OwnedFd, MountError> {
    let refused = |source| MountError::Refused { folder: folder.to_owned(), source };
    let (ours, theirs) = UnixStream::pair().map_err(refused)?;
    // A duplicate is inherited.
    let inherited = rustix::io::dup(&theirs).map_err(|error| refused(error.into()))?;
    drop(theirs);
    let started = Command::new(PROGRAM)
        .args(["-o", options, "--"])
        .arg(folder)
        .env("_FUSE_COMMFD", inherited.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    drop(inherited);
    let mut child = started.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => MountError::NoFusermount,
        _ => refused(source),
    })?;
    let device = receive(&ours);
    let mut said = String::new();
    if let Some(mut from) = child.stderr.take() {
        // What it says is all that there is to say if it fails.
        let _ = from.read_to_string(&mut said);
    }
    let ended = child.wait().map_err(refused)?;
    match device {
        Ok(Some(device)) if ended.success() => Ok(device),
        Err(error) => Err(refused(error)),
        _ => Err(refused(io::Error::other(said.trim().to_owned()))),
    }
}

/// Unmounts.
pub(super) fn unmount(folder: &Path, lazily: bool) -> io::Result<()> {
    let lazily: &[&str] = if lazily { &["-z"] } else { &[] };
    let output = Command::new(PROGRAM).arg("-u").args(lazily).arg("--").arg(folder).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let busy = said.contains("busy");
    Err(io::Error::new(if busy { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other }, said))
}

/// Room for the ancillary data of one descriptor, aligned as its header.
#[repr(C)]
union Ancillary {
    header: libc::cmsghdr,
    bytes: [u8; 64],
}

/// Receives the one descriptor that comes; `None` if the other side ends without one.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0_u8; 1];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    let mut ancillary = Ancillary { bytes: [0; 64] };
    // SAFETY: a `msghdr` of zeroes is one without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut ancillary).cast();
    message.msg_controllen = size_of::<Ancillary>();
    // SAFETY: the message points at a byte and at ancillary room of the sizes it says, both of which outlive the call.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled in the message; the macros stay within `msg_controllen`.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let Some(header) = header.filter(|header| {
        (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
            // SAFETY: computes a length.
            && header.cmsg_len >= unsafe { libc::CMSG_LEN(size_of::<i32>() as u32) } as usize
    }) else {
        return Ok(None);
    };
    // SAFETY: the data of such a message are descriptors' numbers, at least one by the length; it is ours from now on.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<i32>().read_unaligned()) }))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn no_descriptor_is_none() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"x").unwrap();
        assert!(receive(&ours).unwrap().is_none());
        drop(theirs);
        assert!(receive(&ours).unwrap().is_none());
    }
}
