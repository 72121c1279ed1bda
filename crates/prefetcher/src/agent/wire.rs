//! What goes over the socket: a request of one file, and the answer with its array.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Asks for the array of the file whose descriptor comes with it.
pub const FOLLOW: &[u8] = b"plumb-prefetch 1 follow";

/// Asks for the counts.
pub const STATUS: &[u8] = b"plumb-prefetch 1 status";

/// Begins an answer with an array; the number of entries follows, in text.
pub const ARRAY: &[u8] = b"array ";

/// Begins an answer without; the reason follows.
pub const REFUSED: &[u8] = b"refused ";

/// The longest message.
pub const MOST_BYTES: usize = 4096;

/// Descriptors of one message that are taken, only to be closed where there is more than one.
const MOST_DESCRIPTORS: usize = 4;

/// A message.
pub struct Message {
    /// Its text.
    pub text: Vec<u8>,
    /// Descriptors that came with it.
    pub descriptors: Vec<OwnedFd>,
}

/// Receives one; none at the end.
///
/// # Errors
/// What the kernel says; `InvalidData` for a message that is longer than any, or has more descriptors.
pub fn receive(socket: BorrowedFd<'_>, flags: RecvFlags) -> std::io::Result<Option<Message>> {
    let mut text = vec![0; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    if got.bytes == 0 && descriptors.is_empty() {
        return Ok(None);
    }
    text.truncate(got.bytes);
    Ok(Some(Message { text, descriptors }))
}

/// Sends one, with a descriptor if there is any.
///
/// # Errors
/// What the kernel says; `WouldBlock` where the other side does not take it.
pub fn send(socket: BorrowedFd<'_>, text: &[u8], descriptor: Option<BorrowedFd<'_>>) -> std::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let rights = descriptor.map(|descriptor| [descriptor]);
    if let Some(rights) = &rights {
        control.push(SendAncillaryMessage::ScmRights(rights));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket.as_fd(), &[IoSlice::new(text)], &mut control, flags)?;
    Ok(())
}
