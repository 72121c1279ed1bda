//! The parts of a request: the header, what the operation begins with, and what follows.

use zerocopy::FromBytes;

use super::ParseError;
use crate::abi::input::{
    BatchForgetIn, CreateIn, GetxattrIn, IoctlIn, LinkIn, MkdirIn, MknodIn, Rename2In, RenameIn, SETXATTR_SHORT_BYTES,
    SetxattrIn, TransferIn,
};
use crate::abi::{InHeader, opcode};

/// What of the terms of a connection changes the shape of requests.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Shape {
    /// SETXATTR has its second half.
    pub(crate) setxattr_is_long: bool,
}

impl Shape {
    /// Bytes of what an operation begins with, of those that go on with names or data.
    fn own_bytes(self, opcode: u32) -> usize {
        match opcode {
            opcode::WRITE => size_of::<TransferIn>(),
            opcode::SETXATTR if self.setxattr_is_long => size_of::<SetxattrIn>(),
            opcode::SETXATTR => SETXATTR_SHORT_BYTES,
            opcode::GETXATTR => size_of::<GetxattrIn>(),
            opcode::MKNOD => size_of::<MknodIn>(),
            opcode::MKDIR => size_of::<MkdirIn>(),
            opcode::RENAME => size_of::<RenameIn>(),
            opcode::RENAME2 => size_of::<Rename2In>(),
            opcode::LINK => size_of::<LinkIn>(),
            opcode::CREATE => size_of::<CreateIn>(),
            opcode::IOCTL => size_of::<IoctlIn>(),
            opcode::BATCH_FORGET => size_of::<BatchForgetIn>(),
            _ => 0,
        }
    }
}

/// The parts of a request.
pub(crate) struct Parts<'a> {
    pub(crate) header: InHeader,
    /// The operation's own header, if it has one; anything may follow.
    pub(crate) own: &'a [u8],
    /// What follows that: a name, or data.
    pub(crate) rest: &'a [u8],
    pub(crate) shape: Shape,
}

impl<'a> Parts<'a> {
    /// Of `bytes`, exactly one request, as `/dev/fuse` gives it: everything one behind the other.
    pub(crate) fn of(bytes: &'a [u8], shape: Shape) -> Result<Self, ParseError> {
        let (header, own) = InHeader::read_from_prefix(bytes).map_err(|_| ParseError::Short { bytes: bytes.len() })?;
        if header.len as usize != bytes.len() {
            return Err(ParseError::Length { said: header.len, bytes: bytes.len() });
        }
        let own_bytes = shape.own_bytes(header.opcode).min(own.len());
        Ok(Self { header, own, rest: own.get(own_bytes..).unwrap_or_default(), shape })
    }
}
