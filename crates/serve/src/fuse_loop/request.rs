//! From the bytes of a FUSE request to what it asks.

use zerocopy::FromBytes;

use super::abi::{FallocateIn, FallocateMode, InHeader, InitIn, LseekIn, TransferIn, opcode};

/// Room that a read of `/dev/fuse` needs besides a write's data: the kernel
/// refuses a smaller buffer (`fuse_dev_do_read` in `fs/fuse/dev.c`).
pub(crate) const HEADER_ROOM_BYTES: usize = size_of::<InHeader>() + size_of::<TransferIn>();

/// One request of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Incoming<'a> {
    /// What the reply names it by.
    pub(crate) unique: u64,
    /// The node it is about.
    pub(crate) node: u64,
    pub(crate) operation: Operation<'a>,
}

/// What the kernel asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Init {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
        /// Zero from kernels before 7.36.
        flags2: u32,
    },
    Lookup {
        name: &'a [u8],
    },
    GetAttr,
    Open,
    Read {
        offset: u64,
        length: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
    },
    Fsync,
    Fallocate {
        offset: u64,
        length: u64,
        mode: FallocateMode,
    },
    Seek {
        offset: u64,
        whence: u32,
    },
    StatFs,
    /// `access(2)`, or `close(2)` of one of several descriptors: nothing to do.
    Nothing,
    Release,
    /// A request that takes no reply: FORGET and BATCH_FORGET (the nodes are
    /// permanent), INTERRUPT (what is in the device is finished).
    Unanswered,
    /// The file system is unmounted.
    Destroy,
    /// Known to be unused here, or unknown.
    Unsupported,
}

/// Why bytes are not a request. The kernel sends none of these; whoever does is
/// not the kernel, and the connection is at an end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    #[error("{bytes} bytes are no FUSE request")]
    Short { bytes: usize },
    #[error("a FUSE request says that it has {said} bytes and has {bytes}")]
    Length { said: u32, bytes: usize },
    #[error("FUSE request {opcode} is cut off after {bytes} bytes")]
    Cut { opcode: u32, bytes: usize },
}

/// Understands `bytes`, exactly one request, as `/dev/fuse` gives it: everything
/// one behind the other.
pub(crate) fn parse(bytes: &[u8]) -> Result<Incoming<'_>, ParseError> {
    let (header, body) = InHeader::read_from_prefix(bytes).map_err(|_| ParseError::Short { bytes: bytes.len() })?;
    if header.len as usize != bytes.len() {
        return Err(ParseError::Length { said: header.len, bytes: bytes.len() });
    }
    // Of the operations with more than a header of their own, LOOKUP has only the rest.
    let own = if header.opcode == opcode::WRITE { size_of::<TransferIn>().min(body.len()) } else { 0 };
    let rest = body.get(own..).unwrap_or_default();
    understand(&header, body, rest)
}

/// Understands a request whose parts are apart: its header, the operation's own
/// header (anything may follow), and the rest, which is a name or data.
pub(crate) fn understand<'a>(header: &InHeader, own: &'a [u8], rest: &'a [u8]) -> Result<Incoming<'a>, ParseError> {
    let cut = || ParseError::Cut { opcode: header.opcode, bytes: header.len as usize };
    let operation = match header.opcode {
        opcode::INIT => {
            let (InitIn { major, minor, max_readahead, flags }, more) = read(own).ok_or_else(cut)?;
            let flags2 = read(more).map_or(0, |(flags2, _)| flags2);
            Operation::Init { major, minor, max_readahead, flags, flags2 }
        }
        opcode::LOOKUP => {
            let end = rest.iter().position(|byte| *byte == 0).ok_or_else(cut)?;
            Operation::Lookup { name: rest.get(..end).unwrap_or_default() }
        }
        opcode::GETATTR => Operation::GetAttr,
        opcode::OPEN => Operation::Open,
        opcode::READ => {
            let (TransferIn { offset, size, .. }, _) = read(own).ok_or_else(cut)?;
            Operation::Read { offset, length: size }
        }
        opcode::WRITE => {
            let (TransferIn { offset, size, .. }, _) = read(own).ok_or_else(cut)?;
            if rest.len() != size as usize {
                return Err(cut());
            }
            Operation::Write { offset, data: rest }
        }
        opcode::FSYNC => Operation::Fsync,
        opcode::FALLOCATE => {
            let (FallocateIn { offset, length, mode, .. }, _) = read(own).ok_or_else(cut)?;
            Operation::Fallocate { offset, length, mode: FallocateMode::from_bits_retain(mode) }
        }
        opcode::LSEEK => {
            let (LseekIn { offset, whence, .. }, _) = read(own).ok_or_else(cut)?;
            Operation::Seek { offset, whence }
        }
        opcode::STATFS => Operation::StatFs,
        opcode::ACCESS | opcode::FLUSH => Operation::Nothing,
        opcode::RELEASE => Operation::Release,
        opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => Operation::Unanswered,
        opcode::DESTROY => Operation::Destroy,
        _ => Operation::Unsupported,
    };
    Ok(Incoming { unique: header.unique, node: header.nodeid, operation })
}

fn read<T: FromBytes>(body: &[u8]) -> Option<(T, &[u8])> {
    T::read_from_prefix(body).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;

    fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let header = InHeader { len, opcode, unique: 7, nodeid: 2, ..InHeader::default() };
        [header.as_bytes(), body].concat()
    }

    #[test]
    fn a_write_carries_its_data() {
        let body = TransferIn { offset: 8192, size: 5, ..TransferIn::default() };
        let bytes = request(opcode::WRITE, &[body.as_bytes(), b"hello"].concat());
        let parsed = parse(&bytes).unwrap();
        assert_eq!((parsed.unique, parsed.node), (7, 2));
        assert_eq!(parsed.operation, Operation::Write { offset: 8192, data: b"hello" });
        // One byte less than announced.
        let bytes = request(opcode::WRITE, &[body.as_bytes(), b"hell"].concat());
        assert_eq!(parse(&bytes), Err(ParseError::Cut { opcode: opcode::WRITE, bytes: 84 }));
    }

    #[test]
    fn a_name_ends_at_its_zero() {
        assert_eq!(parse(&request(opcode::LOOKUP, b"disk\0")).unwrap().operation, Operation::Lookup { name: b"disk" });
        assert!(parse(&request(opcode::LOOKUP, b"disk")).is_err());
    }

    proptest! {
        /// Whatever the bytes, parsing ends, and the parts it names are in them.
        #[test]
        fn arbitrary_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..200), opcode in 0_u32..60, honest in any::<bool>()) {
            if honest && bytes.len() >= 8 {
                let len = bytes.len() as u32;
                bytes[..4].copy_from_slice(&len.to_ne_bytes());
                bytes[4..8].copy_from_slice(&opcode.to_ne_bytes());
            }
            match parse(&bytes) {
                Ok(Incoming { operation: Operation::Write { data, .. }, .. }) => {
                    prop_assert_eq!(data.len() + HEADER_ROOM_BYTES, bytes.len());
                }
                Ok(Incoming { operation: Operation::Lookup { name }, .. }) => prop_assert!(!name.contains(&0)),
                Ok(_) => prop_assert!(bytes.len() >= size_of::<InHeader>()),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
